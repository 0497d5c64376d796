# Tests: tests/pallas/cpu/test_mpmd.py
"""Semaphores, barriers and copies: atomics in shared memory. How cores wait: `waits`.

Before every synchronizing op, values read lazily from memory that other cores may change
are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft.pallas.cpu.loops as loops
import weft.pallas.cpu.waits as waits
from weft.core import dtypes
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.refs import checked, window
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.values import Array, Buffer
from weft.pallas.ir import copy_operands

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn
    from weft.pallas.api.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Core:
    """The context of one core's code: mesh, coordinates, the kernel's state, the core's record."""

    mesh: Mesh
    coordinates: dict[str, Index]
    state: str
    record: str

    def end(self, f: Function, number: int) -> None:
        """End all waits; the first error of all cores is the one reported."""
        waits.end_waits(f, self.state, number)


def linear_index(
    f: Function, mesh: Mesh, coordinates: dict[str, Index], named: dict[str, Index]
) -> Index:
    """Return the number of a mesh's core: by coordinates, else by the same name."""
    number: Index = 0
    for axis, size in mesh.shape.items():
        number = f.add(f.mul(number, size), named.get(axis, coordinates.get(axis, 0)))
    return number


def retargeted(
    t: Translator,
    part: Buffer,
    whole: Buffer,
    owner: Mesh | None,
    axes: Sequence[str],
    core: Sequence,
) -> Buffer:
    """Return another core's copy of the part: a per-core ref's copies follow one another."""
    if owner is None or t.core is None or not axes:
        return part
    f = t.f
    named = {}
    for axis, x in zip(axes, core, strict=True):
        label = (
            f"kernel {t.call.name}: {t.eqn.primitive.name} ({t.eqn.source}): the core index along "
            f"{axis!r} is out of bounds"
        )
        named[axis] = checked(t, t.index(x), owner.shape[axis] - 1, label)
    own_core = linear_index(f, owner, t.core.coordinates, {})
    target = linear_index(f, owner, t.core.coordinates, named)
    step = f.mul(f.sub(target, own_core), loops.slot_bytes(whole.shape, whole.dtype))
    pointer = f.address("i8", part.pointer, step)
    return Buffer(pointer, part.dtype, part.shape, part.strides, part.group)


def _semaphore(t: Translator, eqn: Eqn, sem: Buffer, operands: Sequence[Array]) -> tuple:
    """Return (the semaphore, what follows its index operands)."""
    indexer = eqn.rule_params["indexer"]
    n = indexer.num_operands
    return window(t, sem, indexer, operands[:n]), operands[n:]


@rule("semaphore_signal")
def _signal(t: Translator, eqn: Eqn, sem: Buffer, *operands: Array) -> None:
    t.before_sync()
    semaphore, (inc, *core) = _semaphore(t, eqn, sem, operands)
    owner = eqn.invars[0].aval.core
    semaphore = retargeted(t, semaphore, sem, owner, eqn.rule_params["axes"], core)
    amount = t.f.op(f"trunc i64 {t.index(inc)} to i32")
    t.f.op(f"atomicrmw add ptr {semaphore.pointer}, i32 {amount} seq_cst")
    _progress(t)


@rule("semaphore_wait")
def _wait(t: Translator, eqn: Eqn, sem: Buffer, *operands: Array) -> None:
    t.before_sync()
    semaphore, (value,) = _semaphore(t, eqn, sem, operands)
    amount = t.f.op(f"trunc i64 {t.index(value)} to i32")
    _wait_until(t, eqn, sem, semaphore, amount, eqn.rule_params["decrement"])
    _progress(t)


@rule("semaphore_read")
def _read(t: Translator, eqn: Eqn, sem: Buffer, *operands: Array) -> Array:
    t.before_sync()
    semaphore, _ = _semaphore(t, eqn, sem, operands)
    text = t.f.op(f"load atomic i32, ptr {semaphore.pointer} seq_cst, align 4")
    return t.scalar(text, eqn.outvars[0].aval.dtype)


