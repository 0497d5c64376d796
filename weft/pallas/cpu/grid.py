# Tests: tests/pallas/test_cpu.py, tests/pallas/test_cpu_engine.py
"""The programs of a grid: blocks of arrays, the order of programs, their share of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core import dtypes
from weft.core.jaxpr import open_jaxpr
from weft.pallas.api.params import param
from weft.pallas.cpu.interrupt import LONG, emit_look
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.loops import Memory
from weft.pallas.cpu.nontemporal import streamed_outputs
from weft.pallas.cpu.refs import checked
from weft.pallas.cpu.tile import Tile, tile_of
from weft.pallas.cpu.translate import Translator
from weft.pallas.cpu.values import Buffer, Group, constant, size_of
from weft.pallas.cpu.work import work_of
from weft.pallas.ir import row_major
from weft.pallas.order import parallel_dims
from weft.runtime.cpu_run_limit import cpu_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.core.aval import ShapedArray
    from weft.core.ref import AbstractRef
    from weft.pallas.ir import BlockMapping, KernelCall

SERIAL_WORK = 20_000
"""Below about so many vector operations (10 µs) a call stays on its thread."""
LARGEST_EDGE = 8 << 20
"""Bytes up to which an edge block is laid out with the strides of its array."""


class Grid:
    """How the points of a grid are divided: `chunks` of at most `points` parallel ones each, and
    for every one of them all points of the other dimensions in order."""

    def __init__(self, call: KernelCall) -> None:
        self.call = call
        self.parallel = parallel_dims(call)
        self.ordered = [d for d, n in enumerate(call.grid) if d not in self.parallel]
        self.total = size_of([call.grid[d] for d in self.parallel])
        all_points = size_of(call.grid)
        work = work_of(call.jaxpr) * all_points
        threads = self.threads = min(
            cpu_count(), param(call.compiler_params, "num_threads", cpu_count())
        )
        if not all_points:
            self.chunks, self.points = 0, 0
        elif threads == 1 or self.total == 1 or work < SERIAL_WORK:
            self.chunks, self.points = 1, self.total
        else:
            # Some chunks for each thread even out their speeds; tiny ones would cost more.
            wanted = max(1, min(self.total, threads * 4, work // (SERIAL_WORK // 4)))
            self.points = -(-self.total // wanted)
            self.chunks = -(-self.total // self.points)


def emit_chunk(f: Function, grid: Grid, memory: Memory, messages: list[str]) -> None:
    """Return the body of `chunk(number, buffers, arena)`: its programs one after the other."""
    call = grid.call
    t = Translator(f, call, memory, messages)
    refs = open_jaxpr(call.jaxpr).in_avals
    count = call.num_scalars + call.num_inputs + len(call.outputs)
    arrays = [r.inner for r in refs[: call.num_scalars]] + [b.array for b in call.blocks]
    whole = whole_arrays(t, arrays)
    for k in streamed_outputs(call, any(call.grid[d] != 1 for d in grid.ordered)):
        whole[call.num_scalars + call.num_inputs + k].group.streams = True
    scratch = [t.scratch(a, call.ref_name(count + i)) for i, a in enumerate(call.scratch)]

    extents: list[Index] = list(call.grid)
    for k, d in enumerate(call.dynamic):
        value = f.op(f"sext i32 {whole[k].load(f, ())} to i64")
        extents[call.num_batch + d] = f.maximum(value, 0)
    total: Index = 1
    for d in grid.parallel:
        total = f.mul(total, extents[d])
    # Extents that are known only now are divided among the chunks only now.
    points: Index = grid.points
    if not isinstance(total, int):
        points = f.div(f.add(total, grid.chunks - 1), grid.chunks)
    low = f.mul("%number", points)
    high = f.minimum(f.add(low, points), total) if grid.chunks > 1 else total
    ids: list[Index] = [0] * len(call.grid)

    def ordered(k: int) -> None:
        if k == len(grid.ordered):
            program(t, whole, scratch, ids)
            return
        d = grid.ordered[k]
        if call.grid[d] == 1:
            ordered(k + 1)
            return
        with f.loop(0, extents[d]) as loop:
            # Long loops let Ctrl-C in; a look costs short ones too much.
            if isinstance(extents[d], str) or inside(k) >= LONG:
                emit_look(t, "its grid")
            ids[d] = loop.index
            ordered(k + 1)

    def inside(k: int) -> int:
        """Return the work of all points of the ordered dimensions from the k-th on."""
        return work_of(call.jaxpr) * size_of([call.grid[d] for d in grid.ordered[k:]])

    def point(number: Index) -> None:
        for d in reversed(grid.parallel):
            ids[d] = f.rem(number, extents[d]) if d != grid.parallel[0] else number
            number = f.div(number, extents[d])
        # What one point has computed does not dominate the next.
        with t.region():
            ordered(0)

    if grid.chunks == 1 and grid.total == 1:
        point(0)
    else:
        with f.loop(low if grid.chunks > 1 else 0, high) as loop:
            if not isinstance(total, int) or inside(0) * grid.points >= LONG:
                emit_look(t, "its grid")
            point(loop.index)


def whole_arrays(t: Translator, arrays: Sequence[ShapedArray | AbstractRef]) -> list[Buffer]:
    """Return the call's operands and outputs where `%buffers` has their addresses."""
    f, first = t.f, t.call.num_scalars + t.call.num_inputs
    groups = [Group(f"array {k}") for k in range(len(arrays))]
    for group, array in zip(groups[:first], arrays, strict=False):
        group.extent = size_of(array.shape)
    # What an output overwrites is no constant, and the two overlap.
    for operand, output in t.call.aliases:
        groups[operand] = groups[first + output]
    whole = []
    for k, (array, group) in enumerate(zip(arrays, groups, strict=True)):
        pointer = f.load("ptr", f.address("ptr", "%buffers", k), parallel=False)
        whole.append(Buffer(pointer, array.dtype, array.shape, row_major(array.shape), group))
    return whole


