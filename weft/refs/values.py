# Tests: tests/refs/test_api.py, tests/refs/test_indexing.py
"""Reads and writes of an indexer as ops on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import reshape, transpose
from weft.core.ref import At, Indexer, Pick, Window
from weft.core.trace import typeof
from weft.ops.as_array import as_array
from weft.ops.dynamic_slicing import dynamic_slice, dynamic_update_slice
from weft.ops.elementwise_api import select
from weft.ops.promote import broadcast_to

if TYPE_CHECKING:
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


class _Hull:
    """The smallest window around an index: its place, and the index relative to it."""

    __slots__ = ("index", "block_position", "plain", "shape", "sizes", "starts")

    def __init__(self, shape: Shape, indexer: Indexer, operands: Sequence[Any]) -> None:
        starts: list[Any] = []
        sizes: list[int] = []
        index: list[Any] = []
        picks: list[int] = []
        for n, (d, at) in zip(shape, indexer.attach(operands), strict=True):
            if d.__class__ is At:
                starts.append(at)
                sizes.append(1)
            elif d.__class__ is Window:
                starts.append(at)
                sizes.append((d.size - 1) * d.stride + 1 if d.size else 0)
                index.append(slice(None, None, d.stride))
            else:
                starts.append(0)
                sizes.append(n)
                picks.append(len(index))
                index.append(at)
        self.shape = shape
        self.starts, self.sizes = starts, tuple(sizes)
        self.index = tuple(index)
        self.plain = not picks and all(s.step == 1 for s in index)
        # NumPy puts the dimensions of index arrays at the first of them, or in front.
        together = picks and picks[-1] - picks[0] == len(picks) - 1
        self.block_position = picks[0] if together else 0

    @property
    def is_all(self) -> bool:
        return self.sizes == self.shape


def _kept(hull: _Hull, indexer: Indexer) -> Shape:
    return tuple(n for n, d in zip(hull.sizes, indexer.dims, strict=True) if d.__class__ is not At)


def _cut(value: Any, hull: _Hull) -> Any:
    return value if hull.is_all else dynamic_slice(value, hull.starts, hull.sizes)


def _move_block(x: ArrayLike, source: int, target: int, rank: int) -> Any:
    """Return the `rank` dimensions at `source` moved to `target`."""
    if source == target:
        return x
    rest = [d for d in range(typeof(x).ndim) if not source <= d < source + rank]
    rest[target:target] = range(source, source + rank)
    return transpose(x, rest)


def read(
    value: object, indexer: Indexer, operands: Sequence[Any], mask: Any = None, other: Any = None
) -> Any:
    """value[index]; where the mask is false, `other` (0 if None)."""
    hull = _Hull(typeof(value).shape, indexer, operands)
    out = reshape(_cut(value, hull), _kept(hull, indexer))
    if not hull.plain:
        out = out[hull.index]
        if indexer.has_picks:
            out = _move_block(out, hull.block_position, indexer.block_position, len(indexer.block))
    if mask is not None:
        dtype = typeof(value).dtype
        other = dtype.type(0) if other is None else other
        out = select(mask, out, broadcast_to(other, indexer.shape))
    return out


def write(
    value: Any,
    indexer: Indexer,
    operands: Sequence[Any],
    update: Any,
    mask: Any = None,
    how: str = "set",
) -> Any:
    """Replace value[index] by update, or combine it with update ("add", "max", …)."""
    hull = _Hull(typeof(value).shape, indexer, operands)
    update = broadcast_to(update, indexer.shape)
    if how in _BY_READING or (mask is not None and how != "add"):
        old = read(value, indexer, operands)
        if how != "set":
            update, how = _BY_READING[how](old, update), "set"
        if mask is not None:
            update = select(mask, update, old)
    elif mask is not None:
        update = select(mask, update, broadcast_to(typeof(value).dtype.type(0), indexer.shape))
    if hull.plain and how == "set":
        part = reshape(update, hull.sizes)
        if isinstance(part, np.generic):  # a number written to a ref of rank 0, eagerly
            part = as_array(part)
        return part if hull.is_all else dynamic_update_slice(value, part, hull.starts)
    part = reshape(_cut(value, hull), _kept(hull, indexer))
    if hull.plain:
        part = part + update
    else:
        if indexer.has_picks:
            update = _move_block(
                update, indexer.block_position, hull.block_position, len(indexer.block)
            )
        at = part.at[hull.index]
        part = at.set(update) if how == "set" else at.add(update)
    part = reshape(part, hull.sizes)
    return part if hull.is_all else dynamic_update_slice(value, part, hull.starts)


def _maximum(x: object, y: object) -> Any:
    from weft.ops.elementwise_api import max

    return max(x, y)


def _minimum(x: object, y: object) -> Any:
    from weft.ops.elementwise_api import min

    return min(x, y)


_BY_READING = {
    "max": _maximum,
    "min": _minimum,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}


# The same as picks: what batching makes of an index ---------------------------------------------


def all_picks(
    indexer: Indexer, operands: Sequence[Any], batched: Sequence[bool], batch: int
) -> tuple[Indexer, list]:
    """Return the indexer with every batched position a Pick over (batch, *shape of the result).

    Operands of the positions that stand for one example each have the batch dimension in front.
    """
    shape = (batch, *indexer.shape)
    windows = [i for i, d in enumerate(indexer.dims) if d.__class__ is Window]
    rank = len(indexer.block)
    # Where each window, and the block, stands in the result.
    axis_of = {}
    for k, i in enumerate(windows):
        axis_of[i] = k if not indexer.has_picks or k < indexer.block_position else k + rank
    block_at = indexer.block_position
    positions = iter(zip(operands, batched, strict=True))
    picks = []
    for i, d in enumerate(indexer.dims):
        constant = None if d.operands else d.position
        position, has_batch = next(positions) if constant is None else (np.int32(constant), False)
        aval = typeof(position)
        lead = (batch,) if has_batch else (1,)
        sizes = [1] * len(indexer.shape)
        if d.__class__ is Window:
            position = reshape(position, (*lead, *sizes))
            sizes[axis_of[i]] = d.size
            steps = (np.arange(d.size) * d.stride).astype(aval.dtype).reshape((1, *sizes))
            position = position + steps
        elif d.__class__ is Pick:
            sizes[block_at : block_at + rank] = indexer.block
            position = reshape(position, (*lead, *sizes))
        else:
            position = reshape(position, (*lead, *sizes))
        picks.append(broadcast_to(position, shape))
    return Indexer((Pick(),) * len(indexer.dims), shape, 0), picks
