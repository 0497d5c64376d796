# Tests: tests/random/test_oracle.py
"""Samplers of discrete distributions, permutations and choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import expand_dims, moveaxis, reshape
from weft.autodiff.zeros import full, match_type
from weft.core import dtypes
from weft.core.errors import ArgumentError, BadIndexError
from weft.core.trace import typeof
from weft.ops import elementwise_api as ew
from weft.ops.promote import broadcast_to, promote_inexact
from weft.ops.slicing import slice_in_dim
from weft.random.api import check_key
from weft.random.basic import randint, unit_uniform
from weft.random.continuous import gumbel_mode, gumbels
from weft.random.sampling import (
    as_shape,
    canonical,
    draw,
    int_dtype,
    param,
    random_bits,
    run,
    sample_shape,
    split_key,
)

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike


def _static_size(name: str, label: str, x: Array) -> int:
    try:
        return x.__index__()
    except (TypeError, AttributeError):
        raise ArgumentError(
            f"{name}: {label} must be an integer or an array with at least one dimension, got "
            f"{typeof(x).str_short()}"
        ) from None


def categorical(
    key: object,
    logits: Any,
    axis: int = -1,
    shape: int | Sequence[int] | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Return indices along `axis` with probabilities softmax(logits), by the Gumbel-max trick.

    shape: the result's; it ends in the batch shape, that of logits without `axis`. With
    replace=False, samples along its leading dimensions are distinct. mode: as for `gumbel`.

    >>> import weft, numpy as np
    >>> weft.random.categorical(weft.random.key(0), np.array([-np.inf, 0.0, -np.inf]), shape=(3,))
    Array([1, 1, 1], dtype=int32)
    """
    key, _ = check_key("categorical", key)
    aval = typeof(logits)
    if not aval.shape:
        raise BadIndexError("categorical: logits must have at least one dimension, got a scalar")
    if not dtypes.is_float(aval.dtype):
        (logits,) = promote_inexact(logits)
    axis = canonical_axis(axis, aval.ndim)
    batch = aval.shape[:axis] + aval.shape[axis + 1 :]
    shape = batch if shape is None else as_shape("categorical", shape)
    if wnp.broadcast_shapes(shape, batch) != shape:
        raise ValueError(
            f"categorical: the batch shape {batch} of logits does not broadcast to the requested "
            f"shape {shape}"
        )
    draws = math.prod(shape[: len(shape) - len(batch)])
    if not replace and draws > aval.shape[axis]:
        raise ValueError(
            f"categorical: {draws} samples without replacement from {aval.shape[axis]} categories"
        )
    return run(
        _categorical if replace else _distinct_categories,
        key,
        logits,
        shape=shape,
        axis=axis,
        mode=gumbel_mode(mode),
        out_sharding=out_sharding,
    )


def _categorical(key: Array, logits: Array, *, shape: tuple, axis: int, mode: str) -> Any:
    aval = typeof(logits)
    extra = len(shape) - aval.ndim + 1
    drawn = list(shape)
    drawn.insert(extra + axis, aval.shape[axis])
    noise = gumbels(key, shape=tuple(drawn), dtype=aval.dtype, mode=mode)
    logits = broadcast_to(expand_dims(logits, tuple(range(extra))), tuple(drawn))
    return wnp.argmax(ew.add(noise, logits), axis=extra + axis)


def _distinct_categories(key: Array, logits: Array, *, shape: tuple, axis: int, mode: str) -> Any:
    from weft.lax import top_k

    aval = typeof(logits)
    count = math.prod(shape[: len(shape) - aval.ndim + 1])
    noise = gumbels(key, shape=aval.shape, dtype=aval.dtype, mode=mode)
    scores = moveaxis(ew.add(logits, noise), axis, aval.ndim - 1)
    _, indices = top_k(scores, count)
    return reshape(moveaxis(indices, aval.ndim - 1, 0), shape)


