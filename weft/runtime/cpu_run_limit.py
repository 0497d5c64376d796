"""Runs in flight on the threads of XLA's CPU client: few enough never to wait for each other.

Virtual CPU devices share one pool of threads (quirks.SHARED_POOL). While the parts of a program
meet in a collective, each of them holds a thread. Starting a program takes a thread for each of its
devices, and waits in it where 32 runs on that device are in flight. So starts can hold all threads
while a collective waits for one: 8 devices hung with 8 or 10 threads, and with 16 when three Python
threads started programs. More threads are no way out. Idle ones keep looking for work: with 32 on
two cores, programs took up to twice as long as with 8.

So no start ever has to wait in the pool: runs on virtual devices are counted here, and each waits
for older ones where too many are in flight.

Runs that Python starts leave a token, and at most `LIMIT` tokens wait. Runs that C++ starts tell a
hook afterwards (`weft/runtime/dispatch.py`), from the first program on that is not for the first
device alone. It keeps a result to wait for: of each run on one device, but of every `EVERY`-th run
on several, which XLA lets begin one after the other.

Runs whose callbacks may run programs of their own are counted once more, by the threads they hold.
Callbacks of a program over several devices may hold all threads. What they need of XLA then happens
on their own: jaxlib runs programs for one device on a thread of the pool that starts them, copies
are made in place (`weft/runtime/callback_context.py`), and arrays that they may read are waited for
before.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla import pytree
from weft._xla.arrays import batched_block_until_ready
from weft._xla.compile import XlaRuntimeError
from weft.core.state import tracing
from weft.runtime.array import ArrayImpl
from weft.runtime.callback_context import inside

if TYPE_CHECKING:
    from weft.runtime.compile import LoadedExecutable

LIMIT = 16
"""Runs in flight; XLA's own limit is 32."""

EVERY = 4
"""Runs on several devices between two whose results are waited for: up to twice as many wait."""

SMALL = 2**16
"""Bytes of a result that may be kept alive to wait for its run."""

LARGE = 2
"""Runs on one device in flight, where all results are larger than that: two are kept alive."""

_runs: collections.deque[Any] = collections.deque()
_large: collections.deque[Any] = collections.deque()
_groups: collections.deque[Any] = collections.deque()
_ticks = itertools.count(1)
_gate = threading.Lock()
"""FutureTree by a thread that waits for a group, so that no other starts one meanwhile."""

# Where a program runs, as far as it is of concern here; bits, for what a function's programs do.
ELSEWHERE = 0  # on another platform, or on the only CPU device
FIRST = 1  # on the first of several CPU devices, alone
OTHER = 2  # on another one, alone
SEVERAL = 4
CALLS_BACK = 8  # on the only CPU device, with callbacks


def place_of(xla: Any) -> int:
    """Return where an executable (jaxlib's) runs, if it does."""
    devices: Sequence[Any] = getattr(xla, "local_devices", list)()
    if not devices or devices[0].platform != "cpu":
        return ELSEWHERE
    if len(devices) > 1:
        return SEVERAL
    everywhere = xla.client.local_devices()
    if len(everywhere) == 1:
        return ELSEWHERE
    return FIRST if devices[0] is everywhere[0] else OTHER


class StartedRuns:
    """The runs that C++ starts for one function: where they are, and what is kept of them.

    positions: number of results -> which of them is the smallest.
    waits: some call back, and must have ended before the next one starts.
    """

    __slots__ = ("__weakref__", "each", "large", "places", "positions", "waits")

    def __init__(self) -> None:
        self.places = 0
        self.each = self.large = self.waits = False
        self.positions: dict[int, int] = {}

    def add(self, bit: int, out_avals: Sequence[Any]) -> None:
        """Count the runs of another program."""
        self.places |= bit
        sizes = [aval.size * aval.dtype.itemsize for aval in out_avals] or [0]
        self.positions[len(out_avals)] = sizes.index(min(sizes))
        self.large = self.large or min(sizes) > SMALL
        self.each = self.places != SEVERAL and not self.large

    def note(self, result: object) -> None:
        """Count a started run with this result, and wait until there is room for the next."""
        if self.places != SEVERAL:
            handle = self._handle(result)
            if handle.nbytes > SMALL:
                _keep(_large, handle, LARGE)
            else:
                _keep(_runs, handle, LIMIT)
        elif next(_ticks) % EVERY == 0:
            handle = self._handle(result)  # not of every run: it may flatten a large tree
            with _gate:
                if handle.nbytes > SMALL:
                    wait_quietly(handle)
                else:
                    _keep(_groups, handle, 1, newest=handle)
        elif _gate.locked():
            with _gate:
                pass

    def _handle(self, result: object) -> Any:
        if type(result) is ArrayImpl:
            return result
        leaves = pytree.dispatch_registry.flatten(result)[0]
        return leaves[self.positions.get(len(leaves), 0)]


def count_run(function: Any, args: tuple, kwargs: dict, result: object) -> None:
    """Count a run that C++ started without Python."""
    calls = function._calls
    if calls.waits and inside.pending is None:
        handle = calls._handle(result)
        if not handle.is_ready():
            wait_quietly(handle)
    elif calls.each:
        _runs.append(result if type(result) is ArrayImpl else calls._handle(result))
        if len(_runs) > LIMIT:
            _make_half_free()
    elif calls.places:
        calls.note(result)


