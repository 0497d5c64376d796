"""Joins processes to one group: every process then sees the devices of all.

Process 0 runs the coordination service; all connect to it as clients, exchange their devices when
the first client of a platform is made, and beat to show that they live.
"""

from __future__ import annotations

import atexit
import operator
import os
import re
from collections.abc import Sequence
from typing import Any

from weft._xla import distributed
from weft.runtime import backend, clusters, rendezvous

_state = backend.distributed_state
_service: Any = None


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Makes this process one of several that run the same program on all their devices together.

    Call it in every process before the first use of a device. Then `weft.devices()` lists all
    devices and `weft.local_devices()` those of this process; arrays over a mesh of all of them have
    their parts in several processes.

    Args:
      coordinator_address: "host:port" of process 0, which the others can reach.
      num_processes: how many there are.
      process_id: the number of this one, from 0.
      local_device_ids: which GPUs of this host the process uses; all unless given.
      cluster_detection_method: the launcher whose environment gives what is missing: "slurm",
        "ompi" (Open MPI), "torchrun", "kubernetes" (an indexed Job), "mpi4py", or "deactivate" for
        none. Unless given, all but mpi4py are looked for.
      initialization_timeout: seconds to wait for the other processes.
      heartbeat_timeout_seconds: a process that is silent for so long counts as dead.
      shutdown_timeout_seconds: how long the end waits for the others.
      coordinator_bind_address: where process 0 listens, "[::]:port" unless given, which is all of
        this host's addresses; at the coordinator_address itself where that is one of localhost.
      partition_index: of GPUs that several fast networks connect, which one this process's are on.
      slice_index: the old name of partition_index.

    What is not given comes from the environment: WEFT_COORDINATOR_ADDRESS, WEFT_NUM_PROCESSES and
    WEFT_PROCESS_ID, or the launcher's variables. WEFT_COORDINATOR_TOKEN, a secret that is the same
    in all processes, keeps others on the network from taking the place of one. Without it the
    secret is a file in the user's cache of weft, which processes of one home share; hosts with
    homes of their own need the variable (`weft launch` sets it). "" lets everyone join.

    Raises:
      RuntimeError: it is too late (a device has been used), the second call, process 0 does not
        answer, or cannot listen at its address, or others do not come in time (they are named).
      ValueError: something is neither given nor in the environment, or impossible.

    Example:
        >>> import weft
        >>> weft.distributed.is_initialized()
        False
    """
    global _service

    if _state["client"] is not None:
        raise RuntimeError("weft.distributed.initialize was called before; call it once a process")
    if backend.started():
        raise RuntimeError(
            "weft.distributed.initialize must come before the first use of a device: call it at "
            "the top of the program, before weft.devices() or any array"
        )
    known = _from_environment(cluster_detection_method)
    address = coordinator_address or known.get("coordinator_address")
    count = num_processes if num_processes is not None else known.get("num_processes")
    number = process_id if process_id is not None else known.get("process_id")
    for name, value in (
        ("coordinator_address", address),
        ("num_processes", count),
        ("process_id", number),
    ):
        if value is None:
            raise ValueError(
                f"weft.distributed.initialize: {name} is missing; give it, or set "
                f"WEFT_{name.upper()}"
            )
    count, number = _whole("num_processes", count), _whole("process_id", number)
    if not 0 <= number < count:
        raise ValueError(
            f"weft.distributed.initialize: process_id {number} is not one of {count} processes; "
            f"give numbers from 0 to {count - 1}"
        )
    found = re.fullmatch(r".+:(\d{1,5})", str(address))
    if found is None or not 1 <= int(found[1]) <= 65535:
        raise ValueError(
            f"weft.distributed.initialize: coordinator_address must be 'host:port', got {address!r}"
        )
    if local_device_ids is not None:
        ids = [local_device_ids] if isinstance(local_device_ids, int) else list(local_device_ids)
        _state["visible_devices"] = ids
    _state["partition_index"] = slice_index if partition_index is None else partition_index
    if number == 0:
        listen_at = coordinator_bind_address or _bind_address(address)
        with rendezvous.listen(listen_at) as listener:
            rendezvous.gather(listener, count, initialization_timeout)
        _service = distributed.make_service(
            listen_at,
            count,
            heartbeat_timeout=heartbeat_timeout_seconds,
            shutdown_timeout=shutdown_timeout_seconds,
        )
    else:
        rendezvous.join(address, number, count, initialization_timeout)
        rendezvous.wait_until_open(address, initialization_timeout)
    client = distributed.make_client(
        address,
        number,
        init_timeout=initialization_timeout,
        heartbeat_timeout=heartbeat_timeout_seconds,
        shutdown_timeout=shutdown_timeout_seconds,
    )
    client.connect()
    _state.update(client=client, process_id=number, num_processes=count)
    atexit.register(shutdown)


def _bind_address(address: str) -> str:
    """Where process 0 listens: where nobody but this host can connect, if that is enough."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if host == "localhost" or host == "::1" or re.fullmatch(r"127(\.\d+){3}", host):
        return address
    return f"[::]:{port}"


def _whole(name: str, value: Any) -> int:
    try:
        return int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"weft.distributed.initialize: {name} must be a whole number, got {value!r}"
        ) from None


def is_initialized() -> bool:
    """Whether this process has joined a group.

    >>> import weft
    >>> weft.distributed.is_initialized()
    False
    """
    return _state["client"] is not None


def shutdown() -> None:
    """Leaves the group, after all processes have come to this point. Runs at exit by itself.

    >>> import weft
    >>> weft.distributed.shutdown()
    """
    global _service
    client, _state["client"] = _state["client"], None
    if client is not None:
        client.shutdown()
    if _service is not None:
        _service.shutdown()
        _service = None


def _from_environment(method: str | None) -> dict[str, Any]:
    names = ("coordinator_address", "num_processes", "process_id")
    given = {n: os.environ.get(f"WEFT_{n.upper()}") for n in names}
    return {**clusters.detect(method), **{n: v for n, v in given.items() if v is not None}}
