"""Moves local values between layouts, and fetches windows of split dimensions from neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft._xla.mlir import ir
from weft.partition.emit import Emitter
from weft.partition.layout import Atoms, Layout


@dataclass(slots=True)
class Local:
    """What one device holds of a value.

    `partial` is (atoms, kind) where the true value is the combination by `kind` (add, max, …) of
    the devices along `atoms`. Values that are not tensors (tokens) have no layout. `remake`, where
    given, makes the value in another layout without communication (iota, constants). `unsliced` is
    the value this one was sliced from.
    """

    value: ir.Value
    layout: Layout | None
    partial: tuple[Atoms, str] | None = None
    remake: Callable[[Layout], ir.Value] | None = None
    unsliced: Local | None = None


def relayout(e: Emitter, x: Local, target: Layout) -> Local:
    """Moves `x` to `target`: slices are free, then all_to_all, permute, and gathers last."""
    assert x.layout is not None and x.partial is None
    if x.layout.dims == target.dims:
        return x
    if 0 in target.shape:
        return Local(e.splat(0, target.local, x.value.type.element_type), target)
    if x.remake is not None:
        return Local(x.remake(target), target, remake=x.remake)
    value, now = x.value, x.layout
    value, now = _permute_tiles(e, value, now, target)
    value, now = _exchange_dims(e, value, now, target)
    # Slice what can be sliced before gathering, so that gathers move less.
    for gather in (False, True):
        for dim in range(len(target.dims)):
            have, want = now.dims[dim], target.dims[dim]
            if have == want:
                continue
            common = _common_prefix(have, want)
            size = now.shape[dim]
            exact = size % now.mesh.count(have) == 0 and size % now.mesh.count(want) == 0
            common_rest = have[common:]
            if common_rest and gather:
                fits = exact or common in (0, len(want))
                keep = have[:common] if fits else ()
                value = _gather_dim(e, value, now, dim, keep)
                now = now.with_dim(dim, keep)
                have, common_rest = keep, ()
                common = _common_prefix(have, want)
            if not common_rest and not (set(want[common:]) & now.used):
                if have and now.shape[dim] % now.mesh.count(want):
                    if not gather:
                        continue
                    value = _gather_dim(e, value, now, dim, ())
                    now, have = now.with_dim(dim, ()), ()
                value = _slice_dim(e, value, now, dim, want)
                now = now.with_dim(dim, want)
    for dim in range(len(target.dims)):  # axes that had to leave another dimension first
        if now.dims[dim] != target.dims[dim]:
            value = _gather_dim(e, value, now, dim, ())
            now = now.with_dim(dim, ())
            value = _slice_dim(e, value, now, dim, target.dims[dim])
            now = now.with_dim(dim, target.dims[dim])
    return Local(value, target)


def _common_prefix(a: Atoms, b: Atoms) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def _gather_dim(e: Emitter, value: ir.Value, now: Layout, dim: int, keep: Atoms) -> ir.Value:
    """Gathers `dim` until only the prefix `keep` of its atoms splits it."""
    gone = now.dims[dim][len(keep) :]
    if not gone:
        return value
    target = now.with_dim(dim, keep)
    if keep and now.padded(dim):  # shards of the two layouts do not start at the same indices
        groups = np.arange(now.counts[dim]) // now.mesh.count(gone)
        size = target.local[dim]
        return window(e, Local(value, now), dim, groups * size, size, exact=False)
    held, count = now.local[dim], now.mesh.count(gone)
    if not keep and 2 * now.shape[dim] < count * held:  # most shards are padding
        return _gather_few(e, value, now, dim)
    value = e.all_gather(value, gone, dim)
    return e.slice(value, dim, 0, target.local[dim])


def _gather_few(e: Emitter, value: ir.Value, now: Layout, dim: int) -> ir.Value:
    """Gathers a dimension with fewer elements than shards, as a sum of parts padded with zeros."""
    atoms, held, size = now.dims[dim], now.local[dim], now.shape[dim]
    value = fill_padding(e, Local(value, now), [dim]).value
    shape = list(value.type.shape)
    shape[dim] = size + held  # room behind the end for devices that hold nothing
    zeros = e.splat(0, shape, value.type.element_type)
    start = e.lookup(atoms, [min(k * held, size) for k in range(now.counts[dim])])
    whole = e.slice(e.dynamic_update(zeros, value, dim, start), dim, 0, size)
    kind = "or" if value.type.element_type == e.i1 else "add"
    return e.all_reduce(whole, atoms, kind)


def _slice_dim(e: Emitter, value: ir.Value, now: Layout, dim: int, want: Atoms) -> ir.Value:
    """Keeps each device's share of `dim` when its atoms grow from a prefix to `want`."""
    extra = want[len(now.dims[dim]) :]
    if not extra:
        return value
    size = now.with_dim(dim, want).local[dim]
    count = now.mesh.count(extra)
    held = value.type.shape[dim]
    value = e.pad(value, dim, 0, max(size * count - held, 0))
    start = e.lookup(extra, [k * size for k in range(count)])
    return e.dynamic_slice(value, dim, start, size)


