# Tests: tests/ops/test_elementwise_api.py
"""Incomplete gamma and beta functions, the Hurwitz zeta function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.jvp import filled_tangents, jvp_flat
from weft.autodiff.op_families import FLOAT, elementwise, scalar
from weft.autodiff.shape import broadcast_in_dim
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.config import options
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.control.loops import while_loop
from weft.ops.elementwise_api import (
    _like,
    _mul,
    _one_minus,
    _times,
    abs,
    add,
    and_p,
    convert,
    digamma,
    div,
    eq,
    exp,
    ge,
    gt,
    is_finite,
    le,
    lgamma,
    log,
    log1p,
    lt,
    mul,
    ne,
    neg,
    no_derivative,
    not_p,
    or_p,
    select,
    sub,
)
from weft.ops.promote import promote_lax, stretch
from weft.ops.reduce import reduce_or

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

MAX_STEPS = 2000


def _unknown(op: str, operand: str) -> Callable:
    """Return the derivative rule of an operand for which there is none."""

    def rule(t: Array, out: Array, *primals: ArrayLike) -> Any:
        return no_derivative(op, operand)

    return rule


def _formula(name: str, formula: Callable, jvps: list, doubled: bool = False) -> Primitive:
    """Return an elementwise op computed by a function of arrays, in float32 at least.

    doubled: in float64 on the CPU, for sums whose terms are much larger than they are.
    """

    def lower(ctx: RuleContext, *operands: ir.Value) -> Any:
        shape, dtype = ctx.avals_out[0].shape, ctx.avals_out[0].dtype
        avals = [ShapedArray(shape, dtype) for _ in operands]
        run = wide_enough(formula, doubled and ctx.module.platforms == ("cpu",))
        return ctx.lower_fun(run, *ctx.spread(operands), avals=avals)[0]

    return elementwise(name, lower, accepts=FLOAT, jvps=jvps)


def wide_enough(formula: Callable, doubled: bool = False) -> Callable:
    """Return the function of operands of one dtype, computed in float32 or float64 at least."""

    def run(*xs: Array) -> Any:
        dtype = typeof(xs[0]).dtype
        least = dtypes.float64 if doubled else dtypes.float32
        wide = least if dtype.itemsize < least.itemsize else dtype
        with options["enable_x64"](True) if doubled else nullcontext():
            return convert(formula(*(convert(x, wide) for x in xs)), dtype)

    return run


def _full(x: Array, value: float) -> Any:
    return _like(scalar(value, typeof(x).dtype), x)


def _choose(*pairs: Array) -> Any:
    """Return the value of the first condition that holds; the last argument is the default."""
    *conditions, value = pairs
    for condition, other in reversed(list(zip(conditions[::2], conditions[1::2], strict=True))):
        value = select(condition, other, value)
    return value


def _eps(x: Array) -> float:
    return float(dtypes.finfo(typeof(x).dtype).eps)


def _iterate(step: Callable, state: tuple, converged: Callable, active: Array) -> tuple:
    """Apply step where active until every element has converged; state: a tuple of arrays."""
    dims = tuple(range(typeof(active).ndim))

    def go_on(carry: tuple) -> Any:
        n, running, _ = carry
        return and_p.bind(reduce_or(running, dims) if dims else running, lt(n, MAX_STEPS))

    def body(carry: tuple) -> Any:
        n, running, old = carry
        new = step(*old)
        done = converged(old, new)
        kept = tuple(select(running, a, b) for a, b in zip(new, old, strict=True))
        return add(n, np.int32(1)), and_p.bind(running, _not(done)), kept

    return while_loop(go_on, body, (np.int32(0), active, state))[2]


def _not(x: Array) -> Any:
    return not_p.bind(x)


def _jvp(fun: Callable, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list]:
    """Return results and tangents, zeros where a result does not depend on the arguments."""
    outs, out_tangents = jvp_flat(fun, list(primals), list(tangents))
    return outs, filled_tangents(outs, out_tangents)


def _with_tangents(step: Callable, count: int) -> Callable:
    """Return the step on (values, tangents): the derivative of the iteration along with it."""

    def dual(*state: Array) -> tuple:
        values, tangents = _jvp(step, state[:count], state[count:])
        return (*values, *tangents)

    return dual


# Incomplete gamma ------------------------------------------------------------------------------


def _series(a: Array, x: Array, active: Array, derivative: bool) -> tuple:
    """sum over n of x^n / ((a+1)…(a+n)), and its derivative in a: Cephes' igam."""
    one, zero = _full(a, 1), _full(a, 0)
    eps = _eps(a)

    def step(r: Array, c: Array, total: Array) -> tuple:
        r = add(r, scalar(1, typeof(r).dtype))
        c = mul(c, div(x, r))
        return r, c, add(total, c)

    def done(old: tuple, new: tuple) -> Any:
        small = le(new[1], _times(new[2], eps))
        if derivative:
            small = and_p.bind(small, le(abs(new[4]), _times(abs(new[5]), eps)))
        return small

    if not derivative:
        return _iterate(step, (a, one, one), done, active)[2], None
    start = (a, one, one, one, zero, zero)
    end = _iterate(_with_tangents(step, 3), start, done, active)
    return end[2], end[5]