def program(t: Translator, whole: list[Buffer], scratch: list[Buffer], ids: list[Index]) -> None:
    """Emit one grid point: its blocks, then the kernel."""
    call, f = t.call, t.f
    t.program_ids = [str(i) for i in ids]
    grid_indices = [
        constant(i, dtypes.int32) if isinstance(i, int) else t.program_id(d)
        for d, i in enumerate(ids)
    ]
    scalars = whole[: call.num_scalars]
    tile = tile_of(call)
    operands: list[Any] = [*scalars]
    after = []
    for k, block in enumerate(call.blocks):
        array = whole[call.num_scalars + k]
        output = k >= call.num_inputs
        if block.whole:
            operands.append(array)
            continue
        numbers = t.run(block.index_map, [*grid_indices, *scalars])
        starts = []
        for d, number in enumerate(numbers):
            start = t.index(number)
            # Clamped blocks would read their neighbours unnoticed: an error names the index map.
            if call.checked and not block.padding:
                high = array.shape[d] - block.block_shape[d]
                if not block.by_element[d]:
                    high = -(-array.shape[d] // block.block_shape[d]) - 1
                label = (
                    f"kernel {call.name}: the index map of {block.origin} gives a block out of "
                    f"bounds in dimension {d} of an array of shape {array.shape}"
                )
                start = checked(t, start, max(high, 0), label)
            if block.padding:
                start = f.sub(start, block.padding[d][0])
            elif not block.by_element[d]:
                start = f.mul(start, block.block_shape[d])
            starts.append(start)
        part, finish = _block(t, array, block, starts, output)
        operands.append(part)
        if finish is not None:
            after.append(finish)
    if tile is None:
        t.run(call.jaxpr, [*operands, *scratch])
    else:
        _run_tiles(t, tile, [*operands, *scratch])
    # Results kept beside their arrays are written once the kernel is done with them.
    for finish in after:
        finish()


def _run_tiles(t: Translator, tile: Tile, refs: list[Buffer]) -> None:
    """Return the body on its rows, a few at a time."""
    f = t.f
    with f.loop(0, tile.count) as loop, t.region():
        first = f.mul(loop.index, tile.rows)
        operands = []
        for k, ref in enumerate(refs):
            if k in tile.refs:
                offset = f.mul(first, ref.strides[0])
                ref = ref.view(f, offset, (tile.rows, *ref.shape[1:]), ref.strides)
            operands.append(ref)
        f.ahead = [operands[k] for k in tile.refs if operands[k].group.extent]
        t.run(tile.jaxpr, operands)
        f.ahead = []


def _squeezed(f: Function, buffer: Buffer, block: BlockMapping) -> Buffer:
    kept = [d for d, gone in enumerate(block.squeezed) if not gone]
    return buffer.view(
        f, 0, tuple(buffer.shape[d] for d in kept), [buffer.strides[d] for d in kept]
    )


def _block(
    t: Translator, array: Buffer, block: BlockMapping, starts: list[Index], output: bool
) -> tuple[Buffer, Any]:
    """Return the block as part of the array, and what is to be done after the program, if anything.

    A block that may reach past the array's end lies in temporary memory where it does.
    """
    f = t.f
    shape = tuple(block.block_shape)
    inside = array.view(f, f.dot(starts, array.strides), shape, array.strides)
    if not block.is_uneven() and not block.padding:
        return _squeezed(f, inside, block), None
    last = [n - size for n, size in zip(array.shape, shape, strict=True)]
    span = sum((n - 1) * int(s) for n, s in zip(shape, array.strides, strict=True)) + 1
    spread = min(last) >= 0 and span * array.dtype.itemsize <= LARGEST_EDGE
    strides = array.strides if spread else row_major(shape)
    edge = t.temporary((span,) if spread else shape, array.dtype).view(f, 0, shape, strides)
    # A block that is laid out by itself always lies in its own memory.
    fits = "true" if spread else "false"
    for start, n in zip(starts, last, strict=True) if spread else ():
        fits = f.op(f"and i1 {fits}, {f.op(f'icmp ule i64 {start}, {n}')}")
    outside = f.op(f"xor i1 {fits}, true")
    with f.when(outside):
        _copy_edge(f, array, edge, block, starts, True)
    pointer = f.op(f"select i1 {fits}, ptr {inside.pointer}, ptr {edge.pointer}")
    # The edge memory of an input holds other contents in every program.
    group = Group("edge") if array.group.extent else array.group
    part = Buffer(pointer, array.dtype, shape, strides, group)

    def finish_edge() -> None:
        with f.when(outside):
            _copy_edge(f, array, edge, block, starts, False)

    return _squeezed(f, part, block), finish_edge if output else None


def _copy_edge(
    f: Function, array: Buffer, edge: Buffer, block: BlockMapping, starts: list[Index], into: bool
) -> None:
    """Copy what of the block lies in the array into the edge buffer, or back."""
    lows, highs = [], []
    for start, n, size in zip(starts, array.shape, edge.shape, strict=True):
        lows.append(f.maximum(f.sub(0, start), 0) if block.padding else 0)
        highs.append(f.minimum(f.sub(n, start), size))

    def level(d: int, indices: list[Index]) -> None:
        if d == len(lows):
            where = [f.add(i, s) for i, s in zip(indices, starts, strict=True)]
            if into:
                edge.store(f, indices, array.load(f, where))
            else:
                array.store(f, where, edge.load(f, indices))
            return
        with f.loop(lows[d], highs[d], parallel=d == len(lows) - 1) as loop:
            level(d + 1, [*indices, loop.index])

    with f.scope():
        level(0, [])
