"""Fetches windows of split dimensions from the shards that hold them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, Numbers
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue, index_mask, mask


def window(
    e: Emitter,
    x: LocalValue,
    dim: int,
    starts: Numbers,
    size: int,
    fill: ir.Value | None = None,
    exact: bool = True,
    ends: Numbers | None = None,
) -> ir.Value:
    """Fetch elements `starts[k] + [0, size)` of a global dimension for the device at coordinate k.

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
    atoms, total = layout.dims[dim], layout.shape[dim]
    shard, count = layout.local[dim], layout.counts[dim]
    first = np.asarray(starts, np.int64)
    low = np.clip(first, 0, total)
    high = np.clip(first + size if ends is None else np.minimum(ends, first + size), low, total)
    plan = _plan(first, shard, low, high)
    # Fetching pieces would send more than gathering all shards.
    if plan.moved > (count - 1) * shard:
        value = e.all_gather(x.value, atoms, dim)
        before = max(0, -int(first.min()))
        behind = max(0, int(first.max()) + size - shard * count)
        value = e.pad(value, dim, before, behind)
        value = cut(e, value, dim, atoms, first + before, size)
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
        value = cut(e, value, dim, atoms, offsets + max(0, -int(offsets.min())), size)
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


def cut(
    e: Emitter, value: ir.Value, dim: int, atoms: Atoms, offsets: np.ndarray, size: int
) -> ir.Value:
    """Keep `size` elements of a local dimension from the offset of each coordinate on."""
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


def _plan(first: np.ndarray, shard: int, low: np.ndarray, high: np.ndarray) -> _Plan | _Rounds:
    """Return the plan that moves least."""
    most = (len(first) - 1) * shard + 1
    plan: _Plan | _Rounds = _by_distance(first, shard, low, high, most) or _Plan([], first, most)
    shard_start = np.arange(len(first)) * shard
    overlap = np.minimum(high, shard_start + shard) - np.maximum(low, shard_start)
    if plan.moved > int((high - low - np.maximum(overlap, 0)).max()):  # more than some device lacks
        rounds = _by_rounds(first, shard, low, high)
        plan = rounds if rounds.moved < plan.moved else plan
    return plan


def _by_distance(
    first: np.ndarray, shard_size: int, low: np.ndarray, high: np.ndarray, most: int
) -> _Plan | None:
    """Piece d is what each device needs of the shard d places away; only that part travels.

    None where that is more than `most`.
    """
    count = len(first)
    devices = np.arange(count)
    targets, sources = _needs(shard_size, low, high)
    if not len(targets):
        return _Plan([_Piece(devices, 0, shard_size)], np.zeros(count, np.int64), 0)
    begin = np.maximum(low[targets], sources * shard_size) - sources * shard_size
    end = np.minimum(high[targets], (sources + 1) * shard_size) - sources * shard_size
    distances, group = np.unique(sources - targets, return_inverse=True)
    a = np.full(len(distances), shard_size)
    b = np.zeros(len(distances), np.int64)
    np.minimum.at(a, group, begin)
    np.maximum.at(b, group, end)
    moved = int((b - a)[distances != 0].sum())
    if moved > most:
        return None
    pieces, at = [], int(distances[0] * shard_size + a[0])
    base = at
    for number, distance in enumerate(distances.tolist()):
        low_end, high_end = int(a[number]), int(b[number])
        where = np.full(count, -1)
        members = group == number
        where[targets[members]] = sources[members]
        start = distance * shard_size + low_end
        piece_sources = devices if distance == 0 else where
        pieces.append(_Piece(piece_sources, low_end, high_end, start - at))
        at = distance * shard_size + high_end
    return _Plan(pieces, first - devices * shard_size - base, moved)


def _needs(shard: int, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(target, source) coordinates of every shard that a window touches."""
    some = np.flatnonzero(low < high)
    first, last = low[some] // shard, (high[some] - 1) // shard
    each = last - first + 1
    targets = np.repeat(some, each)
    behind = np.arange(len(targets)) - np.repeat(np.cumsum(each) - each, each)
    return targets, np.repeat(first, each) + behind


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


def _by_rounds(first: np.ndarray, shard: int, low: np.ndarray, high: np.ndarray) -> _Rounds:
    """Plan rounds of sends: in each, a device sends and receives once at most."""
    count = len(first)
    targets, sources = _needs(shard, low, high)
    begin = np.maximum(low[targets], sources * shard)
    length = np.minimum(high[targets], (sources + 1) * shard) - begin
    order = np.argsort(-length, kind="stable")
    order = order[(sources != targets)[order]]
    wanted = np.stack([length, sources, targets, begin - sources * shard], axis=1)[order].tolist()
    rounds: list[_Round] = []
    sending: list[set[int]] = []
    for length, source, target, offset in wanted:
        for number, r in enumerate(rounds):
            if r.sources[target] < 0 and source not in sending[number]:
                break
        else:
            r = _Round(np.full(count, -1), np.zeros(count, np.int64), length)
            rounds.append(r)
            sending.append(set())
            number = len(rounds) - 1
        r.sources[target] = source
        r.offsets[target] = min(offset, shard - r.size)
        sending[number].add(source)
    return _Rounds(rounds, sum(r.size for r in rounds))


def _run_rounds(
    e: Emitter, x: LocalValue, dim: int, first: np.ndarray, size: int, plan: _Rounds
) -> ir.Value:
    """Build a window from the device's own elements and those received in each round.

    An element that arrives beside those wanted is the right one for its place too, so pieces may
    overlap.
    """
    atoms, shard = x.layout.dims[dim], x.layout.local[dim]
    devices = np.arange(len(first))
    value = e.pad(x.value, dim, size, size)
    at = np.clip(first - devices * shard + size, 0, shard + size)
    value = cut(e, value, dim, atoms, at, size)
    margin = max((r.size for r in plan.rounds), default=0)
    value = e.pad(value, dim, margin, margin)
    for r in plan.rounds:
        sent = r.sources >= 0
        leave = np.zeros(len(first), np.int64)
        leave[r.sources[sent]] = r.offsets[sent]
        if len(set(r.offsets[sent].tolist())) == 1:
            leave[:] = r.offsets[sent][0]
        part = cut(e, x.value, dim, atoms, leave, r.size)
        part = e.permute(part, x.layout.mesh.pairs(atoms, r.sources))
        at = np.where(sent, r.sources * shard + r.offsets - first + margin, 0)
        value = e.dynamic_update(value, part, dim, e.lookup(atoms, at))
    return e.slice(value, dim, margin, margin + size)
