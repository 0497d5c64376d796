"""pad: arrays made larger at their edges, by constants, edges, reflections, statistics."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff import shape as ops
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import aval_of, cast, concrete, convert, to_array
from weft.numpy.order_statistics import median
from weft.numpy.reductions import max as max_
from weft.numpy.reductions import mean
from weft.numpy.reductions import min as min_
from weft.numpy.rounding import round as round_
from weft.numpy.selection import take_known
from weft.numpy.spaced_ranges import linspace
from weft.numpy.ufuncs import multiply, subtract
from weft.numpy.vectorization import apply_along_axis
from weft.ops import joining
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

_OPTIONS = {
    "constant": ("constant_values",),
    "edge": (),
    "empty": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "minimum": ("stat_length",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "wrap": (),
}


def _pairs(value: ArrayLike | Sequence, rank: int, name: str) -> list[tuple[int, int]]:
    """(before, after) for every dimension from NumPy's short forms."""
    if isinstance(value, dict):
        pairs = [(0, 0)] * rank
        for axis, p in value.items():
            pairs[operator.index(axis)] = tuple(p) if isinstance(p, Sequence) else (p, p)  # type: ignore[assignment]
        value = pairs
    widths = (
        np.asarray(concrete(value, f"pad: {name}"))
        if not isinstance(value, list | tuple)
        else np.asarray(value)
    )
    if widths.dtype.kind not in "iu" and widths.size:
        raise ArgumentError(f"weft.numpy.pad: {name} must consist of integers, got {value!r}")
    try:
        full = np.broadcast_to(widths, (rank, 2))
    except ValueError:
        raise ArgumentError(
            f"weft.numpy.pad: {name} must be an int, (before, after), or one such pair for each of "
            f"the {rank} dimensions, got {value!r}"
        ) from None
    return [(int(a), int(b)) for a, b in full]


def _values(value: Any, rank: int, dtype: object) -> list[tuple[Any, Any]]:
    """Return pairs of values, which may be traced, as `_pairs` does of widths."""
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], list | tuple):
            rows = [tuple(v) if len(v) == 2 else (v[0], v[0]) for v in value]
            rows = rows * rank if len(rows) == 1 else rows
        else:
            rows = [tuple(value) if len(value) == 2 else (value[0], value[0])] * rank
    else:
        whole = typeof(value)
        if whole.ndim:
            grid = _broadcast_to(to_array(value), (rank, 2))
            rows = [(grid[i, 0], grid[i, 1]) for i in range(rank)]
        else:
            rows = [(value, value)] * rank
    return [(cast(a, dtype), cast(b, dtype)) for a, b in rows]


