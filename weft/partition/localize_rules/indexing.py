# Tests: tests/partition/test_localize.py
"""Operations with run-time indices: dynamic_slice, dynamic_update_slice, gather, scatter."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout, free_of
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.factored import combiner_kind
from weft.partition.plan import chain_of, common_moves, deliver, imagined, share
from weft.partition.reshard import add_up, relayout, relayout_cost
from weft.partition.traffic_estimate import Tally, latency


def _wide_enough(lz: Localizer, index: ir.Value) -> ir.Value:
    """Return indices as i32, or i64 where they are wider: room for the device's offset."""
    element = index.type.element_type
    if element.width > 32 or (element.width == 32 and element.is_unsigned):
        return lz.e.convert(index, lz.e.i64)
    return lz.e.convert(index, lz.e.i32)


def _starts(lz: Localizer, indices: Sequence[LocalValue]) -> list[ir.Value]:
    """Return the indices of a slice in one type that is wide enough."""
    starts = [_wide_enough(lz, i.value) for i in indices]
    widest = max((s.type.element_type for s in starts), key=lambda t: t.width, default=lz.e.i32)
    return [lz.e.convert(s, widest) for s in starts]


def _all_of(e: Emitter, conditions: Sequence[ir.Value]) -> ir.Value:
    return functools.reduce(lambda a, b: e.binary("and", a, b), conditions)