def permutation(
    key: object,
    x: ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: object = None,
) -> Any:
    """Shuffle an array's slices along `axis`; for an integer x, those of `arange(x)`.

    independent: shuffle every vector along the axis by itself.

    >>> import weft
    >>> sorted(weft.random.permutation(weft.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    key, _ = check_key("permutation", key)
    aval = typeof(x)
    if not aval.shape:
        if not dtypes.is_integer(aval.dtype):
            raise TypeError(
                f"permutation: x must be an integer or an array, got {aval.str_short()}"
            )
        size = _static_size("permutation", "x", x)
        canonical_axis(axis, 1)
        return run(_shuffled_range, key, size=size, out_sharding=out_sharding)
    axis = canonical_axis(axis, aval.ndim)
    whole = independent or aval.ndim == 1
    return run(_shuffle if whole else _shuffle_slices, key, x, axis=axis, out_sharding=out_sharding)


def _shuffle(key: Array, x: Array, *, axis: int) -> Any:
    """Sort by random words, often enough that ties have no effect."""
    from weft.lax import sort_key_val

    aval = typeof(x)
    rounds = math.ceil(3 * math.log(max(1, aval.size)) / math.log((1 << 32) - 1))
    for _ in range(rounds):
        key, subkey = split_key(key)
        _, x = sort_key_val(random_bits(subkey, 32, aval.shape), x, axis)
    return x


def _shuffled_range(key: Array, *, size: int) -> Any:
    return _shuffle(key, wnp.arange(size), axis=0)


def _shuffle_slices(key: Array, x: Array, *, axis: int) -> Any:
    order = _shuffled_range(key, size=typeof(x).shape[axis])
    return wnp.take(x, order, axis, unique_indices=True)


def choice(
    key: object,
    a: ArrayLike,
    shape: int | Sequence[int] = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Random elements of an array along `axis`, or of `arange(a)` for an integer a.

    p: the probability of each element; uniform by default. replace: whether one may be taken
    twice.

    >>> import weft, numpy as np
    >>> weft.random.choice(weft.random.key(0), np.array([7, 7]), (3,))
    Array([7, 7, 7], dtype=int32)
    """
    key, _ = check_key("choice", key)
    shape = as_shape("choice", shape)
    aval = typeof(a)
    if aval.shape:
        axis = canonical_axis(axis, aval.ndim)
        size, dims = aval.shape[axis], aval.shape
    else:
        size, dims = _static_size("choice", "a", a), ()
    draws = math.prod(shape)
    if not draws:
        return wnp.zeros(dims[:axis] + shape + dims[axis + 1 :] if dims else shape, aval.dtype)
    if size <= 0:
        raise ValueError("choice: a must have at least one element to choose from")
    if not replace and draws > size:
        raise ValueError(
            f"choice: {draws} samples without replacement from {size} elements; use replace=True"
        )
    if p is None and not replace:
        order = permutation(key, a if dims else size, axis if dims else 0)
        out = slice_in_dim(order, 0, draws, axis=axis if dims else 0)
    else:
        if p is None:
            index = randint(key, shape, 0, size)
        else:
            (p,) = promote_inexact(p)
            if typeof(p).shape != (size,):
                raise ValueError(
                    f"choice: p must have shape ({size},), one probability for each element, got "
                    f"{typeof(p).shape}"
                )
            index = run(
                _weighted if replace else _weighted_distinct,
                key,
                p,
                shape=shape,
                mode=gumbel_mode(mode),
            )
        out = index if not dims else wnp.take(a, index, axis)
    return wnp.reshape(out, dims[:axis] + shape + dims[axis + 1 :] if dims else shape)


def _weighted(key: Array, p: Array, *, shape: tuple, mode: str) -> Any:
    total = wnp.cumsum(p)
    dtype = typeof(total).dtype
    u = ew.sub(dtype.type(1), unit_uniform(key, shape=shape, dtype=dtype))
    index = wnp.searchsorted(total, total[-1] * u)
    return ew.convert(index, dtypes.canonicalize_dtype(int))


def _weighted_distinct(key: Array, p: Array, *, shape: tuple, mode: str) -> Any:
    from weft.lax import top_k

    aval = typeof(p)
    noise = gumbels(key, shape=aval.shape, dtype=aval.dtype, mode=mode)
    index = top_k(ew.add(noise, ew.log(p)), math.prod(shape))[1]
    return ew.convert(index, dtypes.canonicalize_dtype(int))


