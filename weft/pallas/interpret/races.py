# Tests: tests/pallas/test_interpret.py
"""Happens-before: vector clocks of tasks, and the accesses to each element of shared memory.

Every task (a core, a grid program, a copy) has a clock that maps tasks to the latest step of
theirs it is known to come after. An access races with an earlier one of another task whose step
is not in the clock, if one of the two writes.

Source: C. Flanagan, S. Freund, "FastTrack: efficient and precise dynamic race detection", 2009.
"""

from __future__ import annotations

import math
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from weft.core.source import Source
    from weft.pallas.interpret.memory import Region

Clock = dict[int, int]


def join(clock: Clock, other: Clock) -> None:
    """Join two vector clocks."""
    for task, step in other.items():
        if clock.get(task, 0) < step:
            clock[task] = step


class Access(NamedTuple):
    """An earlier access that races: its task, its source, whether it writes."""

    task: int
    source: Source
    writes: bool


_sources: list[Any] = []
_source_ids: dict[tuple, int] = {}
_lock = Lock()  # several devices may interpret a kernel at once


def source_id(source: Source) -> int:
    """Return number a source line; there are as many numbers as lines in the text, traces aside."""
    key = (id(source.code), source.lasti, source.scopes)  # the code stays alive with its source
    number = _source_ids.get(key)
    if number is None:
        with _lock:
            _sources.append(source)
            number = _source_ids[key] = len(_sources) - 1
    return number


class _Trace:
    """The last step and line at which one task read, or several wrote, each element."""

    __slots__ = ("lines", "steps")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.steps = np.zeros(shape, np.int32)
        self.lines = np.zeros(shape, np.int32)


class Shadow:
    """For each element of a buffer: who wrote it last, and who read it when."""

    __slots__ = ("locks", "numbers", "readers", "shape", "view", "writers")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.view: tuple[Any, ...] = (...,)
        self.numbers: np.ndarray | None = None  # of the elements, in a part
        self.writers: dict[tuple[int, bool], _Trace] = {}  # (task, atomic) -> steps
        self.readers: dict[int, _Trace] = {}
        self.locks: dict[int, Clock] = {}  # number of an element -> clock of atomics on it

    def part(self, view: tuple[Any, ...]) -> Shadow:
        """Return the same records, of the elements that a view selects."""
        out = Shadow(self.shape)
        out.view = view
        out.numbers = np.arange(math.prod(self.shape)).reshape(self.shape)[view]
        out.writers, out.readers, out.locks = self.writers, self.readers, self.locks
        return out

    def _conflict(
        self, traces: dict, region: Region, task: int, clock: Clock, skip_atomic: bool
    ) -> tuple[int, Any] | None:
        for key, trace in traces.items():
            other, atomic = key if isinstance(key, tuple) else (key, False)
            if other == task or (atomic and skip_atomic):
                continue
            steps = region.get(trace.steps[self.view])
            late = np.asarray(steps > clock.get(other, 0))
            if late.any():
                line = np.asarray(region.get(trace.lines[self.view]))[late].flat[0]
                return other, _sources[int(line)]
        return None

    def _record(
        self, traces: dict, key: int | tuple, region: Region, step: int, source: Source
    ) -> None:
        trace = traces.get(key)
        if trace is None:
            trace = traces[key] = _Trace(self.shape)
        region.put(trace.steps[self.view], step)
        region.put(trace.lines[self.view], source_id(source))

    def read(self, region: Region, task: int, clock: Clock, source: Source) -> Access | None:
        """Record a read; the earlier write it races with, if there is one."""
        conflict = self._conflict(self.writers, region, task, clock, False)
        self._record(self.readers, task, region, clock[task], source)
        return None if conflict is None else Access(conflict[0], conflict[1], True)

    def write(
        self, region: Any, task: int, clock: Clock, source: Any, atomic: bool = False
    ) -> Access | None:
        """Record a write; the earlier access it races with. Atomics do not race with atomics."""
        conflict = self._conflict(self.writers, region, task, clock, atomic)
        if conflict is not None:
            return Access(conflict[0], conflict[1], True)
        conflict = self._conflict(self.readers, region, task, clock, False)
        self._record(self.writers, (task, atomic), region, clock[task], source)
        return None if conflict is None else Access(conflict[0], conflict[1], False)

    def synchronize(self, element: tuple, clock: Clock) -> None:
        """Order an atomic on one element after the earlier ones on it, and before the later."""
        if self.numbers is None:
            number = int(np.ravel_multi_index(element, self.shape)) if element else 0
        else:
            number = int(self.numbers[element])
        lock = self.locks.setdefault(number, {})
        join(clock, lock)
        join(lock, clock)