def _fraction(a: Array, x: Array, active: Array, derivative: bool) -> tuple:
    """Return the upper function's continued fraction, and its derivative in a: Cephes' igamc."""
    zero, one = _full(a, 0), _full(a, 1)
    eps = _eps(a)
    y = sub(one, a)
    z = add(add(x, y), one)

    def step(
        c: Array, y: Array, z: Array, p2: Array, q2: Array, p1: Array, q1: Array, total: Array
    ) -> tuple:
        unit = scalar(1, typeof(c).dtype)
        c, y, z = add(c, unit), add(y, unit), add(z, scalar(2, typeof(c).dtype))
        yc = mul(y, c)
        p = sub(mul(p1, z), mul(p2, yc))
        q = sub(mul(q1, z), mul(q2, yc))
        # Numerators grow without bound: scale all by eps once one passes 1 / eps.
        nonzero = ne(q, zero)
        ratio = select(nonzero, div(p, select(nonzero, q, one)), total)
        shrink = select(gt(abs(p), _full(p, 1 / eps)), _full(p, eps), one)
        return c, y, z, mul(p1, shrink), mul(q1, shrink), mul(p, shrink), mul(q, shrink), ratio

    def close(new: Array, old: Array) -> Any:
        return le(abs(sub(new, old)), _times(abs(new), eps))

    def done(old: tuple, new: tuple) -> Any:
        small = close(new[7], old[7])
        return and_p.bind(small, close(new[15], old[15])) if derivative else small

    p, q = add(x, one), mul(z, x)
    start = (zero, y, z, one, x, p, q, div(p, q))
    if not derivative:
        return _iterate(step, start, done, active)[7], None

    def initial(a: Array) -> tuple:
        y = sub(one, a)
        z = add(add(x, y), one)
        top, bottom = add(x, one), mul(z, x)
        return zero, y, z, one, x, top, bottom, div(top, bottom)

    values, tangents = _jvp(initial, (a,), (one,))
    end = _iterate(_with_tangents(step, 8), (*values, *tangents), done, active)
    return end[7], end[15]


