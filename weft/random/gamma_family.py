# Tests: tests/random/test_oracle.py
"""Gamma samples with reparameterized derivatives, and the distributions made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import moveaxis, reshape
from weft.autodiff.zeros import match_type
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops import elementwise_api as ew
from weft.ops.promote import broadcast_to
from weft.random.api import check_key
from weft.random.basic import real_normal, unit_uniform
from weft.random.primitives import split_keys
from weft.random.sampling import draw, float_dtype, param, run, sample_shape, split_key

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike


def _one_sample(key: Array, alpha: Array, log_space: bool) -> Any:
    """Draw one gamma number, or its logarithm, by rejection.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); alpha
    below 1 is raised by 1 and the sample scaled by u**(1/alpha).
    """
    from weft.lax import while_loop

    dtype = typeof(alpha).dtype
    number = dtype.type
    zero, one = number(0), number(1)
    raised = ew.ge(alpha, one)
    boosted = ew.select(raised, alpha, ew.add(alpha, one))
    d = ew.sub(boosted, number(1.0 / 3.0))
    c = ew.div(number(1.0 / 3.0), ew.sqrt(d))

    def rejected(state: tuple) -> Any:
        _, x2, v, u = state
        squeeze = ew.sub(one, ew.mul(number(0.0331), ew.mul(x2, x2)))
        bound = ew.add(ew.mul(x2, number(0.5)), ew.mul(d, ew.add(ew.sub(one, v), ew.log(v))))
        return ew.bitwise_and(ew.ge(u, squeeze), ew.ge(ew.log(u), bound))

    def propose(state: tuple) -> tuple:
        def draw(inner: tuple) -> tuple:
            key, subkey = split_key(inner[0])
            x = real_normal(subkey, (), dtype)
            return key, x, ew.add(one, ew.mul(x, c))

        key, x_key, u_key = split_key(state[0], 3)
        start = (x_key, _like(zero, alpha), _like(number(-1), alpha))
        # v = (1 + c x)³ must be positive: redraw x alone until it is.
        _, x, v = while_loop(lambda inner: ew.le(inner[2], zero), draw, start)
        u = unit_uniform(u_key, shape=(), dtype=dtype)
        return key, ew.mul(x, x), ew.mul(ew.mul(v, v), v), u

    key, subkey = split_key(key)
    start = (key, _like(zero, alpha), _like(one, alpha), _like(number(2), alpha))
    _, _, v, _ = while_loop(rejected, propose, start)
    u = unit_uniform(subkey, shape=(), dtype=dtype)
    if log_space:
        log_u = ew.log1p(ew.neg(u))
        skip = ew.bitwise_or(raised, ew.eq(log_u, zero))
        boost = ew.select(skip, _like(zero, alpha), ew.mul(log_u, ew.div(one, alpha)))
        return ew.add(ew.add(ew.log(d), ew.log(v)), boost)
    power = ew.pow(ew.sub(one, u), ew.div(one, alpha))
    return ew.mul(ew.mul(d, v), ew.select(raised, _like(one, alpha), power))


def _like(value: ArrayLike, x: Array) -> Any:
    """Give the constant the manual-axis type of x: a loop's carry must not change type."""
    return match_type(value, typeof(x))


def _samples(keys: Array, alpha: Array, log_space: bool) -> Any:
    """Return samples for an array of alpha whose leading dimensions are those of the keys."""
    from weft.api.vmap_api import vmap

    shape, lead = typeof(alpha).shape, typeof(keys).ndim
    count = math.prod(shape[lead:])
    each = split_keys(reshape(keys, (math.prod(shape[:lead]),)), (count,))
    flat = reshape(each, (math.prod(shape),)), reshape(alpha, (math.prod(shape),))
    return reshape(vmap(lambda k, a: _one_sample(k, a, log_space))(*flat), shape)


def _batch(axis: object, args: Sequence[Any], dims: Sequence[int], *, log_space: bool) -> tuple:
    keys, alpha = args
    if dims[0] is None:
        keys = broadcast_to(keys, (axis.size, *typeof(keys).shape))
    else:
        keys = moveaxis(keys, dims[0], 0)
    if dims[1] is None:
        alpha = broadcast_to(alpha, (axis.size, *typeof(alpha).shape))
    else:
        alpha = moveaxis(alpha, dims[1], 0)
    return random_gamma_p.bind(keys, alpha, log_space=log_space), 0


def _jvp(primals: Any, tangents: Any, *, log_space: bool) -> tuple:
    key, alpha = primals
    out = random_gamma_p.bind(key, alpha, log_space=log_space)
    if tangents[1] is None:
        return out, None
    return out, ew.mul(tangents[1], _slope(out, alpha, log_space))


def _slope(sample: Any, alpha: Any, log_space: bool) -> Any:
    """d sample / d alpha at a fixed quantile (implicit reparameterization)."""
    from weft.lax import random_gamma_grad

    if not log_space:
        return random_gamma_grad(alpha, sample)
    dtype = typeof(sample).dtype
    x = ew.exp(sample)
    tiny = broadcast_to(dtype.type(dtypes.finfo(dtype).tiny), typeof(x).shape)
    x = ew.select(ew.eq(x, dtype.type(0)), tiny, x)
    return ew.div(random_gamma_grad(alpha, x), x)


