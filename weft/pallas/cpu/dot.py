"""Products: dot_general as blocked loops over packed panels and a register tile.

The scheme is that of K. Goto, R. van de Geijn, "Anatomy of high-performance matrix
multiplication", ACM TOMS 34 (2008): a panel of B (k × a few vectors) stays in the first-level
cache, a block of A (rows × k) in the second.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from weft.core import dtypes
from weft.pallas.cpu import arrays, loops, scalar, types
from weft.pallas.cpu.int8_dot import SMALLEST, Grouping, grouping, start_sums, words
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.loops import Memory
from weft.pallas.cpu.microkernel import Tile, emit_micro, tile_for
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.transpose_tiles import turned_dim
from weft.pallas.cpu.values import Array, Buffer, row_major, size_of

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
    (xc, yc), (xb, yb) = eqn.params["dimension_numbers"]
    aval = eqn.outvars[0].aval
    result = aval.dtype
    wide = dtypes.float32 if types.is_small_float(result) else result
    if result.name == "bool":
        raise t.unsupported(eqn, "products of bools; convert them to integers")
    xf = [d for d in range(len(x.shape)) if d not in xc and d not in xb]
    yf = [d for d in range(len(y.shape)) if d not in yc and d not in yb]
    left = _cube(t, x, (xb, xf, xc))
    right = _cube(t, y, (yb, yc, yf))
    batch, m, k = left.shape
    n = right.shape[2]
    if 0 in (batch, m, n, k) or m == 1 or n == 1:
        out = _by_reduction(t, left, right, wide)
    else:
        out = product(t, left, right, wide)
    if out.producer is not None and wide == result:
        return _reshaped_product(t, out, tuple(aval.shape))
    return arrays.converted(arrays.reshaped(t, out, tuple(aval.shape)), result)


def _cube(t: Translator, x: Array, groups: Sequence[Sequence[int]]) -> Array:
    """The array with its dimensions merged to three."""
    order = tuple(d for group in groups for d in group)
    if order != tuple(range(len(order))):
        x = arrays.transposed(t, x, order)
    shape, start = [], 0
    for group in groups:
        shape.append(size_of(x.shape[start : start + len(group)]))
        start += len(group)
    return arrays.reshaped(t, x, tuple(shape))


def _by_reduction(t: Translator, left: Array, right: Array, dtype: np.dtype) -> Array:
    """Products with a vector: a sum of an elementwise product, along rows or over rows."""
    batch, m, k = left.shape
    n = right.shape[2]
    along = n == 1
    shape = (batch, m, n, k) if along else (batch, m, k, n)

    def of_left(i: tuple) -> tuple:
        return (i[0], i[1], i[3] if along else i[2])

    def of_right(i: tuple) -> tuple:
        return (i[0], i[3], i[2]) if along else (i[0], i[2], i[3])

    left, right = arrays.converted(left, dtype), arrays.converted(right, dtype)

    def element(f: Function, i: tuple) -> str:
        a, b = left.at(f, of_left(i)), right.at(f, of_right(i))
        return scalar.emit(f, "mul", dtype, [a, b], {}, dtype)

    both = Array(shape, dtype, element, [(left, of_left), (right, of_right)], 1)
    return loops.reduce(t.f, t.memory, both, (3 if along else 2,), "add")


def product(t: Translator, left: Array, right: Array, dtype: np.dtype) -> Array:
    """left[b, m, k] @ right[b, k, n], made when it is stored somewhere."""
    shape = (left.shape[0], left.shape[1], right.shape[2])
    memory = t.memory

    how = grouping(left.dtype, right.dtype, dtype) if left.shape[2] >= SMALLEST else None

    def make(f: Function, target: Buffer, accumulate: bool) -> None:
        if how is None:
            _blocked(f, memory, left, right, target, accumulate)
        else:
            _by_words(f, memory, left, right, target, accumulate, how)

    def produce(f: Function, target: Buffer, accumulate: bool) -> None:
        before = memory.offset
        for operand in (left, right):
            for waiting in operand.waiting():
                loops.materialize(f, memory, waiting)
        middle = memory.offset if before != memory.offset else before
        if target.strides[2] == 1 and target.dtype == dtype:
            make(f, target, accumulate)
            memory.offset = middle
            return
        scratch = loops.temporary(f, memory, shape, dtype)
        make(f, scratch, False)
        _store(f, memory, target, scratch, accumulate)
        memory.offset = middle

    inputs = [(left, None), (right, None)]
    return Array(shape, dtype, None, inputs, 1 << 20, producer=produce)


def _by_words(
    f: Function,
    memory: Memory,
    left: Array,
    right: Array,
    target: Buffer,
    accumulate: bool,
    how: Grouping,
) -> None:
    """The product of the operands' words."""
    for x in (left, right):
        loops.materialize(f, memory, x)
    if how.biased:
        start_sums(f, memory, right, target, accumulate)
    a = words(f, memory, left, 2, how, how.biased)
    b = words(f, memory, right, 1, how, False)
    more = accumulate or how.biased
    _blocked(
        f, memory, a, b, target, more, how, None if left.shape[2] % how.count else (left, right)
    )