@rule("stablehlo.dynamic_slice")
def dynamic_slice(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Whole dimensions follow the result; rows of a split one come by a sum over its devices."""
    e = lz.e
    out = lz.layouts(op)[0]
    x, *indices = lz.operands(op)
    shape, sizes = x.layout.shape, list(op.attributes["slice_sizes"])
    cut = [d for d in range(len(shape)) if sizes[d] != shape[d]]
    chain = common_moves(lz, op)
    end = chain[-1] if chain else out
    plan = _slice_plan(lz, op, x, out.without(*cut), cut, end)
    layout, rows = plan.operand, [d for d in cut if plan.operand.dims[d]]
    source = LocalValue(plan.source.value, plan.source.layout, remake=plan.source.remake)
    value = relayout(e, source, layout).value
    starts = _starts(lz, indices) if rows else [i.value for i in indices]
    local_sizes = [sizes[d] if d in cut else layout.local[d] for d in range(len(shape))]
    if not rows:
        op.attributes["slice_sizes"] = e.i64s(local_sizes)
        [got] = lz.keep(op, [value, *starts], [plan.now])
        return [deliver(lz, got, out, chain)]
    inside = []
    for d in rows:
        element, local = starts[d].type.element_type, layout.local[d]
        begin = e.clamp(0, starts[d], shape[d] - sizes[d])
        starts[d] = e.sub(begin, e.convert(e.first_index(layout, d), element))
        if sizes[d] == 1:
            bounds = (e.const(n, element) for n in (0, local))
            inside.append(e.within(starts[d], *bounds))
        else:
            # Zeros on both sides stand for the rows that others own.
            value = fill_padding(e, LocalValue(value, layout), [d]).value
            value = e.pad(value, d, sizes[d], sizes[d])
            starts[d] = e.add(starts[d], e.const(sizes[d], element))
            starts[d] = e.clamp(0, starts[d], local + sizes[d])
    value = e.slice_at(value, starts, local_sizes)
    if inside:
        zero = e.splat(0, local_sizes, value.type.element_type)
        value = e.select(e.broadcast(_all_of(e, inside), local_sizes), value, zero)
    # Only a row's owner has other values than zeros: a sum spreads the rows.
    kind = "or" if value.type.element_type == e.i1 else "add"
    across = tuple(a for d in rows for a in layout.dims[d])
    got = add_up(e, LocalValue(value, plan.now, (across, kind)), end)
    return lz.replace(op, deliver(lz, got, out, chain))


@dataclass(slots=True)
class _Slice:
    """The value that a slice reads, and the layouts in which it reads and gives."""

    source: LocalValue
    operand: AxisLayout
    now: AxisLayout


def _slice_plan(
    lz: Localizer,
    op: ir.Operation,
    x: LocalValue,
    now: AxisLayout,
    cut: Sequence[int],
    end: AxisLayout,
) -> _Slice:
    """Choose between a slice of dimensions that are whole where it cuts, and one of the shards.

    Propagation gathers what is cut, or splits another dimension. A slice of the shards, which a sum
    over the devices completes, sends a few rows instead; but once for each step of a loop.
    """
    e, sizes = lz.e, list(op.attributes["slice_sizes"])
    pays = share(lz, op, op.operands[0])
    whole = now.of_shape(x.layout.shape).without(*cut)
    step = latency(whole, op.results[0].type.element_type)
    moved = pays.cost(e, x, whole)
    best = _Slice(x, whole, now)
    least = moved + step * pays.part * (moved > 0)
    least += relayout_cost(e, imagined(lz, op.results[0], now), end)
    for source in filter(None, (x.before, x)):
        split = [d for d in cut if 2 * sizes[d] <= whole.shape[d]]
        across = tuple(a for d in split for a in source.layout.dims[d])
        if not across:
            continue
        given_up = AxisLayout(lz.mesh, now.shape, tuple(free_of(a, across) for a in now.dims))
        layout = given_up.of_shape(whole.shape).without(*cut)
        for d in split:
            layout = layout.with_dim(d, source.layout.dims[d])
        tally = Tally(e)
        got = imagined(lz, op.results[0], given_up)
        got.partial = (across, "add")
        got = add_up(tally, got, end)
        cost = tally.cost + step + relayout_cost(e, source, layout) * pays.part
        cost += relayout_cost(e, got, end)
        if cost < least:
            best, least = _Slice(source, layout, given_up), cost
    return best


@rule("stablehlo.dynamic_update_slice")
def dynamic_update_slice(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Along a split dimension every device writes the part of the update that it owns."""
    e = lz.e
    out = lz.layouts(op)[0]
    x, update, *indices = lz.operands(op)
    shape = x.layout.shape
    sizes = update.layout.shape
    whole = [sizes[d] == shape[d] for d in range(len(shape))]
    x = lz.move(x, out)
    part = AxisLayout(lz.mesh, sizes, tuple(a if whole[d] else () for d, a in enumerate(out.dims)))
    value, new = x.value, lz.at(update, part)
    starts = _starts(lz, indices)
    straddling, inside = [], []
    for d in range(len(shape)):
        if whole[d]:
            starts[d] = e.const(0, starts[d].type.element_type)
        elif out.dims[d]:
            widest = starts[d].type.element_type
            begin = e.clamp(0, starts[d], shape[d] - sizes[d])
            local = e.sub(begin, e.convert(e.first_index(out, d), widest))
            if sizes[d] == 1:
                bounds = (e.const(n, widest) for n in (0, out.local[d]))
                inside.append(e.within(local, *bounds))
                starts[d] = e.clamp(0, local, out.local[d] - 1)
            else:
                # An update over several shards: room on both sides takes the rows that others own.
                value = e.pad(value, d, sizes[d], sizes[d])
                starts[d] = e.clamp(
                    0, e.add(local, e.const(sizes[d], widest)), out.local[d] + sizes[d]
                )
                straddling.append(d)
    if inside:
        # Devices that do not own the row write what is there already.
        shape_now = list(new.type.shape)
        current = e.slice_at(value, starts, shape_now)
        new = e.select(e.broadcast(_all_of(e, inside), shape_now), new, current)
    got = e.make("stablehlo.dynamic_update_slice", (value, new, *starts), value.type)
    for d in straddling:
        got = e.slice(got, d, sizes[d], sizes[d] + out.local[d])
    return lz.replace(op, LocalValue(got, out))


@rule("stablehlo.gather")
def gather(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Split indexed dimensions: each device looks up its own rows, the rest is zero, then a sum."""
    e = lz.e
    out = lz.layouts(op)[0]
    x, indices = lz.operands(op)
    d = stablehlo.gather_dimensions(op.attributes["dimension_numbers"])
    sizes = list(op.attributes["slice_sizes"])
    shape = x.layout.shape
    batch_out = [i for i in range(len(out.shape)) if i not in d.offset_dims]
    plan, end = _gather_plan(x.layout, indices.layout, d, sizes, out), None
    # Where moves behind split the result further, looking up fewer rows may send less.
    chain = chain_of(lz, op)
    if chain:
        source = indices.before or indices
        wide = _split_further(x.layout, source.layout, d, plan, batch_out)
        other = _gather_plan(x.layout, source.layout, d, sizes, wide)
        sent = _gather_cost(lz, op, x, indices, plan, chain)
        if indices.before is not None and op.operands[1] not in lz.shared:
            sent += relayout_cost(e, indices.before, indices.layout)
        if _gather_cost(lz, op, x, source, other, chain) < sent:
            plan, end, indices = other, chain[-1], source
    now, masked = plan.now, plan.masked
    x = lz.move(x, plan.operand)
    source = LocalValue(indices.value, indices.layout, remake=indices.remake)
    index = relayout(e, source, plan.index).value
    local_sizes = [
        x.layout.local[i] if sizes[i] == shape[i] or i in d.operand_batching_dims else sizes[i]
        for i in range(len(shape))
    ]
    for i in d.operand_batching_dims:
        local_sizes[i] = 1
    op.attributes["slice_sizes"] = e.i64s(local_sizes)
    # Every device has all the rows that its indices name.
    if not masked:
        [got] = lz.keep(op, [x.value, index], [now])
        return [deliver(lz, got, out, chain) if end is None else got]
    index = _wide_enough(lz, index)
    element = index.type.element_type
    # Indices are clamped as in the whole array first, then counted from the shard's start.
    offsets = [e.const(0, element)] * len(d.start_index_map)
    limits = [0] * len(d.start_index_map)
    for at, i in enumerate(d.start_index_map):
        limits[at] = shape[i] - sizes[i]
        if i in masked:
            offsets[at] = e.convert(e.first_index(x.layout, i), element)
    limit, offset = _along_index_vector(lz, index, d.index_vector_dim, limits, offsets)
    zeros = e.splat(0, index.type.shape, element)
    index = e.sub(e.make("stablehlo.clamp", (zeros, index, limit), index.type), offset)
    # Rows of other shards are outside here: zeros, which the sum over devices fills in.
    extent = [x.layout.local[i] if i in masked else shape[i] + 1 for i in d.start_index_map]
    bound, _ = _along_index_vector(lz, index, d.index_vector_dim, extent, offsets)
    inside = e.within(index, zeros, bound)
    if d.index_vector_dim < len(index.type.shape):
        inside = e.reduce(inside, e.const(1, e.i1), d.index_vector_dim, "stablehlo.and")
    [got] = lz.keep(op, [x.value, index], [now])
    inside = e.broadcast(inside, now.local, batch_out)
    value = e.select(inside, got.value, e.splat(0, now.local, got.value.type.element_type))
    kind = "or" if value.type.element_type == e.i1 else "add"
    got = LocalValue(value, now, (plan.across, kind))
    if end is not None:
        return [add_up(e, got, end)]
    if now.dims == out.dims:
        return [got]
    return [lz.move(LocalValue(e.all_reduce(value, plan.across, kind), now), out)]


@dataclass(slots=True)
class _Gather:
    """Layouts of a gather's operand, indices and result, the dimensions of the operand that are
    looked up in parts, and the axes to sum the result over."""

    operand: AxisLayout
    index: AxisLayout
    now: AxisLayout
    masked: list[int]
    across: Atoms


def _gather_plan(
    x: AxisLayout,
    indices: AxisLayout,
    d: stablehlo.GatherDimensions,
    sizes: list[int],
    out: AxisLayout,
) -> _Gather:
    """Return how a gather runs whose result is to have the layout `out`, as far as it can."""
    shape = x.shape
    batch_out = [i for i in range(len(out.shape)) if i not in d.offset_dims]
    batch_in = [i for i in range(len(indices.shape)) if i != d.index_vector_dim]
    index_dims: list[Atoms] = [()] * len(indices.shape)
    for i, o in zip(batch_in, batch_out, strict=True):
        index_dims[i] = out.dims[o]
    dims: list[Atoms] = [()] * len(shape)
    for i, j in zip(d.operand_batching_dims, d.indices_batching_dims, strict=True):
        dims[i] = index_dims[j]
    window = [
        i for i in range(len(shape)) if i not in (*d.collapsed_slice_dims, *d.operand_batching_dims)
    ]
    now = out
    for i, o in zip(window, d.offset_dims, strict=True):
        if sizes[i] == shape[i]:
            dims[i] = out.dims[o]
        else:
            now = now.without(o)
    taken = set(now.used)
    masked: list[int] = []
    across: Atoms = ()
    for i in d.start_index_map:
        if sizes[i] == 1 and shape[i] > 1:
            free = free_of(x.dims[i], taken)
            if free:
                dims[i] = free
                taken.update(free)
                across += free
                masked.append(i)
    mesh = x.mesh
    operand = AxisLayout(mesh, shape, tuple(dims))
    return _Gather(operand, AxisLayout(mesh, indices.shape, tuple(index_dims)), now, masked, across)


def _split_further(
    x: AxisLayout,
    indices: AxisLayout,
    d: stablehlo.GatherDimensions,
    plan: _Gather,
    batch_out: list[int],
) -> AxisLayout:
    """Return the plan's result, split as the indices along axes that divide nothing of it."""
    batch_in = [i for i in range(len(indices.shape)) if i != d.index_vector_dim]
    taken = {*plan.now.used, *plan.operand.used, *x.used}
    wide = plan.now
    for i, o in zip(batch_in, batch_out, strict=True):
        more = tuple(a for a in indices.dims[i] if a not in taken)
        wide = wide.with_dim(o, wide.dims[o] + more)
        taken.update(more)
    return wide


def _gather_cost(
    lz: Localizer,
    op: ir.Operation,
    x: LocalValue,
    indices: LocalValue,
    plan: _Gather,
    chain: list[AxisLayout],
) -> int:
    """Return bytes that operands send, and the result on its way to the end of the chain."""
    sent = relayout_cost(lz.e, x, plan.operand) + relayout_cost(lz.e, indices, plan.index)
    tally = Tally(lz.e)
    got = imagined(lz, op.results[0], plan.now)
    if plan.across:
        got.partial = (plan.across, "add")
        got = add_up(tally, got, chain[0])
    return sent + tally.cost + relayout_cost(lz.e, got, chain[-1], chain[:-1])


def _along_index_vector(lz: Localizer, index, dim: int, numbers: list[int], offsets: list):
    """Per-component constants and scalars, broadcast to the shape of the indices."""
    e = lz.e
    shape = list(index.type.shape)
    element = index.type.element_type
    if dim == len(shape):
        return e.splat(numbers[0], shape, element), e.broadcast(offsets[0], shape)
    limit = e.convert(e.array(np.array(numbers)), element)
    joined = e.concatenate([e.reshape(o, (1,)) for o in offsets], 0)
    return e.broadcast(limit, shape, (dim,)), e.broadcast(joined, shape, (dim,))


@dataclass(slots=True)
class _Scatter:
    """Layouts while every device scatters, and the axes over which results are partial."""

    now: AxisLayout
    updates: AxisLayout
    index: AxisLayout
    across: Atoms
    split: list[int]  # indexed dimensions of which every device has some rows
    padded: list[int]  # dimensions of the indices that are padded


def _scatter_plan(
    lz: Localizer,
    d: stablehlo.ScatterDimensions,
    out: AxisLayout,
    indices: AxisLayout,
    updates: AxisLayout,
    partial: bool,
) -> _Scatter:
    """`partial`: whether devices may apply some updates each and combine the results."""
    shape = out.shape
    batch_up = [i for i in range(len(updates.shape)) if i not in d.update_window_dims]
    batch_in = [i for i in range(len(indices.shape)) if i != d.index_vector_dim]
    window = [
        i for i in range(len(shape)) if i not in (*d.inserted_window_dims, *d.operand_batching_dims)
    ]
    dims: list[Atoms] = list(out.dims)
    up: list[Atoms] = [()] * len(updates.shape)
    for i, u in zip(window, d.update_window_dims, strict=True):
        if updates.shape[u] == shape[i] and i not in d.scatter_dims_to_operand_dims:
            up[u] = dims[i]
        elif updates.shape[u] == shape[i]:
            # The whole dimension at a run-time index is kept or dropped as one.
            up[u] = dims[i] = ()
        elif updates.shape[u] != 1 or i not in d.scatter_dims_to_operand_dims:
            dims[i] = ()
    now = AxisLayout(lz.mesh, shape, tuple(dims))
    index_dims: list[Atoms] = [()] * len(indices.shape)
    batching = dict(zip(d.indices_batching_dims, d.operand_batching_dims, strict=True))
    taken = set(now.used)
    across: Atoms = ()
    for i, u in zip(batch_in, batch_up, strict=True):
        if i in batching:
            up[u] = index_dims[i] = now.dims[batching[i]]
            continue
        # Devices may apply different updates where partial results can be combined.
        free = free_of(updates.dims[u] or indices.dims[i], taken)
        if free and partial:
            up[u] = index_dims[i] = free
            taken.update(free)
            across += free
    index = AxisLayout(lz.mesh, indices.shape, tuple(index_dims))
    return _Scatter(
        now=now,
        updates=AxisLayout(lz.mesh, updates.shape, tuple(up)),
        index=index,
        across=across,
        split=[i for i in d.scatter_dims_to_operand_dims if now.dims[i]],
        padded=[i for i in batch_in if index.padded(i)],
    )


def _own_indices(
    lz: Localizer, d: stablehlo.ScatterDimensions, plan: _Scatter, index: ir.Value
) -> ir.Value:
    """Count indices from the device's first row; padded ones and other devices' are outside.

    A scatter skips what is out of bounds.
    """
    if not plan.split and not plan.padded:
        return index
    e = lz.e
    index = _wide_enough(lz, index)
    element = index.type.element_type
    if plan.split:
        offsets = [
            e.convert(e.first_index(plan.now, i), element)
            if i in plan.split
            else e.const(0, element)
            for i in d.scatter_dims_to_operand_dims
        ]
        zeros = [0] * len(offsets)
        _, offset = _along_index_vector(lz, index, d.index_vector_dim, zeros, offsets)
        index = e.sub(index, offset)
    outside = e.const(-1, element)
    return fill_padding(e, LocalValue(index, plan.index), plan.padded, outside).value


@rule("stablehlo.scatter")
def scatter(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Apply the updates that fall on each device's rows; split updates give partial sums."""
    e = lz.e
    outs = lz.layouts(op)
    count = (len(op.operands) - 1) // 2
    inputs = [lz.operand(op, i) for i in range(count)]
    indices = lz.operand(op, count)
    updates = [lz.operand(op, count + 1 + i) for i in range(count)]
    d = stablehlo.scatter_dimensions(op.attributes["scatter_dimension_numbers"])
    kind = combiner_kind(op.regions[0]) if count == 1 else None
    plan = _scatter_plan(lz, d, outs[0], indices.layout, updates[0].layout, kind is not None)
    now, across = plan.now, plan.across
    values = [lz.move(x, now).value for x in inputs]
    us = [lz.at(u, plan.updates) for u in updates]
    index = _own_indices(lz, d, plan, lz.at(indices, plan.index))
    if across and kind in ("add", "multiply"):
        # One device of each group starts from the operand, the others from the neutral element.
        first = e.compare(e.coordinate(across), e.const(0), "EQ")
        element = values[0].type.element_type
        neutral = e.splat(1 if kind == "multiply" else 0, now.local, element)
        values = [e.select(e.broadcast(first, now.local), values[0], neutral)]
    if plan.split:
        # XLA writes the scatter of one row as a dynamic_slice that reads what was there, and joins
        # that to a dynamic_slice before it: quirks.NESTED_SLICES.
        values = [e.make("stablehlo.optimization_barrier", (v,), v.type) for v in values]
    got = lz.keep(op, [*values, index, *us], [now.of_shape(o.shape) for o in outs])
    if across:
        assert kind is not None  # without one nothing is summed
        got[0].partial = (across, kind)
        if now.dims != outs[0].dims:
            got = [LocalValue(e.all_reduce(got[0].value, across, kind), now)]
    return [x if x.partial else lz.move(x, o) for x, o in zip(got, outs, strict=True)]