def _gamma(a: ArrayLike, x: ArrayLike, upper: bool, derivative: bool = False) -> Any:
    """P(a, x) or Q(a, x), or the derivative of P in a."""
    one, zero, nan, inf = (_full(a, v) for v in (1, 0, np.nan, np.inf))
    fits = and_p.bind(gt(a, zero), gt(x, zero))
    fits = and_p.bind(fits, and_p.bind(is_finite(a), is_finite(x)))
    safe_a, safe_x = select(fits, a, one), select(fits, x, one)
    by_fraction = and_p.bind(gt(safe_x, one), gt(safe_x, safe_a))
    by_series = and_p.bind(fits, _not(by_fraction))
    fraction = and_p.bind(fits, by_fraction)
    head = sub(sub(mul(safe_a, log(safe_x)), safe_x), lgamma(safe_a))
    total, total_da = _series(safe_a, safe_x, by_series, derivative)
    # Where the fraction is not used its start must not divide by zero.
    far = select(fraction, safe_x, add(safe_a, one))
    tail, tail_da = _fraction(safe_a, far, fraction, derivative)
    low = mul(div(total, safe_a), exp(head))
    high = mul(tail, exp(head))
    if derivative:
        head_da = sub(log(safe_x), digamma(safe_a))
        low_da = mul(low, sub(add(head_da, div(total_da, total)), div(one, safe_a)))
        high_da = neg(mul(high, add(head_da, div(tail_da, tail))))
        value = select(by_fraction, high_da, low_da)
        ends: tuple = (eq(x, zero), zero, eq(x, inf), zero)
    elif upper:
        value = select(by_fraction, high, sub(one, low))
        ends = (eq(x, zero), one, eq(x, inf), zero, eq(a, inf), one, eq(a, zero), zero)
    else:
        value = select(by_fraction, sub(one, high), low)
        ends = (eq(x, zero), zero, eq(x, inf), one, eq(a, inf), zero, eq(a, zero), one)
    bad = or_p.bind(or_p.bind(lt(a, zero), lt(x, zero)), or_p.bind(ne(a, a), ne(x, x)))
    both = and_p.bind(eq(a, inf), eq(x, inf))
    undefined = eq(a, zero) if derivative else and_p.bind(eq(a, zero), eq(x, zero))
    bad = or_p.bind(or_p.bind(bad, both), undefined)
    return _choose(bad, nan, *ends, value)


def _gamma_density(a: Array, x: Array) -> Any:
    """dP/dx = x^(a-1) e^-x / gamma(a)."""
    one = _full(a, 1)
    return exp(sub(sub(mul(sub(a, one), log(x)), x), lgamma(a)))


igamma_p = _formula(
    "igamma",
    lambda a, x: _gamma(a, x, upper=False),
    [
        lambda t, out, a, x: _mul(t, igamma_grad_a_p.bind(a, x)),
        lambda t, out, a, x: _mul(t, _gamma_density(*_spread(a, x))),
    ],
)
igammac_p = _formula(
    "igammac",
    lambda a, x: _gamma(a, x, upper=True),
    [
        lambda t, out, a, x: neg(_mul(t, igamma_grad_a_p.bind(a, x))),
        lambda t, out, a, x: neg(_mul(t, _gamma_density(*_spread(a, x)))),
    ],
)
igamma_grad_a_p = _formula(
    "igamma_grad_a",
    lambda a, x: _gamma(a, x, upper=False, derivative=True),
    [_unknown("igamma_grad_a", "a"), _unknown("igamma_grad_a", "x")],
)
random_gamma_grad_p = _formula(
    "random_gamma_grad",
    lambda a, x: neg(div(_gamma(a, x, upper=False, derivative=True), _gamma_density(a, x))),
    [_unknown("random_gamma_grad", "a"), _unknown("random_gamma_grad", "x")],
)


def _spread(a: Array, x: Array) -> tuple[Any, Any]:
    """Both operands in the shape of the one that has one."""
    shape = typeof(a) if typeof(a).ndim else typeof(x)

    return tuple(
        v if typeof(v).ndim == shape.ndim else broadcast_in_dim(v, shape.shape, ()) for v in (a, x)
    )


