# Tests: tests/pallas/test_interpret.py
"""A deterministic scheduler of tasks: cores, grid programs and copies take turns by a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from weft.pallas.interpret.errors import (
    DataRaceError,
    DeadlockError,
    KernelError,
    UninitializedReadError,
)
from weft.pallas.interpret.races import Clock

if TYPE_CHECKING:
    from weft.core.source import Source


@dataclass(slots=True, eq=False)
class Task:
    """A program in progress: a generator that yields when others may take a turn.

    It yields None, or a `Wait` it cannot go on before. coords: axis → index of a core. events: how
    often it wrote.
    """

    number: int
    name: str
    coords: dict = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    events: int = 0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = {self.number: 1}

    def tick(self) -> None:
        """Order the following events after those that others have signalled."""
        self.clock[self.number] += 1


@dataclass(frozen=True, slots=True)
class Wait:
    """The condition a task waits for: ready() tests it, text() names it in a deadlock's report."""

    ready: Callable[[], bool]
    text: Callable[[], str]
    source: Source


PATIENCE = 10_000
"""Turns that other tasks get after one has read what nobody wrote."""


class Scheduler:
    """Runs tasks until all are done.

    A task that reads what nobody wrote ends there, and the others go on for a while: if one of
    them writes it, the error is the race between the two.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.running: list[tuple[Task, Iterator]] = []
        self.waiting: list[tuple[Task, Iterator, Wait]] = []
        self.count = 0

    def new_task(self, name: str, coords: dict | None = None) -> Task:
        self.count += 1
        return Task(self.count, name, coords or {})

    def start(self, task: Task, steps: Iterator) -> None:
        self.running.append((task, steps))

    def run(self, kernel: str) -> None:
        early: UninitializedReadError | None = None
        patience = PATIENCE
        while self.running or self.waiting:
            if self.waiting:
                self._wake()
            if early is not None:
                patience -= 1
                if not self.running or not patience:
                    break
            if not self.running:
                self._deadlock(kernel)
            if len(self.running) == 1:
                k = 0
            else:
                k = int(self.random.integers(len(self.running)))
            task, steps = self.running[k]
            try:
                wait = next(steps)
                while wait is None and len(self.running) == 1 and not self.waiting:
                    wait = next(steps)
            except StopIteration:
                self.running = [r for r in self.running if r[0] is not task]
                continue
            except DataRaceError:
                raise
            except UninitializedReadError as e:
                early = early or e
                self.running = [r for r in self.running if r[0] is not task]
                continue
            except KernelError:
                if early is None:
                    raise
                break
            if wait is not None and not wait.ready():
                self.running = [r for r in self.running if r[0] is not task]
                self.waiting.append((task, steps, wait))
        if early is not None:
            raise early

    def _wake(self) -> None:
        still = []
        for entry in self.waiting:
            task, steps, wait = entry
            if wait.ready():
                self.running.append((task, steps))
            else:
                still.append(entry)
        self.waiting = still

    def _deadlock(self, kernel: str) -> None:
        lines = [
            f"  {task.name} waits at {wait.source} for {wait.text()}"
            for task, _, wait in self.waiting
        ]
        raise DeadlockError(f"kernel {kernel}: deadlock, no core can go on:\n" + "\n".join(lines))
