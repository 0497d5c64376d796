# Tests: tests/numpy/test_functions.py
"""Values spaced evenly, or by a constant ratio: linspace, logspace, geomspace."""

from __future__ import annotations

import builtins
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as u
from weft import custom_jvp
from weft.autodiff.shape import broadcast_to_rank, broadcasted_iota
from weft.core import dtypes
from weft.core.config import config
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
from weft.numpy.eager import compiled
from weft.numpy.formulas import power
from weft.numpy.joining import concatenate
from weft.numpy.selection import where
from weft.numpy.shaping import moveaxis
from weft.ops import elementwise_api as ew
from weft.ops.elementwise_api import convert, floor
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
    out_dtype = canonical(dtype, "linspace")
    computed = _computed_dtype("linspace", start, stop)
    if out_dtype is None:
        out_dtype = computed
    if is_free(start) and is_free(stop):
        values, step = _evenly_spaced(start, stop, num, endpoint, axis, computed)
        if dtypes.is_integer(out_dtype):
            values = np.floor(values)
        out = place(created(values.astype(out_dtype)), device)
        return (out, to_array(np.asarray(step).astype(computed)[()])) if retstep else out
    options = {"num": num, "endpoint": builtins.bool(endpoint), "dtype": computed}
    out, step = compiled(_linspace, options)(start, stop)
    if dtypes.is_integer(out_dtype):
        out = floor(out)
    if axis:
        out = moveaxis(out, 0, axis)
    out = place(cast(out, out_dtype), device)
    return (out, step) if retstep else out


def _computed_dtype(name: str, *ends: ArrayLike) -> np.dtype:
    """Return the inexact dtype to which the ends are promoted."""
    if all(type(end) in _NUMBERS for end in ends):
        return dtypes.float64 if config.enable_x64 else dtypes.float32
    avals = [aval_of(name, end) for end in ends]
    return dtypes.to_inexact(dtypes.promote_types([(a.dtype, a.weak_type) for a in avals])[0])


_NUMBERS = frozenset((int, float))
_counted = functools.lru_cache(64)(lambda num: np.arange(num, dtype=np.float64))


def _evenly_spaced(
    start: Any, stop: Any, num: int, endpoint: object, axis: int, dtype: np.dtype
) -> tuple[np.ndarray, Any]:
    """Return numpy.linspace and its step in double precision; between two numbers sooner."""
    parts = num - 1 if endpoint else num
    if parts > 0 and axis == 0 and type(start) in _NUMBERS and type(stop) in _NUMBERS:
        start, delta = float(start), float(stop) - float(start)
        step = delta / parts
        if step and math.isfinite(delta):  # others have ways of their own in NumPy
            values = _counted(num) * step if num <= _FEW else np.arange(num) * step
            values += start
            if endpoint:
                values[-1] = stop
            return values, np.float64(step)
    wide = np.complex128 if dtypes.is_complex(dtype) else np.float64
    ends = np.asarray(start, wide), np.asarray(stop, wide)  # also those NumPy does not promote
    spaced: Any = np.linspace(*ends, num, endpoint=builtins.bool(endpoint), retstep=True, axis=axis)
    return np.asarray(spaced[0]), spaced[1]


_FEW = 1024
"""Elements up to which their numbers are kept."""


def _count(num: float | int, name: str) -> int:
    num = static_int(num, f"{name}: num")
    if num < 0:
        raise ArgumentError(f"weft.numpy.{name}: num must not be negative, got {num}")
    return num


def _linspace(start: Any, stop: Any, num: int, endpoint: builtins.bool, dtype: Any) -> tuple:
    """Return the values and their step from a program."""
    start, stop = cast(start, dtype), cast(stop, dtype)
    shape = np.broadcast_shapes(typeof(start).shape, typeof(stop).shape)
    start, stop = (_broadcast_to(v, shape) for v in broadcast_args(start, stop))
    if not dtypes.is_complex(dtype):
        return _values(start, stop, num, endpoint)
    parts = (_values(f(start), f(stop), num, endpoint) for f in (ew.real, ew.imag))
    return tuple(map(ew.complex, *parts))


@functools.partial(custom_jvp, nondiff_argnums=(2, 3))
def _values(start: Any, stop: Any, num: int, endpoint: builtins.bool) -> tuple:
    """Compute in double precision, as on the host: bins have the same edges outside of jit."""
    dtype, rank = typeof(start).dtype, typeof(start).ndim + 1
    parts = num - 1 if endpoint else num
    last = broadcast_to_rank(stop, rank)
    start, stop = (convert(v, dtypes.float64) for v in (start, stop))
    first = broadcast_to_rank(start, rank)
    if parts <= 0:
        nan = _broadcast_to(dtype.type(np.nan), typeof(start).shape)
        return convert(first[:num], dtype), nan
    step = _quotient(u.subtract(stop, start), parts)
    numbers = broadcasted_iota(dtypes.int32, (num,) + (1,) * (rank - 1), 0)
    out = u.add(first, _multiple(numbers, broadcast_to_rank(step, rank)))
    out = convert(out, dtype)
    if endpoint:
        out = where(u.equal(numbers, parts), last, out)  # a concatenation takes ten times as long
    return out, convert(step, dtype)


