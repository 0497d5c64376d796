# Tests: tests/partition/test_localize.py
"""LocalValue values: the shard of a value on one device, and the contents of its padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout
from weft.partition.emit import Emitter


@dataclass(slots=True)
class LocalValue:
    """The shard of a value on one device.

    `partial` is (atoms, kind) where the true value is the combination by `kind` (add, or, …) of the
    devices along `atoms`. Values that are not tensors (tokens, tuples) have the layout of a scalar.
    `remake`, where given, makes the value in another layout without communication (iota,
    constants). `before` is the value that a reshard made this one of. `via` are the layouts that
    propagation and a chain of reshards ask for, up to the next reshard, while the value still has
    the layout it started from.
    """

    value: ir.Value
    layout: AxisLayout
    partial: tuple[Atoms, str] | None = None
    remake: Callable[[Emitter, AxisLayout], ir.Value] | None = None
    before: LocalValue | None = None
    via: tuple[AxisLayout, ...] = ()


def index_mask(
    e: Emitter, start: ir.Value | None, size: int, low: int | None, high: int
) -> ir.Value:
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


def fill_padding(
    e: Emitter, x: LocalValue, dims: Sequence[int], fill: ir.Value | None = None
) -> LocalValue:
    """Replace the padding of `dims` by `fill` (zero unless told)."""
    layout = x.layout
    value = x.value
    for dim in dims:
        if not layout.padded(dim):
            continue
        start = e.first_index(layout, dim)
        keep = index_mask(e, start, layout.local[dim], None, layout.shape[dim])
        neutral = fill if fill is not None else e.const(0, value.type.element_type)
        value = mask(e, value, dim, keep, neutral)
    return x if value is x.value else LocalValue(value, layout, x.partial)