def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: str | Callable = "constant",
    **kwargs: Any,
) -> Any:
    """Return the array with elements added before and after each dimension.

    pad_width: an int, (before, after), one pair for each dimension, or a dict from axis to pair.
    mode: 'constant' (constant_values), 'edge', 'empty', 'linear_ramp' (end_values), 'maximum',
    'mean', 'median', 'minimum' (stat_length), 'reflect', 'symmetric' (reflect_type), 'wrap', or a
    function (vector, (before, after), axis, kwargs) -> vector. Source: numpy.pad.

    >>> import weft
    >>> weft.numpy.pad(weft.numpy.array([1, 2]), (1, 2))
    Array([0, 1, 2, 0, 0], dtype=int32)
    """
    aval = aval_of("pad", array)
    x = to_array(array)
    widths = _pairs(pad_width, aval.ndim, "pad_width")
    if callable(mode):
        return _pad_by_function(x, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(
            f"weft.numpy.pad: mode must be one of {sorted(_OPTIONS)} or a function, got {mode!r}"
        )
    unknown = set(kwargs) - set(_OPTIONS[mode])
    if unknown:
        raise ArgumentError(
            f"weft.numpy.pad: mode {mode!r} does not take {sorted(unknown)}; it takes "
            f"{list(_OPTIONS[mode])}"
        )
    if any(n < 0 for pair in widths for n in pair):
        raise ArgumentError(
            f"weft.numpy.pad: pad_width must not be negative, got {widths}; cut by slicing"
        )
    # These two do not read the array, so that all axes are padded at once.
    if mode in ("constant", "empty"):
        return _constant(x, widths, kwargs.get("constant_values", 0))
    # One axis after another, so that corners are filled from what was added before.
    for axis, (before, after) in enumerate(widths):
        if before == after == 0:
            continue
        n = aval.shape[axis]
        if n == 0:
            raise ArgumentError(
                f"weft.numpy.pad: axis {axis} is empty, only mode 'constant' can extend it"
            )
        if mode == "edge":
            x = _edge(x, axis, before, after)
        elif mode == "wrap":
            x = take_known(x, np.arange(-before, n + after) % n, axis)
        elif mode in ("reflect", "symmetric"):
            x = _mirror(x, axis, before, after, mode, kwargs.get("reflect_type", "even"))
        elif mode == "linear_ramp":
            ends = _values(kwargs.get("end_values", 0), aval.ndim, aval.dtype)[axis]
            x = _ramp(x, axis, before, after, ends)
        else:
            x = _statistic(x, axis, before, after, mode, kwargs.get("stat_length"), aval.ndim)
    return x


def _constant(x: Array, widths: list, value: float | int | tuple) -> Any:
    dtype = typeof(x).dtype
    rank = len(widths)
    if not isinstance(value, list | tuple) and typeof(value).ndim == 0:
        config = tuple((a, b, 0) for a, b in widths)
        return joining.pad_p.bind(x, cast(_host(value, dtype), dtype), padding_config=config)
    for axis, (values, width) in enumerate(zip(_values(value, rank, dtype), widths, strict=True)):
        for side in (0, 1):
            if width[side]:
                pair = (width[0], 0, 0) if side == 0 else (0, width[1], 0)
                config = tuple(pair if d == axis else (0, 0, 0) for d in range(rank))
                x = joining.pad_p.bind(x, values[side], padding_config=config)
    return x


def _host(value: Array, dtype: Any) -> Any:
    """Return a Python number in the dtype without an op."""
    if isinstance(value, bool | int | float | complex | np.generic):
        return np.asarray(value).astype(dtype)[()]
    return value


def _slice(x: Array, axis: int, start: int, stop: int) -> Any:
    return slice_in_dim(x, start, stop, axis=axis)


def _repeat(edge: Array, axis: int, n: int) -> Any:
    """Return a slice of size 1 repeated along its axis."""
    shape = typeof(edge).shape
    return _broadcast_to(edge, (*shape[:axis], n, *shape[axis + 1 :]))


def _edge(x: Array, axis: int, before: int, after: int) -> Any:
    n = typeof(x).shape[axis]
    parts = [x]
    if before:
        parts.insert(0, _repeat(_slice(x, axis, 0, 1), axis, before))
    if after:
        parts.append(_repeat(_slice(x, axis, n - 1, n), axis, after))
    return joining.concatenate(parts, axis)


def _mirror(x: Array, axis: int, before: int, after: int, mode: str, kind: str) -> Any:
    if kind not in ("even", "odd"):
        raise ArgumentError(f"weft.numpy.pad: reflect_type must be 'even' or 'odd', got {kind!r}")
    n = typeof(x).shape[axis]
    if kind == "even":
        if n == 1 and mode == "reflect":
            return _edge(x, axis, before, after)
        index = np.arange(-before, n + after)
        period = 2 * (n - 1) if mode == "reflect" else 2 * n
        index %= period
        last = period if mode == "reflect" else period - 1
        return take_known(x, np.where(index < n, index, last - index), axis)

    skip = 1 if mode == "reflect" else 0
    if n == 1 and mode == "reflect":
        return _edge(x, axis, before, after)
    while before > 0:
        size = typeof(x).shape[axis]
        m = min(before, size - skip)
        edge = _slice(x, axis, 0, 1)
        part = joining.rev(_slice(x, axis, skip, m + skip), (axis,))
        x = joining.concatenate([subtract(multiply(edge, 2), part), x], axis)
        before -= m
    while after > 0:
        size = typeof(x).shape[axis]
        m = min(after, size - skip)
        edge = _slice(x, axis, size - 1, size)
        part = joining.rev(_slice(x, axis, size - skip - m, size - skip), (axis,))
        x = joining.concatenate([x, subtract(multiply(edge, 2), part)], axis)
        after -= m
    return x


def _ramp(x: Array, axis: int, before: int, after: int, ends: tuple) -> Any:
    aval = typeof(x)
    shape = (*aval.shape[:axis], *aval.shape[axis + 1 :])
    parts = [x]

    def ramp(end: Array, edge: Array, n: int) -> Any:
        edge = ops.squeeze(edge, (axis,))
        whole = aval.dtype if aval.dtype.kind in "iu" else None  # of which linspace takes the floor
        end = _broadcast_to(end, shape)
        values = linspace(end, edge, n, endpoint=False, dtype=whole, axis=axis)
        return cast(values, aval.dtype)

    if before:
        parts.insert(0, ramp(ends[0], _slice(x, axis, 0, 1), before))
    if after:
        n = aval.shape[axis]
        parts.append(joining.rev(ramp(ends[1], _slice(x, axis, n - 1, n), after), (axis,)))
    return joining.concatenate(parts, axis)


def _statistic(
    x: Array, axis: int, before: int, after: int, mode: str, lengths: Any, rank: int
) -> Any:
    aval = typeof(x)
    n = aval.shape[axis]
    pair = (n, n) if lengths is None else _pairs(lengths, rank, "stat_length")[axis]
    if min(pair) < 1:
        raise ArgumentError(f"weft.numpy.pad: stat_length must be positive, got {min(pair)}")
    functions: dict[str, Callable] = {
        "maximum": max_,
        "minimum": min_,
        "mean": mean,
        "median": median,
    }
    function = functions[mode]

    def value(part: Array, count: int) -> Any:
        v = function(part, axis=axis, keepdims=True)
        if mode in ("mean", "median") and aval.dtype.kind in "iu":
            v = round_(v)
        return _repeat(convert(v, aval.dtype, aval.weak_type), axis, count)

    parts = [x]
    if before:
        parts.insert(0, value(_slice(x, axis, 0, min(pair[0], n)), before))
    if after:
        parts.append(value(_slice(x, axis, n - min(pair[1], n), n), after))
    return joining.concatenate(parts, axis)


def _pad_by_function(x: ArrayLike, widths: list, function: Callable, kwargs: dict) -> Any:
    x = _constant(x, widths, 0)
    for axis, width in enumerate(widths):
        x = apply_along_axis(function, axis, x, width, axis, kwargs)
    return x