def _make_half_free() -> None:
    """Wait for the older half of the runs on one device: one call into C++ for all."""
    older = []
    with contextlib.suppress(IndexError):  # another thread took them
        for _ in range(LIMIT // 2):
            older.append(_runs.popleft())
    try:
        batched_block_until_ready(older)
    except (RuntimeError, TypeError, ValueError):  # a failure, a deleted array or a token
        for run in older:
            _wait_for(run)


def _keep(runs: collections.deque, handle: object, limit: int, newest: object = None) -> None:
    runs.append(handle)
    while len(runs) > limit:
        _wait_for_oldest(runs, newest)


_calls: weakref.WeakKeyDictionary[Any, StartedRuns] = weakref.WeakKeyDictionary()


def started_runs(function: Callable) -> StartedRuns:
    """Return the `StartedRuns` of a Python function: all its jitted forms share what C++ knows."""
    try:
        return _calls.setdefault(function, StartedRuns())
    except TypeError:  # cannot be referred to weakly, or compared
        return StartedRuns()


def make_room() -> None:
    """Wait until another run can be started."""
    if inside.pending is not None:
        return  # the runs in flight may be waiting for this very callback
    while len(_runs) >= LIMIT:
        _wait_for_oldest(_runs)


def note(handle: object) -> None:
    """Count a run, which ends when its handle (a token or one of its results) is ready."""
    if inside.pending is None:
        _runs.append(handle)


def _wait_for_oldest(runs: collections.deque, newest: object = None) -> None:
    """Wait for the first of these runs; `newest`: for this one, where the first has no handle."""
    with contextlib.suppress(IndexError):  # another thread took it
        _wait_for(runs.popleft(), newest)


def _wait_for(run: object, newest: object = None) -> None:
    if not (hasattr(run, "is_deleted") and run.is_deleted()):
        wait_quietly(run)
    elif newest is not None:  # a later run took its memory, and so ends after it
        wait_quietly(newest)
    else:
        wait_for_all()


def wait_for_all() -> None:
    """Wait for all runs that are counted."""
    for runs in (_runs, _large, _groups):
        while runs:
            with contextlib.suppress(IndexError):  # another thread took it
                wait_quietly(runs.popleft())


def wait_quietly(handle: Any) -> None:
    """Wait for a run whose failure shows elsewhere."""
    with contextlib.suppress(XlaRuntimeError, RuntimeError, ValueError):
        handle.block_until_ready()


# Callbacks --------------------------------------------------------------------------------------

_lock = threading.Lock()
_calling: collections.deque[tuple[int, Any]] = collections.deque()
_QUEUED = 64  # devices' runs in flight where threads are no concern


class running_callback:
    """While a callback runs: the runs it starts are its own to wait for."""

    __slots__ = ("before", "flag")

    def __enter__(self) -> None:
        self.before = inside.pending
        inside.pending = []
        self.flag = tracing.swap_local("callback")  # counted runs must pass `check_in_callback`

    def __exit__(self, *_: object) -> None:
        tracing.set_local(self.flag)
        left, inside.pending = inside.pending, self.before
        if left:
            from weft.runtime.executable import keep_token

            for token in left:
                keep_token(token)


def cpu_count() -> int:
    """Count the CPUs that this process may use, as XLA does."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@functools.lru_cache(maxsize=8)
def _threads(devices: int) -> int:
    """Return threads in the pool of a CPU client of so many devices."""
    setting = os.environ.get("PJRT_NPROC", "")
    return int(setting) if setting.isdigit() else max(cpu_count(), devices)


def called_together(function: Callable) -> Callable:
    """Return the callback of a program over several CPU devices; see `check_in_callback`."""

    def call(*args: np.ndarray) -> Any:
        before, inside.together = inside.together, True
        try:
            return function(*args)
        finally:
            inside.together = before

    return call


def make_room_for_callbacks(devices: Sequence[Any]) -> None:
    """Wait until a run on these devices leaves threads to others and to its callbacks."""
    if inside.pending is not None:
        return
    room = _QUEUED
    if devices[0].platform == "cpu":
        client = devices[0].client
        count = client.local_device_count()
        threads = _threads(count)
        free = threads - count - 1
        room = max(min(free, threads // 4), len(devices))
        if len(devices) > 1:
            _wait_for_arrays(client)
    while True:
        with _lock:
            if sum(n for n, _ in _calling) + len(devices) <= room:
                return
            _, token = _calling.popleft()
        wait_quietly(token)


def _wait_for_arrays(client: Any) -> None:
    arrays = client.live_arrays()
    try:
        batched_block_until_ready(arrays)
    except (RuntimeError, TypeError, ValueError):  # one has failed, or was deleted meanwhile
        for array in arrays:
            with contextlib.suppress(RuntimeError, TypeError, ValueError):
                batched_block_until_ready([array])


def note_callbacks(devices: Sequence[Any], token: object) -> None:
    """Count a run that `make_room_for_callbacks` made room for."""
    if inside.pending is None:
        with _lock:
            _calling.append((len(devices), token))


def check_in_callback(compiled: LoadedExecutable) -> None:
    """Refuse a program that would deadlock: it would wait for the callback that starts it.

    Raises:
      RuntimeError: both the program and the callback's are over several CPU devices, which run
        such programs one after the other (quirks.JOINT_RUNS_QUEUE).
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
    """Wait until no callback runs any more."""
    with _lock:
        waiting = list(_calling)
        _calling.clear()
    for _, token in waiting:
        wait_quietly(token)
