# Tests: tests/numpy/test_functions.py
"""Values spaced evenly, or by a constant ratio: linspace, logspace, geomspace."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as u
from weft.autodiff.shape import broadcast_to_rank
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import Tracer, typeof
from weft.numpy.common import (
    aval_of,
    canonical,
    cast,
    created,
    is_free,
    place,
    static_int,
    to_array,
)
from weft.numpy.formulas import power
from weft.numpy.joining import concatenate
from weft.numpy.shaping import moveaxis
from weft.ops.elementwise_api import floor
from weft.ops.promote import broadcast_args, promote_inexact
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    retstep: builtins.bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: object = None,
) -> Any:
    """num evenly spaced values from start to stop, along a new axis.

    Source: numpy.linspace.

    >>> import weft
    >>> weft.numpy.linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    num = _count(num, "linspace")
    avals = [aval_of("linspace", v) for v in (start, stop)]
    out_dtype = canonical(dtype, "linspace")
    computed = _inexact_of(avals)
    if out_dtype is None:
        out_dtype = computed
    if is_free(start) and is_free(stop):
        wide = np.complex128 if dtypes.is_complex(computed) else np.float64
        ends = np.asarray(start, wide), np.asarray(stop, wide)  # also those NumPy does not promote
        values, step = np.linspace(*ends, num, endpoint=endpoint, retstep=True, axis=axis)
        if dtypes.is_integer(out_dtype):
            values = np.floor(values)
        out = place(created(np.asarray(values).astype(out_dtype)), device)
        return (out, to_array(np.asarray(step).astype(computed)[()])) if retstep else out
    out, step = _traced_linspace(start, stop, num, endpoint, computed)
    if dtypes.is_integer(out_dtype):
        out = floor(out)
    if axis:
        out = moveaxis(out, 0, axis)
    out = place(cast(out, out_dtype), device)
    return (out, step) if retstep else out


def _inexact_of(avals: Sequence[Any]) -> Any:
    return dtypes.to_inexact(dtypes.promote_types([(a.dtype, a.weak_type) for a in avals])[0])


def _count(num: float | int, name: str) -> int:
    num = static_int(num, f"{name}: num")
    if num < 0:
        raise ArgumentError(f"weft.numpy.{name}: num must not be negative, got {num}")
    return num


def _traced_linspace(start: Any, stop: Any, num: int, endpoint: object, dtype: Any) -> tuple:
    start, stop = cast(start, dtype), cast(stop, dtype)
    shape = np.broadcast_shapes(typeof(start).shape, typeof(stop).shape)
    start, stop = (_broadcast_to(v, shape) for v in broadcast_args(start, stop))
    parts = num - 1 if endpoint else num
    delta = u.subtract(stop, start)
    step = u.true_divide(delta, float(parts)) if parts > 0 else to_array(dtype.type(np.nan))
    real = np.dtype(np.float64) if dtype.itemsize > 8 else np.float32
    t = (np.arange(num) / max(parts, 1)).astype(real).astype(dtype)
    t = t.reshape((num,) + (1,) * len(shape))
    first, final = (broadcast_to_rank(v, t.ndim) for v in (start, stop))
    out = u.add(u.multiply(first, u.subtract(dtype.type(1), t)), u.multiply(final, t))
    if endpoint and num > 1:
        last = _broadcast_to(stop, (1, *shape))
        out = concatenate([slice_in_dim(out, 0, num - 1), last])
    return out, step


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    base: Any = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    """Return base to the power of evenly spaced exponents. Source: numpy.logspace.

    >>> import weft
    >>> weft.numpy.logspace(0, 2, 3).astype(int)
    Array([  1,  10, 100], dtype=int32)
    """
    axis, out_dtype = static_int(axis, "logspace: axis"), canonical(dtype, "logspace")
    if is_free(start) and is_free(stop) and is_free(base):
        *ends, of_base = (aval_of("logspace", v) for v in (start, stop, base))
        pairs = [(_inexact_of(ends), False), (of_base.dtype, of_base.weak_type)]
        kind = dtypes.promote_types(pairs)[0]
        wide = np.complex128 if dtypes.is_complex(kind) else np.float64
        bounds = np.asarray(start, wide), np.asarray(stop, wide)
        exponents = np.linspace(*bounds, _count(num, "logspace"), endpoint=endpoint, axis=axis)
        with np.errstate(all="ignore"):
            values = np.power(np.asarray(base, wide), exponents).astype(out_dtype or kind)
        return created(values)
    out = linspace(start, stop, num, endpoint, axis=axis)
    values = power(base, cast(out, typeof(out).dtype))
    return cast(values, out_dtype or typeof(values).dtype)


def _geometric(
    lo: np.ndarray, hi: np.ndarray, num: int, endpoint: object, axis: int, narrow: bool
) -> np.ndarray:
    """numpy.geomspace; of positive ends sooner. narrow: whether float32 is precise enough."""
    real = lo.dtype.kind != "c" != hi.dtype.kind
    if axis or num < 2 or not (real and (lo > 0).all() and (hi > 0).all()):
        return np.asarray(np.geomspace(lo, hi, num, builtins.bool(endpoint), axis=axis))
    log = np.log if narrow else np.log10  # powers of ten are exact
    start, stop = log(lo, dtype=np.float64), log(hi, dtype=np.float64)
    steps = np.arange(num).reshape(num, *(1,) * max(lo.ndim, hi.ndim))
    exponents = start + steps * ((stop - start) / (num - 1 if endpoint else num))
    values = np.exp(exponents) if narrow else 10.0**exponents
    values[0] = lo
    if endpoint:
        values[-1] = hi
    return values


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    """Return values from start to stop with a constant ratio. Source: numpy.geomspace.

    >>> import weft
    >>> weft.numpy.geomspace(1, 8, 4).round(3)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    if not isinstance(start, Tracer) and not isinstance(stop, Tracer):
        avals = [aval_of("geomspace", v) for v in (start, stop)]
        target = canonical(dtype, "geomspace") or _inexact_of(avals)
        lo, hi = np.asarray(start), np.asarray(stop)
        if lo.dtype.kind not in "biufc" or hi.dtype.kind not in "biufc":
            lo, hi = lo.astype(np.float64), hi.astype(np.float64)
        narrow = dtypes.is_float(target) and target.itemsize <= 4
        values = _geometric(lo, hi, _count(num, "geomspace"), endpoint, axis, narrow)
        return created(values.astype(target))

    start, stop = promote_inexact(start, stop)
    sign = u.sign(start)
    logs = linspace(
        u.log(u.divide(start, sign)), u.log(u.divide(stop, sign)), num, endpoint, axis=0
    )
    out = u.multiply(u.exp(logs), broadcast_to_rank(sign, typeof(logs).ndim))
    if axis:
        out = moveaxis(out, 0, axis)
    return cast(out, canonical(dtype, "geomspace") or typeof(out).dtype)