@rule("core_barrier")
def _barrier(t: Translator, eqn: Eqn, sem: Buffer, *operands: Array) -> None:
    """Return a counter of arrivals, which only grows: phases end at multiples of count."""
    t.before_sync()
    f, count = t.f, eqn.rule_params["count"]
    semaphore, _ = _semaphore(t, eqn, sem, operands)
    arrived = f.op(f"atomicrmw add ptr {semaphore.pointer}, i32 1 seq_cst")
    phase = f.op(f"sdiv i32 {arrived}, {count}")
    goal = f.op(f"mul i32 {f.op(f'add i32 {phase}, 1')}, {count}")
    _progress(t)
    _wait_until(t, eqn, sem, semaphore, goal, False, count)


@rule("async_copy_start")
def _copy_start(t: Translator, eqn: Eqn, *operands: Any) -> None:
    """Copy at once: the cores of a CPU have no engine that copies beside them."""
    t.before_sync()
    parts, core = copy_operands(eqn, operands)
    start, goal, flag = (window(t, *part) for part in parts)
    owners, axes = [v.aval.core for v in eqn.invars[:3]], eqn.rule_params["axes"]
    goal = retargeted(t, goal, operands[1], owners[1], axes, core)
    flag = retargeted(t, flag, operands[2], owners[2], axes, core)
    t.before_write(goal.group)
    source = Array(start.shape, start.dtype, buffer=start)
    if not source.aligned_with(goal):
        t.snapshot(source)
    t.store(goal, source)
    t.f.op(f"atomicrmw add ptr {flag.pointer}, i32 1 seq_cst")
    _progress(t)


@rule("axis_index")
def _axis_index(t: Translator, eqn: Eqn) -> Array:
    """Return the index of the core along axes of its mesh, the first axis major."""
    axes = eqn.rule_params["over"].names
    coordinates = {} if t.core is None else t.core.coordinates
    number: Index = 0
    for axis in axes:
        if axis not in coordinates:
            raise t.unsupported(eqn, f"the index along axis {axis!r}, which its mesh does not have")
        size = t.core.mesh.shape[axis]
        number = t.f.add(t.f.mul(number, size), coordinates[axis])
    return t.scalar(str(number), dtypes.int32) if isinstance(number, int) else t.int32(number)


# Waiting ---------------------------------------------------------------------------------------


def _progress(t: Translator) -> None:
    """Tell the watch for deadlocks that something happened."""
    if t.core is not None:
        pointer = t.f.address("i8", t.core.state, waits.PROGRESS)
        t.f.op(f"atomicrmw add ptr {pointer}, i64 1 monotonic")


def _wait_until(
    t: Translator,
    eqn: Eqn,
    sem: Buffer,
    semaphore: Buffer,
    amount: str,
    decrement: bool,
    count: int = 0,
) -> None:
    """Wait; a program alone, for which nobody will signal, fails where it would wait."""
    f, source = t.f, eqn.source
    name, owner = sem.group.name, eqn.invars[0].aval.core
    copy = "a copy to finish: " if eqn.rule_params.get("of_copy") else ""
    if t.core is not None:
        kind = "barrier" if count else "semaphore"
        whose = "its " if owner is not None else ""
        line = f"waits at {source} for {copy}{whose}{kind} {name}"
        where = waits.site(f.module, line, sem.shape, count)
        position: Index = 0
        if sem.shape:
            ends = [f.op(f"ptrtoint ptr {b.pointer} to i64") for b in (semaphore, sem)]
            position = f.div(f.op(f"sub i64 {ends[0]}, {ends[1]}"), 4)
        waits.wait(t, semaphore.pointer, amount, where, position, decrement)
        return
    now = f.op(f"load atomic i32, ptr {semaphore.pointer} seq_cst, align 4")
    short = f.op(f"icmp slt i32 {now}, {amount}")
    t.fail(
        short,
        f"kernel {t.call.name}: deadlock: a program waits at {source} for {name}, "
        "and nobody else is there to signal",
    )
    t.leave_unless(f.op(f"xor i1 {short}, true"))
    if decrement:
        f.op(f"atomicrmw sub ptr {semaphore.pointer}, i32 {amount} seq_cst")
