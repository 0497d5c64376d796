# Tests: tests/partition/test_localize.py
"""Operations that read a window of a dimension: slice, pad, concatenate, reverse, reduce_window.

Along a split dimension each device fetches the global indices that its share of the result needs
with `window` (halo exchange), and then runs the operation locally.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue, fill_padding, index_mask, mask
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.factored import combiner_kind
from weft.partition.plan import Planner
from weft.partition.walk import maker, only_user
from weft.partition.window import cut, window


def starts(layout: AxisLayout, dim: int, scale: int = 1, shift: int = 0) -> np.ndarray:
    """`scale * (first result index of each coordinate) + shift`."""
    return np.arange(layout.counts[dim]) * layout.local[dim] * scale + shift


def listed(op: ir.Operation, name: str, rank: int, default: int = 1) -> list[int]:
    """Return an attribute with a number for each dimension, which may be absent."""
    return list(op.attributes[name]) if name in op.attributes else [default] * rank


def padding_of(op: ir.Operation, rank: int) -> list[list[int]]:
    """Return the low and high padding of each dimension."""
    if "padding" not in op.attributes:
        return [[0, 0] for _ in range(rank)]
    return np.array(op.attributes["padding"]).reshape(rank, 2).tolist()


@rule("stablehlo.slice")
def slice_(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    out = lz.layouts(op)[0]
    user = only_user(op.results[0])
    if user is not None and rotation(lz, user):
        return lz.replace(op, LocalValue(op.results[0], out))  # the concatenation reads the operand
    shape = lz.operand(op, 0).layout.shape

    def fit(layout: AxisLayout) -> AxisLayout:
        return _without_empty_shards(layout, shape)

    def exchange(e: Emitter, index: int, x: LocalValue, layout: AxisLayout) -> None:
        _slice_operand(e, op, x, layout)

    planner = Planner(lz, op, out, [0], fit=fit, exchange=exchange)
    [x], way = planner.moved()
    now = way.out
    value, bounds = _slice_operand(lz.e, op, x, now)
    for name, amounts in bounds.items():
        op.attributes[name] = lz.e.i64s(amounts)
    [got] = lz.keep(op, [value], [now])
    return [planner.deliver(got, out)]


def _slice_operand(
    e: Emitter, op: ir.Operation, x: LocalValue, out: AxisLayout
) -> tuple[ir.Value, dict[str, list[int]]]:
    """Return the part of the operand that a device needs for its share of a slice."""
    layout, value = x.layout, x.value
    shape, local_shape = layout.shape, list(layout.local)
    names = ("start_indices", "limit_indices", "strides")
    begin, limit, stride = (list(op.attributes[name]) for name in names)
    for d in range(len(shape)):  # cut what is whole on the device first: windows then move less
        if not layout.dims[d]:
            value = e.slice(value, d, begin[d], limit[d], stride[d])
            local_shape[d] = value.type.shape[d]
            layout = HeldWindow(layout, d, local_shape[d])
            begin[d], limit[d], stride[d] = 0, local_shape[d], 1
    for d in range(len(shape)):
        if not layout.dims[d]:
            continue
        if begin[d] == 0 and limit[d] == shape[d] and stride[d] == 1:
            limit[d] = local_shape[d]
            continue
        size = (out.local[d] - 1) * stride[d] + 1
        first = starts(out, d, stride[d], begin[d])
        ends = begin[d] + (out.shape[d] - 1) * stride[d] + 1
        value = window(
            e, LocalValue(value, layout), d, first, size, exact=False, ends=[ends] * len(first)
        )
        local_shape[d] = begin[d] = 0
        limit[d] = size
        layout = HeldWindow(layout, d, size)
    return value, dict(zip(names, (begin, limit, stride), strict=True))


def _without_empty_shards(layout: AxisLayout, source: Sequence[int]) -> AxisLayout:
    """Return the layout without the splits of dimensions that are empty, here or in the operand."""
    sizes = enumerate(zip(layout.shape, source, strict=True))
    return layout.without(*(d for d, both in sizes if 0 in both))


class HeldWindow(AxisLayout):
    """A layout whose dimension `dim` is held as a window of `size` elements."""

    def __init__(self, base: AxisLayout, dim: int, size: int):
        super().__init__(base.mesh, base.shape, base.dims)
        self.__dict__["local"] = (*base.local[:dim], size, *base.local[dim + 1 :])


@rule("stablehlo.pad")
def pad(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    out = lz.layouts(op)[0]
    fill = lz.operand(op, 1).value
    shape = lz.operand(op, 0).layout.shape
    amounts = [list(op.attributes[name]) for name in _PAD_AMOUNTS]

    def fit(layout: AxisLayout) -> AxisLayout:
        return _without_empty_shards(layout, shape)

    def fit_alike(layout: AxisLayout) -> AxisLayout:
        """Leave dimensions whole where the shares of the devices would begin differently."""
        pairs = enumerate(amounts[2])
        return fit(layout.without(*(d for d, more in pairs if layout.local[d] % (more + 1))))

    def exchange(e: Emitter, index: int, x: LocalValue, layout: AxisLayout) -> None:
        _pad_operand(e, x, layout, fill, *amounts)

    def lead(index: int, layout: AxisLayout) -> AxisLayout:
        return layout.of_shape(out.shape)

    planner = Planner(lz, op, out, [0], fit=fit_alike, lead=lead, exchange=exchange)
    if fit_alike(out) != fit(out):
        split = Planner(lz, op, out, [0], fit=fit, lead=lead, exchange=exchange)
        # What is whole now is not gathered behind this, so that it has to save as much again.
        if 2 * split.cost(split.best()) < planner.cost(planner.best()):
            planner = split
    [x], way = planner.moved()
    now = way.out
    value, left, cuts = _pad_operand(lz.e, x, now, fill, *amounts)
    for name, numbers in zip(_PAD_AMOUNTS, left, strict=True):
        op.attributes[name] = lz.e.i64s(numbers)
    padded = now
    for d, _ in cuts:
        padded = HeldWindow(padded, d, now.local[d] + amounts[2][d])
    [got] = lz.keep(op, [value, fill], [padded])
    value = got.value
    for d, offsets in cuts:
        value = cut(lz.e, value, d, now.dims[d], offsets, now.local[d])
    return [planner.deliver(LocalValue(value, now), out)]


_PAD_AMOUNTS = ("edge_padding_low", "edge_padding_high", "interior_padding")


def _pad_operand(
    e: Emitter,
    x: LocalValue,
    out: AxisLayout,
    fill: ir.Value,
    low: list[int],
    high: list[int],
    interior: list[int],
) -> tuple[ir.Value, tuple[list[int], list[int], list[int]], list[tuple[int, np.ndarray]]]:
    """Return the part of the operand, and the padding, for a device's share of a pad.

    Returns:
      Also the dimensions in which each device's share begins at another place of what the padding
      gives, with these places by coordinate.
    """
    layout, value = x.layout, x.value
    low, high, cuts = list(low), list(high), []
    for d in range(len(layout.shape)):
        if not layout.dims[d] or not (low[d] or high[d] or interior[d]):
            continue
        step, local = interior[d] + 1, out.local[d]
        # Result index p holds operand index (p - low) / step.
        begin = starts(out, d) - low[d]
        first = -(-begin // step)
        lead = first * step - begin
        count = np.maximum(-(-(local - lead) // step), 0)
        size = max(int(count.max()), 1)
        value = window(e, LocalValue(value, layout), d, first, size, fill, ends=first + count)
        alike = bool((lead == lead[0]).all())
        low[d] = int(lead[0]) if alike else step - 1
        if not alike:
            cuts.append((d, step - 1 - lead))
            local += step - 1
        high[d] = local - low[d] - ((size - 1) * step + 1)
        layout = HeldWindow(layout, d, size)
    return value, (low, high, interior), cuts


@rule("stablehlo.concatenate")
def concatenate(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    e = lz.e
    out = lz.layouts(op)[0]
    dim = op.attributes["dimension"].value
    turned = rotation(lz, op)
    if turned is not None:
        source, shift = turned
        x = lz.complete(source)
        return lz.replace(op, LocalValue(rotate(e, x, dim, shift), out))
    shapes = [x.layout.shape for x in lz.operands(op)]
    some = [i for i, shape in enumerate(shapes) if shape[dim]]
    offsets = [sum(shape[dim] for shape in shapes[:i]) for i in range(len(shapes))]

    def part(e: Emitter, index: int, x: LocalValue, layout: AxisLayout) -> ir.Value:
        """Return the window of an operand for the device's share of the result, with its halo."""
        if not layout.dims[dim] or len(some) < 2:
            return x.value
        # The operand's indices of the device's share, which may begin or end outside the operand.
        first = starts(layout, dim) - offsets[index]
        return window(e, x, dim, first, layout.local[dim], exact=False)

    planner = Planner(lz, op, out, some, exchange=part)
    xs, way = planner.moved()
    now = way.out
    parts = [part(e, i, x, now) for i, x in zip(some, xs, strict=True)]
    if now.dims[dim] and len(parts) > 1:
        # Windows reach over operands' ends: select by index which operand each element is of.
        shard_starts = e.first_index(now, dim)
        value = parts[0]
        for i, piece in zip(some[1:], parts[1:], strict=True):
            keep = index_mask(e, shard_starts, now.local[dim], None, offsets[i])
            value = e.select(e.broadcast(keep, piece.type.shape, (dim,)), value, piece)
    elif len(some) == len(op.operands):
        [got] = lz.keep(op, parts, [now])
        return [planner.deliver(got, out)]
    else:
        value = e.concatenate(parts, dim)
    return lz.replace(op, planner.deliver(LocalValue(value, now), out))


