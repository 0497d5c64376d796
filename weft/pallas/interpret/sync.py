# Tests: tests/pallas/test_interpret.py
"""Semaphores, barriers and copies, program ids and scoped scratch, interpreted."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.ref import AbstractRef, Indexer
from weft.pallas.interpret.errors import KernelError, OutOfBoundsError, SemaphoreError
from weft.pallas.interpret.machine import Machine, Steps, _Op, rule
from weft.pallas.interpret.memory import Buffer, locate
from weft.pallas.interpret.races import Clock, join
from weft.pallas.interpret.scheduler import Task, Wait
from weft.pallas.ir import copy_operands

if TYPE_CHECKING:
    from weft.core.source import Source


def at_core(m: Machine, op: _Op, ref: Semaphores, core: Sequence[Any]) -> Any:
    """Return the instance at a core's coordinates; without coordinates the one given."""
    if not core:
        return ref
    at = tuple(int(c) for c in core)
    instance = ref.others.get(at)
    if instance is None:
        sizes = [max(c) + 1 for c in zip(*ref.others, strict=True)]
        for axis, i, n in zip(op.eqn.rule_params["axes"], at, sizes, strict=True):
            if not 0 <= i < n:
                m.fail(
                    OutOfBoundsError,
                    f"{op.eqn.primitive.name} at {op.eqn.source}: core_index {i} is outside of "
                    f"axis {axis!r} of the mesh that {ref.name} belongs to, which has size {n}",
                )
    return instance


Waits = Generator[Wait | None, None, None]


@dataclass(slots=True, eq=False)
class Semaphore:
    """A count, and what each unit of it orders: units are taken in the order they came."""

    name: str
    value: int = 0
    clocks: deque[list] = field(default_factory=deque)  # [units, clock]
    arrived: list[Task] = field(default_factory=list)
    phase: int = 0
    signalled: Any = None  # the lines that did so last
    waited: Any = None

    def signal(self, inc: int, clock: Clock, source: Source) -> None:
        self.value += inc
        self.signalled = source
        if inc > 0:
            self.clocks.append([inc, dict(clock)])

    def look(self, value: int, task: Task) -> None:
        """Check as take does for the task, leaving all counts unchanged."""
        for units, clock in self.clocks:
            if value <= 0:
                return
            join(task.clock, clock)
            value -= units

    def take(self, value: int, task: Task) -> None:
        self.value -= value
        while value and self.clocks:
            units, clock = self.clocks[0]
            join(task.clock, clock)
            if units > value:
                self.clocks[0][0] = units - value
                return
            value -= units
            self.clocks.popleft()


class Semaphores:
    """An array of semaphores."""

    __slots__ = ("data", "name", "others", "owner")

    def __init__(self, name: str, shape: tuple[int, ...], owner: str = "") -> None:
        self.name = name
        self.owner = owner
        self.data = np.empty(shape, object)
        self.others: dict = {}
        for index in np.ndindex(*shape):
            label = name + (f"[{', '.join(map(str, index))}]" if index else "")
            self.data[index] = Semaphore(f"{label} of {owner}" if owner else label)

    def __str__(self) -> str:
        return f"{self.name} of {self.owner}" if self.owner else self.name

    def at(self, m: Machine, indexer: Indexer, operands: Sequence[Any], op: _Op) -> Semaphore:
        label = f"kernel {m.kernel}: {op.eqn.primitive.name}"
        view = locate(self, indexer, operands, op.eqn.source, label).view
        return self.data[view]

    def check_balanced(self, m: Machine, when: str) -> None:
        for s in self.data.reshape(-1):
            if s.value:
                taken = f"last waited for at {s.waited}" if s.waited else "never waited for"
                m.fail(
                    SemaphoreError,
                    f"semaphore {s.name} is {s.value} at the end of {when}: last signalled at "
                    f"{s.signalled}, {taken}; signals and waits must balance, or the next call "
                    "that gets its memory goes wrong",
                )


def fresh(
    m: Machine, name: str, aval: AbstractRef, owner: str = "", watch: bool = False
) -> Buffer | Semaphores:
    """Scratch of a type: uninitialized memory, or semaphores at 0."""
    if aval.holds_semaphores:
        return Semaphores(name, aval.shape, owner)
    buffer = Buffer.empty(name, aval.shape, aval.dtype, m.params.uninitialized_memory, owner)
    return buffer.watch() if watch else buffer


@rule("semaphore_signal")
def _signal(m: Machine, task: Task, op: _Op, sems: Semaphores, *rest: object) -> Steps:
    indexer = op.eqn.rule_params["indexer"]
    n = indexer.num_operands
    target = at_core(m, op, sems, rest[n + 1 :])
    s = target.at(m, indexer, rest[:n], op)
    m.looks = 0
    m.events += 1
    s.signal(int(rest[n]), task.clock, op.eqn.source)
    if s.value < 0:
        m.fail(SemaphoreError, f"{task.name} makes {s.name} negative at {op.eqn.source}")
    task.tick()
    yield None
    return []