@_values.defjvp
def _values_jvp(num: int, endpoint: builtins.bool, primals: tuple, tangents: tuple) -> tuple:
    parts = max(num - endpoint, 1)
    start, stop = (broadcast_to_rank(v, typeof(v).ndim + 1) for v in tangents)
    share = (np.arange(num) / parts).astype(typeof(start).dtype)
    share = share.reshape((num,) + (1,) * (typeof(start).ndim - 1))
    out = u.add(u.multiply(start, 1 - share), u.multiply(stop, share))
    step = u.true_divide(u.subtract(tangents[1], tangents[0]), parts)
    start, stop = primals
    return _values(start, stop, num, endpoint), (out, step)


def _quotient(x: Any, parts: int) -> Any:
    """Divide by a number of parts; XLA multiplies by its reciprocal, which rounds twice."""
    n = convert(np.int32(parts), typeof(x).dtype)
    q = u.true_divide(x, n)
    high, low = _halves(q)
    rest = u.subtract(u.subtract(x, u.multiply(n, high)), u.multiply(n, low))
    return ew.select(ew.is_finite(q), u.add(q, u.true_divide(rest, n)), q)


def _multiple(numbers: Any, x: Any) -> Any:
    """Multiply, rounding the product before anything is added: of exact products XLA may not."""
    n = convert(numbers, typeof(x).dtype)
    high, low = _halves(x)
    return u.add(u.multiply(n, high), u.multiply(n, low))


def _halves(x: Any) -> tuple[Any, Any]:
    """Split numbers in two, of which each has an exact product with an integer below 2**24."""
    high = ew.reduce_precision(x, 11, 24)
    return high, ew.select(ew.is_finite(x), u.subtract(x, high), high)


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
        kind = _computed_dtype("logspace", start, stop)
        if type(base) not in _NUMBERS:
            of_base = aval_of("logspace", base)
            pairs = [(kind, False), (of_base.dtype, of_base.weak_type)]
            kind = dtypes.promote_types(pairs)[0]
        count = _count(num, "logspace")
        exponents, _ = _evenly_spaced(start, stop, count, endpoint, axis, kind)
        with np.errstate(all="ignore"):
            values = np.power(np.asarray(base, exponents.dtype), exponents)
            values = values.astype(out_dtype or kind)
        return created(values)
    out = linspace(start, stop, num, endpoint, axis=axis)
    values = power(base, cast(out, typeof(out).dtype))
    return cast(values, out_dtype or typeof(values).dtype)


def _between_numbers(start: Any, stop: Any, num: int, endpoint: object, narrow: bool) -> np.ndarray:
    """Return numpy.geomspace of positive numbers. narrow: whether float32 is precise enough."""
    log = math.log if narrow else math.log10  # powers of ten are exact
    exponents, _ = _evenly_spaced(log(start), log(stop), num, endpoint, 0, dtypes.float64)
    values = np.exp(exponents) if narrow else 10.0**exponents
    values[0] = start
    if endpoint:
        values[-1] = stop
    return values


def _are_positive(*ends: Any) -> builtins.bool:
    return all(type(end) in _NUMBERS and 0 < end < math.inf for end in ends)


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
        target = canonical(dtype, "geomspace") or _computed_dtype("geomspace", start, stop)
        count = _count(num, "geomspace")
        if axis == 0 and count > 1 and _are_positive(start, stop):
            narrow = dtypes.is_float(target) and target.itemsize <= 4
            values = _between_numbers(start, stop, count, endpoint, narrow)
        else:
            lo, hi = np.asarray(start), np.asarray(stop)
            if lo.dtype.kind not in "biufc" or hi.dtype.kind not in "biufc":
                lo, hi = lo.astype(np.float64), hi.astype(np.float64)
            ends = builtins.bool(endpoint)
            values = np.asarray(np.geomspace(lo, hi, count, ends, axis=axis))
        return created(values.astype(target))

    start, stop = promote_inexact(start, stop)
    sign = u.sign(start)
    logs = linspace(
        u.log(u.divide(start, sign)), u.log(u.divide(stop, sign)), num, endpoint, axis=0
    )
    out = u.multiply(u.exp(logs), broadcast_to_rank(sign, typeof(logs).ndim))
    count, row = typeof(out).shape[0], (1, *typeof(out).shape[1:])
    last = endpoint and count > 1
    if count:  # the ends themselves, not exponentials of their logarithms
        inner = slice_in_dim(out, 1, count - 1 if last else count)
        rows = [_broadcast_to(start, row), inner, _broadcast_to(stop, row)]
        out = concatenate(rows if last else rows[:2])
    if axis:
        out = moveaxis(out, 0, axis)
    return cast(out, canonical(dtype, "geomspace") or typeof(out).dtype)