def geometric(
    key: object,
    p: ArrayLike,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Geometric integers: the number of trials up to the first success of probability p.

    >>> import weft
    >>> weft.random.geometric(weft.random.key(0), 1.0, (3,))
    Array([1, 1, 1], dtype=int32)
    """
    key, _ = check_key("geometric", key)
    dtype, shape = int_dtype("geometric", dtype), sample_shape("geometric", shape, p)
    return run(_geometric, key, p, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _geometric(key: Array, p: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    (p,) = promote_inexact(p)
    kind = typeof(p).dtype
    u = unit_uniform(key, shape=shape, dtype=kind)
    u = wnp.where(ew.eq(u, kind.type(0)), kind.type(1), u)
    log_q = ew.log1p(ew.neg(broadcast_to(ew.convert(p, kind), shape)))
    trials = ew.add(ew.floor(ew.div(ew.log(u), log_q)), kind.type(1))
    return ew.convert(trials, dtype)


# Rejection samplers ---------------------------------------------------------------------------


def _full(shape: tuple, value: bool | int, dtype: np.dtype, like: Array) -> Any:
    """Make a constant array of another value's manual-axis type, as a loop's carry must be."""
    return match_type(full(shape, value, dtype), typeof(like).update(shape=shape, dtype=dtype))


def poisson(
    key: object,
    lam: Any,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Poisson integers of rate lam, which broadcasts to the shape. Threefry keys only.

    Source: Knuth's product of uniforms for lam < 10; Hörmann's transformed rejection with squeeze
    (PTRS, "The transformed rejection method for generating Poisson random variables", 1993) above.

    >>> import weft
    >>> weft.random.poisson(weft.random.key(0), 0.0, (3,))
    Array([0, 0, 0], dtype=int32)
    """
    key, _ = check_key("poisson", key)
    dtype = int_dtype("poisson", dtype)
    generator = typeof(key).dtype.generator
    if generator.name != "threefry2x32":
        raise ValueError(
            f"poisson: the key must be a threefry2x32 key, got one of {generator.name}; make one "
            "with weft.random.key(seed, impl='threefry2x32')"
        )
    shape = sample_shape("poisson", shape, lam)
    return run(_poisson, key, lam, shape=shape, dtype=dtype, out_sharding=out_sharding)


def _poisson(key: Array, lam: Array, *, shape: tuple, dtype: np.dtype) -> Any:
    lam = broadcast_to(param(lam, shape, dtypes.float32), shape)
    small = ew.bitwise_or(ew.ne(lam, lam), ew.lt(lam, 10.0))
    counter = dtypes.canonicalize_dtype(int)  # of the loops, which need not reach all of uint64
    limit = min(int(dtypes.iinfo(dtype).max), int(dtypes.iinfo(counter).max))
    low = _poisson_knuth(key, wnp.where(small, lam, np.float32(0)), shape, dtype, limit)
    high = _poisson_rejection(key, wnp.where(small, np.float32(1e5), lam), shape, dtype, limit)
    out = wnp.where(small, low, high)
    return wnp.where(ew.eq(lam, 0.0), dtype.type(0), out)


def _poisson_knuth(key: Array, lam: Array, shape: tuple, dtype: np.dtype, limit: int) -> Any:
    from weft.lax import while_loop

    def step(state: tuple) -> tuple:
        i, k, key, log_product = state
        key, subkey = split_key(key)
        k = wnp.where(ew.gt(log_product, ew.neg(lam)), k + 1, k)
        u = unit_uniform(subkey, shape=shape, dtype=dtypes.float32)
        return i + 1, k, key, ew.add(log_product, ew.log(u))

    def more(state: tuple) -> Any:
        return ew.gt(state[3], ew.neg(lam)).any() & (state[0] < limit)

    zero = _full(shape, 0, dtypes.float32, lam)
    state = (0, _full(shape, 0, dtype, lam), _vary(key, lam), zero)
    return ew.sub(while_loop(more, step, state)[1], dtype.type(1))


def _poisson_rejection(key: Array, lam: Array, shape: tuple, dtype: np.dtype, limit: int) -> Any:
    from weft.lax import while_loop

    log_lam = ew.log(lam)
    b = 0.931 + 2.53 * ew.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def step(state: tuple) -> tuple:
        i, k_out, accepted, key = state
        key, u_key, v_key = split_key(key, 3)
        u = unit_uniform(u_key, shape=shape, dtype=dtypes.float32) - 0.5
        v = unit_uniform(v_key, shape=shape, dtype=dtypes.float32)
        us = 0.5 - ew.abs(u)
        k = ew.floor((2 * a / us + b) * u + lam + 0.43)
        s = ew.log(v * inverse_alpha / (a / (us * us) + b))
        bound = -lam + k * log_lam - ew.lgamma(k + 1)
        inside = (us >= 0.07) & (v <= v_r)
        outside = (k < 0) | ((us < 0.013) & (v > us))
        accept = inside | (~outside & (s <= bound))
        return i + 1, wnp.where(accept, k, k_out), accepted | accept, key

    def more(state: tuple) -> Any:
        return (~state[2]).any() & (state[0] < limit)

    start = _full(shape, -1, dtypes.float32, lam), _full(shape, False, dtypes.bool_, lam)
    return ew.convert(while_loop(more, step, (0, *start, _vary(key, lam)))[1], dtype)


def _vary(key: Array, like: Array) -> Any:
    """Give the key the parameters' manual-axis type, as a loop's carry must keep its type."""
    aval = typeof(key)
    return match_type(key, aval.update(mat=typeof(like).mat))


def binomial(
    key: object,
    n: object,
    p: ArrayLike,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Any:
    """Binomial counts, as floats: successes in n trials of probability p.

    NaN where n or p is negative or NaN. Source: geometric steps (Devroye 1980) for n p <= 10;
    Hörmann's BTRS ("The generation of binomial random variates", 1993) above.

    >>> import weft
    >>> weft.random.binomial(weft.random.key(0), 5.0, 1.0, (3,))
    Array([5., 5., 5.], dtype=float32)
    """
    return draw("binomial", binomials, key, (n, p), shape, dtype)


def binomials(key: Array, n: Array, p: Any, *, shape: tuple, dtype: Any) -> Any:
    (p,) = promote_inexact(p)
    kind = typeof(p).dtype
    p = broadcast_to(ew.convert(p, kind), shape)
    count = broadcast_to(ew.convert(n, kind), shape)
    low = p < 0.5
    q = wnp.where(low, p, 1.0 - p)
    bad_count = ew.ne(count, count) | (count < 0.0)
    endless = ew.eq(ew.abs(count), kind.type(np.inf))
    bad_p = ew.ne(q, q)
    negative_p = q < 0.0
    q = wnp.where(bad_p | negative_p, kind.type(0.01), q)
    few = bad_count | (count * q <= 10.0)
    count = ew.floor(count)
    limit = np.iinfo(np.int32).max
    by_steps = _binomial_steps(key, wnp.where(few, count, kind.type(0)), q, shape, dtype, limit)
    by_rejection = _binomial_rejection(
        key,
        wnp.where(few, kind.type(10000), count),
        wnp.where(few, kind.type(0.5), q),
        shape,
        dtype,
        limit,
    )
    out = wnp.where(few, by_steps, by_rejection)
    invalid = negative_p | bad_p | bad_count
    out = wnp.where(invalid, dtype.type(np.nan), out)
    out = wnp.where(endless & ~invalid, dtype.type(np.inf), out)
    keep = low | bad_count | bad_p | endless
    return wnp.where(keep, out, ew.convert(count, dtype) - out)


def _binomial_steps(
    key: object, count: object, p: object, shape: tuple, dtype: object, limit: int
) -> Any:
    """Count how many geometric waiting times fit into the trials."""
    from weft.lax import while_loop

    kind = typeof(p).dtype
    log_q = ew.log1p(ew.neg(p))

    def step(state: tuple) -> tuple:
        i, steps, total, key = state
        subkey, key = split_key(key)
        steps = wnp.where(total <= count, steps + 1, steps)
        u = unit_uniform(subkey, shape=shape, dtype=kind)
        return i + 1, steps, total + ew.ceil(ew.log(u) / log_q), key

    def more(state: tuple) -> Any:
        return (state[2] <= count).any() & (state[0] < limit)

    zero = _full(shape, 0, kind, count)
    steps = while_loop(more, step, (0, zero, zero, _vary(key, count)))[1]
    return ew.convert(steps - 1, dtype)


_STIRLING_TAIL = np.array(
    [math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + k + 1 - 0.5 * math.log(2 * math.pi)
     for k in range(10)]
)  # fmt: skip


def _stirling_tail(k: Array) -> Any:
    """log k! less Stirling's formula: a table up to 9, the series in 1/(k+1) above."""
    kind = typeof(k).dtype
    in_table = k <= 9
    k = ew.clamp(kind.type(0), k, kind.type(9))
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    index = ew.convert(ew.floor(k), dtypes.int32)
    table = wnp.take(wnp.asarray(_STIRLING_TAIL.astype(kind)), index)
    return wnp.where(in_table, table, series)


def _binomial_rejection(
    key: object, count: Any, p: Array, shape: tuple, dtype: object, limit: int
) -> Any:
    from weft.lax import while_loop

    kind = typeof(p).dtype
    # Hörmann's constants: the hat's width and height, and the mode.
    deviation = ew.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = ew.floor((count + 1) * p)

    def step(state: tuple) -> tuple:
        i, k_out, accepted, key = state
        key, u_key, v_key = split_key(key, 3)
        u = unit_uniform(u_key, shape=shape, dtype=kind) - 0.5
        v = unit_uniform(v_key, shape=shape, dtype=kind)
        us = 0.5 - ew.abs(u)
        # Most draws are accepted here, without logarithms.
        inside = (us >= 0.07) & (v <= v_r)
        k = ew.floor((2 * a / us + b) * u + c)
        outside = (k < 0) | (k > count)
        v = ew.log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * ew.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * ew.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * ew.log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        accept = inside | (~outside & (v <= bound))
        return i + 1, wnp.where(accept, k, k_out), accepted | accept, key

    def more(state: tuple) -> Any:
        return (~state[2]).any() & (state[0] < limit)

    start = _full(shape, -1, kind, count), _full(shape, False, dtypes.bool_, count)
    state = (0, *start, _vary(key, count))
    return ew.convert(while_loop(more, step, state)[1], dtype)


def multinomial(
    key: object,
    n: object,
    p: ArrayLike,
    *,
    shape: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Any:
    """Multinomial counts, floats unless dtype is integer: how often each outcome comes up.

    p: probabilities `[..., k]`. n: how many trials, of the batch shape. shape: the result's,
    `(..., k)`. unroll: of the scan over outcomes.

    >>> import weft, numpy as np
    >>> float(weft.random.multinomial(weft.random.key(0), 9.0, np.ones(3) / 3).sum())
    9.0
    """
    key, _ = check_key("multinomial", key)
    dtype = canonical(dtype, float, "multinomial")
    if not (dtypes.is_float(dtype) or dtypes.is_integer(dtype)):
        raise ValueError(
            f"multinomial: dtype must be a float or integer dtype, got {dtypes.short_name(dtype)}"
        )
    shape = typeof(p).shape if shape is None else as_shape("multinomial", shape)
    if not shape:
        raise ValueError("multinomial: p must have at least one dimension, got a scalar")
    return run(_multinomial, key, n, p, shape=shape, dtype=dtype, unroll=unroll)


def _multinomial(
    key: Array, n: Array, p: Array, *, shape: tuple, dtype: np.dtype, unroll: int
) -> Any:
    from weft.lax import cumsum, scan
    from weft.random.api import split

    n, p = promote_inexact(n, p)
    kind = typeof(p).dtype
    n = broadcast_to(ew.convert(n, kind), shape[:-1])
    p = moveaxis(broadcast_to(ew.convert(p, kind), shape), len(shape) - 1, 0)
    remaining = cumsum(p, 0, reverse=True)
    ratios = p / wnp.where(remaining == 0, kind.type(1), remaining)

    def one_outcome(left: Array, ratio_and_key: tuple) -> tuple:
        ratio, key = ratio_and_key
        ratio = ew.clamp(kind.type(0), ratio, kind.type(1))
        count = binomials(key, left, ratio, shape=shape[:-1], dtype=kind)
        return left - count, count

    keys = split(key, shape[-1])
    counts: Any
    _, counts = scan(one_outcome, n, (ratios, keys), unroll=unroll)
    return ew.convert(moveaxis(counts, 0, len(shape) - 1), dtype)
