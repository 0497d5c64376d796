"""x[ds(start, size)]: windows of arrays at starts that may be traced, beside other indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.ops import elementwise_api as ew
from weft.ops.arithmetic import select
from weft.ops.dynamic_slicing import dynamic_slice, dynamic_update_slice

if TYPE_CHECKING:
    from weft.refs.indexing import Slice
    from weft.typing import ArrayLike


class WindowInIndex(Exception):
    """An index has a window: raised where indices are planned, and never seen outside."""


def take(x: Any, index: Any, getitem: Callable[[Any, Any], Any]) -> Any:
    """x[index]: the windows are cut out, then getitem(part, rest of the index)."""
    starts, sizes, rest, _ = _split(x, index)
    return getitem(dynamic_slice(x, starts, sizes), rest)


def update(x: ArrayLike, index: Any, change: Callable[[Any, Any], Any], clamps: bool) -> Any:
    """Return a copy of x in which the windows are change(part, rest of the index).

    clamps: whether windows that reach out of bounds are moved into them; else nothing changes.
    """
    starts, sizes, rest, inside = _split(x, index)
    part = change(dynamic_slice(x, starts, sizes), rest)
    if inside is False and not clamps:
        return x
    out = dynamic_update_slice(x, part, starts)
    if clamps or inside is True:
        return out
    return select(inside, out, x)


def _split(x: Any, index: tuple | Slice) -> tuple[list, list[int], tuple, Any]:
    """Return (starts, sizes, index, inside): the windows' hull, and the index within it.

    inside: whether all windows are in bounds; a bool where the starts are known.
    """
    from weft.refs.indexing import Slice

    shape = x.aval.shape
    parts = index if isinstance(index, tuple) else (index,)
    used = sum(_rank(p) for p in parts if p is not Ellipsis)
    starts: list[Any] = [0] * len(shape)
    sizes, rest, dim = list(shape), [], 0
    inside: Any = True
    for p in parts:
        if p is Ellipsis:
            dim += len(shape) - used
        if not isinstance(p, Slice):
            rest.append(p)
            dim += 0 if p is Ellipsis else _rank(p)
            continue
        if dim >= len(shape):
            raise IndexError(
                f"the index has {used} entries for an array of type {x.aval.str_short()}"
            )
        n, span = shape[dim], (p.size - 1) * p.stride + 1 if p.size else 0
        if span > n:
            raise ArgumentError(
                f"{p!r} spans {span} positions, but dimension {dim} of an array of type "
                f"{x.aval.str_short()} has size {n}"
            )
        starts[dim], within = _start(p.start, n, n - span)
        inside = within if inside is True else inside if within is True else inside & within
        sizes[dim] = span
        rest.append(slice(None, None, p.stride))
        dim += 1
    return starts, sizes, tuple(rest), inside


def _rank(part: Any) -> int:
    """Return how many dimensions an element of an index is for."""
    if part is None or isinstance(part, bool | np.bool_):
        return 0
    if hasattr(part, "dtype") and part.dtype == np.bool_:
        return part.ndim
    return 1


def _start(start: Any, size: int, last: int) -> tuple[Any, Any]:
    """Count the start from the beginning, moved into bounds; also whether it was there."""
    if isinstance(start, int | np.integer):
        at = int(start) + size * (start < 0)
        return min(max(at, 0), last), 0 <= at <= last
    zero = typeof(start).dtype.type(0)
    at = select(ew.lt(start, zero), start + size, start)
    return ew.clamp(zero, at, zero + last), (at >= 0) & (at <= last)
