# Tests: tests/pallas/test_cpu.py
"""Loops over elements: storing a formula, reducing one, and what is stored on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import weft.pallas.cpu.scalar as scalar
import weft.pallas.cpu.types as types
from weft.core import dtypes
from weft.ops.combiner import IDENTITIES
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.nontemporal import emit_copy, read_soon, strip_of
from weft.pallas.cpu.transpose_tiles import copy_turned, turned_dim
from weft.pallas.cpu.values import Array, Buffer, Group, joined, same_indices, size_of
from weft.pallas.ir import row_major


class Memory:
    """Temporary memory of one running chunk: offsets into its arena, given out like a stack.

    What is to last from program to program lies behind the stack; its offsets are known, and
    written into the code, when the stack's height is.
    """

    ALIGNMENT = 64

    def __init__(self) -> None:
        self.offset = 0
        self.peak = 0
        self.lasting: list[int] = []

    def take_lasting(self, size: int) -> str:
        """Return a name that stands for the offset until `place_lasting`."""
        self.lasting.append(-(-size // self.ALIGNMENT) * self.ALIGNMENT)
        return f"LASTING{len(self.lasting) - 1}."

    def place_lasting(self, f: Function) -> None:
        """Write the offsets of lasting memory into a finished function's code."""
        self.offset = self.peak
        for k, size in enumerate(self.lasting):
            offset = self.take(size)
            f.entry = [line.replace(f"LASTING{k}.", str(offset)) for line in f.entry]

    def take(self, size: int) -> int:
        offset = self.offset
        self.offset += -(-size // self.ALIGNMENT) * self.ALIGNMENT
        self.peak = max(self.peak, self.offset)
        return offset


def slot_bytes(shape: Sequence[int], dtype: np.dtype) -> int:
    """Return the bytes that one of several copies of an array takes."""
    size = max(1, size_of(shape)) * dtype.itemsize
    return -(-size // Memory.ALIGNMENT) * Memory.ALIGNMENT


def lasting(f: Function, memory: Memory, shape: Sequence[int], dtype: np.dtype) -> Buffer:
    """Memory that keeps its contents from program to program of a chunk."""
    offset = memory.take_lasting(size_of(shape) * dtype.itemsize)
    return _in_arena(f, offset, shape, dtype, "lasting")


def temporary(f: Function, memory: Memory, shape: Sequence[int], dtype: np.dtype) -> Buffer:
    """Fresh row-major memory, valid until its region of the program ends."""
    offset = memory.take(max(1, size_of(shape)) * dtype.itemsize)
    return _in_arena(f, offset, shape, dtype, "temporary")


def _in_arena(
    f: Function, offset: int | str, shape: Sequence[int], dtype: np.dtype, name: str
) -> Buffer:
    pointer = f.name_of("t")
    f.entry.append(f"  {pointer} = getelementptr inbounds i8, ptr %arena, i64 {offset}")
    return Buffer(pointer, dtype, tuple(shape), row_major(shape), Group(name))


def nest(
    f: Function,
    shape: Sequence[int],
    body: Callable[[tuple], None],
    arrays: Sequence[Array] = (),
    dims: Sequence[int] | None = None,
    *,
    parallel: bool = True,
) -> None:
    """Run body(indices) for every index along `dims`, the last of them innermost.

    dims: of the shape, all if not given; the index along another is None, or 0 where its size is 1.
    arrays: read in the body at these same indices; what of them is constant along the inner
    dimensions is computed outside of their loops. parallel: iterations of the innermost loop are
    independent.
    """
    if 0 in shape:
        return
    indices: list[Index | None] = [0 if n == 1 else None for n in shape]
    loops = [d for d in (range(len(shape)) if dims is None else dims) if shape[d] != 1]

    def level(k: int) -> None:
        if k < len(loops) or None in indices:
            for a in arrays:
                a.hoist(f, tuple(indices))
        if k == len(loops):
            body(tuple(indices))
            return
        d = loops[k]
        with f.loop(0, shape[d], parallel=parallel and k == len(loops) - 1) as loop:
            indices[d] = loop.index
            level(k + 1)
            indices[d] = None

    with f.scope():
        level(0)


def prepare(f: Function, memory: Memory, values: Sequence[Array], shape: Sequence[int]) -> list:
    """Store what must be in memory before loops over `shape` that read the values.

    Gives (array, buffer) for kept arrays that the loops themselves are to store as they pass.
    """
    shape = tuple(shape)
    while True:
        passed: set[Array] = set()

        def visit(a: Array, passed: set[Array] = passed) -> None:
            if a in passed or a.buffer is not None or a.shape != shape:
                return
            passed.add(a)
            for operand, mapping in a.inputs:
                if mapping is same_indices:
                    visit(operand)

        for value in values:
            visit(value)
        waiting = [a for value in values for a in value.waiting()]
        first = next((a for a in waiting if a not in passed or a.producer is not None), None)
        if first is None:
            fused = dict.fromkeys(waiting)
            return [(a, temporary(f, memory, a.shape, a.dtype)) for a in fused]
        materialize(f, memory, first)


def keep(f: Function, fused: list, indices: tuple) -> None:
    for array, buffer in fused:
        buffer.store(f, indices, array.at(f, indices))


def settle(fused: list) -> None:
    for array, buffer in fused:
        array.become(buffer)


def materialize(f: Function, memory: Memory, array: Array) -> Buffer:
    """Return the array in memory."""
    if array.buffer is None:
        buffer = temporary(f, memory, array.shape, array.dtype)
        store(f, memory, buffer, array)
        array.become(buffer)
    assert array.buffer is not None
    return array.buffer


def store(
    f: Function, memory: Memory, target: Buffer, value: Array, mask: Array | None = None
) -> None:
    """target[...] = value, where the mask holds."""
    # Three ways without a loop over elements: the producer's own, nothing at all, a copy.
    if value.producer is not None and mask is None:
        value.producer(f, target)
        return
    if value.buffer is not None and value.buffer.same_place(target):
        return
    if value.buffer is not None and mask is None and value.dtype == target.dtype:
        copy_elements(f, target, value.buffer)
        return
    values = [value] if mask is None else [value, mask]
    fused = prepare(f, memory, values, target.shape)
    fused = [(a, b) for a, b in fused if a is not value]

    def body(indices: tuple[Index, ...]) -> None:
        keep(f, fused, indices)
        element = value.at(f, indices)
        if mask is None:
            target.store(f, indices, element)
            return
        with f.when(mask.at(f, indices)):
            target.store(f, indices, element)

    # Dimensions adjacent in every operand are one loop, which LLVM then makes vectors of.
    count = len(target.shape)
    for v in (*values, *(a for a, _ in fused)):
        count = v.adjacent_dims(count)
    shape = joined(target.shape, min(count, target.adjacent_dims()))
    # Large rows go through a strip in cache, from where whole lines are written past it.
    size = strip_of(target, shape) if mask is None else 0
    arrays = [*values, *(a for a, _ in fused)]
    room = temporary(f, memory, (size,), target.dtype) if size else None

    def strips(outer: tuple) -> None:
        """Return a row by way of a strip in the first cache, and past the caches from there."""
        assert room is not None
        with f.loop(0, shape[-1], step=size) as strip:
            with f.loop(0, size, parallel=True) as loop:
                indices = (*outer[:-1], f.add(strip.index, loop.index))
                keep(f, fused, indices)
                offset = f.sub(indices[-1], strip.index)
                room.store(f, (offset,), value.at(f, indices))
            first = (*outer[:-1], strip.index)
            goal, coming = target.address(f, first), read_soon(f, target, first)
            emit_copy(f, goal, room.pointer, size * target.dtype.itemsize, coming)

    if size:
        nest(f, shape, strips, arrays, range(len(shape) - 1))
    else:
        nest(f, shape, body, arrays)
    settle(fused)


def copy_elements(f: Function, target: Buffer, source: Buffer) -> None:
    """target[...] = source[...] where neither is computed and they do not overlap."""
    if 0 in target.shape:
        return
    d = turned_dim(target, source)
    if d is not None:
        copy_turned(f, target, source, d, lambda t, s: _copy_plainly(f, t, s))
    else:
        _copy_plainly(f, target, source)


def _copy_plainly(f: Function, target: Buffer, source: Buffer) -> None:
    shape = joined(target.shape, min(target.adjacent_dims(), source.adjacent_dims()))
    nest(f, shape, lambda indices: target.store(f, indices, source.load(f, indices)))


# Reductions ------------------------------------------------------------------------------------


def combine(f: Function, op: str, dtype: np.dtype, a: str, b: str) -> str:
    """Emit one step of a reduction; sums and products of floats may be reordered."""
    if dtypes.is_float(dtype) and op in ("add", "mul"):
        return f.op(f"f{op} reassoc contract {types.register(dtype)} {a}, {b}")
    return scalar.emit(f, op, dtype, [a, b], {}, dtype)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A reduction by an op over the axes of an operand of this shape; kept: its other dimensions.

    element: the operand's at some indices. arrays: what that reads.
    """

    op: str
    dtype: np.dtype
    shape: tuple[int, ...]
    axes: Sequence[int]
    kept: Sequence[int]
    element: Callable[[tuple], str]
    arrays: Sequence[Array]

    @property
    def result(self) -> tuple[int, ...]:
        return tuple(self.shape[d] for d in self.kept)

    @property
    def start(self) -> str:
        return types.constant(IDENTITIES[self.op](self.dtype), self.dtype)


def reduce(f: Function, memory: Memory, operand: Array, axes: Sequence[int], op: str) -> Array:
    """Reduce over some dimensions by "add", "mul", "max", "min", "and", "or" or "xor"."""
    shape = operand.shape
    kept = [d for d in range(len(shape)) if d not in axes]
    fused = prepare(f, memory, [operand], shape)
    arrays = [operand, *(a for a, _ in fused)]
    # Trailing dimensions that are all summed are passed as one where memory allows.
    trailing = next((k for k, d in enumerate(reversed(range(len(shape)))) if d not in axes), None)
    trailing = len(shape) if trailing is None else trailing
    for a in arrays:
        trailing = a.adjacent_dims(trailing)
    shape = joined(shape, trailing)

    def element(indices: tuple) -> str:
        keep(f, fused, indices)
        return operand.at(f, indices)

    r = _Reduction(op, operand.dtype, shape, axes, kept, element, arrays)
    looped = [d for d in range(len(shape)) if shape[d] != 1]
    along = 0 in shape or not looped or looped[-1] in axes
    total = (_reduce_inner if along else _reduce_outer)(f, memory, r)
    settle(fused)
    return total


def _reduce_inner(f: Function, memory: Memory, r: _Reduction) -> Array:
    """Sum the innermost dimension: a register accumulates."""
    shape, result, dtype = r.shape, r.result, r.dtype
    target = temporary(f, memory, result, dtype) if size_of(result) != 1 else None
    type_ = types.register(dtype)
    summed = sorted(d for d in r.axes if shape[d] != 1)
    indices: list[Index | None] = [0 if n == 1 else None for n in shape]
    answer = ""

    def sum_level(k: int, start: str) -> str:
        if k == len(summed):
            return combine(f, r.op, dtype, start, r.element(tuple(indices)))
        for a in r.arrays:
            a.hoist(f, tuple(indices))
        d = summed[k]
        with f.loop(0, shape[d], [(type_, start)], parallel=k == len(summed) - 1) as loop:
            indices[d] = loop.index
            loop.following = [sum_level(k + 1, loop.carried[0])]
            indices[d] = None
        return loop.results[0]

    def row(outer: tuple) -> None:
        nonlocal answer
        indices[:] = outer
        total = r.start if 0 in shape else sum_level(0, r.start)
        if target is None:
            answer = total
        else:
            target.store(f, [outer[d] or 0 for d in r.kept], total)

    sizes = [n if d in r.kept else max(n, 1) for d, n in enumerate(shape)]
    if target is None:
        with f.scope():
            row(tuple(indices))
        return Array(result, dtype, lambda f, i: answer)
    nest(f, sizes, row, dims=r.kept, parallel=False)
    return Array(result, dtype, buffer=target)


def _reduce_outer(f: Function, memory: Memory, r: _Reduction) -> Array:
    """Keep the innermost dimension: rows are added to rows in memory."""
    target, start = temporary(f, memory, r.result, r.dtype), r.start
    nest(f, r.result, lambda indices: target.store(f, indices, start))
    last = next(d for d in reversed(r.kept) if r.shape[d] != 1)
    order = [*(d for d in r.kept if d < last), *sorted(r.axes), last]

    def body(indices: tuple) -> None:
        where = [indices[d] or 0 for d in r.kept]
        value = r.element(indices)
        target.store(f, where, combine(f, r.op, r.dtype, target.load(f, where), value))

    nest(f, r.shape, body, r.arrays, order)
    return Array(r.result, r.dtype, buffer=target)
