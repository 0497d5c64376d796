"""Differences, integrals, interpolation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.division as division
import weft.numpy.formulas as formulas
import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axis
from weft.core import dtypes
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.trace import Tracer, typeof
from weft.numpy.common import aval_of, axes_of, cast, check_array, inexact, to_array
from weft.numpy.eager import as_one_program
from weft.numpy.scans import cumsum
from weft.numpy.selection import take, where
from weft.numpy.shaping import moveaxis, ravel
from weft.numpy.sorting import argsort, searchsorted
from weft.ops import elementwise_api as ew
from weft.ops import joining
from weft.ops.dynamic_slicing import dynamic_update_slice_in_dim
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.promote import promote, promote_inexact
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the differences of neighbours along an axis, n times over. Source: numpy.diff.

    >>> import weft
    >>> weft.numpy.diff(weft.numpy.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    aval = aval_of("diff", a)
    n = operator.index(n)
    if n < 0:
        raise ArgumentError(f"weft.numpy.diff: n must not be negative, got {n}")
    if n == 0:
        return to_array(a)
    if aval.ndim == 0:
        raise ArgumentError(
            f"weft.numpy.diff: a must have a dimension to take differences along, got "
            f"{aval.str_short()}"
        )
    axis = canonical_axis(axis, aval.ndim)
    x = to_array(a)
    parts = [x]
    for value, front in ((prepend, True), (append, False)):
        if value is None:
            continue
        value = to_array(value)
        if typeof(value).ndim == 0:
            shape = list(aval.shape)
            shape[axis] = 1
            value = _broadcast_to(value, tuple(shape))
        parts.insert(0, value) if front else parts.append(value)
    if len(parts) > 1:
        x = joining.concatenate(list(promote(*parts)), axis)
    prim = ew.ne_p if typeof(x).dtype == dtypes.bool_ else ew.sub_p
    for _ in range(n):
        size = typeof(x).shape[axis]
        if size == 0:
            return x
        x = prim.bind(slice_in_dim(x, 1, size, axis=axis), slice_in_dim(x, 0, size - 1, axis=axis))
    return x


def ediff1d(ary: ArrayLike, to_end: Any = None, to_begin: Any = None) -> Any:
    """Return the differences of neighbours of the flat array, with values put before and after.

    >>> import weft.numpy as wnp
    >>> wnp.ediff1d(wnp.array([1, 4, 9]), to_end=0)
    Array([3, 5, 0], dtype=int32)
    """
    aval = aval_of("ediff1d", ary)
    out = diff(ravel(ary))
    parts = [out]
    for value, front in ((to_begin, True), (to_end, False)):
        if value is not None:
            check_array("ediff1d", value)
            part = cast(ravel(value), aval.dtype)
            parts.insert(0, part) if front else parts.append(part)
    return joining.concatenate(parts, 0) if len(parts) > 1 else out


def gradient(
    f: object,
    *varargs: object,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Any:
    """Central differences inside, one-sided ones at the ends, along each axis.

    varargs: the spacing: one number, one for each axis, or coordinates along each axis.
    edge_order: 1 or 2, the order at the ends. Source: numpy.gradient.

    >>> import weft
    >>> weft.numpy.gradient(weft.numpy.array([1.0, 2.0, 4.0]))
    Array([1. , 1.5, 2. ], dtype=float32)
    """
    return as_one_program(_gradients, f, *varargs, axis=axis, edge_order=edge_order)


def _gradients(f: object, *varargs: Any, axis: int | None, edge_order: int | None) -> Any:
    if edge_order not in (None, 1, 2):
        raise UnsupportedArgumentError(
            f"weft.numpy.gradient: edge_order must be 1 or 2, got {edge_order}"
        )
    f = inexact(f)
    aval = typeof(f)
    axes = axes_of(tuple(axis) if isinstance(axis, Sequence) else axis, aval.ndim)
    if not varargs:
        spacing: list[Any] = [1.0] * len(axes)
    elif len(varargs) == 1 and typeof(to_array(varargs[0])).ndim == 0:
        spacing = [varargs[0]] * len(axes)
    elif len(varargs) == len(axes):
        spacing = list(varargs)
    else:
        raise ArgumentError(
            f"weft.numpy.gradient: {len(varargs)} spacings for {len(axes)} axes; give one, or "
            "one each"
        )
    order = edge_order or 1
    parts = [_gradient(f, h, i, order) for i, h in zip(axes, spacing, strict=True)]
    return parts[0] if len(parts) == 1 else parts


def _gradient(f: Array, h: ArrayLike, axis: int, order: int) -> Any:
    n = typeof(f).shape[axis]
    if n < order + 1:
        raise ArgumentError(
            f"weft.numpy.gradient: axis {axis} of size {n} is too small, it must be at least "
            f"{order + 1}"
        )
    rank = typeof(f).ndim

    def part(start: int, stop: int) -> Any:
        return slice_in_dim(f, start, stop, axis=axis)

    h = to_array(h)
    # One distance for all points, or the points' coordinates.
    if typeof(h).ndim == 0:
        left = right = h
        steps = None
    else:
        if typeof(h).shape != (n,):
            raise ArgumentError(
                f"weft.numpy.gradient: coordinates of shape {typeof(h).shape} along an axis of "
                f"size {n}; give one distance, or a vector of {n} coordinates"
            )
        steps = cast(diff(h), typeof(f).dtype)
        column = tuple(-1 if d == axis else 1 for d in range(rank))
        left = ops.reshape(slice_in_dim(steps, 0, n - 2), column)
        right = ops.reshape(slice_in_dim(steps, 1, n - 1), column)

    def step(i: int) -> Any:
        return h if steps is None else steps[i]

    parts = []
    # At the ends, differences to one side: of two points, or of three.
    if order == 1:
        parts.append(u.true_divide(u.subtract(part(1, 2), part(0, 1)), step(0)))
    else:
        parts.append(_three_points(part(0, 1), part(1, 2), part(2, 3), step(0), step(1), False))
    if n > 2:
        if steps is None:
            inner = u.true_divide(u.subtract(part(2, n), part(0, n - 2)), u.multiply(2, h))
        else:
            # The slope of the parabola through three points at unequal distances.
            total = u.add(left, right)
            a = u.negative(u.true_divide(right, u.multiply(left, total)))
            b = u.true_divide(u.subtract(right, left), u.multiply(left, right))
            c = u.true_divide(left, u.multiply(right, total))
            inner = u.add(
                u.add(u.multiply(a, part(0, n - 2)), u.multiply(b, part(1, n - 1))),
                u.multiply(c, part(2, n)),
            )
        parts.append(inner)
    if order == 1:
        parts.append(u.true_divide(u.subtract(part(n - 1, n), part(n - 2, n - 1)), step(-1)))
    else:
        parts.append(
            _three_points(
                part(n - 3, n - 2), part(n - 2, n - 1), part(n - 1, n), step(-2), step(-1), True
            )
        )
    return joining.concatenate(parts, axis)


def _three_points(x: object, y: object, z: object, h1: object, h2: object, at_end: bool) -> Any:
    """Return the second-order one-sided derivative at the first or the last of three points."""
    total = u.add(h1, h2)
    if at_end:
        a = u.true_divide(h2, u.multiply(h1, total))
        b = u.negative(u.true_divide(total, u.multiply(h1, h2)))
        c = u.true_divide(u.add(u.multiply(2, h2), h1), u.multiply(h2, total))
    else:
        a = u.negative(u.true_divide(u.add(u.multiply(2, h1), h2), u.multiply(h1, total)))
        b = u.true_divide(total, u.multiply(h1, h2))
        c = u.negative(u.true_divide(h1, u.multiply(h2, total)))
    return u.add(u.add(u.multiply(a, x), u.multiply(b, y)), u.multiply(c, z))


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral along an axis by the trapezoidal rule. Source: numpy.trapezoid.

    >>> import weft.numpy as wnp
    >>> wnp.trapezoid(wnp.array([0.0, 1.0, 4.0]), x=wnp.array([0.0, 1.0, 2.0]))
    Array(3., dtype=float32)
    """
    from weft.numpy.reductions import sum

    check_array("trapezoid", y)
    if x is None:
        y, step = promote_inexact(*promote_inexact(y), dx)
        axis = canonical_axis(axis, typeof(y).ndim)
    else:
        y, x = promote_inexact(y, x)
        step = diff(x if typeof(x).ndim == 1 else moveaxis(x, axis, -1))
        y, axis = moveaxis(y, axis, -1), typeof(y).ndim - 1
    n = typeof(y).shape[axis]
    if n == 0:
        return sum(y, axis=axis)
    half = cast(0.5, typeof(y).dtype)
    if n > 1 and typeof(step).ndim == 0:
        # The ends count half; sums of neighbours XLA:CPU would make one by one.
        for i in (0, n - 1):
            end = u.multiply(half, slice_in_dim(y, i, i + 1, axis=axis))
            y = dynamic_update_slice_in_dim(y, end, i, axis)
        return u.multiply(step, sum(y, axis=axis))
    pairs = u.add(slice_in_dim(y, 1, n, axis=axis), slice_in_dim(y, 0, n - 1, axis=axis))
    return u.multiply(half, sum(u.multiply(step, pairs), axis=axis))


