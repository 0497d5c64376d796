# Tests: tests/random/test_oracle.py
"""Samplers of continuous distributions, as transformations of uniform and normal numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.ops import elementwise_api as ew
from weft.ops.promote import promote_inexact
from weft.ops.reduce import reduce_sum
from weft.random.api import check_key
from weft.random.basic import real_normal, signs, uniform_in, unit_uniform
from weft.random.gamma_family import gamma_samples
from weft.random.sampling import as_shape, draw, float_dtype, param, run, sample_shape, split_key

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike


def _standard(name: str, sampler: Callable, doc: str) -> Callable:
    """Make the public function of a distribution without parameters."""

    def function(
        key: object,
        shape: int | Sequence[int] = (),
        dtype: DTypeLike | None = None,
        *,
        out_sharding: object = None,
    ) -> Any:
        return draw(name, sampler, key, (), shape, dtype, out_sharding)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    >>> import weft
    >>> weft.random.{name}(weft.random.key(0), (4,)).shape
    (4,)
    """
    return function


def standard_exponential(key: Array, *, shape: tuple, dtype: DTypeLike | None) -> Any:
    return ew.neg(ew.log1p(ew.neg(unit_uniform(key, shape=shape, dtype=dtype))))


exponential = _standard(
    "exponential",
    standard_exponential,
    "Draw exponential floats of rate 1: density exp(-x) for x >= 0.",
)