def igamma(a: ArrayLike, x: ArrayLike) -> Any:
    """Return the regularized lower incomplete gamma function P(a, x).

    >>> from weft import lax, numpy as wnp
    >>> lax.igamma(wnp.array([1.0, 2.0]), wnp.array([0.0, wnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return igamma_p.bind(*promote_lax(a, x))


def igammac(a: ArrayLike, x: ArrayLike) -> Any:
    """Return the regularized upper incomplete gamma function 1 - P(a, x).

    >>> from weft import lax, numpy as wnp
    >>> lax.igammac(wnp.array([1.0, 2.0]), wnp.array([0.0, wnp.inf]))
    Array([1., 0.], dtype=float32)
    """
    return igammac_p.bind(*promote_lax(a, x))


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Any:
    """Return the derivative of igamma(a, x) in a.

    >>> from weft import lax, numpy as wnp
    >>> lax.igamma_grad_a(2.0, 1.0).round(3)
    Array(-0.276, dtype=float32, weak_type=True)
    """
    return igamma_grad_a_p.bind(*promote_lax(a, x))


def random_gamma_grad(a: ArrayLike, sample: Any) -> Any:
    """Return the derivative in a of a sample of the gamma distribution of shape a.

    >>> from weft import lax, numpy as wnp
    >>> lax.random_gamma_grad(1.0, 0.5).round(3)
    Array(0.807, dtype=float32, weak_type=True)
    """
    return random_gamma_grad_p.bind(*promote_lax(a, sample))


# Incomplete beta -------------------------------------------------------------------------------


def _beta_fraction(a: Array, b: Array, x: Array, active: Array, derivative: str | None) -> tuple:
    """Return the continued fraction of the incomplete beta function by Lentz's method, and its
    derivative in "a" or "b".

    Source: Press et al., "Numerical Recipes", 6.4.
    """
    one = _full(a, 1)
    tiny = _full(a, float(dtypes.finfo(typeof(a).dtype).tiny) * 1e10)
    eps = _eps(a)

    def guard(v: Array) -> Any:
        return select(lt(abs(v), tiny), tiny, v)

    def initial(a: Array, b: Array) -> tuple:
        d = div(one, guard(sub(one, div(mul(add(a, b), x), add(a, one)))))
        return one, d, d, a, b, one

    def step(c: Array, d: Array, h: Array, a: Array, b: Array, m: Array) -> tuple:
        # Two terms of the fraction a step, the even one and the odd one.
        m2 = add(m, m)
        even = div(mul(mul(m, sub(b, m)), x), mul(add(sub(a, one), m2), add(a, m2)))
        d = div(one, guard(add(one, mul(even, d))))
        c = guard(add(one, div(even, c)))
        h = mul(h, mul(d, c))
        odd = mul(mul(neg(add(a, m)), add(add(a, b), m)), x)
        odd = div(odd, mul(add(a, m2), add(add(a, one), m2)))
        d = div(one, guard(add(one, mul(odd, d))))
        c = guard(add(one, div(odd, c)))
        return c, d, mul(h, mul(d, c)), a, b, add(m, one)

    def close(new: Array, old: Array) -> Any:
        return le(abs(sub(new, old)), _times(abs(new), 2 * eps))

    def done(old: tuple, new: tuple) -> Any:
        small = close(new[2], old[2])
        return and_p.bind(small, close(new[8], old[8])) if derivative else small

    if not derivative:
        return _iterate(step, initial(a, b), done, active)[2], None
    zero = _full(a, 0)
    along = (one, zero) if derivative == "a" else (zero, one)
    values, tangents = _jvp(initial, (a, b), along)
    end = _iterate(_with_tangents(step, 6), (*values, *tangents), done, active)
    return end[2], end[8]


def _log_beta(a: Array, b: Array) -> Any:
    return sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))


def _beta(a: Array, b: Array, x: Array) -> Any:
    """I_x(a, b)."""
    one, zero, nan = (_full(a, v) for v in (1, 0, np.nan))
    good = and_p.bind(gt(a, zero), gt(b, zero))
    good = and_p.bind(good, and_p.bind(ge(x, zero), le(x, one)))
    good = and_p.bind(good, and_p.bind(is_finite(a), is_finite(b)))
    inside = and_p.bind(good, and_p.bind(gt(x, zero), lt(x, one)))
    half = _full(a, 0.5)
    a, b = select(good, a, one), select(good, b, one)
    y = select(inside, x, half)
    flip = gt(y, div(add(a, one), add(add(a, b), _full(a, 2))))
    first, second = select(flip, b, a), select(flip, a, b)
    at = select(flip, sub(one, y), y)
    h, _ = _beta_fraction(first, second, at, inside, None)
    head = sub(add(mul(first, log(at)), mul(second, log1p(neg(at)))), _log_beta(first, second))
    value = div(mul(exp(head), h), first)
    value = select(flip, sub(one, value), value)
    return _choose(_not(good), nan, eq(x, zero), zero, eq(x, one), one, value)


def _beta_da(a: Array, b: Array, x: Array) -> Any:
    """Return the derivative of I_x(a, b) in a, by the fraction for it or for 1 - I_(1-x)(b, a)."""
    one, zero, nan = (_full(a, v) for v in (1, 0, np.nan))
    good = and_p.bind(gt(a, zero), gt(b, zero))
    good = and_p.bind(good, and_p.bind(ge(x, zero), le(x, one)))
    inside = and_p.bind(good, and_p.bind(gt(x, zero), lt(x, one)))
    a, b = select(good, a, one), select(good, b, one)
    y = select(inside, x, _full(a, 0.5))
    flip = gt(y, div(add(a, one), add(add(a, b), _full(a, 2))))
    head = sub(add(mul(a, log(y)), mul(b, log1p(neg(y)))), _log_beta(a, b))
    log_da = sub(log(y), sub(digamma(a), digamma(add(a, b))))
    left = and_p.bind(inside, _not(flip))
    h, h_da = _beta_fraction(a, b, select(left, y, _full(a, 1e-3)), left, "a")
    direct = mul(div(exp(head), a), add(mul(h, sub(log_da, div(one, a))), h_da))
    # Flipped, a is the second parameter.
    right = and_p.bind(inside, flip)
    g, g_db = _beta_fraction(b, a, select(right, sub(one, y), _full(a, 1e-3)), right, "b")
    flipped = neg(mul(div(exp(head), b), add(mul(g, log_da), g_db)))
    value = select(flip, flipped, direct)
    ends = or_p.bind(eq(x, zero), eq(x, one))
    return _choose(_not(good), nan, ends, zero, value)


regularized_incomplete_beta_p = _formula(
    "regularized_incomplete_beta",
    _beta,
    [
        lambda t, out, a, b, x: _mul(t, betainc_grad_a_p.bind(a, b, x)),
        lambda t, out, a, b, x: neg(_mul(t, betainc_grad_a_p.bind(b, a, _one_minus(x)))),
        lambda t, out, a, b, x: _mul(t, _beta_density(a, b, x)),
    ],
)
betainc_grad_a_p = _formula(
    "betainc_grad_a",
    _beta_da,
    [_unknown("betainc_grad_a", name) for name in "abx"],
)


def _beta_density(a: Array, b: Array, x: Array) -> Any:
    one = scalar(1, x)
    powers = add(mul(sub(a, one), log(x)), mul(sub(b, one), log1p(neg(x))))
    return exp(sub(powers, _log_beta(a, b)))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Any:
    """Return the regularized incomplete beta function I_x(a, b).

    >>> import weft
    >>> round(float(weft.lax.betainc(2.0, 2.0, 0.5)), 5)
    0.5
    """
    return regularized_incomplete_beta_p.bind(*stretch(a, b, x))


# Zeta ------------------------------------------------------------------------------------------

zeta_p = elementwise(
    "zeta",
    "chlo.zeta",
    accepts=FLOAT,
    jvps=[
        _unknown("zeta", "x"),
        lambda t, out, x, q: neg(_mul(t, mul(x, zeta_p.bind(add(x, scalar(1, x)), q)))),
    ],
)


def zeta(x: ArrayLike, q: ArrayLike) -> Any:
    """Return the Hurwitz zeta function: the sum over k >= 0 of (k + q)**-x.

    >>> from weft import lax, numpy as wnp
    >>> lax.zeta(2.0, 1.0).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    return zeta_p.bind(*promote_lax(x, q))
