"""Products: dot_general as blocked loops over packed panels and a register tile.

The scheme is that of K. Goto, R. van de Geijn, "Anatomy of high-performance matrix
multiplication", ACM TOMS 34 (2008): a panel of B (k × a few vectors) stays in the first-level
cache, a block of A (rows × k) in the second.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.pallas.cpu.arrays as arrays
import weft.pallas.cpu.loops as loops
import weft.pallas.cpu.types as types
from weft.core import dtypes
from weft.pallas.cpu.int8_dot import SMALLEST, Grouping, grouping, start_sums, words
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.loops import Memory
from weft.pallas.cpu.microkernel import Tile, emit_micro, tile_for
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.transpose_tiles import turned_dim
from weft.pallas.cpu.values import Array, Buffer, size_of

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn

DEPTH = 256
"""k of a block: a panel of B is then 32 KB in float32 with 512-bit vectors."""
HEIGHT = 256
"""Rows of a block of A."""
KEPT_BYTES = 640 << 10
"""Largest packed copy of an operand that is kept for the next product with it: more would not
stay in the second-level cache between them."""


@rule("dot_general")
def _dot_general(t: Translator, eqn: Eqn, x: Array, y: Array) -> Array:
    """Return a product of matrices, or of one batch of them, made when it is stored somewhere."""
    f, memory, aval = t.f, t.memory, eqn.outvars[0].aval
    if aval.dtype.name == "bool":
        raise t.unsupported(eqn, "products of bools; convert them to integers")
    left, right = (arrays.reshaped(t, v, ((1, *v.shape)[-3:])) for v in (x, y))
    how = grouping(left.dtype, right.dtype, aval.dtype) if left.shape[2] >= SMALLEST else None

    def make(target: Buffer) -> None:
        one = ((1, *target.shape)[-3:], (0, *target.strides)[-3:])
        batch = target.view(f, 0, *one)
        if how is None:
            Blocks(f, memory, (left, right), batch).emit()
        else:
            _by_words(f, memory, left, right, batch, how)

    def produce(f: Function, target: Buffer) -> None:
        for operand in (left, right):
            for waiting in operand.waiting():
                loops.materialize(f, memory, waiting)
        before = memory.offset
        if target.strides[-1] == 1 and target.dtype == aval.dtype:
            make(target)
        else:
            scratch = loops.temporary(f, memory, aval.shape, aval.dtype)
            make(scratch)
            made = Array(aval.shape, aval.dtype, buffer=scratch)
            loops.store(f, memory, target, arrays.converted(made, target.dtype))
        memory.offset = before

    inputs = [(left, None), (right, None)]
    return Array(aval.shape, aval.dtype, None, inputs, 1 << 20, producer=produce)


def _by_words(
    f: Function, memory: Memory, left: Array, right: Array, target: Buffer, how: Grouping
) -> None:
    """Return the product of the operands' words."""
    for x in (left, right):
        loops.materialize(f, memory, x)
    if how.biased:
        start_sums(f, memory, right, target)
    a = words(f, memory, left, 2, how, how.biased)
    b = words(f, memory, right, 1, how, False)
    origins = None if left.shape[2] % how.count else (left, right)
    Blocks(f, memory, (a, b), target, how, origins).emit()


# Blocks ----------------------------------------------------------------------------------------


