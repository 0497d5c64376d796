"""Slices, joins, paddings and repetitions of arrays in memory, as one copy of their boxes.

XLA:CPU asks of every element which operand of a concatenation or padding it is from, and divides
its index by the size of a repeated dimension. A kernel copies runs of neighbors instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.lowering.context import MARK, UNFUSED, in_memory
from weft.lowering.limits import MOVED_BYTES, MOVED_RUN, SHARED_BYTES
from weft.native.calls import call, has_compiler, target
from weft.native.parallel import threads
from weft.native.sorting import KINDS
from weft.partition.emit import Emitter
from weft.partition.walk import maker

_BYTES = {name: bits // 8 for name, (_, bits, _) in KINDS.items()} | {"complex<f32>": 8}
_SOURCES, _BOXES, _DEPTH, _LOOPS, _FEW = 8, 24, 8, 3, 64
_STORED = UNFUSED - {"stablehlo.convolution"} | {"func.return", "stablehlo.return"}
_FAMILY = ("stablehlo.concatenate", "stablehlo.pad")
_VIEWS = ("stablehlo.slice", "stablehlo.reshape", "stablehlo.reverse", "stablehlo.broadcast_in_dim")


@dataclass(frozen=True, slots=True)
class Box:
    """Where elements of a result are from: a source, its first element and its step by dimension.

    start, size: the box in the result, by dimension.
    """

    source: ir.Value
    first: int
    steps: tuple[int, ...]
    start: tuple[int, ...]
    size: tuple[int, ...]


def moves(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a concatenation, a padding or a repetition by the copy of its boxes."""
    (result,) = op.results
    shape, width = list(result.type.shape), _BYTES.get(str(result.type.element_type))
    if width is None or math.prod(shape) * width < MOVED_BYTES or not has_compiler():
        return None
    # XLA fuses copies with elementwise readers, and paddings with convolutions.
    if not _is_stored(result) or all(map(_is_part, result.uses)):
        return None
    boxes = _boxes(e, result, _DEPTH)
    if boxes is None or not 0 < len(boxes) <= _BOXES:
        return None
    sources: list[ir.Value] = []
    numbers: list[int] = []
    runs = 0
    for box in boxes:
        if box.source not in sources:
            sources.append(box.source)
        loops = _loops(box, shape)
        if loops is None:
            return None
        (run, step, _), *outer = loops
        runs += math.prod(count for count, _, _ in outer)
        offset = sum(s * n for s, n in zip(box.start, _strides(shape), strict=True))
        numbers += [sources.index(box.source), int(step == 0), box.first, offset]
        numbers += [n for loop in reversed(outer) for n in loop] + [run]
    size = math.prod(shape) * width
    if len(sources) > _SOURCES or size < MOVED_RUN * runs:
        return None
    sources += [sources[0]] * (_SOURCES - len(sources))
    parts = threads() if size >= SHARED_BYTES else 1
    kernel = target("moves", "moves", {"U": f"u{8 * width}"})
    return call(e, kernel, sources, [result.type], [parts, len(boxes), *numbers])