def _permute_tiles(
    e: Emitter, value: ir.Value, now: Layout, target: Layout
) -> tuple[ir.Value, Layout]:
    """One collective_permute when every dimension has as many shards in both layouts."""
    if now.counts != target.counts or now.dims == target.dims:
        return value, now
    mesh = now.mesh

    def tiles(layout: Layout) -> np.ndarray:
        out = np.zeros(mesh.size, np.int64)
        for atoms, count in zip(layout.dims, layout.counts, strict=True):
            out = out * count + mesh.coordinates(atoms)
        return out

    order_now = np.argsort(tiles(now), kind="stable")
    order_target = np.argsort(tiles(target), kind="stable")
    pairs = np.stack([mesh.partition_ids(order_now), mesh.partition_ids(order_target)], axis=1)
    return e.permute(value, pairs), target


def _exchange_dims(
    e: Emitter, value: ir.Value, now: Layout, target: Layout
) -> tuple[ir.Value, Layout]:
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
                if stays and now.shape[source] % now.counts[source]:
                    continue
                if into and now.shape[dest] % after.counts[dest]:
                    continue
                value = e.pad(value, dest, 0, after.local[dest] * n - value.type.shape[dest])
                value = e.all_to_all(value, run, dest, source)
                value = e.slice(value, source, 0, after.local[source])
                now, changed = after, True
    return value, now


def move_atoms(e: Emitter, x: Local, source: int, dest: int, atoms: Atoms) -> Local:
    """Moves `atoms` from the minor end of one dimension to the minor end of another."""
    assert x.layout is not None
    kept = x.layout.dims[source][: len(x.layout.dims[source]) - len(atoms)]
    target = x.layout.with_dim(source, kept).with_dim(dest, x.layout.dims[dest] + atoms)
    return relayout(e, x, target)


# -- padding -------------------------------------------------------------------------------------


def index_mask(e: Emitter, start: ir.Value | None, size: int, low: int, high: int) -> ir.Value:
    """i1 vector: which of `start + [0, size)` lie in [low, high)."""
    index = e.iota((size,), 0)
    if start is not None:
        index = e.add(index, e.broadcast(start, (size,)))
    parts = []
    if low is not None:
        parts.append(e.compare(index, e.splat(low, (size,), e.i32), "GE"))
    parts.append(e.compare(index, e.splat(high, (size,), e.i32), "LT"))
    return parts[0] if len(parts) == 1 else e.binary("and", *parts)


def mask(e: Emitter, value: ir.Value, dim: int, keep: ir.Value, fill: ir.Value) -> ir.Value:
    """`fill` (rank 0) wherever `keep` (i1 over `dim`) is false."""
    shape = list(value.type.shape)
    return e.select(e.broadcast(keep, shape, (dim,)), value, e.broadcast(fill, shape))


def fill_padding(e: Emitter, x: Local, dims: Sequence[int], fill: ir.Value | None = None) -> Local:
    """Replaces the padding of `dims` by `fill` (zero unless told)."""
    layout = x.layout
    assert layout is not None
    value = x.value
    for dim in dims:
        if not layout.padded(dim):
            continue
        size = layout.local[dim]
        start = e.lookup(layout.dims[dim], [k * size for k in range(layout.counts[dim])])
        keep = index_mask(e, start, size, None, layout.shape[dim])
        neutral = fill if fill is not None else e.const(0, value.type.element_type)
        value = mask(e, value, dim, keep, neutral)
    return x if value is x.value else Local(value, layout, x.partial)