def _cauchy(key: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    eps = dtype.type(dtypes.finfo(dtype).eps)
    u = uniform_in(key, eps, dtype.type(1), shape=shape, dtype=dtype)
    return ew.tan(ew.mul(dtype.type(np.pi), ew.sub(u, dtype.type(0.5))))


cauchy = _standard("cauchy", _cauchy, "Draw Cauchy floats: density 1 / (pi (1 + x**2)).")


def _laplace(key: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    low = dtype.type(-1.0 + float(dtypes.finfo(dtype).epsneg))
    u = uniform_in(key, low, dtype.type(1), shape=shape, dtype=dtype)
    return ew.mul(ew.sign(u), ew.log1p(ew.neg(ew.abs(u))))


laplace = _standard("laplace", _laplace, "Draw Laplace floats: density exp(-|x|) / 2.")


def _logistic(key: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    tiny = dtype.type(dtypes.finfo(dtype).tiny)
    u = uniform_in(key, tiny, dtype.type(1), shape=shape, dtype=dtype)
    return ew.sub(ew.log(u), ew.log1p(ew.neg(u)))


logistic = _standard(
    "logistic", _logistic, "Draw logistic floats: density exp(-x) / (1 + exp(-x))**2."
)


def gumbel(
    key: object,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Gumbel floats: density exp(-(x + exp(-x))).

    mode: "low" (the default), or "high" and "highest" for tails that one word of bits cannot reach.

    >>> import weft
    >>> weft.random.gumbel(weft.random.key(0), (4,)).shape
    (4,)
    """
    mode = gumbel_mode(mode)
    return draw("gumbel", gumbels, key, (), shape, dtype, out_sharding, mode=mode)


def gumbel_mode(mode: str | None) -> str:
    if mode not in (None, "low", "high", "highest"):
        raise ArgumentError(f"mode must be 'low', 'high' or 'highest', got {mode!r}")
    return mode or "low"


def gumbels(key: Array, *, shape: tuple, dtype: Any, mode: str) -> Any:
    """Gumbel numbers by inversion, -log(-log(u))."""
    info = dtypes.finfo(dtype)
    if mode == "low":
        u = uniform_in(key, dtype.type(info.tiny), dtype.type(1), shape=shape, dtype=dtype)
        return ew.neg(ew.log(ew.neg(ew.log(u))))
    if mode == "highest" and dtype == dtypes.float32:
        return _gumbels_of_64_bits(key, shape)
    drawn = unit_uniform(key, shape=(2, *shape), dtype=dtype)
    coarse, fine = wnp.unstack(drawn)
    small = ew.add(ew.mul(fine, dtype.type(2.0**-info.nmant)), dtype.type(info.tiny))
    u = wnp.where(ew.ge(coarse, dtype.type(0.5)), coarse, ew.add(coarse, small))
    return ew.neg(ew.log(ew.neg(ew.log1p(ew.neg(u)))))


def _gumbels_of_64_bits(key: Array, shape: tuple) -> Any:
    """Gumbel numbers of a 64-bit integer's worth of uniform bits, exact in both tails."""
    from weft.random.sampling import random_bits

    high, low = wnp.unstack(random_bits(key, 32, (2, *shape)))
    u32 = np.uint32
    # Two's complement of the 64-bit integer: the distance from 1.
    carry = ew.convert(ew.eq(ew.bitwise_not(low), u32(0xFFFFFFFF)), dtypes.uint32)
    other_high = ew.add(ew.bitwise_not(high), carry)
    other_low = ew.add(ew.bitwise_not(low), u32(1))
    lower = ew.lt(high, u32(1 << 31))
    u = _fraction(wnp.where(lower, high, other_high), wnp.where(lower, low, other_low))
    below = ew.neg(ew.log(ew.neg(ew.log1p(ew.neg(u)))))
    above = ew.neg(ew.log(ew.neg(ew.log(u))))
    # The lower half measures from 0, so the two expressions change places with it.
    return wnp.where(lower, below, above)


def _fraction(high: Array, low: Array) -> Any:
    """(high * 2**32 + low) / 2**64 as float32, truncated."""
    u32 = np.uint32
    lead_high, lead_low = ew.clz(high), ew.clz(low)
    empty = ew.eq(lead_high, u32(32))
    tail = wnp.where(
        empty,
        ew.shift_left(low, lead_low),
        ew.shift_right_logical(low, ew.sub(u32(32), lead_high)),
    )
    mantissa = ew.bitwise_or(ew.shift_left(high, lead_high), tail)
    mantissa = ew.bitwise_and(ew.shift_right_logical(mantissa, u32(8)), u32((1 << 23) - 1))
    lead = wnp.where(empty, ew.add(lead_low, u32(32)), lead_high)
    exponent = ew.shift_left(ew.sub(u32(126), lead), u32(23))
    exponent = ew.bitwise_and(exponent, u32((1 << 30) - (1 << 22)))
    bits = ew.bitwise_or(exponent, mantissa)
    return ew.bitcast_convert_type_p.bind(bits, new_dtype=dtypes.float32)


def pareto(
    key: object,
    b: ArrayLike,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Pareto floats of shape parameter b: density b / x**(b+1) for x >= 1.

    >>> import weft
    >>> bool((weft.random.pareto(weft.random.key(0), 2.0, (4,)) >= 1).all())
    True
    """
    return draw("pareto", _pareto, key, (b,), shape, dtype, out_sharding)


def _pareto(key: Array, b: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    e = standard_exponential(key, shape=shape, dtype=dtype)
    return ew.exp(ew.div(e, param(b, shape, dtype)))


def lognormal(
    key: object,
    sigma: object = 1.0,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Log-normal floats: exp(sigma * z) of a standard normal z.

    >>> import weft
    >>> weft.random.lognormal(weft.random.key(0), shape=(4,)).shape
    (4,)
    """
    return draw("lognormal", _lognormal, key, (sigma,), shape, dtype, out_sharding)


def _lognormal(key: Array, sigma: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    return ew.exp(ew.mul(real_normal(key, shape, dtype), param(sigma, shape, dtype)))


def rayleigh(
    key: object,
    scale: object,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Rayleigh floats: density x exp(-x**2 / (2 scale**2)) / scale**2 for x >= 0.

    >>> import weft
    >>> weft.random.rayleigh(weft.random.key(0), 1.0, (4,)).shape
    (4,)
    """
    return draw("rayleigh", _rayleigh, key, (scale,), shape, dtype, out_sharding)


def _rayleigh(key: Array, scale: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    u = unit_uniform(key, shape=shape, dtype=dtype)
    return ew.mul(param(scale, shape, dtype), ew.sqrt(ew.mul(ew.log(u), dtype.type(-2))))


def triangular(
    key: object,
    left: object,
    mode: object,
    right: object,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Draw floats of the triangular distribution on [left, right] with its peak at `mode`.

    >>> import weft
    >>> weft.random.triangular(weft.random.key(0), 0.0, 0.5, 1.0, (4,)).shape
    (4,)
    """
    params = (left, mode, right)
    return draw("triangular", _triangular, key, params, shape, dtype, out_sharding)


def _triangular(
    key: Array, left: Array, mode: Array, right: Array, *, shape: tuple, dtype: np.dtype
) -> Any:
    a, c, b = (wnp.broadcast_to(param(x, shape, dtype), shape) for x in (left, mode, right))
    u = unit_uniform(key, shape=shape, dtype=dtype)
    width, rise, fall = ew.sub(b, a), ew.sub(c, a), ew.sub(b, c)
    below = ew.add(a, ew.sqrt(ew.mul(ew.mul(u, width), rise)))
    above = ew.sub(b, ew.sqrt(ew.mul(ew.mul(ew.sub(dtype.type(1), u), width), fall)))
    return wnp.where(ew.lt(u, ew.div(rise, width)), below, above)


def wald(
    key: object,
    mean: object,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Wald (inverse Gaussian) floats of the given mean and scale 1.

    Source: Michael, Schucany and Haas, "Generating random variates using transformations with
    multiple roots" (1976).

    >>> import weft
    >>> weft.random.wald(weft.random.key(0), 1.0, (4,)).shape
    (4,)
    """
    return draw("wald", _wald, key, (mean,), shape, dtype, out_sharding)


def _wald(key: Array, mean: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    k1, k2 = split_key(key)
    mu = wnp.broadcast_to(param(mean, shape, dtype), shape)
    y = ew.integer_pow(real_normal(k1, shape, dtype), 2)
    z = unit_uniform(k2, shape=shape, dtype=dtype)
    mu2 = ew.integer_pow(mu, 2)
    root = ew.sqrt(4 * mu * y + mu2 * ew.integer_pow(y, 2))
    x = mu + mu2 * y / 2 - mu / 2 * root
    return wnp.where(ew.le(z, mu / (mu + x)), x, mu2 / x)


def weibull_min(
    key: object,
    scale: object,
    concentration: object,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
) -> Any:
    """Weibull floats: density c/s (x/s)**(c-1) exp(-(x/s)**c) for x > 0, scale s, concentration c.

    >>> import weft
    >>> weft.random.weibull_min(weft.random.key(0), 1.0, 2.0, (4,)).shape
    (4,)
    """
    key, _ = check_key("weibull_min", key)
    dtype, shape = float_dtype("weibull_min", dtype), as_shape("weibull_min", shape)
    return run(_weibull, key, scale, concentration, shape=shape, dtype=dtype)


def _weibull(
    key: Array, scale: Array, concentration: Array, *, shape: tuple, dtype: np.dtype
) -> Any:
    u = unit_uniform(key, shape=shape, dtype=dtype)
    return wnp.power(ew.neg(ew.log1p(ew.neg(u))), wnp.divide(1.0, concentration)) * scale


def maxwells(key: Array, *, shape: tuple, dtype: DTypeLike | None) -> Any:
    x = real_normal(key, (*shape, 3), dtype)
    return ew.sqrt(reduce_sum(ew.mul(x, x), (len(shape),)))


maxwell = _standard(
    "maxwell",
    maxwells,
    "Draw Maxwell floats: the length of a standard normal vector of three dimensions.",
)


def double_sided_maxwell(
    key: object,
    loc: Any,
    scale: Any,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
) -> Any:
    """Maxwell floats times a random sign, times scale, plus loc.

    >>> import weft
    >>> weft.random.double_sided_maxwell(weft.random.key(0), 0.0, 1.0, (4,)).shape
    (4,)
    """
    key, _ = check_key("double_sided_maxwell", key)
    dtype = float_dtype("double_sided_maxwell", dtype)
    params = sample_shape("double_sided_maxwell", None, loc, scale)
    shape = (as_shape("double_sided_maxwell", shape) or params) + params
    return run(_double_maxwell, key, loc, scale, shape=shape, dtype=dtype)


def _double_maxwell(key: Array, loc: Array, scale: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    k1, k2 = split_key(key)
    x = ew.mul(signs(k2, shape=shape, dtype=dtype), maxwells(k1, shape=shape, dtype=dtype))
    return x * scale + loc


def generalized_normal(
    key: object,
    p: ArrayLike,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Generalized normal floats: density proportional to exp(-|x|**p).

    >>> import weft
    >>> weft.random.generalized_normal(weft.random.key(0), 2.0, (4,)).shape
    (4,)
    """
    key, _ = check_key("generalized_normal", key)
    dtype = float_dtype("generalized_normal", dtype)
    shape = as_shape("generalized_normal", shape)
    return run(generalized_normals, key, p, shape=shape, dtype=dtype, out_sharding=out_sharding)


def generalized_normals(key: Array, p: ArrayLike, *, shape: tuple, dtype: DTypeLike | None) -> Any:
    k1, k2 = split_key(key)
    inverse = wnp.divide(1, p)
    g = gamma_samples(k1, inverse, shape=shape, dtype=dtype, log_space=False)
    return ew.mul(signs(k2, shape=shape, dtype=dtype), wnp.power(g, ew.convert(inverse, dtype)))


def ball(
    key: object,
    d: int,
    p: ArrayLike = 2,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Draw points uniform in the unit ball of the p-norm in d dimensions; shape `(*shape, d)`.

    Source: Barthe, Guédon, Mendelson and Naor, "A probabilistic approach to the geometry of the
    l_p^n-ball" (2005).

    >>> import weft
    >>> weft.random.ball(weft.random.key(0), 3, shape=(4,)).shape
    (4, 3)
    """
    key, _ = check_key("ball", key)
    dtype, shape = float_dtype("ball", dtype), as_shape("ball", shape)
    d = d.__index__()
    return run(_ball, key, p, d=d, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _ball(key: Array, p: Array, *, d: int, shape: tuple, dtype: np.dtype) -> Any:
    k1, k2 = split_key(key)
    g = generalized_normals(k1, p, shape=(*shape, d), dtype=dtype)
    e = standard_exponential(k2, shape=shape, dtype=dtype)
    powers = wnp.power(ew.abs(g), ew.convert(p, dtype))
    total = ew.add(reduce_sum(powers, (len(shape),)), e)
    radius = wnp.power(total, ew.convert(wnp.divide(1, p), dtype))
    return ew.div(*wnp.broadcast_arrays(g, wnp.expand_dims(radius, -1)))


def orthogonal(
    key: object,
    n: int,
    shape: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Draw matrices uniform among those with orthonormal columns (or rows): shape `(*shape, n, m)`.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).

    >>> import weft
    >>> weft.random.orthogonal(weft.random.key(0), 3).shape
    (3, 3)
    """
    key, _ = check_key("orthogonal", key)
    dtype = float_dtype("orthogonal", dtype, complex_too=True)
    shape, n = as_shape("orthogonal", shape), n.__index__()
    m = n if m is None else m.__index__()
    return run(_orthogonal, key, n=n, m=m, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _orthogonal(key: Array, *, n: int, m: int, shape: tuple, dtype: np.dtype) -> Any:
    from weft.random.basic import _normal

    z = _normal(key, shape=(*shape, max(n, m), min(n, m)), dtype=dtype)
    q, r = wnp.linalg.qr(z)
    d = ew.sign(wnp.diagonal(r, axis1=-2, axis2=-1))
    q = q * wnp.expand_dims(d, -2)
    return wnp.matrix_transpose(q) if n < m else q


def multivariate_normal(
    key: object,
    mean: Any,
    cov: Any,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
    *,
    out_sharding: object = None,
) -> Any:
    """Return normal vectors of given mean `[..., n]` and covariance `[..., n, n]`.

    shape: the batch shape of the result, which ends in n; the parameters' own by default.
    method: "cholesky", or "eigh" or "svd" for covariances that are only semidefinite.

    >>> import weft, numpy as np
    >>> key = weft.random.key(0)
    >>> weft.random.multivariate_normal(key, np.zeros(2), np.eye(2), (5,)).shape
    (5, 2)
    """
    key, _ = check_key("multivariate_normal", key)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(
            f"multivariate_normal: method must be 'svd', 'eigh' or 'cholesky', got {method!r}"
        )
    mean, cov = promote_inexact(mean, cov)
    dtype = float_dtype("multivariate_normal", typeof(mean).dtype if dtype is None else dtype)
    a, c = typeof(mean).shape, typeof(cov).shape
    if not a or len(c) < 2 or c[-2:] != (a[-1], a[-1]):
        raise ValueError(
            f"multivariate_normal: mean must have shape (..., n), cov (..., n, n); got {a} and {c}"
        )
    if shape is None:
        shape = np.broadcast_shapes(a[:-1], c[:-2])
    shape = as_shape("multivariate_normal", shape)
    if np.broadcast_shapes(shape, a[:-1], c[:-2]) != shape:
        raise ValueError(
            f"multivariate_normal: batch shapes {a[:-1]} of mean and {c[:-2]} of cov do not "
            f"broadcast to the requested shape {shape}"
        )
    return run(
        _multivariate_normal,
        key,
        mean,
        cov,
        shape=shape,
        dtype=dtype,
        method=method,
        out_sharding=out_sharding,
    )


def _multivariate_normal(
    key: Array, mean: Array, cov: Array, *, shape: tuple, dtype: np.dtype, method: str
) -> Any:
    if method == "cholesky":
        factor = wnp.linalg.cholesky(cov)
    elif method == "svd":
        u, s, _ = wnp.linalg.svd(cov)
        factor = u * wnp.expand_dims(wnp.sqrt(s), -2)
    else:
        w, v = wnp.linalg.eigh(cov)
        factor = v * wnp.expand_dims(wnp.sqrt(w), -2)
    z = real_normal(key, (*shape, typeof(mean).shape[-1]), dtype)
    return mean + wnp.einsum("...ij,...j->...i", factor, z)


def t(
    key: object,
    df: object,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Student's t floats with df degrees of freedom.

    >>> import weft
    >>> weft.random.t(weft.random.key(0), 3.0, (4,)).shape
    (4,)
    """
    return draw("t", _t, key, (df,), shape, dtype, out_sharding)


def _t(key: Array, df: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    k1, k2 = split_key(key)
    half = ew.div(param(df, shape, dtype), dtype.type(2))
    g = gamma_samples(k2, half, shape=shape, dtype=dtype, log_space=False)
    return ew.mul(real_normal(k1, shape, dtype), ew.sqrt(ew.div(half, g)))
