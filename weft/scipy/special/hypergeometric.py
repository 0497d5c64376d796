# Tests: tests/scipy/test_special.py
"""Kummer's and Gauss's hypergeometric functions of real arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft
import weft.numpy as wnp
from weft.ops.special_functions import _iterate as iterate
from weft.scipy.special.elementwise import choose, special_op
from weft.scipy.special.factorials import gammaln, gammasgn

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _sum(ratio: Callable, active: Array, like: Array) -> Any:
    """1 + r(0) + r(0) r(1) + …, summed until its terms no longer count."""
    eps = float(wnp.finfo(like.dtype).eps)
    one = wnp.ones_like(like)

    def step(k: Array, term: Array, total: Array) -> tuple:
        term = term * ratio(k)
        return k + 1, term, total + term

    def converged(old: tuple, new: tuple) -> Any:
        # Twice in a row: a single term may be 0 by chance, and all are once one factor is.
        small = wnp.abs(new[1]) <= eps / 4 * wnp.abs(new[2])
        return (small & (wnp.abs(old[1]) <= eps * wnp.abs(old[2]))) | (new[1] == 0)

    return iterate(step, (0 * one, one, one), converged, active)[2]


def _gamma_ratio(numerators: tuple, denominators: tuple, log_factor: ArrayLike = 0) -> Any:
    """exp(log_factor) times gammas over gammas, 0 where a denominator is at a pole."""
    log, sign, zero = log_factor, 1, False
    for x in numerators:
        log, sign = log + gammaln(x), sign * gammasgn(x)
    for x in denominators:
        pole = (x <= 0) & (x == wnp.floor(x))
        safe = wnp.where(pole, 1, x)
        log, sign, zero = log - gammaln(safe), sign * gammasgn(safe), zero | pole
    return wnp.where(zero, 0, sign * wnp.exp(log))


def _hyp1f1(a: Array, b: Array, x: Array) -> Any:
    limit = 200.0 if x.dtype.itemsize == 8 else 60.0
    far = wnp.abs(x) > limit
    # Kummer: 1F1(a, b, x) = e^x 1F1(b - a, b, -x), whose terms have one sign where x < 0.
    flip = x < 0
    p, z = wnp.where(flip, b - a, a), wnp.abs(x)
    near = wnp.where(far, 1, z)
    good = wnp.isfinite(a) & wnp.isfinite(b) & wnp.isfinite(x)
    total = _sum(lambda k: (p + k) / ((b + k) * (k + 1)) * near, good & ~far, x)
    series = wnp.where(flip, wnp.exp(-near), 1) * total
    # Abramowitz and Stegun 13.5.1: the leading part, which decays where x is negative.
    big = wnp.where(far, z, limit)
    q, r = wnp.where(flip, a, b - a), wnp.where(flip, a - b + 1, 1 - a)
    term = tail = wnp.ones_like(x)
    for k in range(24):
        grown = term * ((q + k) * (r + k) / ((k + 1) * big))
        term = wnp.where(wnp.abs(grown) < wnp.abs(term), grown, 0)
        tail = tail + term
    power = wnp.where(flip, -a, a - b) * wnp.log(big)
    scale = wnp.where(flip, 0, big) + power
    asymptotic = _gamma_ratio((b,), (wnp.where(flip, b - a, a),), scale) * tail
    # The asymptotic series lacks terms of e^-|x| only, but a polynomial has no other.
    pole = (b <= 0) & (b == wnp.floor(b))
    return choose(pole, wnp.inf, ~good, wnp.nan, far, asymptotic, series)


def _partial(fun: Callable, index: int) -> Callable:
    """Return the derivative in one operand, taken through the series."""

    def derivative(out: Array, *operands: ArrayLike) -> Any:
        def of_one(x: Array) -> Any:
            return fun(*operands[:index], x, *operands[index + 1 :])

        x = operands[index]
        return weft.jvp(of_one, (x,), (wnp.ones_like(x),))[1]

    return derivative


_hyp1f1_op = special_op(
    "hyp1f1",
    _hyp1f1,
    _partial(_hyp1f1, 0),
    _partial(_hyp1f1, 1),
    lambda out, a, b, x: a / b * _hyp1f1_op(a + 1, b + 1, x),
)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Any:
    """Kummer's confluent hypergeometric function 1F1(a, b, x) of real arguments.

    Source: Abramowitz and Stegun, 13; scipy.special.hyp1f1.

    >>> from weft.scipy import special
    >>> round(float(special.hyp1f1(1.0, 2.0, 0.5)), 4)
    1.2974
    """
    return _hyp1f1_op(*map(wnp.asarray, (a, b, x)))


def _gauss_series(a: Array, b: Array, c: Array, z: Array, active: Array) -> Any:
    return _sum(lambda k: (a + k) * (b + k) / ((c + k) * (k + 1)) * z, active, z)


def _hyp2f1(a: Array, b: Array, c: Array, x: Array) -> Any:
    # Pfaff: x < 0 goes to x / (x - 1), between 0 and 1.
    flip = x < 0
    z = wnp.where(flip, x / (x - 1), x)
    second = wnp.where(flip, c - b, b)
    factor = wnp.where(flip, wnp.exp(-a * wnp.log1p(-wnp.where(flip, x, 0))), 1)
    gap = c - a - second
    whole = wnp.abs(gap - wnp.round(gap)) < 1e-3
    finite = (a <= 0) & (a == wnp.floor(a)) | (second <= 0) & (second == wnp.floor(second))
    good = wnp.isfinite(a + b + c + x) & (z < 1)
    near_one = (z > 0.75) & ~whole & ~finite
    direct = _gauss_series(a, second, c, wnp.where(good, z, 0), good & ~near_one)
    # Abramowitz and Stegun 15.3.6, in powers of 1 - z.
    used = near_one & good
    y = wnp.where(used, 1 - z, 0.5)
    s = wnp.where(whole, 0.5, gap)
    first = _gamma_ratio((c, s), (c - a, c - second))
    other = _gamma_ratio((c, -s), (a, second), s * wnp.log(y))
    by_reflection = first * _gauss_series(a, second, 1 - s, y, used)
    by_reflection += other * _gauss_series(c - a, c - second, 1 + s, y, used)
    value = factor * wnp.where(near_one, by_reflection, direct)
    at_one = wnp.where(
        gap > 0, _gamma_ratio((c, wnp.where(gap > 0, gap, 1)), (c - a, c - b)), wnp.inf
    )
    pole = (c <= 0) & (c == wnp.floor(c))
    return choose(pole, wnp.inf, x == 1, at_one, good, value, wnp.nan)


_hyp2f1_op = special_op(
    "hyp2f1",
    _hyp2f1,
    *(_partial(_hyp2f1, i) for i in range(3)),
    lambda out, a, b, c, x: a * b / c * _hyp2f1_op(a + 1, b + 1, c + 1, x),
)


def hyp2f1(a: ArrayLike, b: ArrayLike, c: object, x: ArrayLike) -> Any:
    """Gauss's hypergeometric function 2F1(a, b, c, x) of real arguments, x <= 1.

    Near x = 1 with c - a - b close to an integer it sums at most 2000 terms.
    Source: Abramowitz and Stegun, 15; scipy.special.hyp2f1.

    >>> from weft.scipy import special
    >>> round(float(special.hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
    1.3863
    """
    return _hyp2f1_op(a, b, c, x)