# -- windows -------------------------------------------------------------------------------------


def window(
    e: Emitter,
    x: Local,
    dim: int,
    starts: Sequence[int],
    size: int,
    fill: ir.Value | None = None,
    exact: bool = True,
    ends: Sequence[int] | None = None,
) -> ir.Value:
    """Elements `starts[k] + [0, size)` of the global dimension, on the device at coordinate k.

    This one function is the halo exchange of convolutions and windows, the shift of slices, pads
    and concatenations, and the exchange of reversals. Missing data comes by collective_permute
    from the shards that hold it, or by one all_gather where that moves fewer bytes.

    Args:
      x: a value whose `dim` is split into `len(starts)` shards.
      starts: first global index for each coordinate; may lie outside the dimension.
      fill: rank-0 value for indices outside; zero unless told.
      exact: False leaves arbitrary contents outside the dimension.
      ends: first global index that a coordinate no longer needs, where that is before its
        window's end.

    Returns:
      The local window.
    """
    layout = x.layout
    assert layout is not None
    atoms, total = layout.dims[dim], layout.shape[dim]
    held, count = layout.local[dim], layout.counts[dim]
    first = np.asarray(starts, np.int64)
    low = np.clip(first, 0, total)
    high = np.clip(first + size if ends is None else np.minimum(ends, first + size), low, total)
    plans = (make(first, size, held, low, high) for make in (_by_rank, _by_distance, _by_rounds))
    plan = min((p for p in plans if p is not None), key=lambda p: p.moved)
    if plan.moved > (count - 1) * held:
        value = e.all_gather(x.value, atoms, dim)
        low = max(0, -int(first.min()))
        high = max(0, int(first.max()) + size - held * count)
        value = e.pad(value, dim, low, high)
        value = _cut(e, value, dim, atoms, first + low, size)
    elif isinstance(plan, _Rounds):
        value = _run_rounds(e, x, dim, first, size, plan)
    else:
        parts = []
        for piece in plan.pieces:
            part = e.slice(x.value, dim, piece.low, piece.high)
            if (piece.sources != np.arange(count)).any():
                part = e.permute(part, layout.mesh.pairs(atoms, piece.sources))
            parts.append(e.pad(part, dim, piece.pad, 0) if piece.pad else part)
        value = e.concatenate(parts, dim)
        offsets = plan.offsets
        short = int(offsets.max()) + size - value.type.shape[dim]
        value = e.pad(value, dim, max(0, -int(offsets.min())), max(0, short))
        value = _cut(e, value, dim, atoms, offsets + max(0, -int(offsets.min())), size)
    if not exact:
        return value
    low_out, high_out = bool((first < 0).any()), bool((first + size > total).any())
    if not (low_out or high_out):
        return value
    start = e.lookup(atoms, first)
    keep = index_mask(e, start, size, 0 if low_out else None, total)
    if fill is None:
        fill = e.const(0, value.type.element_type)
    return mask(e, value, dim, keep, fill)


def _cut(
    e: Emitter, value: ir.Value, dim: int, atoms: Atoms, offsets: np.ndarray, size: int
) -> ir.Value:
    if (offsets == offsets[0]).all():
        return e.slice(value, dim, int(offsets[0]), int(offsets[0]) + size)
    return e.dynamic_slice(value, dim, e.lookup(atoms, offsets), size)


@dataclass(slots=True)
class _Piece:
    """A slice [low, high) of each source shard, as coordinate k receives it from sources[k]."""

    sources: np.ndarray
    low: int
    high: int
    pad: int = 0  # gap to leave before it


@dataclass(slots=True)
class _Plan:
    pieces: list[_Piece]
    offsets: np.ndarray  # of each coordinate's window in the joined pieces
    moved: int  # elements received per row


