"""Reductions of the elements that are not NaN."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import INEXACT, aval_of, cast, fill, refuse_out
from weft.numpy.reductions import all, masked, max, mean, min, prod, sum, var
from weft.numpy.ufuncs import isnan, logical_and, logical_not
from weft.ops import elementwise_api as ew
from weft.ops import reduce as ops
from weft.ops.promote import broadcast_to as _broadcast_to

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def without_nan(a: ArrayLike, value: ArrayLike) -> Any:
    aval = typeof(a)
    if aval.dtype not in INEXACT:
        return a
    return ew.select(ew.ne_p.bind(a, a), fill(aval.shape, value, aval.dtype), a)


def _not_nan(a: Any, where: object) -> Any:
    present = logical_not(isnan(a))
    return present if where is None else logical_and(present, where)


def nansum(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Any:
    """The sum of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nansum(wnp.array([[2.0, wnp.nan], [wnp.nan, wnp.nan]]), axis=1)
    Array([2., 0.], dtype=float32)
    """
    aval_of("nansum", a)
    return sum(without_nan(a, 0), axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Any:
    """The product of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nanprod(wnp.array([2.0, wnp.nan, 3.0]))
    Array(6., dtype=float32)
    """
    aval_of("nanprod", a)
    return prod(without_nan(a, 1), axis, dtype, out, keepdims, initial, where)


def _nan_extremum(name: str, reduce: Callable, neutral: Callable, doc: str) -> Callable:
    def function(
        a: ArrayLike,
        axis: object = None,
        out: object = None,
        keepdims: builtins.bool = False,
        initial: object = None,
        where: object = None,
    ) -> Any:
        aval = aval_of(name, a)
        x = reduce(without_nan(a, neutral(aval.dtype)), axis, out, keepdims, initial, where)
        if aval.dtype not in INEXACT or initial is not None:
            return x
        none = all(ew.ne_p.bind(a, a), axis=axis, keepdims=keepdims)
        return ew.select(none, fill(typeof(x).shape, np.nan, typeof(x).dtype), x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


nanmax = _nan_extremum("nanmax", max, ops.lowest, "The greatest element that is not NaN.")


nanmin = _nan_extremum("nanmin", min, ops.highest, "The least element that is not NaN.")


def nanmean(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """The mean of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nanmean(wnp.array([1.0, wnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    refuse_out("nanmean", out)
    if aval_of("nanmean", a).dtype not in INEXACT:
        return mean(a, axis, dtype, None, keepdims, where=where)
    return mean(a, axis, dtype, None, keepdims, where=_not_nan(a, where))


def nanvar(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
    mean: object = None,
) -> Any:
    """The variance of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nanvar(wnp.array([1.0, wnp.nan, 3.0]), ddof=1)
    Array(2., dtype=float32)
    """
    refuse_out("nanvar", out)
    if where is not None and aval_of("nanvar", where).dtype != np.bool_:
        raise ArgumentError(f"weft.numpy.nanvar: where must be of bools, got {typeof(where).dtype}")
    if aval_of("nanvar", a).dtype in INEXACT:
        where = _not_nan(a, where)
        n = sum(_broadcast_to(where, typeof(a).shape), axis, keepdims=keepdims)
        a = masked("nanvar", a, where, 0)  # so that no derivative is NaN
        x = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean)
        if typeof(x).dtype not in INEXACT:
            return x
        few = ew.le_p.bind(n, cast(ddof, typeof(n).dtype))
        return ew.select(few, fill(typeof(x).shape, np.nan, typeof(x).dtype), x)
    return var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean)


def nanstd(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
    mean: object = None,
) -> Any:
    """The standard deviation of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nanstd(wnp.array([1.0, wnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("nanstd", out)
    return ew.sqrt_p.bind(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean))
