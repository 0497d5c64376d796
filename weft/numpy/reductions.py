"""Reductions over axes: sums, products, extrema, truth, means and moments."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as ufuncs
from weft.autodiff.shape import broadcast_shapes, reshape, transpose
from weft.collectives.extrema import pmax, pmin
from weft.collectives.reduce import pmean, psum
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import (
    INEXACT,
    aval_of,
    axes_of,
    canonical,
    cast,
    convert,
    fill,
    refuse_out,
    to_array,
)
from weft.numpy.named_axes import apart, count, has_names
from weft.numpy.selection import where as choose
from weft.numpy.ufuncs import divide, multiply, subtract
from weft.ops import elementwise_api as ew
from weft.ops import reduce as ops
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.promote import promote_inexact

if TYPE_CHECKING:
    from weft.core.primitive import Primitive
    from weft.typing import ArrayLike, DTypeLike

_bool = dtypes.bool_


def _keep(x: object, shape: tuple, axes: tuple) -> Any:
    """Return the reduced dimensions put back with size 1."""
    return reshape(x, tuple(1 if i in axes else d for i, d in enumerate(shape)))


def masked(name: str, a: ArrayLike, where: ArrayLike, value: ArrayLike) -> Any:
    """Return a with the elements outside `where` replaced by a scalar."""
    mask = aval_of(name, where)
    if mask.dtype != _bool:
        raise ArgumentError(
            f"weft.numpy.{name}: where must be booleans, got {mask.str_short()}; compare "
            "first, for example where != 0"
        )
    aval = typeof(a)
    shape = broadcast_shapes(aval.shape, mask.shape)
    a, where = _broadcast_to(a, shape), _broadcast_to(where, shape)
    return ew.select_n_p.bind(where, fill(shape, value, aval.dtype), a)


def sum_dtype(dtype: Any, promote_integers: builtins.bool) -> Any:
    """Return the dtype of a sum: the default integer type for narrower integers."""
    if dtype == _bool:
        return dtypes.canonicalize_dtype(int)
    if promote_integers and dtypes.is_integer(dtype):
        default = dtypes.canonicalize_dtype(np.uint64 if dtypes.is_unsigned(dtype) else np.int64)
        return default if dtype.itemsize < default.itemsize else dtype
    return dtype


def _sum_like(
    name: str,
    prim: Primitive,
    identity: int,
    combine: Any,
    a: Any,
    axis: Any,
    dtype: DTypeLike | None,
    keepdims: builtins.bool,
    initial: Any,
    where: Any,
    promote_integers: builtins.bool = True,
) -> Any:
    aval = aval_of(name, a)
    out_dtype = sum_dtype(aval.dtype, promote_integers) if dtype is None else canonical(dtype, name)
    if out_dtype == _bool:  # the sum and the product of truth values
        a, initial = (v if v is None else _nonzero(name, v) for v in (a, initial))
        prim, combine = _OF_BOOLEANS[prim], _OF_BOOLEANS[combine]
    # Narrow floats are added up in float32 and rounded once.
    narrow = out_dtype.itemsize < 4 and out_dtype in dtypes.FLOATS
    computed = dtypes.float32 if narrow else out_dtype
    a = cast(a, computed)
    if where is not None:
        a = masked(name, a, where, identity)
        aval = typeof(a)
    axes = axes_of(axis, aval.ndim)
    out = prim.bind(a, axes=axes) if axes else to_array(a)
    if initial is not None:
        if aval_of(name, initial).ndim:
            raise ArgumentError(
                f"weft.numpy.{name}: initial must be a scalar, got {typeof(initial).str_short()}"
            )
        out = combine.bind(out, cast(initial, computed))
    if narrow:
        out = convert(out, out_dtype)
    return _keep(out, aval.shape, axes) if keepdims else out


_OF_BOOLEANS = {
    ops.reduce_sum_p: ops.reduce_or_p,
    ops.reduce_prod_p: ops.reduce_and_p,
    ew.add_p: ew.or_p,
    ew.mul_p: ew.and_p,
}


def _nonzero(name: str, x: ArrayLike) -> Any:
    return ew.ne_p.bind(x, aval_of(name, x).dtype.type(0))


def sum(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: builtins.bool = True,
) -> Any:
    """Return the sum over an axis, a tuple of axes, or all.

    axis: the name of an axis of `vmap` or `shard_map` is taken too, as by `max`, `min`, `mean`,
    `var` and `std`.
    dtype: of the sum; narrow integers are summed as int32 (int64 with enable_x64) by default.
    where: booleans that say which elements count. initial: a scalar to start from.
    Source: numpy.sum.

    >>> import weft
    >>> weft.numpy.sum(weft.numpy.ones((2, 3)), axis=1)
    Array([3., 3.], dtype=float32)
    """
    if out is not None:
        refuse_out("sum", out)
    if has_names(axis):
        positions, names = apart(axis)
        part = sum(a, positions, dtype, None, keepdims, None, where, promote_integers)
        total = psum(part, names)
        return total if initial is None else cast(ufuncs.add(total, initial), typeof(part).dtype)
    options = axis, dtype, keepdims, initial, where, promote_integers
    return _sum_like("sum", ops.reduce_sum_p, 0, ew.add_p, a, *options)


def prod(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: builtins.bool = True,
) -> Any:
    """Return the product over an axis, a tuple of axes, or all. Arguments as for `sum`.

    >>> import weft.numpy as wnp
    >>> wnp.prod(wnp.array([[1, 2], [3, 4]], "int8"), axis=0)
    Array([3, 8], dtype=int32)
    """
    refuse_out("prod", out)
    options = axis, dtype, keepdims, initial, where, promote_integers
    return _sum_like("prod", ops.reduce_prod_p, 1, ew.mul_p, a, *options)


def _extremum(
    name: str,
    prim: Primitive,
    neutral: Callable,
    combine: Any,
    a: Any,
    axis: Any,
    out: object,
    keepdims: builtins.bool,
    initial: object,
    where: Any,
) -> Any:
    if out is not None:
        refuse_out(name, out)
    if has_names(axis):
        positions, names = apart(axis)
        x = _extremum(name, prim, neutral, combine, a, positions, out, keepdims, initial, where)
        return (pmax if name == "max" else pmin)(x, names)
    aval = aval_of(name, a)
    axes = axes_of(axis, aval.ndim)
    if where is not None:
        if initial is None:
            raise ArgumentError(
                f"weft.numpy.{name}: where needs initial, because {name} of no elements has no "
                "value"
            )
        a = masked(name, a, where, neutral(aval.dtype))
        aval = typeof(a)
    if initial is None and builtins.any(aval.shape[i] == 0 for i in axes):
        raise ArgumentError(
            f"weft.numpy.{name}: {name} of no elements has no value, got {aval.str_short()} over "
            f"axes {axes}; pass initial"
        )
    if not axes:
        x = to_array(a)
    elif aval.dtype in dtypes.COMPLEX:
        x = _complex_extremum(name, a, axes)
    else:
        x = prim.bind(a, axes=axes)
    if initial is not None:
        if aval_of(name, initial).ndim:
            raise ArgumentError(
                f"weft.numpy.{name}: initial must be a scalar, got {typeof(initial).str_short()}"
            )
        x = getattr(ufuncs, combine)(cast(initial, aval.dtype), x)
    if aval.weak_type:
        x = convert(x, aval.dtype)
    return _keep(x, aval.shape, axes) if keepdims else x


def _complex_extremum(name: str, a: object, axes: tuple) -> Any:
    """Return the extremum in the order by real part, then imaginary part."""
    reduce = max if name == "max" else min
    worst = -np.inf if name == "max" else np.inf
    re, im = ew.real_p.bind(a), ew.imag_p.bind(a)
    best = reduce(re, axis=axes, keepdims=True)
    attained = ew.eq_p.bind(re, _broadcast_to(best, typeof(re).shape))
    im = ew.select(attained, im, fill(typeof(im).shape, worst, typeof(im).dtype))
    out = ew.complex_p.bind(reshape(best, ops._reduced(typeof(a), axes)), reduce(im, axis=axes))
    has_nan = any(ew.ne_p.bind(a, a), axis=axes)
    return ew.select(has_nan, fill(typeof(out).shape, np.nan, typeof(out).dtype), out)


def max(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Any:
    """Return the greatest element over an axis, a tuple of axes, or all; NaN if one is.

    Raises ValueError for no elements without `initial`. Source: numpy.max.

    >>> import weft
    >>> weft.numpy.max(weft.numpy.array([1, 3, 2]))
    Array(3, dtype=int32)
    """
    return _extremum(
        "max", ops.reduce_max_p, ops.lowest, "maximum", a, axis, out, keepdims, initial, where
    )


def min(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Any:
    """Return the least element over an axis, a tuple of axes, or all; NaN if one is.

    >>> import weft.numpy as wnp
    >>> wnp.min(wnp.array([[4, 2], [3, 7]]), axis=0)
    Array([3, 2], dtype=int32)
    """
    return _extremum(
        "min", ops.reduce_min_p, ops.highest, "minimum", a, axis, out, keepdims, initial, where
    )


def minmax(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> tuple[Any, Any]:
    """Return the minimum and the maximum.

    initial: one value that both start with, or the greatest minimum and the least maximum.
    Source: numpy.minmax (NumPy 2.5).

    >>> import weft.numpy as wnp
    >>> wnp.minmax(wnp.array([3, 1, 2]))
    (Array(1, dtype=int32), Array(3, dtype=int32))
    """
    least, most = initial if isinstance(initial, tuple) else (initial, initial)
    return min(a, axis, out, keepdims, least, where), max(a, axis, out, keepdims, most, where)


amax, amin = max, min


def _logical(name: str, prim: Primitive, neutral: builtins.bool) -> Callable:
    def function(
        a: ArrayLike,
        axis: int | Sequence[int] | None = None,
        out: object = None,
        keepdims: builtins.bool = False,
        *,
        where: Any = None,
    ) -> Any:
        refuse_out(name, out)
        aval = aval_of(name, a)
        if aval.dtype != _bool:
            a = _nonzero(name, a)
        if where is not None:
            a = masked(name, a, where, neutral)
            aval = typeof(a)
        axes = axes_of(axis, aval.ndim)
        x = prim.bind(a, axes=axes) if axes else to_array(a)
        return _keep(x, aval.shape, axes) if keepdims else x

    function.__name__ = function.__qualname__ = name
    word = "all elements are" if name == "all" else "any element is"
    function.__doc__ = f"Whether {word} nonzero, over an axis, a tuple of axes, or all."
    return function


all = _logical("all", ops.reduce_and_p, True)
any = _logical("any", ops.reduce_or_p, False)


def count_nonzero(
    a: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False
) -> Any:
    """Return the number of nonzero elements over an axis, a tuple of axes, or all.

    >>> import weft.numpy as wnp
    >>> wnp.count_nonzero(wnp.array([[0, 1], [2, 3]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    return sum(_nonzero("count_nonzero", a), axis=axis, keepdims=keepdims)


def ptp(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
) -> Any:
    """Return the range of values, max - min.

    >>> import weft.numpy as wnp
    >>> wnp.ptp(wnp.array([[3, 9], [5, 4]]), axis=1)
    Array([6, 1], dtype=int32)
    """
    refuse_out("ptp", out)
    return ew.sub_p.bind(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


# Means and moments ----------------------------------------------------------------------------


def _count(name: str, aval: ShapedArray, axes: tuple, where: Any, keepdims: builtins.bool) -> Any:
    """Return how many elements a reduction runs over: a Python int, or an array with `where`."""
    if where is None:
        n = 1
        for i in axes:
            n *= aval.shape[i]
        return n
    where = _broadcast_to(where, broadcast_shapes(aval.shape, aval_of(name, where).shape))
    return sum(_nonzero(name, where), axis=axes, keepdims=keepdims)


def mean(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
) -> Any:
    """Return the arithmetic mean over an axis, a tuple of axes, or all; a float for integers.

    Source: numpy.mean.

    >>> import weft
    >>> weft.numpy.mean(weft.numpy.arange(4))
    Array(1.5, dtype=float32)
    """
    if out is not None:
        refuse_out("mean", out)
    if has_names(axis):
        return _named_mean(a, axis, dtype, keepdims, where)
    aval = aval_of("mean", a)
    out_dtype = dtypes.to_inexact(aval.dtype) if dtype is None else canonical(dtype, "mean")
    computed = out_dtype if out_dtype in INEXACT else dtypes.to_inexact(out_dtype)
    if computed.itemsize < 4:
        computed = dtypes.float32
    a = cast(a, computed)
    if where is not None:
        mask_shape = aval_of("mean", where).shape
        aval = aval.update(shape=broadcast_shapes(aval.shape, mask_shape))
        a = masked("mean", a, where, 0)
    axes = axes_of(axis, aval.ndim)
    n = _count("mean", aval, axes, where, False)
    total = ops.reduce_sum_p.bind(a, axes=axes) if axes else to_array(a)
    divisor = np.asarray(n).astype(computed)[()] if n.__class__ is int else cast(n, computed)
    x = cast(ew.div_p.bind(total, divisor), out_dtype)
    return _keep(x, aval.shape, axes) if keepdims else x


_mean = mean  # where a parameter has its name


def _named_mean(a: Any, axis: Any, dtype: Any, keepdims: builtins.bool, where: Any) -> Any:
    positions, names = apart(axis)
    if where is None:  # of as many elements everywhere
        return pmean(mean(a, positions, dtype, keepdims=keepdims), names)
    counted = _broadcast_to(where, broadcast_shapes(typeof(a).shape, typeof(where).shape))
    total = sum(a, axis, dtype, keepdims=keepdims, where=where)
    return divide(total, sum(_nonzero("mean", counted), axis, keepdims=keepdims))


def average(
    a: ArrayLike,
    axis: int | Sequence[int] | None = None,
    weights: ArrayLike | None = None,
    returned: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> Any:
    """Return the weighted mean; with `returned`, also the sum of weights. Source: numpy.average.

    >>> import weft.numpy as wnp
    >>> wnp.average(wnp.array([1.0, 2.0, 4.0]), weights=wnp.array([2, 1, 1]))
    Array(2., dtype=float32)
    """
    aval = aval_of("average", a)
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        if not returned:
            return out
        n = _count("average", aval, axes_of(axis, aval.ndim), None, False)
        return out, fill(typeof(out).shape, n, typeof(out).dtype)
    a, weights = promote_inexact(a, weights)
    wval = typeof(weights)
    if wval.shape != aval.shape:
        if axis is None:
            raise ArgumentError(
                f"weft.numpy.average: weights of shape {wval.shape} for an array of shape "
                f"{aval.shape} need axis"
            )
        axes = axes_of(axis, aval.ndim)
        if wval.shape != tuple(aval.shape[i] for i in axes):
            raise ArgumentError(
                f"weft.numpy.average: weights of shape {wval.shape} do not match the axes "
                f"{axes} of an array of shape {aval.shape}"
            )
        order = tuple(int(i) for i in np.argsort(axes))
        weights = reshape(
            transpose(weights, order),
            tuple(d if i in axes else 1 for i, d in enumerate(aval.shape)),
        )
        weights = _broadcast_to(weights, aval.shape)
    total = sum(weights, axis, keepdims=keepdims)
    out = divide(sum(multiply(a, weights), axis, keepdims=keepdims), total)
    return (out, total) if returned else out


def var(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
    mean: object = None,
    correction: Any = None,
) -> Any:
    """Return the variance: the mean squared distance from the mean, divided by n - ddof.

    mean: the mean along the axis, if known (with keepdims). Where n - ddof is not positive, the
    result is nan. Source: numpy.var.

    >>> import weft
    >>> weft.numpy.var(weft.numpy.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("var", out)
    if correction is not None:
        if not (ddof.__class__ is int and ddof == 0):
            raise ArgumentError("weft.numpy.var: give ddof or correction, not both")
        ddof = correction
    if has_names(axis):
        # Means over named axes are collectives, so that the squares' mean is rescaled to n - ddof.
        center = _mean(a, axis, keepdims=True, where=where) if mean is None else mean
        squares = ufuncs.square(ufuncs.abs(subtract(a, center)))
        spread = _mean(squares, axis, dtype, keepdims=keepdims, where=where)
        n = count(a, axis) if where is None else sum(where, axis, keepdims=keepdims)
        return multiply(spread, divide(n, subtract(n, ddof)))
    aval = aval_of("var", a)
    target = None if dtype is None else canonical(dtype, "var")
    computed = dtypes.to_inexact(aval.dtype) if target is None else target
    if target is not None and dtypes.is_complex(aval.dtype) and not dtypes.is_complex(target):
        raise ArgumentError(f"weft.numpy.var: dtype {target} for a complex array must be complex")
    out_dtype = ew.real_dtype(computed)
    # Sums of squares lose too much in 16 bits.
    if computed.itemsize < 4 or computed not in INEXACT:
        computed = dtypes.float32
    a = cast(a, computed)
    axes = axes_of(axis, aval.ndim)
    center = _mean(a, axes, keepdims=True, where=where) if mean is None else mean

    # Two passes, the mean first: the difference of squares cancels where the mean is large.
    d = subtract(a, center)
    if computed in dtypes.COMPLEX:
        d = ew.real_p.bind(ew.mul_p.bind(d, ew.conj_p.bind(d)))
    else:
        d = ew.integer_pow_p.bind(d, y=2)
    full = typeof(d)
    if where is not None:
        d = masked("var", d, where, 0)
        full = typeof(d)
    n = _count("var", full, axes, where, False)
    total = ops.reduce_sum_p.bind(d, axes=axes) if axes else to_array(d)
    real = typeof(total).dtype
    # A count that tracing knows is a number in the program; one that `where` makes is computed.
    if n.__class__ is int and isinstance(ddof, int | float | np.number):
        divisor: Any = np.asarray(n - ddof if n > ddof else np.nan).astype(real)[()]
    else:
        degrees = subtract(cast(n, real), ddof)
        divisor = cast(choose(ew.gt_p.bind(degrees, ew.scalar(0, degrees)), degrees, np.nan), real)
    x = cast(ew.div_p.bind(total, divisor), out_dtype)
    return _keep(x, full.shape, axes) if keepdims else x


def std(
    a: ArrayLike,
    axis: int | str | Sequence[int | str] | None = None,
    dtype: DTypeLike | None = None,
    out: object = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
    mean: object = None,
    correction: object = None,
) -> Any:
    """Return the standard deviation: the square root of `var`.

    >>> import weft.numpy as wnp
    >>> wnp.std(wnp.array([[1.0, 3.0], [2.0, 6.0]]), axis=1)
    Array([1., 2.], dtype=float32)
    """
    refuse_out("std", out)
    return ew.sqrt_p.bind(
        var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    )
