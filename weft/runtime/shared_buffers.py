"""Buffers that several arrays hold: donated by one thread at a time, and gone for all of them."""

from __future__ import annotations

import collections
import threading
import time
import weakref
from collections.abc import Iterable, Set
from typing import Any

import numpy as np

from weft._xla.arrays import ArrayImpl, parts_of
from weft.runtime.own_threads import alone


def describe(array: Any) -> str:
    """Return the type of an array for messages: ``float32[8,4]``."""
    return f"{np.dtype(array.aval.dtype).name}[{','.join(map(str, array.aval.shape))}]"


def check_alive(array: Any) -> None:
    """Raise RuntimeError when the array's buffer is gone, saying why and what to do."""
    if array.is_deleted():
        raise RuntimeError(deleted_text(array))


def deleted_text(array: object) -> str:
    return (
        f"this {describe(array)} array has been deleted: it was donated to a jitted function "
        "(donate_argnums, donate_argnames or device_put(donate=True)) or .delete() was called. "
        "Use the result of that call instead, pass x.copy(), or do not donate the argument"
    )


_READING = 1.0  # seconds that a reader may take from finding a buffer to holding it
wait, free = ArrayImpl.block_until_ready, ArrayImpl.delete  # jaxlib's own


_read_until: collections.deque[tuple[float, list]] = collections.deque(maxlen=1 << 14)


def second_owners(arrays: Iterable[Any]) -> list:
    """Return arrays over the same buffers, for `release`, where other threads may be reading these.

    NumPy asks an array for its memory without holding Python's lock, and then finds no buffer
    where `release` was faster (quirks.READ_WHILE_RELEASED). So buffers stay for a while.
    """
    if alone():
        return []
    return [
        x._rewrap_with_aval_and_sharding(x.aval, x._sharding)
        for x in arrays
        if x.__class__ is ArrayImpl and not x.is_deleted()
    ]


def is_held_alone(x: Any) -> bool:
    """Return whether an argument is an array on one device that no other thread can be reading."""
    return x.__class__ is ArrayImpl and alone() and x._sharding.num_devices == 1


def release(arrays: Iterable[Any], owners: list | None = None) -> None:
    """Mark the arrays whose buffers a program has taken as deleted, for any later use to see."""
    if owners:
        now = time.monotonic()
        while _read_until and _read_until[0][0] < now:
            _read_until.popleft()
        _read_until.append((now + _READING, [x for x in owners if x.is_deleted()]))
    for x in arrays:
        if x.__class__ is ArrayImpl:
            release_one(x)


def release_one(x: Any) -> None:
    """Mark an array as deleted if a program has taken its buffers."""
    # A part that NumPy or DLPack looks at is not taken, the others are: quirks.HELD_PARTS.
    if x.is_deleted() or lost_part(x):
        free(x)
        if getattr(x, "_shared", None) is not None:
            release_shared(x)


_NONE: frozenset[int] = frozenset()
_claimed: set[int] = set()
_claiming = threading.Lock()


def claim(arrays: Iterable[Any]) -> Set[int]:
    """Keep other threads from donating these arrays; `unclaim` takes the returned claims back.

    XLA finds out too late that a buffer was given up meanwhile; over several CPU devices that ends
    the process (quirks.DONATED_MEANWHILE). Nobody waits: the second thread gets a RuntimeError.
    """
    arrays = [x for x in arrays if x.__class__ is ArrayImpl and x._sharding.num_devices > 1]
    if not arrays:
        return _NONE
    owners = {id(getattr(x, "_shared", x)) for x in arrays}
    with _claiming:
        if _claimed.isdisjoint(owners):
            _claimed.update(owners)
            return owners
        taken = next(x for x in arrays if id(getattr(x, "_shared", x)) in _claimed)
    raise RuntimeError(
        f"this {describe(taken)} array is being donated by another thread right now; use the "
        "result of that call instead, pass x.copy(), or do not donate the argument"
    )


def unclaim(owners: Set[int]) -> None:
    """End a `claim`, when the arrays are marked as deleted or have stayed whole."""
    if owners:
        with _claiming:
            _claimed.difference_update(owners)


def release_shared(array: Any) -> None:
    unread = alone()
    for ref in array._shared:
        other = ref()
        if other is None or (not unread and other._sharding.num_devices == 1):
            continue  # read by another thread, perhaps; XLA refuses its later use on one device
        if other.is_deleted() or lost_part(other):
            free(other)


def lost_part(array: Any) -> bool:
    """Return whether one part's buffer is gone: see quirks.LOST_PARTS."""
    if array._sharding.num_devices == 1:
        return False
    return any(part.is_deleted() for part in raw_parts(array))


def share(x: Any, other: Any) -> Any:
    """x, which may hold the same buffers as `other`: `release` then looks at both."""
    group = getattr(other, "_shared", None)
    if group is None:
        group = other._shared = [weakref.ref(other)]
    elif len(group) > 64:
        group[:] = [ref for ref in group if ref() is not None]
    earlier = getattr(x, "_shared", None)
    # x holds buffers of several groups: they are one group now.
    if earlier is not None and earlier is not group:
        for ref in earlier:
            member = ref()
            if member is not None:
                member._shared = group
                group.append(ref)
        return x
    if earlier is None:
        x._shared = group
        group.append(weakref.ref(x))
    return x


_splitting = threading.RLock()


def raw_parts(array: Any) -> list:
    """jaxlib's parts, which it makes at the first call and, called by two threads, makes twice."""
    with _splitting:
        return parts_of(array)