def _wait_for(
    s: Semaphore, value: int, task: Task, source: Source, goal: str, decrement: bool
) -> Waits:
    while s.value < value:
        yield Wait(
            lambda: s.value >= value,
            lambda: f"{goal}{s.name} to be at least {value} (it is {s.value})",
            source,
        )
    if decrement:
        s.waited = source
        s.take(value, task)
    else:
        s.look(value, task)


@rule("semaphore_wait")
def _wait(m: Machine, task: Task, op: _Op, sems: Semaphores, *rest: Any) -> Steps:
    params = op.eqn.rule_params
    s = sems.at(m, params["indexer"], rest[:-1], op)
    yield None
    value, decrement = int(rest[-1]), params["decrement"]
    goal = "a copy to finish: semaphore " if params["of_copy"] else "semaphore "
    yield from _wait_for(s, value, task, op.eqn.source, goal, decrement)
    return []


@rule("semaphore_read")
def _read(m: Machine, task: Task, op: _Op, sems: Semaphores, *rest: object) -> Steps:
    yield None
    s = sems.at(m, op.eqn.rule_params["indexer"], rest, op)
    m.look(task, op.eqn.source)
    return [np.int32(s.value)]


@rule("core_barrier")
def _barrier(m: Machine, task: Task, op: _Op, sems: Semaphores, *rest: object) -> Steps:
    s, count = sems.at(m, op.eqn.rule_params["indexer"], rest, op), op.eqn.rule_params["count"]
    phase = s.phase
    s.arrived.append(task)
    m.events += 1
    if len(s.arrived) == count:
        together: Clock = {}
        for t in s.arrived:
            join(together, t.clock)
        for t in s.arrived:
            join(t.clock, together)
            t.tick()
        s.arrived = []
        s.phase += 1
    while s.phase == phase:
        yield Wait(
            lambda: s.phase != phase,
            lambda: f"barrier {s.name} ({len(s.arrived)} of {count} cores are there)",
            op.eqn.source,
        )
    yield None
    return []


# Copies ----------------------------------------------------------------------------------------


@rule("async_copy_start")
def _copy_start(m: Machine, task: Task, op: _Op, *args: object) -> Steps:
    source, label = op.eqn.source, f"kernel {m.kernel}: async_copy"
    parts, core = copy_operands(op.eqn, args)
    (src, src_indexer, src_at), (dst, dst_indexer, dst_at), (sems, sem_indexer, sem_at) = parts
    dst, sems = (at_core(m, op, ref, core if ref.others else ()) for ref in (dst, sems))
    from_region = locate(src, src_indexer, src_at, source, label)
    to_region = locate(dst, dst_indexer, dst_at, source, label)
    s = sems.at(m, sem_indexer, sem_at, op)
    copy = m.new_task(f"the copy that {task.name} started at {source}")
    join(copy.clock, task.clock)
    task.tick()

    def steps() -> Waits:
        yield None
        m.read(copy, src, from_region, source)
        m.write(copy, dst, to_region, source)
        to_region.put(dst.data, np.array(from_region.get(src.data)))
        m.looks = 0
        m.events += 1
        s.signal(1, copy.clock, source)

    m.scheduler.start(copy, steps())
    yield None
    return []


# Programs --------------------------------------------------------------------------------------


@rule("program_id", simple=True)
def _program_id(m: Machine, task: Task, op: _Op) -> list:
    return [np.int32(task.grid[m.num_batch + op.eqn.rule_params["axis"]])]


@rule("axis_index", simple=True)
def _axis_index(m: Machine, task: Task, op: _Op) -> list:
    over = op.eqn.rule_params["over"]
    index = 0
    for name, size in zip(over.names, over.sizes, strict=True):
        index = index * size + task.coords[name]
    return [np.int32(index)]


@rule("debug_print", simple=True)
def _debug_print(m: Machine, task: Task, op: _Op, *args: object) -> list:
    print(op.eqn.rule_params["fmt"].format(*args))
    return []


@rule("debug_check", simple=True)
def _debug_check(m: Machine, task: Task, op: _Op, ok: Any) -> list:
    if not np.all(ok):
        m.fail(
            KernelError,
            f"{task.name}: debug_check at {op.eqn.source} failed: {op.eqn.rule_params['message']}",
        )
    return []


@rule("delay")
def _delay(m: Machine, task: Task, op: _Op, nanos: object) -> Steps:
    yield None
    return []


@rule("run_scoped")
def _run_scoped(m: Machine, task: Task, op: _Op, *args: Buffer) -> Steps:
    p = op.eqn.rule_params
    jaxpr = p["jaxpr"]
    refs = [
        fresh(m, f"scratch {i} of run_scoped at {op.eqn.source.short()}", a, task.name)
        for i, a in enumerate(jaxpr.in_avals[p["num_consts"] :])
    ]
    for r in refs:
        if isinstance(r, Buffer) and m.params.detect_races:
            r.watch()
    outs = yield from m.run(jaxpr, [*args, *refs], task)
    if m.params.check_semaphores:
        for r in refs:
            if isinstance(r, Semaphores):
                r.check_balanced(m, "run_scoped")
    return outs
