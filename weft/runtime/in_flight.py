"""Runs in flight on the threads of XLA's CPU client: few enough never to wait for each other.

Virtual CPU devices share one pool of threads (jaxlib 0.10.2). While the parts of a program meet in
a collective, each of them holds a thread. Starting a program takes a thread for each of its
devices, and waits in it where 32 runs on that device are in flight. So starts can hold all threads
while a collective waits for one: 8 devices hung with 8 or 10 threads, and with 16 when three Python
threads started programs. More threads are no way out. Idle ones keep looking for work: with 32 on
two cores, programs took up to twice as long as with 8.

So the pool has one thread more than there are devices, and no start ever has to wait in it: runs
on several devices, or on one behind the first, are counted here, and the next one begins when fewer
than `LIMIT` are in flight. Runs on the first device alone, which are most, are not: they can hold
back one thread.

Runs whose callbacks may run programs of their own are counted once more, by the threads they hold.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from weft._xla.compile import XlaRuntimeError

LIMIT = 16
"""Runs in flight; XLA's own limit is 32."""

SMALL = 2**16
"""Bytes of a result that may be kept alive to wait for its run."""

_runs: collections.deque[Any] = collections.deque()


class _Inside(threading.local):
    """What callback this thread runs.

    pending: the tokens of the runs it started; None outside of callbacks. together: whether it
    belongs to a program over several CPU devices.
    """

    pending: list | None = None
    together = False


inside = _Inside()


def counts(xla: Any) -> bool:
    """Whether runs of this executable (jaxlib's) are counted."""
    devices = xla.local_devices()
    if not devices or devices[0].platform != "cpu":
        return False
    if len(devices) > 1:
        return True
    everywhere = xla.client.local_devices()
    return len(everywhere) > 1 and devices[0] is not everywhere[0]


def make_room() -> None:
    """Waits until another run can be started."""
    if inside.pending is not None:
        return  # the runs in flight may be waiting for this very callback
    while len(_runs) >= LIMIT:
        try:
            oldest = _runs.popleft()
        except IndexError:  # another thread took it
            return
        if hasattr(oldest, "is_deleted") and oldest.is_deleted():
            _wait_for_all()  # a later run took its memory, and so ends after it
        else:
            wait_quietly(oldest)


def note(handle: Any) -> None:
    """Counts a run, which ends when its handle (a token or one of its results) is ready."""
    if inside.pending is None:
        _runs.append(handle)


def _wait_for_all() -> None:
    while True:
        try:
            handle = _runs.popleft()
        except IndexError:
            return
        wait_quietly(handle)


def handle_position(out_avals: Sequence[Any]) -> int | None:
    """Which result of a run to keep as its handle: the smallest; None where all are large."""
    sizes = [aval.size * aval.dtype.itemsize for aval in out_avals]
    smallest = min(sizes, default=SMALL + 1)
    return sizes.index(smallest) if smallest <= SMALL else None


def wait_quietly(handle: Any) -> None:
    """Waits for a run whose failure shows elsewhere."""
    with contextlib.suppress(XlaRuntimeError, RuntimeError, ValueError):
        handle.block_until_ready()


# Callbacks --------------------------------------------------------------------------------------

_lock = threading.Lock()
_calling: collections.deque[tuple[int, Any]] = collections.deque()
_QUEUED = 64  # devices' runs in flight where threads are no concern


class running_callback:
    """While a callback runs: the runs it starts are its own to wait for."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = inside.pending
        inside.pending = []

    def __exit__(self, *_: Any) -> None:
        left, inside.pending = inside.pending, self.before
        if left:
            from weft.runtime.executable import keep_token

            for token in left:
                keep_token(token)


def _threads() -> int:
    given = os.environ.get("PJRT_NPROC", "")
    return int(given) if given.isdigit() else os.cpu_count() or 1


def called_together(function: Callable) -> Callable:
    """The callback of a program over several CPU devices; see `check_in_callback`."""

    def call(*args: Any) -> Any:
        before, inside.together = inside.together, True
        try:
            return function(*args)
        finally:
            inside.together = before

    return call


def make_room_for_callbacks(devices: Sequence[Any]) -> None:
    """Waits until a run on these devices leaves threads to others and to its callbacks."""
    if inside.pending is not None:
        return
    room = _QUEUED
    if devices[0].platform == "cpu":
        free = _threads() - devices[0].client.local_device_count() - 1
        room = max(min(free, _threads() // 4), len(devices))
    while True:
        with _lock:
            if sum(n for n, _ in _calling) + len(devices) <= room:
                return
            _, token = _calling.popleft()
        wait_quietly(token)


def note_callbacks(devices: Sequence[Any], token: Any) -> None:
    """Counts a run that `make_room_for_callbacks` made room for."""
    if inside.pending is None:
        with _lock:
            _calling.append((len(devices), token))


def check_in_callback(compiled: Any) -> None:
    """Refuses a program whose run would wait for the callback that starts it.

    Raises:
      RuntimeError: both the program and the callback's are over several CPU devices: jaxlib
        (0.10.2) runs such programs one after the other.
    """
    if not inside.together or len(compiled.devices) == 1:
        return
    raise RuntimeError(
        f"a callback of a program over several CPU devices started {compiled.name}, which runs on "
        f"{len(compiled.devices)}: CPU devices run such programs one after the other, so each "
        "would wait for the other for ever. Compute on one device in callbacks, as in "
        "weft.device_put(x, weft.devices()[0]), or split the program before and after the callback"
    )


def finish_callbacks() -> None:
    """Waits until no callback runs any more."""
    with _lock:
        waiting = list(_calling)
        _calling.clear()
    for _, token in waiting:
        wait_quietly(token)
