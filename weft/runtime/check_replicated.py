# Tests: tests/runtime/test_distributed.py
"""Values that every process must give alike: host data put on devices of several processes.

Each process has only the parts of its own devices sent there; were the data different, the array
would be none that any process meant. The first process publishes a digest, the others compare.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from weft.runtime import backend

if TYPE_CHECKING:
    from weft.sharding.named import NamedSharding

WAIT_SECONDS = 120
KEPT = 4096
"""How many of the last digests of one kind the coordination service keeps."""

# How many values of one kind there were: the same on all processes, so that `clear_caches` must
# not empty it. A program has few kinds.
_count: dict[tuple, int] = {}


def check_same(value: np.ndarray, sharding: NamedSharding) -> None:
    """Raise ValueError on a process whose value is not that of the first process.

    sharding: over devices of several processes, all of which come here in the same order.
    """
    client = backend.distributed_state["client"]
    if client is None:
        return
    processes = sorted({d.process_index for d in sharding._devices_in_order})
    me = backend.process_index()
    if len(processes) < 2 or me not in processes:
        return
    kind = (tuple(processes), value.shape, value.dtype.str)
    number = _count[kind] = _count.get(kind, 0) + 1
    digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).hexdigest()
    group = hashlib.blake2b(repr(kind).encode(), digest_size=8).hexdigest()
    key = f"weft/same_value/{group}/{number}"
    if me == processes[0]:
        client.key_value_set(key, digest)
        if number > KEPT:
            client.key_value_delete(f"weft/same_value/{group}/{number - KEPT}")
        return
    try:
        expected = client.blocking_key_value_get(key, WAIT_SECONDS * 1000)
    except Exception as error:
        raise RuntimeError(
            f"device_put of {value.dtype.name}{list(value.shape)} to {sharding!r}: process "
            f"{processes[0]} has not done the same in {WAIT_SECONDS} s; every process of the "
            f"sharding must call it ({error})"
        ) from None
    if digest != expected:
        raise ValueError(
            f"device_put of {value.dtype.name}{list(value.shape)} to {sharding!r}: process {me} "
            f"gives other values than process {processes[0]}; give the same on all, or each "
            "process's own part with weft.make_array_from_process_local_data(sharding, part)"
        )
