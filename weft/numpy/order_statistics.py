# Tests: tests/numpy/test_functions.py, tests/native/test_sorting.py
"""Medians and quantiles."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.rounding as rounding
import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.core import dtypes
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.trace import typeof
from weft.numpy.common import (
    aval_of,
    axes_of,
    cast,
    check_array,
    convert,
    fill,
    inexact,
    place,
    refuse_out,
    strong,
    to_array,
)
from weft.numpy.eager import as_one_program
from weft.numpy.filled import zeros
from weft.numpy.joining import stack
from weft.numpy.scans import cumsum
from weft.numpy.selection import take_along_axis, where
from weft.numpy.ufuncs import true_divide
from weft.numpy.value_tests import isinf, isnan
from weft.ops import joining
from weft.ops import sort as sorts
from weft.ops.promote import broadcast_to, promote_inexact
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

_METHODS = (
    "linear",
    "lower",
    "higher",
    "midpoint",
    "nearest",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "median_unbiased",
    "normal_unbiased",
)
# (alpha, beta) of the continuous methods: Hyndman and Fan, "Sample quantiles in statistical
# packages", 1996.
_PLOTTING = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    overwrite_input: builtins.bool = False,
    method: str = "linear",
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Any:
    """Return the q-th quantiles over an axis, a tuple of axes, or all; q is within [0, 1].

    Of q below 0 and above 1, which rounding gives, the least and the greatest element.
    The dimensions of q come first in the result. method: one of NumPy's. weights: of the elements
    along the axis, with method 'inverted_cdf'. Source: numpy.quantile.

    >>> import weft
    >>> weft.numpy.quantile(weft.numpy.arange(5), 0.5)
    Array(2., dtype=float32)
    """
    return _quantile("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    overwrite_input: builtins.bool = False,
    method: str = "linear",
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Any:
    """Act as `quantile`, of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nanquantile(wnp.array([0.0, wnp.nan, 10.0]), 0.5)
    Array(5., dtype=float32)
    """
    return _quantile(
        "nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True
    )


def _quantile(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Any,
    out: object,
    overwrite: builtins.bool,
    method: str,
    keepdims: builtins.bool,
    weights: object,
    skip_nan: builtins.bool,
) -> Any:
    refuse_out(name, out)
    if overwrite:
        raise ArgumentError(
            f"weft.numpy.{name}: overwrite_input=True is impossible, arrays are immutable"
        )
    if method not in _METHODS:
        raise ArgumentError(f"weft.numpy.{name}: method must be one of {_METHODS}, got {method!r}")
    check_array(name, a, q)
    q_on_host = isinstance(q, int | float | np.ndarray | np.generic)
    exact = np.asarray(q, np.float64) if q_on_host else None
    a = inexact(a)
    dtype_of_a = typeof(a).dtype
    a, q = (strong(v) for v in promote_inexact(a, q))
    if typeof(q).ndim > 1:
        raise ArgumentError(
            f"weft.numpy.{name}: q must be a number or a vector, got {typeof(q).str_short()}"
        )
    q = where(u.less(q, 0), 0, where(u.greater(q, 1), 1, q))  # with a derivative at the ends
    exact = None if exact is None else np.clip(exact, 0, 1)
    aval = typeof(a)
    if dtypes.is_complex(aval.dtype):
        raise ArgumentError(
            f"weft.numpy.{name}: complex numbers have no order, got "
            f"{aval.str_short()}; take the real part or the absolute value"
        )
    axes = axes_of(axis, aval.ndim)
    kept = [d for d in range(aval.ndim) if d not in axes]
    n = math.prod(aval.shape[d] for d in axes)
    # All reduced dimensions become one, the last.
    x = ops.transpose(a, (*kept, *axes)) if axes else to_array(a)
    x = ops.reshape(x, (*(aval.shape[d] for d in kept), n))
    # Positions between elements need more bits than half precision has.
    if aval.dtype.itemsize < 4:
        x, q = cast(x, dtypes.float32), cast(q, dtypes.float32)
    if weights is not None:
        if method != "inverted_cdf":
            raise UnsupportedArgumentError(
                f"weft.numpy.{name}: weights need method 'inverted_cdf', got {method!r}"
            )
        result = _weighted(name, x, q, weights, aval, axes, kept, skip_nan)
    elif not aval.size:  # no elements have no quantile
        result = fill((*typeof(q).shape, *typeof(x).shape[:-1]), np.nan, typeof(x).dtype)
    else:
        result = _plain(x, q, exact, method, skip_nan)
    result = cast(result, dtype_of_a)
    if keepdims:
        shape = tuple(1 if d in axes else s for d, s in enumerate(aval.shape))
        result = ops.reshape(result, typeof(q).shape + shape)
    return result


def _plain(
    x: ArrayLike, q: Array, exact: np.ndarray | None, method: str, skip_nan: builtins.bool
) -> Any:
    """Compute quantiles along the last dimension, q's come first. exact: q, known on the host."""
    from weft.numpy.reductions import any, sum

    last = typeof(x).ndim - 1
    n = typeof(x).shape[-1]
    nan = isnan(x)
    ordered = sorts.sort(x, last, False)  # NaN last
    lead = typeof(x).shape[:-1]
    qs = ops.reshape(q, typeof(q).shape + (1,) * len(lead))
    if skip_nan:
        count = cast(sum(u.logical_not(nan), axis=-1), typeof(x).dtype)
    elif exact is not None:
        return _known(ordered, any(nan, axis=-1), exact, method)
    else:
        count = typeof(x).dtype.type(n)
    low, high, weight = _bracket(qs, count, method, u, where)
    if not skip_nan and not lead:
        low = ops.reshape(low, typeof(q).shape)
    shape = ops.broadcast_shapes(typeof(low).shape, typeof(q).shape + lead)
    low, high, weight = (_spread(v, shape) for v in (low, high, weight))

    def at(position: Array) -> Any:
        index = cast(position, dtypes.canonicalize_dtype(np.int32))
        extra = len(shape) - len(lead)
        index = ops.reshape(index, shape) if extra == 0 else index
        if extra == 0:
            return take_along_axis(ordered, index[..., None], -1, mode="clip")[..., 0]
        moved = ops.transpose(index, (*range(1, len(shape)), 0))
        return ops.transpose(
            take_along_axis(ordered, moved, -1, mode="clip"),
            (len(shape) - 1, *range(len(shape) - 1)),
        )

    if method in ("lower", "higher", "inverted_cdf", "closest_observation", "nearest"):
        out = at(low)
    else:
        below, above = at(low), at(high)
        # Between equal infinities there is nothing to interpolate.
        same = u.logical_and(u.equal(below, above), isinf(below))
        step = where(same, cast(0.0, typeof(x).dtype), u.subtract(above, below))
        out = u.add(below, u.multiply(step, weight))
    invalid = isnan(qs)
    if skip_nan:
        invalid = u.logical_or(invalid, u.equal(count, 0))
    else:
        invalid = u.logical_or(invalid, any(nan, axis=-1))
    return where(invalid, cast(np.nan, typeof(x).dtype), out)