def _store(f: Function, memory: Memory, target: Buffer, product: Buffer, accumulate: bool) -> None:
    """target[...] (+)= product."""
    value = arrays.converted(Array(product.shape, product.dtype, buffer=product), target.dtype)
    if accumulate:
        old, new = Array(target.shape, target.dtype, buffer=target), value
        total = lambda f, i: scalar.add(f, old.dtype, old.at(f, i), new.at(f, i))
        value = arrays.pointwise(old.shape, old.dtype, total, [old, new])
    loops.store(f, memory, target, value)


def _reshaped_product(t: Translator, cube: Array, shape: tuple[int, ...]) -> Array:
    """The product in its own rank: the target of producing it is viewed as three dimensions."""
    if shape == cube.shape:
        return cube
    make = cube.producer
    assert make is not None

    def produce(f: Function, target: Buffer, accumulate: bool) -> None:
        strides = arrays.reshaped_strides(target, cube.shape)
        if strides is not None:
            make(f, target.view(f, 0, cube.shape, strides), accumulate)
            return
        scratch = loops.temporary(f, t.memory, cube.shape, cube.dtype)
        make(f, scratch, False)
        flat = scratch.view(f, 0, shape, row_major(shape))
        _store(f, t.memory, target, flat, accumulate)

    return Array(shape, cube.dtype, None, cube.inputs, 0, producer=produce)


# Blocks ----------------------------------------------------------------------------------------


