# Tests: tests/numpy/test_functions.py
"""Positions of extrema, and running sums and products."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.shape import reshape
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import INEXACT, aval_of, axes_of, canonical, cast, fill, refuse_out, to_array
from weft.numpy.nan_reductions import without_nan
from weft.numpy.reductions import _bool, all, sum, sum_dtype
from weft.numpy.selection import diagonal
from weft.ops import argreduce, cumulative
from weft.ops import elementwise_api as ew
from weft.ops import reduce as ops
from weft.ops.joining import concatenate

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike

# Positions of extrema -------------------------------------------------------------------------


def _position(name: str, a: ArrayLike, axis: Any, out: object, keepdims: object) -> Any:
    refuse_out(name, out)
    aval = aval_of(name, a)
    shape = aval.shape
    if axis is None:
        if aval.ndim != 1:
            a = reshape(to_array(a), (aval.size,))
        index = 0
    else:
        (index,) = axes_of(operator.index(axis), aval.ndim)
    if typeof(a).shape[index] == 0:
        raise ArgumentError(
            f"weft.numpy.{name}: no element to choose from along the axis of {aval.str_short()}"
        )
    x = getattr(argreduce, name)(a, index, dtypes.canonicalize_dtype(int))
    if keepdims:
        return reshape(x, (1,) * len(shape) if axis is None else _with_one(shape, index))
    return x


def _with_one(shape: tuple, axis: int) -> tuple:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def argmax(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    keepdims: bool | None = None,
) -> Any:
    """Return the first position of the greatest element, along an axis or in the flat array.

    >>> import weft
    >>> weft.numpy.argmax(weft.numpy.array([1, 5, 2]))
    Array(1, dtype=int32)
    """
    return _position("argmax", a, axis, out, keepdims)


def argmin(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    keepdims: bool | None = None,
) -> Any:
    """Return the first position of the least element, along an axis or in the flat array.

    >>> import weft.numpy as wnp
    >>> wnp.argmin(wnp.array([[4, 2, 2], [1, 5, 0]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    return _position("argmin", a, axis, out, keepdims)


def _nan_position(name: str, plain: Callable, neutral: Callable, doc: str) -> Callable:
    def function(
        a: ArrayLike, axis: int | None = None, out: ArrayLike | None = None, keepdims: object = None
    ) -> Any:
        dtype = aval_of(name, a).dtype
        if dtype not in INEXACT:
            return plain(a, axis, out, keepdims)
        x = plain(without_nan(a, neutral(dtype)), axis, out, keepdims)
        none = all(ew.ne_p.bind(a, a), axis=axis, keepdims=builtins.bool(keepdims))
        return ew.select(none, fill(typeof(x).shape, -1, typeof(x).dtype), x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} -1 where all are NaN."
    return function


nanargmax = _nan_position(
    "nanargmax", argmax, ops.lowest, "Return the position of the greatest element that is not NaN."
)
nanargmin = _nan_position(
    "nanargmin", argmin, ops.highest, "Return the position of the least element that is not NaN."
)


# Running reductions ---------------------------------------------------------------------------


def _running(
    name: str,
    op: str,
    a: ArrayLike,
    axis: Any,
    dtype: Any,
    out: object,
    skip_nan: int | None = None,
) -> Any:
    refuse_out(name, out)
    aval = aval_of(name, a)
    target = canonical(dtype, name)
    if target is None:
        target = dtypes.canonicalize_dtype(int) if aval.dtype == _bool else aval.dtype
    if skip_nan is not None:
        a = without_nan(a, skip_nan)
    a = cast(to_array(a), target)
    if axis is None:
        a, axis = reshape(a, (aval.size,)), 0
    elif not aval.ndim and axis in (0, -1):
        a = reshape(a, (1,))
    (axis,) = axes_of(axis, typeof(a).ndim)
    if target == _bool:  # sums and products of truth values: their running or, and
        op = "cummax" if op == "cumsum" else "cummin"
        return cast(getattr(cumulative, op)(cast(a, dtypes.uint8), axis), _bool)
    return getattr(cumulative, op)(a, axis)


def cumsum(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
) -> Any:
    """Return running sums along an axis, or of the flat array.

    >>> import weft
    >>> weft.numpy.cumsum(weft.numpy.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _running("cumsum", "cumsum", a, axis, dtype, out)


def cumprod(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
) -> Any:
    """Return running products along an axis, or of the flat array.

    >>> import weft.numpy as wnp
    >>> wnp.cumprod(wnp.array([[1, 2], [3, 4]]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return _running("cumprod", "cumprod", a, axis, dtype, out)


def nancumsum(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
) -> Any:
    """Return running sums, NaN counted as 0.

    >>> import weft.numpy as wnp
    >>> wnp.nancumsum(wnp.array([2.0, wnp.nan, 3.0]))
    Array([2., 2., 5.], dtype=float32)
    """
    return _running("nancumsum", "cumsum", a, axis, dtype, out, 0)


def nancumprod(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
) -> Any:
    """Return running products, NaN counted as 1.

    >>> import weft.numpy as wnp
    >>> wnp.nancumprod(wnp.array([2.0, wnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return _running("nancumprod", "cumprod", a, axis, dtype, out, 1)


def _cumulative(
    name: str,
    op: str,
    neutral: int,
    x: ArrayLike,
    axis: Any,
    dtype: object,
    include_initial: object,
) -> Any:
    aval = aval_of(name, x)
    if aval.ndim == 0:
        raise ArgumentError(f"weft.numpy.{name}: x must have a dimension, got {aval.str_short()}")
    if axis is None:
        if aval.ndim > 1:
            raise ArgumentError(f"weft.numpy.{name}: axis is needed for more than one dimension")
        axis = 0
    (axis,) = axes_of(axis, aval.ndim)
    dtype = sum_dtype(aval.dtype, True) if dtype is None else dtype
    out = _running(name, op, x, axis, dtype, None)
    if include_initial:
        first = fill(_with_one(aval.shape, axis), neutral, typeof(out).dtype)
        out = concatenate([first, out], axis)
    return out


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    include_initial: builtins.bool = False,
) -> Any:
    """Return running sums along an axis, with a leading 0 if include_initial (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.cumulative_sum(wnp.array([2, 3, 4]), include_initial=True)
    Array([0, 2, 5, 9], dtype=int32)
    """
    return _cumulative("cumulative_sum", "cumsum", 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    include_initial: builtins.bool = False,
) -> Any:
    """Multiply along an axis, running; include_initial: a leading 1 (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.cumulative_prod(wnp.array([2, 3, 4]), include_initial=True)
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return _cumulative("cumulative_prod", "cumprod", 1, x, axis, dtype, include_initial)


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: object = None,
) -> Any:
    """Return the sum of a diagonal of two axes. Source: numpy.trace.

    >>> import weft.numpy as wnp
    >>> wnp.trace(wnp.arange(9).reshape(3, 3), offset=1)
    Array(6, dtype=int32)
    """
    refuse_out("trace", out)
    aval_of("trace", a)
    return sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)
