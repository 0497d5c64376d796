# Tests: tests/scipy/test_signal.py
"""Interpolation in images, under the names and with the semantics of jax.scipy.ndimage."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import weft.numpy as wnp
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.scipy.linalg.factorizations import _choice
from weft.scipy.special.factorials import float_array

if TYPE_CHECKING:
    from weft.runtime.array import Array

__all__ = ["map_coordinates"]


def _mirror(index: Array, size: int) -> Any:
    """Reflect positions at the centres of the end elements."""
    period = max(2 * (size - 1), 1)
    return abs((index + size - 1) % period - (size - 1))


# mode → where positions outside of an axis of a size are read.
_FOLDS = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: wnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "grid-wrap": lambda index, size: index % size,
    "mirror": _mirror,
    "reflect": lambda index, size: _mirror(2 * index + 1, 2 * size + 1) // 2,
}


def map_coordinates(
    input: object,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: object = 0.0,
) -> Any:
    """Return the values of an array at fractional positions.

    coordinates: an array of positions for each dimension of the input, of one shape, which is the
    result's. order: 0 takes the nearest element, 1 interpolates linearly. mode: what lies outside:
    'constant' (cval), 'nearest', 'mirror', 'reflect', or 'wrap', which has the array's size for its
    period. Source: scipy.ndimage.map_coordinates.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import ndimage
    >>> ndimage.map_coordinates(wnp.array([0.0, 10.0]), [wnp.array([0.25])], order=1)
    Array([2.5], dtype=float32)
    """
    _choice("map_coordinates", "mode", mode, tuple(_FOLDS))
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates: order must be 0 or 1, got {order!r}")
    x = wnp.asarray(input)
    positions = [float_array(c) for c in coordinates]
    if len(positions) != x.ndim:
        raise ArgumentError(
            f"map_coordinates: coordinates has {len(positions)} arrays, input {x.ndim} dimensions"
        )
    fill = wnp.asarray(cval).astype(x.dtype)
    neighbours = []
    for c, size in zip(positions, x.shape, strict=True):
        if order == 0:
            near = [(wnp.round(c), wnp.ones_like(c))]
        else:
            below = wnp.floor(c)
            near = [(below, 1 - (c - below)), (below + 1, c - below)]
        parts = []
        for at, weight in near:
            i = at.astype(int)
            parts.append((_FOLDS[mode](i, size), (i >= 0) & (i < size), weight))
        neighbours.append(parts)
    total: Any = 0
    # Every corner of the cell around a position, weighted by nearness along each axis.
    for corner in itertools.product(*neighbours):
        index = tuple(at for at, _, _ in corner)
        if mode == "constant":
            inside: Any = True
            for _, fits, _ in corner:
                inside = fits & inside
            safe = tuple(wnp.clip(i, 0, s - 1) for i, s in zip(index, x.shape, strict=True))
            value = wnp.where(inside, x[safe], fill)
        else:
            value = x[index]
        for _, _, weight in corner:
            value = value * weight if order else value
        total = value + total
    if wnp.issubdtype(x.dtype, wnp.integer) and order:
        total = wnp.round(total)
    return total.astype(x.dtype)


seal(globals())