def _blocked(
    f: Function,
    memory: Memory,
    left: Array,
    right: Array,
    target: Buffer,
    accumulate: bool,
    how: Grouping | None = None,
    origins: tuple[Array, Array] | None = None,
) -> None:
    """how: of the words that the operands are. origins: the numbers in memory they are made of."""
    batch, m, k = left.shape
    n = right.shape[2]
    dtype = dtypes.int32 if how else target.dtype
    tile = tile_for(dtype)
    sources = [x.buffer for x in origins or (left, right)]
    columns = -(-n // tile.width) * tile.width
    first, second = origins or (left, right)
    keep_a = batch == 1 and _is_constant(first, m * k * dtype.itemsize)
    keep_b = batch == 1 and _is_constant(second, k * columns * dtype.itemsize, whole=True)
    left, right = arrays.converted(left, dtype), arrays.converted(right, dtype)
    depth, height = min(k, DEPTH), min(m, HEIGHT)
    a_row = (k if keep_a else depth) + tile.width
    packed_a = packed_b = None
    if not _is_direct(left, 1, dtype, k):
        place = loops.lasting if keep_a else loops.temporary
        packed_a = place(f, memory, ((m if keep_a else height) * a_row,), dtype)
    if m > 2 * tile.rows or n % tile.width or not _is_direct(right, 1, dtype, 0):
        place = loops.lasting if keep_b else loops.temporary
        packed_b = place(f, memory, ((k if keep_b else depth) * columns,), dtype)
    scratch = None
    if n % tile.width:
        scratch = loops.temporary(f, memory, (tile.rows, tile.columns), target.dtype)

    def over(total: int, step: int, body: Callable) -> None:
        """body(start, size) for full steps in a loop, then for the rest."""
        full = total // step
        if full == 1:
            body(0, step)
        elif full:
            with f.loop(0, full * step, step=step) as loop:
                body(loop.index, step)
        if total % step:
            body(full * step, total % step)

    def pack_right(goal: Buffer, p: Index, kc: int) -> None:
        part = goal.view(f, f.mul(p, columns), (kc * columns,), (1,))
        _pack_right(f, right, part, 0, p, kc, n, tile)

    def one(b: Index) -> None:
        if packed_a is not None and keep_a:
            with _once(f, sources[0]):
                _pack_left(f, left, packed_a, b, 0, 0, m, k, a_row)
        if packed_b is not None and keep_b:
            with _once(f, sources[1]):
                over(k, depth, lambda p, kc: pack_right(packed_b, p, kc))

        def deep(p: Index, kc: int) -> None:
            at_b = packed_b
            if packed_b is not None and not keep_b:
                _pack_right(f, right, packed_b, b, p, kc, n, tile)
            elif packed_b is not None:
                at_b = packed_b.view(f, f.mul(p, columns), (kc * columns,), (1,))

            def high(i: Index, mc: int) -> None:
                at_a = packed_a
                if packed_a is not None and not keep_a:
                    _pack_left(f, left, packed_a, b, i, p, mc, kc, a_row)
                elif packed_a is not None:
                    at_a = packed_a.view(f, f.dot((i, p), (a_row, 1)), packed_a.shape, (1,))
                _panels(
                    f, left, right, target, b, i, p, mc, kc, n, tile,
                    at_a, a_row, at_b, scratch, accumulate, how,
                )  # fmt: skip

            over(m, height, high)

        over(k, depth, deep)

    if batch == 1:
        one(0)
    else:
        with f.loop(0, batch) as loop:
            one(loop.index)


def _is_constant(x: Array, size: int, whole: bool = False) -> bool:
    """Whether a packed copy may serve again wherever the array's address is the same: it lies in
    an input that nobody changes (all of it, if `whole`) and the copy is not too large."""
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


def _is_direct(x: Array, row: int, dtype: np.dtype, length: int) -> bool:
    """Whether the tile can read the array where it lies: rows adjacent elements, and row starts
    that do not fall into one set of the cache (where rows are long enough for it to matter)."""
    if x.buffer is None or x.dtype != dtype or x.buffer.strides[2] != 1:
        return False
    stride = x.buffer.strides[row]
    if not isinstance(stride, int):
        return False
    return x.shape[row] == 1 or length <= 64 or (stride * dtype.itemsize) % 1024 != 0


def _pack_left(
    f: Function,
    left: Array,
    packed: Buffer,
    b: Index,
    i: Index,
    p: Index,
    mc: int,
    kc: int,
    a_row: int,
) -> None:
    """Rows of the block, a little apart, so that they fall into different cache sets."""
    goal = packed.view(f, 0, (mc, kc), (a_row, 1))

    def body(indices: tuple[Index, ...]) -> None:
        r, c = indices
        goal.store(f, indices, left.at(f, (b, f.add(i, r), f.add(p, c))))

    loops.nest(f, (mc, kc), body)


def _pack_right(
    f: Function, right: Array, packed: Buffer, b: Index, p: Index, kc: int, n: int, tile: Tile
) -> None:
    """Panels [kc, columns], each contiguous; what is missing in the last vector is zero."""
    zero = types.constant(0, packed.dtype)
    for start, panels, width, valid in _column_panels(n, tile):
        goal = packed.view(f, start * kc, (panels, kc, width), (kc * width, width, 1))

        def body(
            indices: tuple[Index, ...], start: int = start, width: int = width, goal: Buffer = goal
        ) -> None:
            j, r, c = indices
            column = f.add(f.add(f.mul(j, width), c), start)
            goal.store(f, indices, right.at(f, (b, f.add(p, r), column)))

        part = _columns(f, right, b, p, start, kc, panels, width, valid)
        if part is not None and turned_dim(goal, part) is not None:
            shape = (panels, kc, valid)
            loops.copy_elements(f, goal.view(f, 0, shape, goal.strides), part)
        else:
            loops.nest(f, (panels, kc, valid), body)
        if valid < width:
            rest = goal.view(f, valid, (panels, kc, width - valid), goal.strides)
            loops.nest(f, rest.shape, functools.partial(rest.store, f, value=zero))


def _columns(
    f: Function,
    right: Array,
    b: Index,
    p: Index,
    start: int,
    kc: int,
    panels: int,
    width: int,
    valid: int,
) -> Buffer | None:
    """Panels of a right operand that lies in memory, as [panels, kc, columns]."""
    if right.buffer is None:
        return None
    offset = f.dot((b, p, start), right.buffer.strides)
    _, row, column = right.buffer.strides
    return right.buffer.view(f, offset, (panels, kc, valid), (f.mul(column, width), row, column))


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


def _panels(
    f: Function,
    left: Array,
    right: Array,
    target: Buffer,
    b: Index,
    i: Index,
    p: Index,
    mc: int,
    kc: int,
    n: int,
    tile: Tile,
    packed_a: Buffer | None,
    a_row: int,
    packed_b: Buffer | None,
    scratch: Buffer | None,
    accumulate: bool,
    how: Grouping | None,
) -> None:
    """Every register tile of mc rows and all columns, for one block of k."""
    more = "true" if accumulate else f.op(f"icmp ne i64 {p}, 0") if p != 0 else "false"
    for start, panels, width, valid in _column_panels(n, tile):

        def panel(j: Index, start: int = start, width: int = width, valid: int = valid) -> None:
            column = f.add(f.mul(j, width), start)
            if packed_b is not None:
                at_b = packed_b.address(f, (f.add(start * kc, f.mul(j, kc * width)),))
                b_row = width
            else:
                assert right.buffer is not None
                at_b = right.buffer.address(f, (b, p, column))
                b_row = int(right.buffer.strides[1])

            def rows(r: Index, count: int) -> None:
                if packed_a is not None:
                    at_a = packed_a.address(f, (f.mul(r, a_row),))
                    step = a_row
                else:
                    assert left.buffer is not None
                    at_a = left.buffer.address(f, (b, f.add(i, r), p))
                    step = int(left.buffer.strides[1])
                goal = target.view(
                    f,
                    f.dot((b, f.add(i, r), column), target.strides),
                    (count, valid),
                    target.strides[1:],
                )
                if valid == width:
                    c_row = int(target.strides[1])
                    name = emit_micro(
                        f.module, target.dtype, count, width // tile.width, step, b_row, c_row, how
                    )
                    _call(f, name, at_a, at_b, goal.pointer, kc, more)
                    return
                assert scratch is not None
                part = scratch.view(f, 0, (count, valid), (width, 1))
                name = emit_micro(
                    f.module, target.dtype, count, width // tile.width, step, b_row, width, how
                )
                if more != "false":
                    loops.copy_elements(f, part, goal)
                _call(f, name, at_a, at_b, scratch.pointer, kc, more)
                loops.copy_elements(f, goal, part)

            full = mc // tile.rows
            if full:
                with f.loop(0, full * tile.rows, step=tile.rows) as loop:
                    rows(loop.index, tile.rows)
            if mc % tile.rows:
                rows(full * tile.rows, mc % tile.rows)

        with f.loop(0, panels) as loop:
            panel(loop.index)


def _call(f: Function, name: str, a: str, b: str, c: str, k: int, more: str) -> None:
    f.do(f"call void @{name}(ptr {a}, ptr {b}, ptr {c}, i64 {k}, i1 {more})")