def _abstract(key: ShapedArray, alpha: ShapedArray, *, log_space: bool) -> ShapedArray:
    return alpha.update(weak_type=False, sharding=None)


random_gamma_p = Primitive(
    "random_gamma",
    abstract=_abstract,
    jvp=_jvp,
    batch=_batch,
    lower=lambda ctx, key, alpha, *, log_space: ctx.lower_fun(
        lambda k, a: _samples(k, a, log_space), key, alpha
    )[0],
    sharding="elementwise",
)


def gamma_samples(
    key: Array, a: ArrayLike, *, shape: tuple, dtype: DTypeLike | None, log_space: bool
) -> Any:
    """Gamma samples (or their logarithms) of shape parameter a."""
    a = broadcast_to(param(a, shape, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=log_space)


def _gamma(
    name: str, key: object, a: Array, shape: Any, dtype: object, sharding: object, log: bool
) -> Any:
    key, _ = check_key(name, key)
    dtype, shape = float_dtype(name, dtype), sample_shape(name, shape, a)
    return run(
        gamma_samples, key, a, shape=shape, dtype=dtype, log_space=log, out_sharding=sharding
    )


def gamma(
    key: object,
    a: ArrayLike,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Gamma floats: density proportional to x**(a-1) exp(-x) for x >= 0. Differentiable in a.

    Source: Marsaglia and Tsang (2000); derivative by implicit reparameterization (Figurnov,
    Mohamed and Mnih, 2018).

    >>> import weft
    >>> weft.random.gamma(weft.random.key(0), 3.0, (4,)).shape
    (4,)
    """
    return _gamma("gamma", key, a, shape, dtype, out_sharding, False)


def loggamma(
    key: object,
    a: ArrayLike,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Draw logarithms of gamma floats; exact also where `gamma` underflows (small a).

    >>> import weft
    >>> weft.random.loggamma(weft.random.key(0), 1e-3, (4,)).shape
    (4,)
    """
    return _gamma("loggamma", key, a, shape, dtype, out_sharding, True)


def beta(
    key: object,
    a: ArrayLike,
    b: ArrayLike,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Beta floats: density proportional to x**(a-1) (1-x)**(b-1) on [0, 1].

    >>> import weft
    >>> weft.random.beta(weft.random.key(0), 2.0, 3.0, (4,)).shape
    (4,)
    """
    return draw("beta", _beta, key, (a, b), shape, dtype, out_sharding)


def _beta(key: Array, a: Array, b: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    logs = [
        gamma_samples(k, x, shape=shape, dtype=dtype, log_space=True)
        for k, x in zip(split_key(key), (a, b), strict=True)
    ]
    top = ew.max(*logs)
    x, y = (ew.exp(ew.sub(v, top)) for v in logs)
    return ew.div(x, ew.add(x, y))


def dirichlet(
    key: object,
    alpha: Any,
    shape: Any = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Dirichlet vectors: points of the simplex with concentrations alpha `[..., n]`.

    shape: the batch shape; the result has shape `(*shape, n)`.

    >>> import weft, numpy as np
    >>> weft.random.dirichlet(weft.random.key(0), np.ones(3), (4,)).shape
    (4, 3)
    """
    key, _ = check_key("dirichlet", key)
    dtype = float_dtype("dirichlet", dtype)
    alpha_shape = typeof(alpha).shape
    if not alpha_shape:
        raise ValueError("dirichlet: alpha must have at least one dimension, got a scalar")
    shape = alpha_shape if shape is None else (*shape, alpha_shape[-1])
    shape = sample_shape("dirichlet", shape, alpha)
    return run(_dirichlet, key, alpha, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _dirichlet(key: Array, alpha: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    from weft.nn.functions import softmax

    return softmax(gamma_samples(key, alpha, shape=shape, dtype=dtype, log_space=True), -1)


def chisquare(
    key: object,
    df: object,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Chi-square floats with df degrees of freedom.

    >>> import weft
    >>> weft.random.chisquare(weft.random.key(0), 3.0, (4,)).shape
    (4,)
    """
    return draw("chisquare", _chisquare, key, (df,), shape, dtype, out_sharding)


def _chisquare(key: Array, df: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    half = ew.div(param(df, shape, dtype), dtype.type(2))
    log_g = gamma_samples(key, half, shape=shape, dtype=dtype, log_space=True)
    return ew.mul(ew.exp(log_g), dtype.type(2))


def f(
    key: object,
    dfnum: object,
    dfden: object,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """F floats with dfnum and dfden degrees of freedom.

    >>> import weft
    >>> weft.random.f(weft.random.key(0), 3.0, 5.0, (4,)).shape
    (4,)
    """
    return draw("f", _f, key, (dfnum, dfden), shape, dtype, out_sharding)


def _f(key: Array, dfnum: Array, dfden: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    k_den, k_num = split_key(key)
    ratio = [
        ew.div(_chisquare(k, df, shape=shape, dtype=dtype), param(df, shape, dtype))
        for k, df in ((k_num, dfnum), (k_den, dfden))
    ]
    return ew.div(*ratio)


__all__ = ["beta", "chisquare", "dirichlet", "f", "gamma", "loggamma", "random_gamma_p"]
