# Tests: tests/numpy/test_reductions.py
"""Reductions of the elements that are not NaN."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import INEXACT, aval_of, cast, fill, refuse_out
from weft.numpy.operands import named
from weft.numpy.reductions import all, masked, max, mean, min, prod, sum, var
from weft.numpy.ufuncs import logical_and, logical_not
from weft.numpy.value_tests import isnan
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


def _not_nan(a: ArrayLike, where: object) -> Any:
    present = logical_not(isnan(a))
    return present if where is None else logical_and(present, where)


def _nan_sum(name: str, reduce: Callable, identity: int, doc: str) -> Callable:
    def function(
        a: ArrayLike,
        axis: int | Sequence[int] | None = None,
        dtype: DTypeLike | None = None,
        out: object = None,
        keepdims: builtins.bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Any:
        aval_of(name, a)
        return reduce(without_nan(a, identity), axis, dtype, out, keepdims, initial, where)

    return named(function, name, doc)


nansum = _nan_sum("nansum", sum, 0, "Return the sum of the elements that are not NaN.")
nanprod = _nan_sum("nanprod", prod, 1, "Return the product of the elements that are not NaN.")


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

    return named(function, name, doc)


nanmax = _nan_extremum("nanmax", max, ops.lowest, "Return the greatest element that is not NaN.")
nanmin = _nan_extremum("nanmin", min, ops.highest, "Return the least element that is not NaN.")


def nanmean(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Return the mean of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nanmean(wnp.array([1.0, wnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    refuse_out("nanmean", out)
    if aval_of("nanmean", a).dtype not in INEXACT:
        return mean(a, axis, dtype, None, keepdims, where=where)
    return mean(a, axis, dtype, None, keepdims, where=_not_nan(a, where))


def _nan_spread(name: str, of_variance: Callable, doc: str) -> Callable:
    def function(
        a: ArrayLike,
        axis: int | Sequence[int] | None = None,
        dtype: DTypeLike | None = None,
        out: object = None,
        ddof: float = 0,
        keepdims: builtins.bool = False,
        where: ArrayLike | None = None,
        mean: object = None,
    ) -> Any:
        refuse_out(name, out)
        if where is not None and aval_of(name, where).dtype != np.bool_:
            raise ArgumentError(f"weft.numpy.{name}: where must be of bools, got {where!r:.60}")
        if aval_of(name, a).dtype not in INEXACT:
            return of_variance(var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean))
        where = _not_nan(a, where)
        n = sum(_broadcast_to(where, typeof(a).shape), axis, keepdims=keepdims)
        a = masked(name, a, where, 0)  # so that no derivative is NaN
        x = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean)
        if typeof(x).dtype in INEXACT:
            few = ew.le_p.bind(n, cast(ddof, typeof(n).dtype))
            x = ew.select(few, fill(typeof(x).shape, np.nan, typeof(x).dtype), x)
        return of_variance(x)

    return named(function, name, doc)


nanvar = _nan_spread("nanvar", lambda x: x, "Return the variance of the elements that are not NaN.")
nanstd = _nan_spread(
    "nanstd", ew.sqrt_p.bind, "Return the standard deviation of the elements that are not NaN."
)
