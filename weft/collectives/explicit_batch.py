"""Batch dimensions that are split over explicit mesh axes: joined for a collective, split again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.collectives.groups import named_axes, split
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.sharding.placement import reshard_p

if TYPE_CHECKING:
    from weft.autodiff.vmap import AxisData
    from weft.typing import ArrayLike


def joining(rule: Callable, *, if_grouped: bool = False) -> Callable:
    """Make a batch rule that gets the whole batch on each device of a collective's own axis.

    Rules take rows of the batch at constant places, which types do not allow of a dimension that
    is split. if_grouped: the rule reduces the batch, and needs it whole only for several groups.
    """

    @functools.wraps(rule)
    def batch(axis: AxisData, args: list, dims: list, /, **params: Any) -> tuple:
        over = params["over"]
        if axis.name not in over.names:
            return rule(axis, args, dims, **params)
        parts = next((e for e in map(_entry, args, dims) if e), None)
        if parts is None or (if_grouped and split(over, axis.name).slots == 1):
            return rule(axis, args, dims, **params)
        args = [_placed(x, d, None) for x, d in zip(args, dims, strict=True)]
        out, dim = rule(axis, args, dims, **params)
        return _placed(out, dim, parts), dim

    return batch


def moving(name: str, *, batch: Callable, **rules: Any) -> Primitive:
    """Return the op of a collective that moves elements between devices, and adds up none."""
    return Primitive(
        name,
        jvp="linear",
        batch=joining(batch),
        named_axes=named_axes,
        own_types=True,
        structural=True,
        **rules,
    )


def _entry(x: ArrayLike, dim: int | None) -> tuple:
    """Return the mesh axes over which the batch dimension is split."""
    sharding = typeof(x).sharding
    return () if sharding is None or dim is None else sharding.spec_of(dim)


def _placed(x: ArrayLike, dim: int | None, entry: tuple | None) -> Any:
    """Return x with that dimension split over the axes, where that is possible, or over none."""
    sharding = typeof(x).sharding
    if sharding is None or dim is None or _entry(x, dim) == (entry or ()):
        return x

    placed = sharding.without_dim(dim)
    if entry is not None and placed.spec.used_axes().intersection(entry):
        return x
    placed = placed.with_dim(dim, entry)
    if entry is not None and typeof(x).shape[dim] % placed.num_parts(dim):
        return x
    return reshard_p.bind(x, sharding=placed)
