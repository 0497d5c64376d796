"""Joins processes to one group: every process then sees the devices of all.

Process 0 starts the coordination service; all connect to it as clients, and exchange their devices
when the first client of a platform is made. A watchdog of each process tells the others that it
lives, and how far it is.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import operator
import os
import re
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, cast

from weft._xla import distributed
from weft.core.errors import DistributedError
from weft.runtime import backend, calls, clusters, coordinator, rendezvous
from weft.runtime.watchdog import Watchdog

_state = backend.distributed_state
_watchdog: Watchdog | None = None
_link: socket.socket | None = None
"""The connection by which the coordination service sees that this process lives."""


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: float | None = None,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
    *,
    hang_timeout_seconds: float | None = None,
) -> None:
    """Make this process one of several that run the same program on all their devices together.

    Call it in every process before the first use of a device. Then `weft.devices()` lists all
    devices and `weft.local_devices()` those of this process; arrays over a mesh of all of them have
    their parts in several processes.

    Args:
      coordinator_address: "host:port" of process 0, which the others can reach. "localhost" or
        another loopback address says that all processes are on this host, and listen there only.
      num_processes: how many there are.
      process_id: the number of this one, from 0.
      local_device_ids: which GPUs of this host the process uses; all unless given.
      cluster_detection_method: the launcher whose environment gives what is missing: "slurm",
        "ompi" (Open MPI), "torchrun", "kubernetes" (an indexed Job), "mpi4py", or "deactivate" for
        none. Unless given, all but mpi4py are looked for.
      initialization_timeout: seconds to wait for the other processes.
      heartbeat_timeout_seconds: a process that is silent for so long counts as dead; 20 unless
        given here or in WEFT_HEARTBEAT_TIMEOUT. One that ends on a reachable host is known at once.
      hang_timeout_seconds: a process for which others have waited so long counts as stuck; 300
        unless given here or in WEFT_HANG_TIMEOUT.
      shutdown_timeout_seconds: how long the end waits for the others.
      coordinator_bind_address: where process 0 listens, "[::]:port" unless given, which is all of
        this host's addresses; at the coordinator_address itself where that is a loopback address.
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
    global _watchdog, _link
    if _state["client"] is not None:
        raise RuntimeError("weft.distributed.initialize was called before; call it once a process")
    if backend.started():
        raise RuntimeError(
            "weft.distributed.initialize must come before the first use of a device: call it at "
            "the top of the program, before weft.devices() or any array"
        )
    # What is not given comes from the environment: weft's variables, or those of a cluster.
    environment = _from_environment(cluster_detection_method)
    address = coordinator_address or environment.get("coordinator_address")
    count = num_processes if num_processes is not None else environment.get("num_processes")
    number = process_id if process_id is not None else environment.get("process_id")
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
    port = re.fullmatch(r"\S+:(\d{1,5})", str(address))
    if address is None or port is None or not 1 <= int(port[1]) <= 65535:
        raise ValueError(
            f"weft.distributed.initialize: coordinator_address must be 'host:port', got {address!r}"
        )
    if local_device_ids is not None:
        several = isinstance(local_device_ids, Iterable) and not isinstance(local_device_ids, str)
        ids: Any = local_device_ids if several else [local_device_ids]
        _state["visible_devices"] = [_whole("local_device_ids", i) for i in ids]
    partition = slice_index if partition_index is None else partition_index
    if partition is not None:
        _state["partition_index"] = _whole("partition_index", partition)
    wait = _seconds("initialization_timeout", initialization_timeout)
    wait_at_end = _seconds("shutdown_timeout_seconds", shutdown_timeout_seconds)
    heartbeat = _seconds("heartbeat_timeout_seconds", heartbeat_timeout_seconds, 20.0)
    hang = _seconds("hang_timeout_seconds", hang_timeout_seconds, 300.0)
    # The watchdog sees deaths; the service's own opinion, which is slower, is not asked.
    service_timeout = max(100, int(4 * heartbeat))
    loopback = _loopback(address)
    link, members = _meet(
        address,
        number,
        count,
        wait,
        coordinator_bind_address or (address if loopback else f"[::]:{port[1]}"),
        heartbeat_timeout=service_timeout,
        shutdown_timeout=math.ceil(wait_at_end),
    )
    client = distributed.make_client(
        address,
        number,
        init_timeout=math.ceil(wait),
        heartbeat_timeout=service_timeout,
        shutdown_timeout=math.ceil(wait_at_end),
    )
    try:
        if number:
            rendezvous.tell_ready(link)
        client.connect()
    except RuntimeError:
        if number:
            text = rendezvous.await_explanation(link, wait)
        else:
            text = rendezvous.explain_disconnected(members, count, wait)
        link.close()
        raise RuntimeError(text) from None
    if number:
        host = link.getsockname()[0]
    else:
        host = address.rpartition(":")[0].strip("[]")  # as the others were given it
        coordinator.tell_connected(link)
        for member in members.values():
            member.close()
    try:
        _watchdog = Watchdog(client, number, count, loopback or host, heartbeat, hang, wait)
    except RuntimeError:
        link.close()
        raise
    _link = link
    calls.watched = True
    _state.update(
        client=client,
        process_id=number,
        num_processes=count,
        loopback=loopback,
        shutdown_timeout=wait_at_end,
    )
    atexit.register(shutdown)