def rotation(lz: Localizer, op: ir.Operation) -> tuple[ir.Value, int] | None:
    """(value, shift) where `op` joins two slices of one value to its rotation along a split dim.

    Element i of the result is element (i + shift) % size of the value, which must already have the
    result's layout.
    """
    if op.name != "stablehlo.concatenate" or len(op.operands) != 2:
        return None
    tail, head = map(maker, op.operands)
    if tail is None or head is None or {tail.name, head.name} != {"stablehlo.slice"}:
        return None
    source = tail.operands[0]
    if source != head.operands[0] or any(only_user(v) is None for v in op.operands):
        return None
    out = lz.layouts(op)[0]
    dim = op.attributes["dimension"].value
    source_value = lz.values.get(source)
    if source_value is None or source_value.layout != out or not out.dims[dim]:
        return None
    if out.padded(dim):
        return None
    shift = list(tail.attributes["start_indices"])[dim]
    for piece, low, high in ((tail, shift, out.shape[dim]), (head, 0, shift)):
        begin, limit = [0] * len(out.shape), list(out.shape)
        begin[dim], limit[dim] = low, high
        bounds = {"start_indices": begin, "limit_indices": limit, "strides": [1] * len(begin)}
        if any(list(piece.attributes[name]) != want for name, want in bounds.items()):
            return None
    return source, shift


