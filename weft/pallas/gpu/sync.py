# Tests: tests/pallas/test_gpu.py
"""Semaphores, barriers and copies of kernels on the GPU.

Semaphores are counters in global memory. A program waits by reading its counter atomically until
it is large enough, so all programs of a launch must be resident at once; `program.py` checks it.
Every signal is preceded, and every wait followed, by a barrier of the program's threads: the
atomics order what one thread did, the barriers extend that to all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft._xla.mlir import ir
from weft.core.jaxpr import Eqn
from weft.core.ref import At, Indexer, Pick, Window
from weft.pallas.gpu.control import clock_check, for_loop
from weft.pallas.gpu.elementwise import convert
from weft.pallas.gpu.emitter import BOOL, INT, Emitter, rule
from weft.pallas.gpu.memory import (
    ACQUIRE,
    BOTH,
    RELEASE,
    View,
    addresses,
    atomic,
    barrier,
    compare_and_swap,
    load,
    store,
)
from weft.pallas.ir import copy_operands

if TYPE_CHECKING:
    from weft.pallas.api.mesh import Mesh

CHUNK = 1024
"""Elements a program copies at a time."""


def _counter(e: Emitter, view: View, indexer: Indexer, dynamic: Sequence, types: Sequence) -> Any:
    return addresses(e, view, indexer, dynamic, types)[0]


def of_core(e: Emitter, view: View, mesh: Mesh | None, axes: Sequence[str], core: Sequence) -> View:
    """Return the view of the core at these coordinates, the caller's own along axes not named.

    `view.offset` is the caller's own copy; core-owned storage is laid out core by core.
    """
    if mesh is None or not axes:
        return view
    named = dict(zip(axes, core, strict=True))
    linear: ir.Value = e.constant(0)
    for axis, size in mesh.shape.items():
        index = named.get(axis, e.core_index.get(axis, e.constant(0)))
        linear = e.binary("add", e.binary("mul", linear, size), index)
    kind = view.index_dtype
    wide = convert(e, linear, INT, kind)
    return replace(view, offset=e.binary("mul", wide, math.prod(view.shape) or 1, kind))


def _signal(e: Emitter, pointer: ir.Value, amount: ir.Value) -> None:
    barrier(e)
    atomic(e, "add", pointer, amount, None, INT, order=RELEASE)


def _wait(e: Emitter, pointer: ir.Value, amount: ir.Value, decrement: bool = True) -> None:
    """Take `amount` off the counter, once it is that large, or leave it there."""

    def goes_on() -> ir.Value:
        now = atomic(e, "add", pointer, e.constant(0), None, INT, order=ACQUIRE)
        if not decrement:
            return e.compare("lt", now, amount)
        # Others may wait at the same counter: take the amount only if it is still there.
        enough = e.compare("ge", now, amount)

        def attempt() -> list:
            before = compare_and_swap(e, pointer, now, e.binary("sub", now, amount))
            return [e.compare("ne", before, now)]

        return e.either(enough, attempt, lambda: [e.constant(1, (), BOOL)], [enough.type])[0]

    _repeat(e, goes_on)


def _repeat(e: Emitter, goes_on: Callable[[], ir.Value]) -> None:
    """Look again and again while the condition holds."""
    check = clock_check(e)
    operation = e.op("scf.while", [], [], regions=2)

    def again() -> None:
        check()
        e.op("scf.yield", [])

    e.region(operation, 0, [], lambda: e.op("scf.condition", [goes_on()]))
    e.region(operation, 1, [], again)
    barrier(e)


def _types(eqn: Eqn, start: int, count: int) -> list:
    return [v.aval.dtype for v in eqn.invars[start : start + count]]


@rule("semaphore_signal")
def _semaphore_signal(e: Emitter, eqn: Eqn, sem: View, *rest: object) -> list:
    indexer, axes = eqn.rule_params["indexer"], eqn.rule_params["axes"]
    n = indexer.num_operands
    index, amount, core = rest[:n], rest[n], rest[n + 1 :]
    view = of_core(e, sem, eqn.invars[0].aval.core, axes, core)
    _signal(e, _counter(e, view, indexer, index, _types(eqn, 1, n)), amount)
    return []


@rule("semaphore_wait")
def _semaphore_wait(e: Emitter, eqn: Eqn, sem: View, *rest: ir.Value) -> list:
    indexer = eqn.rule_params["indexer"]
    n = indexer.num_operands
    counter = _counter(e, sem, indexer, rest[:n], _types(eqn, 1, n))
    _wait(e, counter, rest[n], eqn.rule_params["decrement"])
    return []


@rule("semaphore_read")
def _semaphore_read(e: Emitter, eqn: Eqn, sem: View, *index: object) -> ir.Value:
    pointer = _counter(e, sem, eqn.rule_params["indexer"], index, _types(eqn, 1, len(index)))
    return atomic(e, "add", pointer, e.constant(0), None, INT, order=ACQUIRE)


@rule("core_barrier")
def _core_barrier(e: Emitter, eqn: Eqn, sem: View, *index: object) -> list:
    """Count up only: whoever arrives waits for the next multiple of the count."""
    count = eqn.rule_params["count"]
    pointer = _counter(e, sem, eqn.rule_params["indexer"], index, _types(eqn, 1, len(index)))
    barrier(e)
    ticket = atomic(e, "add", pointer, e.constant(1), None, INT, order=BOTH)
    goal = e.binary("mul", e.binary("add", e.binary("div", ticket, count), 1), count)

    def goes_on() -> ir.Value:
        now = atomic(e, "add", pointer, e.constant(0), None, INT, order=ACQUIRE)
        return e.compare("lt", now, goal)

    _repeat(e, goes_on)
    return []


# Copies ------------------------------------------------------------------------------------------


@rule("async_copy_start")
def _copy_start(e: Emitter, eqn: Eqn, *xs: object) -> list:
    """Copy at once, by this program's threads, and signal."""
    parts, core = copy_operands(eqn, xs)
    dtypes = [[v.aval.dtype for v in atoms] for _, _, atoms in copy_operands(eqn, eqn.invars)[0]]
    owners, axes = [v.aval.core for v in eqn.invars[:3]], eqn.rule_params["axes"]
    src, dst, sem = (
        (of_core(e, view, owner, axes if k else (), core), indexer, index, types)
        for k, ((view, indexer, index), types, owner) in enumerate(
            zip(parts, dtypes, owners, strict=True)
        )
    )
    # Other threads of the program may still be writing the source.
    barrier(e)
    shape = eqn.rule_params["src_indexer"].shape
    total = math.prod(shape)
    if total >= 1 << 31:
        raise e.fail(f"a copy of {total} elements; copy less than 2**31 at a time")
    size = min(CHUNK, 1 << (total - 1).bit_length() if total > 1 else 1)

    def picked(places: Sequence[ir.Value], part: tuple) -> tuple[ir.Value, ir.Value | None]:
        """Return the addresses of `size` elements of an indexed part, at these places of it."""
        view, indexer, dynamic, types = part
        positions = [convert(e, x, t, INT) for x, t in zip(dynamic, types, strict=True)]
        inner, dims, operands = iter(places), [], []
        for dim, position in indexer.attach(positions):
            start = e.constant(position) if isinstance(position, int) else position
            if dim.__class__ is Window:
                start = e.binary("add", e.binary("mul", next(inner), dim.stride), start)
            dims.append(Pick() if dim.__class__ is Window else At(None))
            operands.append(start)
        kinds = [INT] * len(operands)
        return addresses(e, view, Indexer(tuple(dims), (size,)), operands, kinds)

    def chunk(index: ir.Value) -> list:
        linear = e.binary("add", e.iota(size), e.binary("mul", index, size))
        inside = e.compare("lt", linear, total)
        places = e.unflatten(linear, shape)
        (start, of_start), (goal, of_goal) = picked(places, src), picked(places, dst)
        mask, shown = (inside, (size,)) if shape else (None, ())
        value = load(e, start, e.both(mask, of_start), None, src[0].dtype, shown)
        store(e, goal, value, e.both(mask, of_goal), src[0].dtype)
        return []

    # Longer copies are a loop over chunks, each a tensor in registers.
    if total > CHUNK:
        for_loop(e, -(-total // CHUNK), [], chunk)
    elif total:
        chunk(e.constant(0))
    _signal(e, _counter(e, *sem), e.constant(1))
    return []