def _known(ordered: Array, nan: Array, q: np.ndarray, method: str) -> Any:
    """Compute quantiles of sorted numbers for q known on the host, as positions are then, too."""
    shape, dtype = typeof(ordered).shape, typeof(ordered).dtype
    if q.size == 0:
        return zeros((*q.shape, *shape[:-1]), dtype)
    last = len(shape) - 1
    low, high, weight = _bracket(q, np.float64(shape[-1]), method, np, np.where)

    def at(position: np.ndarray) -> Any:
        parts = [slice_in_dim(ordered, i, i + 1, axis=last) for i in position.astype(int).flat]
        if not position.ndim:
            return ops.reshape(parts[0], shape[:-1])
        return joining.concatenate([ops.reshape(p, (1, *shape[:-1])) for p in parts], 0)

    clean = np.nan_to_num(low), np.nan_to_num(high)
    out = at(clean[0])
    if (clean[0] != clean[1]).any() and weight.any():
        above = at(clean[1])
        share = weight.astype(dtype).reshape(q.shape + (1,) * last)
        # Between equal infinities there is nothing to interpolate.
        same = u.logical_and(u.equal(out, above), isinf(out))
        step = where(same, dtype.type(0), u.subtract(above, out))
        out = u.add(out, u.multiply(step, share if q.ndim else dtype.type(weight)))
    if np.isnan(q).any():
        nan = u.logical_or(nan, np.isnan(q).reshape(q.shape + (1,) * last))
    return where(nan, dtype.type(np.nan), out)


def _spread(x: ArrayLike, shape: tuple) -> Any:
    return broadcast_to(to_array(x), shape)


def _bracket(q: ArrayLike, n: ArrayLike, method: str, u: Any, where: Any) -> tuple[Any, Any, Any]:
    """Return the positions below and above the quantile, and the weight of the upper one.

    u, where: the functions of weft.numpy, or NumPy's where q and n are known on the host.
    """
    r = np if u is np else rounding
    top = u.subtract(n, 1)
    none = u.multiply(q, 0)
    if method in _PLOTTING:
        if method == "linear":
            place_ = u.multiply(q, top)
        else:
            alpha, beta = _PLOTTING[method]
            shift = u.subtract(u.add(u.multiply(q, 1 - alpha - beta), alpha), 1)
            place_ = u.add(u.multiply(n, q), shift)
        place_ = u.minimum(u.maximum(place_, 0), top)
        low = r.floor(place_)
        return low, u.minimum(u.add(low, 1), top), u.subtract(place_, low)
    if method in ("inverted_cdf", "averaged_inverted_cdf"):
        exact = u.multiply(n, q)
        low = u.subtract(r.ceil(exact), 1)
        whole = u.equal(r.floor(exact), exact)
        low, high = (u.minimum(u.maximum(v, 0), top) for v in (low, where(whole, low + 1, low)))
        if method == "inverted_cdf":
            return low, low, none
        return low, high, where(whole, none + 0.5, none)
    if method == "closest_observation":
        exact = u.subtract(u.multiply(n, q), 0.5)
        down = r.floor(exact)
        stay = u.logical_and(u.equal(exact, down), u.not_equal(r.floor(down / 2), down / 2))
        low = u.minimum(u.maximum(where(stay, u.subtract(down, 1), down), 0), top)
        return low, low, none
    place_ = u.minimum(u.maximum(u.multiply(q, top), 0), top)
    if method == "nearest":
        low = r.rint(place_)
        return low, low, none
    low, high = r.floor(place_), r.ceil(place_)
    if method == "lower":
        return low, low, none
    if method == "higher":
        return high, high, none
    return low, high, where(u.equal(low, high), none, none + 0.5)  # midpoint