def rotate(e: Emitter, x: LocalValue, dim: int, shift: int) -> ir.Value:
    """Element (i + shift) % size at i: at most two permutes, of what crosses shards only."""
    layout = x.layout
    shard, count = layout.local[dim], layout.counts[dim]
    places, within = divmod(shift, shard)
    parts = []
    for distance, low, high in ((places, within, shard), (places + 1, 0, within)):
        if low == high:
            continue
        part = e.slice(x.value, dim, low, high)
        sources = (np.arange(count) + distance) % count
        if distance % count:
            part = e.permute(part, layout.mesh.pairs(layout.dims[dim], sources))
        parts.append(part)
    return e.concatenate(parts, dim)


@rule("stablehlo.reverse")
def reverse(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    out = lz.layouts(op)[0]

    def exchange(e: Emitter, index: int, x: LocalValue, layout: AxisLayout) -> ir.Value:
        value = x.value
        for d in op.attributes["dimensions"]:
            if layout.dims[d]:
                first = layout.shape[d] - starts(layout, d) - layout.local[d]
                value = window(e, LocalValue(value, layout), d, first, layout.local[d], exact=False)
        return value

    planner = Planner(lz, op, out, [0], exchange=exchange)
    [x], way = planner.moved()
    now = way.out
    [got] = lz.keep(op, [exchange(lz.e, 0, x, now)], [now])
    return [planner.deliver(got, out)]


@rule("stablehlo.reduce_window")
def reduce_window(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    e = lz.e
    outs = lz.layouts(op)
    count = len(op.operands) // 2
    inits = [lz.operand(op, i).value for i in range(count, 2 * count)]
    shape = lz.operand(op, 0).layout.shape
    rank = len(shape)
    size = list(op.attributes["window_dimensions"])
    names = ("window_strides", "base_dilations", "window_dilations")
    stride, base, dilation = (listed(op, name, rank) for name in names)
    padding = padding_of(op, rank)
    trivial = [size[d] == stride[d] == base[d] == 1 and padding[d] == [0, 0] for d in range(rank)]

    # A shard must begin at an element of the dilated operand, not in a gap between two.
    def fit(out: AxisLayout) -> AxisLayout:
        drop = [d for d in range(rank) if not trivial[d] and out.local[d] * stride[d] % base[d]]
        return _without_empty_shards(out.without(*drop), shape)

    def scan_of(out: AxisLayout) -> int | None:
        layout, window_attributes = out.of_shape(shape), (size, stride, base, dilation, padding)
        return _cumulative_dim(op, layout, *window_attributes, trivial) if count == 1 else None

    def exchange(e: Emitter, index: int, x: LocalValue, out: AxisLayout) -> list[list[int]]:
        """Fetch the operand's windows into `x`; return the padding that the op still needs."""
        left = [list(p) for p in padding]
        scan = scan_of(out)
        if scan is not None:
            # What `_scan_shards` sends: one slice of totals from each shard.
            e.all_gather(e.slice(x.value, scan, 0, 1), out.dims[scan], scan)
            return left
        windowed = x.layout
        for d in range(rank):
            if trivial[d] or not out.dims[d]:
                continue
            extent = (size[d] - 1) * dilation[d] + 1
            first, length, *left[d] = window_of(out, d, stride[d], base[d], extent, padding[d][0])
            x.value = window(e, LocalValue(x.value, windowed), d, first, length, inits[index])
            windowed = HeldWindow(windowed, d, length)
        return left

    # Several operands share their windows; the planner weighs the moves of one operand only.
    if count == 1:
        planner = Planner(lz, op, outs[0], [0], fit=fit, exchange=exchange)
        xs, way = planner.moved()
        now = way.out
        scan = scan_of(now)
        if scan is not None:
            got = _scan_shards(lz, op, xs[0], inits[0], scan, reverse=padding[scan][0] == 0)
            return [planner.deliver(got, outs[0])]
    else:
        now = fit(outs[0])
        xs = [lz.move(lz.operand(op, i), now.of_shape(shape)) for i in range(count)]
    xs = [LocalValue(x.value, x.layout) for x in xs]
    for index, x in enumerate(xs):
        left = exchange(e, index, x, now)
    op.attributes["padding"] = e.table(np.array(left).reshape(rank, 2))
    values = [x.value for x in xs]
    kept = lz.keep(op, values + inits, [now.of_shape(o.shape) for o in outs])
    if count == 1:
        return [planner.deliver(kept[0], outs[0])]
    return [lz.move(x, o) for x, o in zip(kept, outs, strict=True)]


def window_of(
    out: AxisLayout, d: int, stride: int, base: int, extent: int, low: int
) -> tuple[np.ndarray, int, int, int]:
    """Return the operand window for each device's share of a windowed result dimension.

    Returns first operand index a coordinate, window length, and the padding that the local
    operation still needs (only where the base is dilated).
    """
    first = starts(out, d, stride, -low)  # in the dilated, unpadded operand
    length = (out.local[d] - 1) * stride + extent
    if base == 1:
        return first, length, 0, 0
    lead = int(-first[0]) % base
    elements = max(-(-(length - lead) // base), 1)
    tail = length - lead - ((elements - 1) * base + 1)
    return -(-first // base), elements, lead, tail


def _cumulative_dim(op, layout, size, stride, base, dilation, padding, trivial) -> int | None:
    """Return the one split dimension along which this is a cumulative sum, product, max or min."""
    split = [d for d in range(len(size)) if not trivial[d]]
    if len(split) != 1 or not combiner_kind(op.regions[0]):
        return None
    d = split[0]
    n = layout.shape[d]
    whole = stride[d] == base[d] == dilation[d] == 1 and size[d] == n
    cumulates = whole and padding[d] in ([n - 1, 0], [0, n - 1])
    return d if layout.dims[d] and n >= 2 and cumulates else None


def _scan_shards(
    lz: Localizer, op, x: LocalValue, init: ir.Value, d: int, reverse: bool
) -> LocalValue:
    """Cumulative reduction: local scan, then the totals of the shards before are added."""
    e, layout = lz.e, x.layout
    x = fill_padding(e, x, [d], init)
    shard, atoms = layout.local[d], layout.dims[d]
    rank = len(layout.shape)
    sizes, padding = [1] * rank, [[0, 0]] * rank
    sizes[d] = shard
    padding[d] = [0, shard - 1] if reverse else [shard - 1, 0]
    op.attributes["window_dimensions"] = e.i64s(sizes)
    op.attributes["padding"] = e.table(np.array(padding))
    [local] = lz.keep(op, [x.value, init], [layout])
    edge = e.slice(local.value, d, 0, 1) if reverse else e.slice(local.value, d, shard - 1, shard)
    totals = e.all_gather(edge, atoms, d)
    n = layout.counts[d]
    coordinate = e.broadcast(e.coordinate(atoms), (n,))
    keep = e.compare(e.iota((n,), 0), coordinate, "GT" if reverse else "LT")
    totals = mask(e, totals, d, keep, init)
    body = op.regions[0].blocks[0].operations[0].operation.name
    before = e.reduce(totals, init, d, body)
    before = e.broadcast(before, layout.local, [i for i in range(rank) if i != d])
    return LocalValue(e.binary(body.removeprefix("stablehlo."), local.value, before), layout)
