# Tests: tests/random/test_oracle.py
"""Samplers that others are made of: bits, uniform, normal, integers, booleans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_shapes, reshape
from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.trace import typeof
from weft.ops import elementwise_api as ew
from weft.ops.promote import broadcast_args, broadcast_to
from weft.ops.slicing import slice_in_dim
from weft.random.api import check_key
from weft.random.sampling import (
    as_shape,
    canonical,
    float_dtype,
    int_dtype,
    param,
    random_bits,
    run,
    sample_shape,
    split_key,
)
from weft.random.threefry import UINT

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike

_SCALARS = (bool, int, float, np.generic)


def bits(
    key: object, shape: int | Sequence[int] = (), dtype: Any = None, *, out_sharding: object = None
) -> Any:
    """Uniform random bits as unsigned integers.

    >>> import weft
    >>> weft.random.bits(weft.random.key(0), (2,), "uint8").dtype
    dtype('uint8')
    """
    key, _ = check_key("bits", key)
    dtype = canonical(dtype, np.uint64, "bits")
    if not dtypes.is_unsigned(dtype) or dtype.name in dtypes.int4_names:
        raise ValueError(
            f"bits: dtype must be uint8, uint16, uint32 or uint64, got {dtypes.short_name(dtype)}"
        )
    shape = as_shape("bits", shape)
    width = dtype.itemsize * 8
    return run(random_bits, key, bit_width=width, shape=shape, out_sharding=out_sharding)


def uniform(
    key: object,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    minval: object = 0.0,
    maxval: object = 1.0,
    *,
    out_sharding: object = None,
) -> Any:
    """Uniform floats in [minval, maxval); the bounds broadcast to the shape.

    The random bits fill the mantissa of a number in [1, 2), from which 1 is taken.

    >>> import weft
    >>> weft.random.uniform(weft.random.key(0), (2,)).shape
    (2,)
    """
    key, _ = check_key("uniform", key)
    dtype = float_dtype("uniform", dtype)
    shape = as_shape("uniform", shape)
    host = isinstance(minval, _SCALARS) and isinstance(maxval, _SCALARS)
    if host and minval == 0 and maxval == 1:
        return run(unit_uniform, key, shape=shape, dtype=dtype, out_sharding=out_sharding)
    return run(uniform_in, key, minval, maxval, shape=shape, dtype=dtype, out_sharding=out_sharding)


def unit_uniform(key: Array, *, shape: tuple, dtype: Any) -> Any:
    """Uniform floats in [0, 1)."""
    info = dtypes.finfo(dtype)
    width = info.bits
    if width not in (8, 16, 32, 64):
        raise TypeError(f"uniform: no samples of dtype {dtypes.short_name(dtype)} can be made")
    drawn = 8 if info.nmant < 8 else width
    word = UINT[width]
    x = ew.convert(random_bits(key, drawn, shape), word)
    x = ew.shift_right_logical_p.bind(x, word.type(drawn - info.nmant))
    x = ew.or_p.bind(x, np.ones((), dtype).view(word)[()])
    x = ew.bitcast_convert_type_p.bind(x, new_dtype=dtype)
    return ew.sub_p.bind(x, dtype.type(1))


def uniform_in(
    key: Array, minval: ArrayLike, maxval: ArrayLike, *, shape: tuple, dtype: Any
) -> Any:
    """Uniform floats between bounds that broadcast to the shape."""
    with_bounds = broadcast_shapes(shape, typeof(minval).shape, typeof(maxval).shape)
    if math.prod(with_bounds) == math.prod(shape):
        shape = with_bounds  # as in JAX, the bounds may have more dimensions of size 1
    sample_shape("uniform", shape, minval, maxval)
    x = unit_uniform(key, shape=shape, dtype=dtype)
    low, high = param(minval, shape, dtype), param(maxval, shape, dtype)
    if isinstance(low, np.generic) and isinstance(high, np.generic):
        span = dtype.type(high) - dtype.type(low)
        if span != 1:
            x = ew.mul_p.bind(x, dtype.type(span))
    else:
        x = ew.mul_p.bind(x, ew.sub_p.bind(high, low))
    return ew.max_p.bind(low, ew.add_p.bind(x, low))


def normal(
    key: object,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Return standard normal floats; for complex dtypes the whole number has variance 1.

    The inverse error function of uniform numbers in (-1, 1).

    >>> import weft
    >>> weft.random.normal(weft.random.key(0), (3,), "bfloat16").dtype
    dtype(bfloat16)
    """
    key, _ = check_key("normal", key)
    dtype = float_dtype("normal", dtype, complex_too=True)
    shape = as_shape("normal", shape)
    return run(_normal, key, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _normal(key: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    if dtypes.is_complex(dtype):
        real = np.zeros((), dtype).real.dtype
        re, im = (ew.convert(real_normal(k, shape, real), dtype) for k in split_key(key))
        both = ew.add_p.bind(re, ew.mul_p.bind(dtype.type(1j), im))
        return ew.div_p.bind(both, dtype.type(math.sqrt(2)))
    return real_normal(key, shape, dtype)


def real_normal(key: Array, shape: tuple, dtype: Any) -> Any:
    """Return standard normal numbers of a real dtype."""
    one = dtype.type(1)
    low = np.nextafter(-one, dtype.type(0), dtype=dtype)
    x = uniform_in(key, low, one, shape=shape, dtype=dtype)
    return ew.mul_p.bind(dtype.type(np.sqrt(2)), ew.erf_inv_p.bind(x))


def truncated_normal(
    key: object,
    lower: Any,
    upper: Any,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Draw normal floats conditioned on (lower, upper); the bounds broadcast to the shape.

    >>> import weft
    >>> x = weft.random.truncated_normal(weft.random.key(0), -1.0, 1.0, (100,))
    >>> bool(abs(x).max() < 1)
    True
    """
    key, _ = check_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    shape = sample_shape("truncated_normal", shape, lower, upper)
    return run(
        _truncated_normal, key, lower, upper, shape=shape, dtype=dtype, out_sharding=out_sharding
    )


def _truncated_normal(
    key: Array, lower: Array, upper: Array, *, shape: tuple, dtype: np.dtype
) -> Any:
    root2 = dtype.type(np.sqrt(2))
    low, high = ew.convert(lower, dtype), ew.convert(upper, dtype)
    a, b = (ew.erf_p.bind(ew.div_p.bind(x, root2)) for x in (low, high))
    x = uniform_in(key, a, b, shape=shape, dtype=dtype)
    x = ew.mul_p.bind(root2, ew.erf_inv_p.bind(x))
    infinity = dtype.type(np.inf)
    low = ew.nextafter_p.bind(stop_gradient(low), infinity)
    high = ew.nextafter_p.bind(stop_gradient(high), -infinity)
    x = ew.max_p.bind(*broadcast_args(low, x))
    return ew.min_p.bind(*broadcast_args(high, x))


def randint(
    key: object,
    shape: int | Sequence[int],
    minval: Any,
    maxval: Any,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Uniform integers in [minval, maxval); the bounds broadcast to the shape.

    Where maxval <= minval the sample is minval. Two words are drawn per sample, so that the
    remainder's bias stays below 2**-width.

    >>> import weft
    >>> bool((weft.random.randint(weft.random.key(0), (100,), 0, 3) < 3).all())
    True
    """
    key, _ = check_key("randint", key)
    dtype = int_dtype("randint", dtype)
    shape = as_shape("randint", shape)
    sample_shape("randint", shape, minval, maxval)
    info = dtypes.iinfo(dtype)
    wide = dtype if info.bits >= 32 else dtypes.int32
    lows = (int(info.min), int(info.max))
    highs = (lows[0], lows[1] + (wide != dtype))
    return run(
        _randint,
        key,
        minval,
        maxval,
        shape=shape,
        dtype=wide,
        low=lows if wide != dtype else None,
        high=highs if wide != dtype else None,
        out=dtype,
        out_sharding=out_sharding,
    )


def _clip(x: Array, bounds: tuple) -> Any:
    dtype = typeof(x).dtype
    return ew.min_p.bind(ew.max_p.bind(x, dtype.type(bounds[0])), dtype.type(bounds[1]))


def _clip_into(x: Array, dtype: np.dtype) -> Any:
    """Return an integer clipped to the range of another integer dtype, and converted."""
    old, new = dtypes.iinfo(typeof(x).dtype), dtypes.iinfo(dtype)
    bounds = max(int(old.min), int(new.min)), min(int(old.max), int(new.max))
    return ew.convert(_clip(x, bounds), dtype)


def _integer(x: Array) -> Any:
    dtype = typeof(x).dtype
    return x if dtypes.is_integer(dtype) else ew.convert(x, dtypes.canonicalize_dtype(int))


def _randint(
    key: Array,
    minval: Array,
    maxval: Array,
    *,
    shape: tuple,
    dtype: np.dtype,
    low: tuple | None,
    high: tuple | None,
    out: np.dtype,
) -> Any:
    if low is not None and high is not None:
        minval = _clip(ew.convert(minval, dtypes.int32), low)
        maxval = _clip(ew.convert(maxval, dtypes.int32), high)
    minval, maxval = _integer(minval), _integer(maxval)
    top_dtype = typeof(maxval).dtype
    limit = min(int(dtypes.iinfo(dtype).max), int(dtypes.iinfo(top_dtype).max))
    beyond = ew.gt_p.bind(_strong(maxval), top_dtype.type(limit))
    minval, maxval = _clip_into(_strong(minval), dtype), _clip_into(_strong(maxval), dtype)
    minval, maxval = broadcast_args(minval, maxval)
    if typeof(beyond).shape:
        beyond = broadcast_to(beyond, typeof(maxval).shape)
    width = dtypes.iinfo(dtype).bits
    word = UINT[width]
    k1, k2 = split_key(key)
    upper, lower = random_bits(k1, width, shape), random_bits(k2, width, shape)
    span = ew.convert(ew.sub_p.bind(maxval, minval), word)
    empty = ew.le_p.bind(maxval, minval)
    one = word.type(1)
    span = _where(empty, one, span)
    # A maxval just beyond the dtype's range asks for the whole range.
    grown = ew.and_p.bind(beyond, ew.gt_p.bind(maxval, minval))
    span = _where(grown, ew.add_p.bind(span, one), span)
    times = ew.rem_p.bind(word.type(1 << (width // 2)), span)
    times = ew.rem_p.bind(ew.mul_p.bind(times, times), span)
    minval, span, times = (
        x if not typeof(x).shape else broadcast_to(x, shape) for x in (minval, span, times)
    )
    offset = ew.add_p.bind(
        ew.mul_p.bind(ew.rem_p.bind(upper, span), times), ew.rem_p.bind(lower, span)
    )
    offset = ew.rem_p.bind(offset, span)
    return ew.convert(ew.add_p.bind(minval, ew.convert(offset, dtype)), out)


def _strong(x: Array) -> Any:
    return ew.convert(x, typeof(x).dtype)


def _where(condition: Array, x: ArrayLike, y: Array) -> Any:
    """Return x where the condition holds, else y, broadcast to the largest of the three shapes."""
    shape = max((typeof(v).shape for v in (condition, x, y)), key=len)
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    if typeof(condition).shape not in ((), shape):
        condition = broadcast_to(condition, shape)
    return ew.select_n_p.bind(condition, y, x)


def bernoulli(
    key: object,
    p: ArrayLike = 0.5,
    shape: int | Sequence[int] | None = None,
    mode: str = "low",
    *,
    out_sharding: object = None,
) -> Any:
    """Booleans, True with probability p, which broadcasts to the shape.

    mode: "high" draws twice as many bits, so that small probabilities are exact.

    >>> import weft
    >>> weft.random.bernoulli(weft.random.key(0), 1.0, (3,))
    Array([ True,  True,  True], dtype=bool)
    """
    key, _ = check_key("bernoulli", key)
    if mode not in ("high", "low"):
        raise ValueError(f"bernoulli: mode must be 'high' or 'low', got {mode!r}")
    dtype = typeof(p).dtype
    if not dtypes.is_float(dtype):
        raise TypeError(
            f"bernoulli: the probability p must have a float dtype, got {dtypes.short_name(dtype)}"
        )
    shape = sample_shape("bernoulli", shape, p)
    return run(_bernoulli, key, p, shape=shape, mode=mode, out_sharding=out_sharding)


def _bernoulli(key: Array, p: ArrayLike, *, shape: tuple, mode: str) -> Any:
    dtype = typeof(p).dtype
    p = param(p, shape, dtype)
    if mode == "low":
        return ew.lt_p.bind(unit_uniform(key, shape=shape, dtype=dtype), p)
    drawn = unit_uniform(key, shape=(2, *shape), dtype=dtype)
    coarse, fine = (reshape(slice_in_dim(drawn, i, i + 1), shape) for i in (0, 1))
    fine = ew.mul_p.bind(fine, dtype.type(2.0 ** -dtypes.finfo(dtype).nmant))
    return ew.lt_p.bind(fine, ew.sub_p.bind(p, coarse))


def rademacher(
    key: object,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """-1 or 1 with equal probability.

    >>> import weft
    >>> weft.random.rademacher(weft.random.key(0), (3,)).dtype
    dtype('int32')
    """
    key, _ = check_key("rademacher", key)
    dtype = canonical(dtype, int, "rademacher")
    shape = as_shape("rademacher", shape)
    return run(signs, key, shape=shape, dtype=dtype, out_sharding=out_sharding)


def signs(key: Array, *, shape: tuple, dtype: Any) -> Any:
    """Random signs of any number dtype."""
    heads = ew.convert(_bernoulli(key, 0.5, shape=shape, mode="low"), dtype)
    return ew.sub_p.bind(ew.mul_p.bind(dtype.type(2), heads), dtype.type(1))
