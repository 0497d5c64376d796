"""Moves local values between layouts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout
from weft.partition.collect import byte_size_of
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue, fill_padding
from weft.partition.relayout_search import cheapest
from weft.partition.traffic_estimate import Tally, latency
from weft.partition.window import window


def relayout(
    e: Emitter, x: LocalValue, target: AxisLayout, via: Sequence[AxisLayout] = ()
) -> LocalValue:
    """Move `x` to `target`; of the ways there it takes one that sends least.

    Args:
      via: layouts that lead to the target, which need not be taken.
    """
    assert x.partial is None
    if x.layout.dims == target.dims:
        return x
    if 0 in target.shape:
        return LocalValue(e.splat(0, target.local, x.value.type.element_type), target)
    if x.remake is not None:
        return LocalValue(x.remake(e, target), target, remake=x.remake)
    if isinstance(e, Tally):
        e.cost += relayout_cost(e, x, target, via)
        local = e.type(target.local, x.value.type.element_type)
        return LocalValue(e.make("sdy.reshard", (), local), target)
    for copy in e.sources(x):
        if copy.layout.dims == target.dims:
            return copy
    x = min(e.sources(x, paid=True), key=lambda s: _route(e, s, target, via)[1])
    uses = len(list(x.value.uses))
    moved = _follow(e, x, _route(e, x, target, via)[0])
    e.remember(x, moved, len(list(x.value.uses)) - uses)
    return moved


def scatter_partial(e: Emitter, x: LocalValue, target: AxisLayout) -> LocalValue:
    """Add up a partial sum where its axes split the target, each device its own part."""
    for d, want in enumerate(target.dims):
        atoms, kind = x.partial or ((), "")
        scattered = tuple(i for i in want if i in atoms)
        layout = x.layout
        if not scattered or (layout.dims[d] and layout.padded(d)):
            continue
        after = layout.with_dim(d, layout.dims[d] + scattered)
        if layout.dims[d] and after.padded(d):
            continue
        value = fill_padding(e, x, [d]).value
        value = e.pad(value, d, 0, after.local[d] * e.mesh.count(scattered) - layout.local[d])
        value = e.reduce_scatter(value, scattered, d, kind)
        left = tuple(i for i in atoms if i not in scattered)
        x = LocalValue(value, after, (left, kind) if left else None)
    return x


def add_up(e: Emitter, x: LocalValue, target: AxisLayout) -> LocalValue:
    """Add up a partial sum, scattered as far as its axes split the target."""
    x = scatter_partial(e, x, target)
    return LocalValue(e.all_reduce(x.value, *x.partial), x.layout) if x.partial else x


def relayout_cost(
    e: Emitter, x: LocalValue, target: AxisLayout, via: Sequence[AxisLayout] = ()
) -> int:
    """Return bytes that `relayout` sends."""
    if x.layout.dims == target.dims or 0 in target.shape:
        return 0
    if x.remake is not None:
        tally = Tally(e)
        x.remake(tally, target)
        return tally.cost
    return min(_route(e, source, target, via)[1] for source in e.sources(x, paid=True))


Route = tuple[AxisLayout, ...]  # layouts to pass
_MOST_ROUTES = 4096  # that a mesh remembers


def _route(
    e: Emitter, x: LocalValue, target: AxisLayout, via: Sequence[AxisLayout]
) -> tuple[Route, int]:
    """Return the route to take, and the bytes that it sends."""
    now, element = x.layout, x.value.type.element_type
    if now.dims == target.dims:
        return (), 0
    key = (now.shape, now.dims, target.dims, byte_size_of(element), *(v.dims for v in via))
    routes = e.mesh.routes
    cached = routes.get(key)
    if cached is None:
        if len(routes) >= _MOST_ROUTES:  # of all programs of a long process
            routes.clear()
        route = _cheapest(e, x, target, via)
        cached = routes[key] = route, _cost(e, x, route, 1)
    return cached


def _cheapest(e: Emitter, x: LocalValue, target: AxisLayout, via: Sequence[AxisLayout]) -> Route:
    """Return the route that costs least, latencies counted: at once, by `via`, or as found."""
    routes: list[Route] = [(target,), (*via, target)] if via else [(target,)]
    element = x.value.type.element_type
    step = latency(target, element)
    costs = [_cost(e, x, route, step) for route in routes]
    best = min(range(len(routes)), key=lambda i: costs[i])
    padded = any(a.padded(d) for a in (x.layout, target) for d in range(len(target.shape)))
    if costs[best] and not padded:
        size = byte_size_of(element)
        way = cheapest(x.layout, target, costs[best] / size, step / size)
        if way and _cost(e, x, way, step) < costs[best]:
            return way
    return routes[best]


def _cost(e: Emitter, x: LocalValue, route: Route, step: int) -> int:
    tally = Tally(e, step)
    _follow(tally, x, route)
    return tally.cost


def _follow(e: Emitter, x: LocalValue, route: Route) -> LocalValue:
    for layout in route:
        x = _step(e, x.value, x.layout, layout)
    return x


def _step(e: Emitter, value: ir.Value, now: AxisLayout, target: AxisLayout) -> LocalValue:
    """Move to a layout: slices are free, then all_to_all, permutes, and gathers last."""
    value, now = _permute_tiles(e, value, now, target)
    value, now = _exchange_dims(e, value, now, target)
    # Slice what can be sliced before gathering, so that gathers move less.
    for gather in (False, True):
        for dim in range(len(target.dims)):
            have, want = now.dims[dim], target.dims[dim]
            common = _common_prefix(have, want)
            if have[common:] and gather:
                value = _gather_dim(e, value, now, dim, have[:common])
                now = now.with_dim(dim, have[:common])
                have = have[:common]
            if have == want or have[common:] or set(want[common:]) & now.used:
                continue
            if (
                gather
                or now.local[dim] == _whole(now.with_dim(dim, want), dim, want[common:])
                or not have
            ):
                value = _slice_dim(e, value, now, dim, want)
                now = now.with_dim(dim, want)
    for dim in range(len(target.dims)):  # axes that had to leave another dimension first
        if now.dims[dim] != target.dims[dim]:
            value = _gather_dim(e, value, now, dim, ())
            now = now.with_dim(dim, ())
            value = _slice_dim(e, value, now, dim, target.dims[dim])
            now = now.with_dim(dim, target.dims[dim])
    return LocalValue(value, target)


def _whole(layout: AxisLayout, dim: int, atoms: Atoms) -> int:
    """Return elements of `dim` that the devices along `atoms` hold together."""
    return layout.local[dim] * layout.mesh.count(atoms)


def _common_prefix(a: Atoms, b: Atoms) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def _gather_dim(e: Emitter, value: ir.Value, now: AxisLayout, dim: int, keep: Atoms) -> ir.Value:
    """Gather `dim` until only the prefix `keep` of its atoms splits it."""
    gone = now.dims[dim][len(keep) :]
    if not gone:
        return value
    target = now.with_dim(dim, keep)
    if keep and target.local[dim] != _whole(now, dim, gone):  # the shards start elsewhere
        n, size = now.mesh.count(gone), target.local[dim]
        part = -(-size // n)
        first = np.arange(now.counts[dim])
        first = first // n * size + first % n * part
        value = window(e, LocalValue(value, now), dim, first, part, exact=False)
        return e.slice(e.all_gather(value, gone, dim), dim, 0, size)
    shard, count = now.local[dim], now.mesh.count(gone)
    if not keep and 2 * now.shape[dim] < count * shard:  # most shards are padding
        return _gather_few(e, value, now, dim)
    value = e.all_gather(value, gone, dim)
    return e.slice(value, dim, 0, target.local[dim])


def _gather_few(e: Emitter, value: ir.Value, now: AxisLayout, dim: int) -> ir.Value:
    """Gather a dimension with fewer elements than shards, as a sum of parts padded with zeros."""
    atoms, shard, size = now.dims[dim], now.local[dim], now.shape[dim]
    value = fill_padding(e, LocalValue(value, now), [dim]).value
    shape = list(value.type.shape)
    shape[dim] = size + shard  # room behind the end for devices that hold nothing
    zeros = e.splat(0, shape, value.type.element_type)
    start = e.lookup(atoms, [min(k * shard, size) for k in range(now.counts[dim])])
    whole = e.slice(e.dynamic_update(zeros, value, dim, start), dim, 0, size)
    kind = "or" if value.type.element_type == e.i1 else "add"
    return e.all_reduce(whole, atoms, kind)


def _slice_dim(e: Emitter, value: ir.Value, now: AxisLayout, dim: int, want: Atoms) -> ir.Value:
    """Keep each device's share of `dim` when its atoms grow from a prefix to `want`."""
    extra = want[len(now.dims[dim]) :]
    if not extra:
        return value
    size = now.with_dim(dim, want).local[dim]
    count = now.mesh.count(extra)
    have = value.type.shape[dim]
    if now.dims[dim] and size * count != have:  # the shards start elsewhere
        first = np.arange(now.counts[dim]) * size * count
        value = window(e, LocalValue(value, now), dim, first, size * count, exact=False)
        have = size * count
    value = e.pad(value, dim, 0, max(size * count - have, 0))
    start = e.lookup(extra, [k * size for k in range(count)])
    return e.dynamic_slice(value, dim, start, size)