def interp(
    x: ArrayLike, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear interpolation through the points (xp, fp), xp rising.

    left, right: values beyond the ends, by default those at the ends; 'extrapolate' continues the
    outer segments. period: the period of the data. Source: numpy.interp.

    >>> import weft
    >>> weft.numpy.interp(2.5, weft.numpy.array([2.0, 3.0]), weft.numpy.array([4.0, 6.0]))
    Array(5., dtype=float32)
    """
    check_array("interp", x, xp, fp)
    if typeof(xp).ndim != 1 or typeof(xp).shape != typeof(fp).shape:
        raise ArgumentError(
            "weft.numpy.interp: xp and fp must be vectors of equal size, got "
            f"{typeof(xp).str_short()} and {typeof(fp).str_short()}"
        )
    x, xp = promote_inexact(x, xp)
    (fp,) = promote_inexact(fp)
    x, xp, fp = to_array(x), to_array(xp), to_array(fp)
    if dtypes.is_complex(typeof(x).dtype):
        raise ArgumentError(
            f"weft.numpy.interp: x and xp must be real, got {typeof(x).str_short()} after "
            "promotion; interpolate over real coordinates"
        )
    if period is not None:
        if not isinstance(period, Tracer) and np.asarray(period) == 0:
            raise ArgumentError("weft.numpy.interp: period must not be zero")
        period = u.absolute(period)
        x, xp = division.remainder(x, period), division.remainder(xp, period)
        order = argsort(xp)
        xp, fp = take(xp, order), take(fp, order)
        # One point of the neighbouring periods at each end.
        xp = joining.concatenate([u.subtract(xp[-1:], period), xp, u.add(xp[:1], period)], 0)
        fp = joining.concatenate([fp[-1:], fp, fp[:1]], 0)
    n = typeof(xp).shape[0]
    i = formulas.clip(searchsorted(xp, x, side="right"), 1, max(n - 1, 1))
    before = u.subtract(i, 1)
    x0, x1 = take(xp, before, mode="clip"), take(xp, i, mode="clip")
    f0, f1 = take(fp, before, mode="clip"), take(fp, i, mode="clip")
    gap = u.subtract(x1, x0)
    # Of equal xp the value before counts; dividing by 1 there keeps derivatives without NaN.
    flat = u.equal(gap, 0)
    slope = u.true_divide(u.subtract(f1, f0), where(flat, 1, gap))
    out = where(flat, f0, u.add(f0, u.multiply(u.subtract(x, x0), slope)))
    if period is None:
        if not (isinstance(left, str) and left == "extrapolate"):
            out = where(u.less(x, xp[0]), fp[0] if left is None else left, out)
        if not (isinstance(right, str) and right == "extrapolate"):
            out = where(u.greater(x, xp[-1]), fp[-1] if right is None else right, out)
    return out


def unwrap(p: ArrayLike, discont: object = None, axis: int = -1, period: Any = 2 * np.pi) -> Any:
    """Take jumps of more than half a period out of angles. Source: numpy.unwrap.

    >>> import weft.numpy as wnp
    >>> wnp.unwrap(wnp.array([0.0, 9.0, 8.0]), period=10.0)
    Array([ 0., -1., -2.], dtype=float32)
    """
    aval = aval_of("unwrap", p)
    if dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype):
        p, period = promote(p, period)
        p = to_array(p)
    dtype = typeof(p).dtype
    half = (
        division.floor_divide(period, 2) if dtypes.is_integer(dtype) else u.true_divide(period, 2)
    )
    d = diff(p, axis=axis)
    moved = u.subtract(division.remainder(u.add(d, half), period), half)
    moved = where(u.logical_and(u.equal(moved, u.negative(half)), u.greater(d, 0)), half, moved)
    limit = half if discont is None else discont
    shift = where(u.less(u.absolute(d), limit), cast(0, dtype), u.subtract(moved, d))
    i = canonical_axis(axis, typeof(p).ndim)
    if not typeof(p).shape[i]:
        return to_array(p)
    first = slice_in_dim(to_array(p), 0, 1, axis=i)
    rest = u.add(slice_in_dim(to_array(p), 1, typeof(p).shape[i], axis=i), cumsum(shift, axis=i))
    return joining.concatenate([first, cast(rest, dtype)], i)
