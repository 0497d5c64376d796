# Tests: tests/numpy/test_reductions.py
"""Axes of reductions that are named: those of `vmap` and `shard_map`, beside an array's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.collectives.axis import axis_size
from weft.core.trace import typeof
from weft.numpy.common import axes_of

if TYPE_CHECKING:
    from weft.typing import ArrayLike

    Axis = int | str | Sequence[int | str] | None


def has_names(axis: Axis) -> bool:
    """Return whether some of the axes are names."""
    if isinstance(axis, tuple | list):
        return any(a.__class__ is str for a in axis)
    return axis.__class__ is str


def apart(axis: Axis) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the positions and the names among the axes."""
    axes: Sequence = axis if isinstance(axis, tuple | list) else (axis,)
    names = tuple(a for a in axes if isinstance(a, str))
    return tuple(a for a in axes if not isinstance(a, str)), names


def count(a: ArrayLike, axis: Axis) -> int:
    """Return how many elements a reduction runs over."""
    positions, names = (None, ()) if axis is None else apart(axis)
    shape, size = typeof(a).shape, 1
    for i in axes_of(positions, len(shape)):
        size *= shape[i]
    for name in names:
        size *= axis_size(name)
    return size