def _loopback(address: str) -> str | None:
    """Return where to listen so that nobody but this host can connect, if that is enough."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost" or re.fullmatch(r"127(\.\d+){3}", host):
        return "127.0.0.1"
    return host if host == "::1" else None


def _whole(name: str, value: Any) -> int:
    """Return a whole number that was given or is the text of a variable."""
    try:
        number = int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        number = -1
    least = 1 if name == "num_processes" else 0
    if number < least:
        raise ValueError(
            f"weft.distributed.initialize: {name} must be a whole number, at least {least}, got "
            f"{value!r}"
        )
    return number


def is_initialized() -> bool:
    """Return whether this process has joined a group.

    >>> import weft
    >>> weft.distributed.is_initialized()
    False
    """
    return _state["client"] is not None


def shutdown() -> None:
    """Leave the group, after all processes have come to this point. Runs at exit by itself.

    Raises:
      DistributedError: the group has failed, or its processes called different programs, and no
        call has said so yet.

    >>> import weft
    >>> weft.distributed.shutdown()
    """
    global _watchdog, _link
    client, _state["client"] = _state["client"], None
    if client is None:
        return
    failed = getattr(sys, "last_type", None)
    reason = None
    if _watchdog is not None:
        if failed is not None:
            value = getattr(sys, "last_value", "")
            _watchdog.fail(f"process {_watchdog.rank} failed: {failed.__name__}: {value!s:.500}")
        _leave_together(client, _watchdog, _state["shutdown_timeout"])
        reason = calls.failure if failed is None and not calls.raised else None
        _watchdog.stop()
        _watchdog = None
        calls.watched = False
        calls.failure = None
        calls.logs.clear()
    with contextlib.suppress(RuntimeError, ValueError):
        client.shutdown()
    if _link is not None:
        _link.close()
        _link = None
    if reason is not None:
        raise DistributedError(reason)


def _meet(
    address: str,
    number: int,
    count: int,
    seconds: float,
    listen_at: str,
    *,
    heartbeat_timeout: int,
    shutdown_timeout: int,
) -> tuple[socket.socket, dict[int, socket.socket]]:
    """Wait for all processes; process 0 starts the service when they have come.

    Returns the connection by which the service sees that this process lives, and in process 0
    those of the others.
    """
    if number:
        return rendezvous.join(address, number, count, seconds), {}
    with rendezvous.listen(listen_at) as listener:
        members = rendezvous.gather(listener, count, seconds)
    try:
        link = coordinator.start(
            listen_at,
            members,
            heartbeat_timeout=heartbeat_timeout,
            shutdown_timeout=shutdown_timeout,
        )
    except RuntimeError as error:
        rendezvous.send_away(members, str(error))
        raise
    rendezvous.let_go(members)
    return link, members


def _leave_together(client: Any, watchdog: Watchdog, seconds: float) -> None:
    """Wait until every process has come to its end, or the group has failed."""
    watchdog.ended = True
    end = time.monotonic() + seconds
    try:
        watchdog.publish_end()
        client.key_value_increment("weft/ended", 1)
        while calls.failure is None and time.monotonic() < end:
            if int(client.key_value_try_get("weft/ended")) >= watchdog.count:
                watchdog.compare_ends()
                return
            time.sleep(0.02)
    except (RuntimeError, ValueError):
        return


def _seconds(name: str, argument: float | None, default: float | None = None) -> float:
    """Return a number of seconds that was given, or what the environment has instead.

    default: without it there is no variable for the argument, and a wait may be short.
    """
    variable, least, value = "", 0, cast("Any", argument)
    if default is not None:
        least = 1
        variable = f"WEFT_{name.upper().removesuffix('_SECONDS')}"
        value = os.environ.get(variable, default) if argument is None else argument
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not least <= seconds < 1e9:
        raise ValueError(
            f"weft.distributed.initialize: {name}{variable and f' (or {variable})'} must be a "
            f"number of seconds, at least {least}, got {value!r}"
        )
    return seconds


def _from_environment(method: str | None) -> dict[str, Any]:
    names = ("coordinator_address", "num_processes", "process_id")
    settings = {n: os.environ.get(f"WEFT_{n.upper()}") for n in names}
    return {**clusters.detect(method), **{n: v for n, v in settings.items() if v is not None}}