def take(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a gather of whole rows of what is in memory, which XLA copies by element."""
    (x, index), (result,) = op.operands, op.results
    numbers = stablehlo.gather_dimensions(op.attributes["dimension_numbers"])
    n, *row = x.type.shape
    name, whole_number = str(x.type.element_type), str(index.type.element_type)
    if name not in _BYTES or whole_number not in ("i32", "i64") or not has_compiler():
        return None
    run, count = math.prod(row), math.prod(index.type.shape)
    whole = list(op.attributes["slice_sizes"]) == [1, *row] and index.type.rank > 0
    by_first = numbers.start_index_map == numbers.collapsed_slice_dims == (0,)
    rank = result.type.rank
    last = numbers.offset_dims == tuple(range(rank - len(row), rank))
    alone = numbers.index_vector_dim == index.type.rank - 1 and index.type.shape[-1] == 1
    if not (whole and by_first and last and alone) or numbers.operand_batching_dims:
        return None
    size = run * _BYTES[name]
    if size < MOVED_RUN or size * count < MOVED_BYTES:
        return None
    if not in_memory(x) or not _is_stored(result):
        return None
    bindings: dict[str, str | int] = {"U": f"u{8 * _BYTES[name]}", "I": whole_number}
    parts = 4 * threads() if size * count >= SHARED_BYTES else 1
    kernel = target("moves", "take", bindings)
    return call(e, kernel, [x, index], [result.type], [count, run, n - 1, min(parts, count)])


def _is_stored(x: ir.Value) -> bool:
    """Tell whether a value, perhaps in another shape, is in memory for one that reads it."""
    for use in x.uses:
        user = use.owner
        if user.name in _STORED:
            return True
        if (user.name == "stablehlo.reshape" or _is_part(use)) and _is_stored(user.results[0]):
            return True
    return False


def _is_part(use: ir.OpOperand) -> bool:
    """Tell whether a use is part of what becomes one copy with it."""
    user = use.owner
    if user.name in _VIEWS:
        return all(map(_is_part, user.results[0].uses))
    return user.name in _FAMILY and MARK in user.attributes


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _loops(box: Box, shape: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """Return count, target step and source step of a box's run and of the loops around it."""
    loops: list[tuple[int, int, int]] = []
    strides = zip(box.size, box.steps, _strides(shape), strict=True)
    for count, target_step, source_step in reversed(list(strides)):
        if count == 1:
            continue
        if loops:
            inner, step_there, step_here = loops[-1]
            if target_step == inner * step_there and source_step == inner * step_here:
                loops[-1] = (inner * count, step_there, step_here)
                continue
        loops.append((count, target_step, source_step))
    if not loops or loops[0][2] != 1 or loops[0][1] not in (0, 1):
        loops.insert(0, (1, 1, 1))  # elements apart from each other are runs of one
    if len(loops) > _LOOPS + 1:
        return None
    return loops + [(1, 0, 0)] * (_LOOPS + 1 - len(loops))


def _whole(source: ir.Value, shape: Sequence[int]) -> Box:
    return Box(source, 0, tuple(_strides(shape)), (0,) * len(shape), tuple(shape))


def _filled(source: ir.Value, start: Sequence[int], size: Sequence[int]) -> Box:
    return Box(source, 0, (0,) * len(size), tuple(start), tuple(size))


def _boxes(e: Emitter, x: ir.Value, depth: int) -> list[Box] | None:
    """Return the boxes of which a value consists; None where it is not made of copies alone."""
    shape = list(x.type.shape)
    boxes = None if in_memory(x) or not depth else _made_of(e, x, depth)
    if boxes is None and (in_memory(x) or math.prod(shape) <= _FEW):
        return [_whole(x, shape)]
    return boxes


def _made_of(e: Emitter, x: ir.Value, depth: int) -> list[Box] | None:
    """Return the boxes of an operation's result."""
    op, shape = maker(x), list(x.type.shape)
    if op is None:
        return None
    match op.name:
        case "stablehlo.constant":
            if str(x.type.element_type).startswith("complex"):
                return None
            value = ir.DenseElementsAttr(op.attributes["value"])
            if not value.is_splat:
                return None
            scalar = ir.DenseElementsAttr.get_splat(
                e.type([], x.type.element_type), value.get_splat_value()
            )
            return [_filled(e.constant(scalar), [0] * len(shape), shape)]
        case "stablehlo.concatenate":
            (d, boxes, at) = (op.attributes["dimension"].value, [], 0)
            for operand in op.operands:
                parts = _boxes(e, operand, depth - 1)
                if parts is None:
                    return None
                boxes += [_moved(b, d, at) for b in parts]
                at += operand.type.shape[d]
            return boxes
        case "stablehlo.pad":
            return _padded(e, op, depth)
        case "stablehlo.slice":
            parts = _boxes(e, op.operands[0], depth - 1)
            names = ("start_indices", "limit_indices", "strides")
            starts, limits, steps = ([int(v) for v in op.attributes[n]] for n in names)
            if parts is None or set(steps) != {1}:  # steps would leave no runs of neighbors
                return None
            return [c for b in parts if (c := _cut(b, starts, limits)) is not None]
        case "stablehlo.reverse":
            dims = list(op.attributes["dimensions"])
            parts = _boxes(e, op.operands[0], depth - 1)
            return None if parts is None else [_turned(b, dims, shape) for b in parts]
        case "stablehlo.reshape":
            # Boxes stay boxes where only dimensions of one element come or go.
            parts = _boxes(e, op.operands[0], depth - 1)
            old = list(op.operands[0].type.shape)
            if parts is None or [n for n in old if n > 1] != [n for n in shape if n > 1]:
                return None
            return [_squeezed(b, old, shape) for b in parts]
        case "stablehlo.broadcast_in_dim":
            (operand,) = op.operands
            if not operand.type.rank:
                return [_filled(operand, [0] * len(shape), shape)]
            parts = _boxes(e, operand, depth - 1)
            dims = [int(d) for d in op.attributes["broadcast_dimensions"]]
            if parts is None:
                return None
            return [_spread(b, dims, operand.type.shape, shape) for b in parts]
    return None


def _moved(box: Box, dim: int, by: int) -> Box:
    start = [s + by * (d == dim) for d, s in enumerate(box.start)]
    return replace(box, start=tuple(start))


def _cut(box: Box, starts: Sequence[int], limits: Sequence[int]) -> Box | None:
    """Return what a slice leaves of a box, from the slice's first element on."""
    low = [max(a, s) for a, s in zip(starts, box.start, strict=True)]
    ends = (s + n for s, n in zip(box.start, box.size, strict=True))
    size = [min(b, end) - a for b, end, a in zip(limits, ends, low, strict=True)]
    if min(size, default=1) <= 0:
        return None
    skipped = sum((a - s) * t for a, s, t in zip(low, box.start, box.steps, strict=True))
    start = tuple(a - b for a, b in zip(low, starts, strict=True))
    return Box(box.source, box.first + skipped, box.steps, start, tuple(size))


def _spread(box: Box, dims: Sequence[int], old: Sequence[int], new: Sequence[int]) -> Box:
    """Return a box of an array whose dimensions are `dims` of a new one, and repeated there."""
    steps, start, size = [0] * len(new), [0] * len(new), list(new)
    for k, d in enumerate(dims):
        if old[k] == new[d]:
            steps[d], start[d], size[d] = box.steps[k], box.start[k], box.size[k]
    return Box(box.source, box.first, tuple(steps), tuple(start), tuple(size))


def _turned(box: Box, dims: Sequence[int], shape: Sequence[int]) -> Box:
    """Return a box of a reversed array."""
    first, start, steps = box.first, list(box.start), list(box.steps)
    for d in dims:
        first += (box.size[d] - 1) * steps[d]
        start[d] = shape[d] - start[d] - box.size[d]
        steps[d] = -steps[d]
    return Box(box.source, first, tuple(steps), tuple(start), box.size)


def _squeezed(box: Box, old: Sequence[int], new: Sequence[int]) -> Box:
    """Return a box of an array with other dimensions of size one."""
    kept = iter([d for d, n in enumerate(old) if n > 1])
    dims = [next(kept) if n > 1 else None for n in new]
    steps = tuple(0 if d is None else box.steps[d] for d in dims)
    start = tuple(0 if d is None else box.start[d] for d in dims)
    return Box(
        box.source, box.first, steps, start, tuple(1 if d is None else box.size[d] for d in dims)
    )


def _padded(e: Emitter, op: ir.Operation, depth: int) -> list[Box] | None:
    """Return the boxes of what is padded, and those around it, dimension by dimension."""
    x, value = op.operands
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, interior = ([int(v) for v in op.attributes[n]] for n in names)
    boxes = _boxes(e, x, depth - 1)
    if boxes is None or min((*low, *high), default=0) < 0 or any(interior):
        return None
    for d, by in enumerate(low):
        boxes = [_moved(b, d, by) for b in boxes]
    shape, inside = list(op.results[0].type.shape), list(x.type.shape)
    for d in range(len(shape)):
        # In front of this dimension the inside alone, behind it everything.
        for at, count in ((0, low[d]), (low[d] + inside[d], high[d])):
            start = [*low[:d], at, *[0] * (len(shape) - d - 1)]
            if count:
                boxes.append(_filled(value, start, [*inside[:d], count, *shape[d + 1 :]]))
    return boxes