class Blocks:
    """A product in blocks: its operands, its target, and memory for packed panels.

    how: of the words that the operands are. origins: the numbers in memory they are made of.
    keep_a, keep_b: a packed copy serves the next product with the same operand, too.
    """

    def __init__(
        self,
        f: Function,
        memory: Memory,
        operands: tuple[Array, Array],
        target: Buffer,
        how: Grouping | None = None,
        origins: tuple[Array, Array] | None = None,
    ) -> None:
        self.f, self.target, self.how = f, target, how
        left, right = operands
        self.batch, m, k = left.shape
        self.m, self.k, self.n = m, k, right.shape[2]
        dtype = dtypes.int32 if how else target.dtype
        self.tile = tile = tile_for(dtype)
        self.columns = -(-self.n // tile.width) * tile.width
        first, second = origins or operands
        self.sources = first.buffer, second.buffer
        self.keep_a = self.batch == 1 and _is_constant(first, m * k * dtype.itemsize)
        size = k * self.columns * dtype.itemsize
        self.keep_b = self.batch == 1 and _is_constant(second, size, whole=True)
        self.left, self.right = arrays.converted(left, dtype), arrays.converted(right, dtype)
        self.depth, self.height = min(k, DEPTH), min(m, HEIGHT)
        self.a_row = (k if self.keep_a else self.depth) + tile.width
        self.packed_a = self.packed_b = self.scratch = None
        if not _is_direct(self.left, dtype, k):
            allocate = loops.lasting if self.keep_a else loops.temporary
            rows = m if self.keep_a else self.height
            self.packed_a = allocate(f, memory, (rows * self.a_row,), dtype)
        ragged = bool(self.n % tile.width)
        if m > 2 * tile.rows or ragged or not _is_direct(self.right, dtype, 0):
            allocate = loops.lasting if self.keep_b else loops.temporary
            depth = k if self.keep_b else self.depth
            self.packed_b = allocate(f, memory, (depth * self.columns,), dtype)
        if ragged:
            self.scratch = loops.temporary(f, memory, (tile.rows, tile.columns), target.dtype)

    def over(self, total: int, step: int, body: Callable) -> None:
        """body(start, size) for full steps in a loop, then for the rest."""
        full = total // step
        if full == 1:
            body(0, step)
        elif full:
            with self.f.loop(0, full * step, step=step) as loop:
                body(loop.index, step)
        if total % step:
            body(full * step, total % step)

    def emit(self) -> None:
        if self.batch == 1:
            self.one(0)
        else:
            with self.f.loop(0, self.batch) as loop:
                self.one(loop.index)

    def one(self, b: Index) -> None:
        """Return the product of one batch."""
        f, packed_a, packed_b = self.f, self.packed_a, self.packed_b

        def part_b(p: Index, kc: int) -> Any:
            size = (kc * self.columns,)
            return packed_b and packed_b.view(f, f.mul(p, self.columns), size, (1,))

        if packed_a is not None and self.keep_a:
            with _once(f, self.sources[0]):
                self.pack_left(packed_a, b, 0, 0, self.m, self.k)
        if packed_b is not None and self.keep_b:
            with _once(f, self.sources[1]):
                pack = lambda p, kc: self.pack_right(part_b(p, kc), 0, p, kc)
                self.over(self.k, self.depth, pack)

        def deep(p: Index, kc: int) -> None:
            at_b = packed_b
            if packed_b is not None and not self.keep_b:
                self.pack_right(packed_b, b, p, kc)
            elif packed_b is not None:
                at_b = part_b(p, kc)

            def high(i: Index, mc: int) -> None:
                at_a = packed_a
                if packed_a is not None and not self.keep_a:
                    self.pack_left(packed_a, b, i, p, mc, kc)
                elif packed_a is not None:
                    at_a = packed_a.view(f, f.dot((i, p), (self.a_row, 1)), packed_a.shape, (1,))
                self.panels((b, i, p), mc, kc, at_a, at_b)

            self.over(self.m, self.height, high)

        self.over(self.k, self.depth, deep)

    def pack_left(self, packed: Buffer, b: Index, i: Index, p: Index, mc: int, kc: int) -> None:
        """Pack rows of the block a little apart, so that they fall into different cache sets."""
        f, left = self.f, self.left
        goal = packed.view(f, 0, (mc, kc), (self.a_row, 1))

        def body(indices: tuple[Index, ...]) -> None:
            r, c = indices
            goal.store(f, indices, left.at(f, (b, f.add(i, r), f.add(p, c))))

        loops.nest(f, (mc, kc), body)

    def pack_right(self, packed: Buffer, b: Index, p: Index, kc: int) -> None:
        """Pack contiguous panels [kc, columns]; what is missing in the last vector is zero."""
        f, right, zero = self.f, self.right, types.constant(0, packed.dtype)
        for start, panels, width, valid in _column_panels(self.n, self.tile):
            goal = packed.view(f, start * kc, (panels, kc, width), (kc * width, width, 1))
            shape = (panels, kc, valid)

            def body(
                indices: tuple[Index, ...], start: int = start, width: int = width, goal: Any = goal
            ) -> None:
                j, r, c = indices
                column = f.add(f.add(f.mul(j, width), c), start)
                goal.store(f, indices, right.at(f, (b, f.add(p, r), column)))

            part = None
            if right.buffer is not None:  # panels as they lie in memory
                offset = f.dot((b, p, start), right.buffer.strides)
                _, row, column = right.buffer.strides
                part = right.buffer.view(f, offset, shape, (f.mul(column, width), row, column))
            if part is not None and turned_dim(goal, part) is not None:
                loops.copy_elements(f, goal.view(f, 0, shape, goal.strides), part)
            else:
                loops.nest(f, shape, body)
            if valid < width:
                rest = goal.view(f, valid, (panels, kc, width - valid), goal.strides)
                loops.nest(f, rest.shape, functools.partial(rest.store, f, value=zero))

    def panels(
        self, first: tuple, mc: int, kc: int, packed_a: Buffer | None, packed_b: Buffer | None
    ) -> None:
        """Emit every register tile of mc rows and all columns, for one block of k.

        first: the batch, row and place along k where the block begins.
        """
        f, tile, target, scratch = self.f, self.tile, self.target, self.scratch
        b, i, p = first
        has_start = self.how is not None and self.how.biased
        more = "true" if has_start else f.op(f"icmp ne i64 {p}, 0") if p != 0 else "false"

        def panel(j: Index, start: int, width: int, valid: int) -> None:
            column = f.add(f.mul(j, width), start)
            if packed_b is not None:
                at_b = packed_b.address(f, (f.add(start * kc, f.mul(j, kc * width)),))
                b_row = width
            else:
                assert self.right.buffer is not None
                at_b = self.right.buffer.address(f, (b, p, column))
                b_row = int(self.right.buffer.strides[1])

            # Packed operands are adjacent in the order in which tiles read them.
            def rows(r: Index, count: int) -> None:
                if packed_a is not None:
                    at_a = packed_a.address(f, (f.mul(r, self.a_row),))
                    step = self.a_row
                else:
                    assert self.left.buffer is not None
                    at_a = self.left.buffer.address(f, (b, f.add(i, r), p))
                    step = int(self.left.buffer.strides[1])
                offset = f.dot((b, f.add(i, r), column), target.strides)
                goal = target.view(f, offset, (count, valid), target.strides[1:])
                # A tile past the last column is computed in scratch: its vectors are whole there.
                whole = valid == width
                part = goal if whole else scratch and scratch.view(f, 0, goal.shape, (width, 1))
                assert part is not None
                c_row = int(part.strides[0])
                name = emit_micro(
                    f.module, target.dtype, count, width // tile.width, step, b_row, c_row, self.how
                )
                if not whole and more != "false":
                    loops.copy_elements(f, part, goal)
                f.do(
                    f"call void @{name}(ptr {at_a}, ptr {at_b}, ptr {part.pointer}, i64 {kc}, "
                    f"i1 {more})"
                )
                if not whole:
                    loops.copy_elements(f, goal, part)

            full = mc // tile.rows
            if full:
                with f.loop(0, full * tile.rows, step=tile.rows) as loop:
                    rows(loop.index, tile.rows)
            if mc % tile.rows:
                rows(full * tile.rows, mc % tile.rows)

        for start, count, width, valid in _column_panels(self.n, tile):
            with f.loop(0, count) as loop:
                panel(loop.index, start, width, valid)


def _is_constant(x: Array, size: int, whole: bool = False) -> bool:
    """Tell whether a packed copy may serve again wherever the array's address is the same: it lies
    in an input that nobody changes (all of it, if `whole`) and the copy is not too large."""
    if x.buffer is None or size > KEPT_BYTES:
        return False
    extent = x.buffer.group.extent
    return extent == size_of(x.shape) if whole else extent > 0


@contextmanager
def _once(f: Function, source: Buffer | None) -> Iterator[None]:
    """Emit the code inside so that it runs if the source differs from the last one."""
    assert source is not None
    slot = f.alloca("ptr", 8)
    f.entry.append(f"  store ptr null, ptr {slot}")
    last = f.load("ptr", slot, parallel=False)
    with f.when(f.op(f"icmp ne ptr {last}, {source.pointer}")):
        yield
        f.store("ptr", source.pointer, slot, parallel=False)


def _is_direct(x: Array, dtype: np.dtype, length: int) -> bool:
    """Tell whether the tile can read the array where it lies: rows adjacent elements, and row
    starts that do not fall into one set of the cache (where rows are long enough for it to
    matter)."""
    if x.buffer is None or x.dtype != dtype or x.buffer.strides[2] != 1:
        return False
    stride = x.buffer.strides[1]
    if not isinstance(stride, int):
        return False
    return x.shape[1] == 1 or length <= 64 or (stride * dtype.itemsize) % 1024 != 0


def _column_panels(n: int, tile: Tile) -> list[tuple[int, int, int, int]]:
    """(first column, panels, their width, valid columns of each): full panels, then the rest."""
    full = n // tile.columns
    result = []
    if full:
        result.append((0, full, tile.columns, tile.columns))
    rest = n - full * tile.columns
    if rest:
        width = -(-rest // tile.width) * tile.width
        result.append((full * tile.columns, 1, width, rest))
    return result