def _weighted(
    name: str,
    x: ArrayLike,
    q: Array,
    weights: object,
    aval: Any,
    axes: tuple,
    kept: list,
    skip_nan: object,
) -> Any:
    """Return the least element whose share of the weight up to it reaches q."""
    from weft.numpy.reductions import any, sum

    wval = aval_of(name, weights)
    w = cast(weights, typeof(x).dtype)
    if wval.shape != aval.shape:
        if wval.ndim != 1 or len(axes) != 1 or wval.shape[0] != aval.shape[axes[0]]:
            raise ArgumentError(
                f"weft.numpy.{name}: weights of shape {wval.shape} match neither the array "
                f"{aval.shape} nor its axis"
            )
        w = broadcast_to(w, typeof(x).shape)
    else:
        w = ops.reshape(ops.transpose(w, (*kept, *axes)), typeof(x).shape)
    nan = isnan(x)
    if skip_nan:
        # Skipped elements weigh nothing.
        w = where(nan, 0, w)
    last = typeof(x).ndim - 1
    ordered, w = sorts.sort((x, w), last, True, 1)
    share = cumsum(w, axis=-1)
    total = share[..., -1:]

    def one(level: ArrayLike) -> Any:
        reached = u.greater_equal(share, u.multiply(level, total))
        positive = u.greater(share, 0)
        index = sum(u.logical_not(u.logical_and(reached, positive)), axis=-1, keepdims=True)
        value = take_along_axis(ordered, index, -1, mode="clip")[..., 0]
        bad = isnan(level)
        if not skip_nan:
            bad = u.logical_or(bad, any(nan, axis=-1))
        return where(bad, cast(np.nan, typeof(x).dtype), value)

    if typeof(q).ndim == 0:
        return one(q)

    return stack([one(q[i]) for i in range(typeof(q).shape[0])])


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    overwrite_input: builtins.bool = False,
    method: str = "linear",
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: object = None,
) -> Any:
    """Act as `quantile`, with q within [0, 100].

    >>> import weft.numpy as wnp
    >>> wnp.percentile(wnp.array([[0.0, 10.0], [4.0, 5.0]]), wnp.array([0, 50]), axis=1)
    Array([[0. , 4. ],
           [5. , 4.5]], dtype=float32)
    """
    options = axis, out, overwrite_input, method, keepdims, weights
    result = _percentile("percentile", a, q, *options, False)
    return place(result, None, out_sharding)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    overwrite_input: builtins.bool = False,
    method: str = "linear",
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Any:
    """Act as `percentile`, of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nanpercentile(wnp.array([0.0, wnp.nan, 10.0]), 30)
    Array(3., dtype=float32)
    """
    options = axis, out, overwrite_input, method, keepdims, weights
    return _percentile("nanpercentile", a, q, *options, True)


def _percentile(name: str, a: ArrayLike, q: ArrayLike, *options: Any) -> Any:
    """`_quantile` of a percentage, as one program: each option is a part of its key."""
    check_array(name, a, q)
    numbered = {f"option{i}": option for i, option in enumerate(options)}
    return as_one_program(_quantile_with, a, _hundredth(q), name=name, **numbered)


def _quantile_with(a: ArrayLike, q: ArrayLike, *, name: str, **options: Any) -> Any:
    return _quantile(name, a, q, *options.values())


def _hundredth(q: ArrayLike) -> Any:
    """Return the fraction that a percentage is, divided here: programs multiply by a reciprocal."""
    if isinstance(q, int | float) or (isinstance(q, np.ndarray) and q.dtype.kind == "f"):
        return q / 100
    if dtypes.is_integer(aval_of("percentile", q).dtype):
        q = convert(q, dtypes.canonicalize_dtype(float), True)  # the array's dtype decides
    return true_divide(q, 100)


def median(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    overwrite_input: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> Any:
    """Return the middle element over an axis, a tuple of axes, or all; of two, the mean.

    >>> import weft
    >>> weft.numpy.median(weft.numpy.array([1.0, 3.0, 2.0]))
    Array(2., dtype=float32)
    """
    return _quantile(
        "median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, False
    )


def nanmedian(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    overwrite_input: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> Any:
    """Act as `median`, of the elements that are not NaN.

    >>> import weft.numpy as wnp
    >>> wnp.nanmedian(wnp.array([1.0, wnp.nan, 3.0, 8.0]))
    Array(3., dtype=float32)
    """
    return _quantile(
        "nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, True
    )