def _permute_tiles(
    e: Emitter, value: ir.Value, now: AxisLayout, target: AxisLayout
) -> tuple[ir.Value, AxisLayout]:
    """Emit one collective_permute if every dimension has as many shards in both layouts."""
    if now.counts != target.counts or now.dims == target.dims:
        return value, now
    mesh = now.mesh
    # Devices stay apart along axes that split neither: the value may be a sum over them.
    idle = tuple(i for i in range(len(mesh.atoms)) if i not in now.used | target.used)

    def tiles(layout: AxisLayout) -> np.ndarray:
        out = np.zeros(mesh.size, np.int64)
        for atoms in (*layout.dims, idle):
            out = out * mesh.count(atoms) + mesh.coordinates(atoms)
        return out

    order_now = np.argsort(tiles(now), kind="stable")
    order_target = np.argsort(tiles(target), kind="stable")
    pairs = np.stack([mesh.partition_ids(order_now), mesh.partition_ids(order_target)], axis=1)
    return e.permute(value, pairs), target


def _exchange_dims(
    e: Emitter, value: ir.Value, now: AxisLayout, target: AxisLayout
) -> tuple[ir.Value, AxisLayout]:
    """all_to_all for atoms that leave one dimension's minor end for another's."""
    changed = True
    while changed:
        changed = False
        for source in range(len(now.dims)):
            for dest in range(len(now.dims)):
                if source == dest:
                    continue
                have, want = now.dims[source], target.dims[dest]
                into = now.dims[dest]
                if _common_prefix(into, want) != len(into):
                    continue
                run = want[len(into) :]
                while run and have[len(have) - len(run) :] != run:
                    run = run[:-1]
                stays = have[: len(have) - len(run)]
                if not run or _common_prefix(stays, target.dims[source]) != len(stays):
                    continue
                after = now.with_dim(source, stays).with_dim(dest, into + run)
                n = now.mesh.count(run)
                if stays and after.local[source] != _whole(now, source, run):
                    continue
                if into and now.local[dest] != _whole(after, dest, run):
                    continue
                value = e.pad(value, dest, 0, after.local[dest] * n - value.type.shape[dest])
                value = e.all_to_all(value, run, dest, source)
                value = e.slice(value, source, 0, after.local[source])
                now, changed = after, True
    return value, now