def _by_rank(
    first: np.ndarray, size: int, held: int, low: np.ndarray, high: np.ndarray
) -> _Plan | None:
    """Piece j is the j-th shard that each window touches; sources must then be distinct."""
    own = np.arange(len(first))
    count = len(own)
    shard = first // held
    offsets = first - shard * held
    pieces, moved = [], 0
    start = int(offsets.min())
    end = int(offsets.max()) + size
    for j in range(-(-end // held)):
        source = shard + j
        lo, hi = source * held, (source + 1) * held
        valid = (np.maximum(lo, low) < np.minimum(hi, high)) & (source >= 0) & (source < count)
        used = source[valid]
        if len(set(used.tolist())) != len(used):
            return None
        piece = _Piece(own, start if j == 0 else 0, min(held, end - j * held))
        if (source != own)[valid].any():
            piece.sources = np.where(valid, source, -1)
            moved += piece.high - piece.low
        pieces.append(piece)
    return _Plan(pieces, offsets - start, moved)


def _by_distance(
    first: np.ndarray, size: int, held: int, low: np.ndarray, high: np.ndarray
) -> _Plan:
    """Piece d is what each device needs of the shard d places away; only that part travels."""
    own = np.arange(len(first))
    count = len(own)
    pieces, moved, end = [], 0, None
    base = None
    for distance in range(1 - count, count):
        source = own + distance
        lo = np.maximum(low, source * held)
        hi = np.minimum(high, (source + 1) * held)
        valid = (lo < hi) & (source >= 0) & (source < count)
        if not valid.any():
            continue
        a = int((lo - source * held)[valid].min())
        b = int((hi - source * held)[valid].max())
        at = distance * held + a
        if base is None:
            base = end = at
        pieces.append(_Piece(own if distance == 0 else np.where(valid, source, -1), a, b, at - end))
        end = distance * held + b
        moved += 0 if distance == 0 else b - a
    if base is None:
        return _Plan([_Piece(own, 0, held)], np.zeros(count, np.int64), 0)
    return _Plan(pieces, first - own * held - base, moved)


@dataclass(slots=True)
class _Round:
    """Each coordinate k receives `size` elements that start at offsets[k] of shard sources[k]."""

    sources: np.ndarray  # -1: receives nothing
    offsets: np.ndarray
    size: int


@dataclass(slots=True)
class _Rounds:
    rounds: list[_Round]
    moved: int


def _by_rounds(
    first: np.ndarray, size: int, held: int, low: np.ndarray, high: np.ndarray
) -> _Rounds:
    """Each device sends every other just what it needs; a round has one of each at most."""
    count = len(first)
    wanted = []  # (length, source, target, offset in the source)
    for target in range(count):
        for source in range(int(low[target]) // held, -(-int(high[target]) // held)):
            a, b = max(low[target], source * held), min(high[target], (source + 1) * held)
            if a < b and source != target:
                wanted.append((int(b - a), source, target, int(a - source * held)))
    rounds: list[_Round] = []
    sending: list[set[int]] = []
    for length, source, target, offset in sorted(wanted, key=lambda w: -w[0]):
        for number, r in enumerate(rounds):
            if r.sources[target] < 0 and source not in sending[number]:
                break
        else:
            r = _Round(np.full(count, -1), np.zeros(count, np.int64), length)
            rounds.append(r)
            sending.append(set())
            number = len(rounds) - 1
        r.sources[target] = source
        r.offsets[target] = min(offset, held - r.size)
        sending[number].add(source)
    return _Rounds(rounds, sum(r.size for r in rounds))


def _run_rounds(
    e: Emitter, x: Local, dim: int, first: np.ndarray, size: int, plan: _Rounds
) -> ir.Value:
    """The window from what the device has of it and what it receives in each round.

    An element that arrives beside those wanted is the right one for its place too, so pieces may
    overlap.
    """
    assert x.layout is not None
    atoms, held = x.layout.dims[dim], x.layout.local[dim]
    own = np.arange(len(first))
    value = e.pad(x.value, dim, size, size)
    at = np.clip(first - own * held + size, 0, held + size)
    value = _cut(e, value, dim, atoms, at, size)
    margin = max((r.size for r in plan.rounds), default=0)
    value = e.pad(value, dim, margin, margin)
    for r in plan.rounds:
        there = r.sources >= 0
        leave = np.zeros(len(first), np.int64)
        leave[r.sources[there]] = r.offsets[there]
        if len(set(r.offsets[there].tolist())) == 1:
            leave[:] = r.offsets[there][0]
        part = _cut(e, x.value, dim, atoms, leave, r.size)
        part = e.permute(part, x.layout.mesh.pairs(atoms, r.sources))
        at = np.where(there, r.sources * held + r.offsets - first + margin, 0)
        value = e.dynamic_update(value, part, dim, e.lookup(atoms, at))
    return e.slice(value, dim, margin, margin + size)
