# Tests: tests/scipy/test_special.py
"""Exponential, sine, cosine and Fresnel integrals, and Spence's dilogarithm."""

from __future__ import annotations

from functools import cache
from math import factorial, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.ops.control.loops import fori_loop
from weft.scipy.special.elementwise import (
    chebyshev_fit,
    choose,
    half_line_integral,
    polynomial,
    special_op,
)
from weft.scipy.special.factorials import digamma, gammaln

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

# Exponential integrals ---------------------------------------------------------------------------


def _fraction(n: Array, x: Array) -> Any:
    """e^x E_n(x) for x >= 1 by Legendre's continued fraction, from its 100th term back."""
    terms = 100

    def step(i: Array, tail: Array) -> Any:
        k = (terms - i).astype(x.dtype)
        return x + n + 2 * (k - 1) - k * (n + k - 1) / tail

    return 1 / fori_loop(0, terms, step, x + n + 2.0 * terms)


def _expn(n: Array, x: Array) -> Any:
    large = x > 1
    # Abramowitz and Stegun 5.1.12.
    y = wnp.where(large | (x <= 0), 0.5, x)
    order = wnp.where(n >= 1, n, 1)
    log_power = (order - 1) * wnp.log(y) - gammaln(order)
    sign = 1 - 2 * wnp.fmod(order - 1, 2)
    series = sign * wnp.exp(log_power) * (digamma(order) - wnp.log(y))
    for m in range(20):
        gap = m - order + 1
        term = (-y) ** m / factorial(m)
        series = series - wnp.where(gap == 0, 0, term / wnp.where(gap == 0, 1, gap))
    far = wnp.where(large, wnp.minimum(x, 1e4), 2)
    tail = wnp.exp(-wnp.where(large, x, 2)) * _fraction(wnp.where(n >= 1, n, 1), far)
    at_zero = wnp.where(n > 1, 1 / wnp.where(n > 1, n - 1, 1), wnp.inf)
    order_zero = wnp.exp(-x) / wnp.where(x == 0, 1, x)
    return choose(
        wnp.isnan(x) | (x < 0) | (n < 0),
        wnp.nan,
        x == 0,
        at_zero,
        n == 0,
        order_zero,
        large,
        tail,
        series,
    )


_expn_op = special_op(
    "expn",
    _expn,
    None,
    lambda out, n, x: -wnp.where(n >= 1, _expn_op(wnp.maximum(n - 1, 0), x), out + out / x),
)


def expn(n: ArrayLike, x: ArrayLike) -> Any:
    """Integrate exp(-x t) / t**n over t from 1 to infinity, for integers n >= 0, x >= 0.

    Source: Abramowitz and Stegun, 5.1; scipy.special.expn.

    >>> from weft.scipy import special
    >>> round(float(special.expn(2, 0.5)), 4)
    0.3266
    """
    return _expn_op(wnp.asarray(n), wnp.asarray(x))


_EXPI_TERMS = np.array([1 / ((k + 1) * factorial(k + 1)) for k in range(40)])
"""(Ei(x) - log|x| - wnp.euler_gamma) / x in x: Abramowitz and Stegun 5.1.10."""


def _expi_series(x: np.ndarray) -> np.ndarray:
    """Return that on the host."""
    term, total = np.ones_like(x), np.zeros_like(x)
    for k in range(1, 160):
        total = total + term / k
        term = term * x / (k + 1)
    return total


def _expi_scaled(v: np.ndarray) -> np.ndarray:
    """Return x e^-x Ei(x) of v = 1/x on the host, x >= 6; its asymptotic series from 45 on."""
    x = 1 / np.maximum(v, 1e-12)
    near = np.minimum(x, 45.0)
    by_series = near * np.exp(-near) * (near * _expi_series(near) + np.log(near) + wnp.euler_gamma)
    return np.where(x < 45, by_series, sum(factorial(k) * (1 / x) ** k for k in range(40)))


@cache
def _expi_fits() -> tuple:
    tail = lambda s, v: 1 / (1 + s * v)
    return (
        chebyshev_fit(_expi_scaled, 1 / 24, 1 / 6, 44),
        chebyshev_fit(_expi_scaled, 0, 1 / 24, 44),
        chebyshev_fit(lambda v: half_line_integral(tail, v), 0, 1 / 4, 34),
        chebyshev_fit(lambda v: half_line_integral(tail, v), 1 / 4, 1, 26),
    )


def _expi(x: Array) -> Any:
    middle, high, low, lower = _expi_fits()
    terms = _EXPI_TERMS[_EXPI_TERMS * 6.0 ** np.arange(40) > float(wnp.finfo(x.dtype).eps)]
    near = (x > -1) & (x < 6)
    inner = wnp.where(near & (x != 0), x, 1)
    inverse = 1 / wnp.where(near, 6, x)
    scaled = choose(
        inverse > 1 / 24,
        middle(inverse),
        inverse >= 0,
        high(inverse),
        inverse > -1 / 4,
        low(-inverse),
        lower(-inverse),
    )
    outer = scaled * inverse * wnp.exp(wnp.where(near, 0, x))
    outer = wnp.where(wnp.isinf(x), wnp.where(x > 0, x, 0), outer)
    inside = wnp.euler_gamma + wnp.log(wnp.abs(inner)) + inner * polynomial(inner, terms)
    return choose(x == 0, -wnp.inf, near, inside, outer)


_expi_op = special_op("expi", _expi, lambda out, x: wnp.exp(x) / x)


def expi(x: ArrayLike) -> Any:
    """Return the exponential integral Ei(x): the principal value of exp(t) / t integrated up to x.

    Source: Abramowitz and Stegun, 5.1; scipy.special.expi.

    >>> from weft.scipy import special
    >>> round(float(special.expi(0.5)), 4)
    0.4542
    """
    return _expi_op(x)


def exp1(x: ArrayLike) -> Any:
    """Return the exponential integral E1(x) = -Ei(-x): exp(-t) / t integrated from x to infinity.

    Source: Abramowitz and Stegun, 5.1; scipy.special.exp1.

    >>> from weft.scipy import special
    >>> round(float(special.exp1(0.5)), 4)
    0.5598
    """
    x = wnp.asarray(x)
    return wnp.where(x < 0, wnp.nan, -expi(-x))


# Sine, cosine and Fresnel integrals --------------------------------------------------------------


def _alternating(power: int, step: int) -> np.ndarray:
    """Return coefficients in x^2 of (-1)^k x^(2k) / ((2k + power) (2k + step)!)."""
    return np.array([(-1) ** k / ((2 * k + power) * factorial(2 * k + step)) for k in range(24)])


@cache
def _sici_fits() -> tuple:
    f = lambda s, v: 1 / (1 + (s * v) ** 2)
    g = lambda s, v: s / (1 + (s * v) ** 2)
    return tuple(
        chebyshev_fit(lambda v, h=h: half_line_integral(h, np.sqrt(v)), 0, 1 / 16, 40)
        for h in (f, g)
    )


def _sici_parts(x: Array) -> tuple:
    """|x|, whether it is small, and f and g of Abramowitz and Stegun 5.2.6."""
    size = wnp.abs(x)
    near = size < 4
    inverse = 1 / wnp.where(near, 4, size)
    f, g = (fit(inverse * inverse) for fit in _sici_fits())
    return size, near, f * inverse, g * inverse * inverse


def _si(x: Array) -> Any:
    size, near, f, g = _sici_parts(x)
    small = wnp.where(near, size, 0)
    far = wnp.where(wnp.isinf(size), 0, size)
    high = pi / 2 - f * wnp.cos(far) - g * wnp.sin(far)
    return wnp.sign(x) * wnp.where(near, small * polynomial(small**2, _alternating(1, 1)), high)


def _ci(x: Array) -> Any:
    size, near, f, g = _sici_parts(x)
    small = wnp.where(near & (x > 0), size, 1)
    far = wnp.where(wnp.isinf(size), 0, size)
    high = f * wnp.sin(far) - g * wnp.cos(far)
    # Cin: the sum of (-x^2)^k / (2k (2k)!) from k = 1.
    rest = -(small**2) * polynomial(small**2, _alternating(2, 2))
    low = wnp.euler_gamma + wnp.log(small) + rest
    return choose(x < 0, wnp.nan, x == 0, -wnp.inf, near, low, high)


_si_op = special_op("si", _si, lambda out, x: wnp.sinc(x / pi))
_ci_op = special_op("ci", _ci, lambda out, x: wnp.cos(x) / x)


def sici(x: ArrayLike) -> tuple[Any, Any]:
    """Return the sine integral Si(x) and the cosine integral Ci(x), NaN where x is negative.

    Source: Abramowitz and Stegun, 5.2; scipy.special.sici.

    >>> from weft.scipy import special
    >>> [round(float(y), 4) for y in special.sici(0.5)]
    [0.4931, -0.1778]
    """
    return _si_op(x), _ci_op(x)


@cache
def _fresnel_fits() -> tuple:
    f = lambda s, v: s**-0.5 / (1 + (s * v) ** 2)
    g = lambda s, v: s**0.5 / (1 + (s * v) ** 2)
    limit = (2 / (pi * 1.6**2)) ** 2
    return tuple(
        chebyshev_fit(lambda v, h=h: half_line_integral(h, np.sqrt(v)), 0, limit, 40)
        for h in (f, g)
    )


def _fresnel(x: Array, sine: bool) -> Any:
    size = wnp.abs(x)
    near = size < 1.6
    small = wnp.where(near, size, 0)
    t = (pi / 2) * small**2
    # S = x t sum (-t^2)^k / ((4k + 3) (2k + 1)!), C = x sum (-t^2)^k / ((4k + 1) (2k)!).
    power, step = (3, 1) if sine else (1, 0)
    terms = [(-1) ** k / ((4 * k + power) * factorial(2 * k + step)) for k in range(20)]
    low = small * polynomial(t * t, terms) * (t if sine else 1)
    far = wnp.where(near | wnp.isinf(size), 2, size)
    z = (pi / 2) * far**2
    f, g = (fit(1 / (z * z)) for fit in _fresnel_fits())
    # The auxiliary functions of Abramowitz and Stegun 7.3.5; the phase by its exact remainder.
    f, g = f / (pi * sqrt(2) * wnp.sqrt(z)), g / (pi * sqrt(2) * wnp.sqrt(z) * z)
    turns = wnp.fmod(far, 4)
    whole = far - turns  # a multiple of 4: far^2 - turns^2 = whole (whole + 2 turns)
    phase = wnp.fmod(turns * turns + wnp.fmod(2 * whole * turns, 4), 4) * (pi / 2)
    sin, cos = wnp.sin(phase), wnp.cos(phase)
    high = 0.5 - f * cos - g * sin if sine else 0.5 + f * sin - g * cos
    high = wnp.where(wnp.isinf(size), 0.5, high)
    return wnp.where(wnp.isnan(x), x, wnp.sign(x) * wnp.where(near, low, high))


_fresnel_s = special_op(
    "fresnel_s", lambda x: _fresnel(x, True), lambda out, x: wnp.sin((pi / 2) * x * x)
)
_fresnel_c = special_op(
    "fresnel_c", lambda x: _fresnel(x, False), lambda out, x: wnp.cos((pi / 2) * x * x)
)


def fresnel(x: ArrayLike) -> tuple[Any, Any]:
    """Return the Fresnel integrals S(x) and C(x), of sin and cos of pi t**2 / 2 from 0 to x.

    Source: Abramowitz and Stegun, 7.3; scipy.special.fresnel.

    >>> from weft.scipy import special
    >>> [round(float(y), 4) for y in special.fresnel(0.5)]
    [0.0647, 0.4923]
    """
    return _fresnel_s(x), _fresnel_c(x)


# The dilogarithm ---------------------------------------------------------------------------------


@cache
def _debye_coefficients() -> list[float]:
    """B_k / (k + 1)!, of Li2(1 - exp(-u)) = the sum of B_k u^(k+1) / (k+1)!."""
    from fractions import Fraction
    from math import comb

    numbers = [Fraction(1)]
    for m in range(1, 24):
        total = sum((comb(m + 1, k) * numbers[k] for k in range(m)), Fraction(0))
        numbers.append(-total / (m + 1))
    return [float(b / factorial(k + 1)) for k, b in enumerate(numbers)]


def _spence(x: Array) -> Any:
    inverted = x > 1
    y = wnp.where(inverted, 1 / wnp.where(inverted, x, 1), x)
    reflected = y < 0.5
    w = wnp.where(reflected, 1 - y, y)
    w = wnp.where((w >= 0.5) & (w <= 1), w, 0.75)
    # Just above 1 the inverse would lose what is left of it.
    above = inverted & ~reflected
    u = wnp.log(wnp.where(above, x, w))
    u = wnp.where(above, u, -u)
    direct = u * polynomial(u, _debye_coefficients())
    positive = wnp.where(y > 0, y, 1)
    product = wnp.where(y > 0, wnp.log(positive) * wnp.log1p(-wnp.minimum(positive, 0.5)), 0)
    value = wnp.where(reflected, pi**2 / 6 - product - direct, direct)
    value = wnp.where(inverted, -0.5 * wnp.log(wnp.where(inverted, x, 1)) ** 2 - value, value)
    return wnp.where((x >= 0) & wnp.isfinite(x), value, wnp.nan)


def _spence_slope(x: Array) -> Any:
    near = wnp.abs(x - 1) < 1e-3
    gap = wnp.where(near, x - 1, 0)
    return wnp.where(near, -1 + gap / 2 - gap * gap / 3, wnp.log(x) / wnp.where(near, 1, 1 - x))


_spence_op = special_op("spence", _spence, lambda out, x: _spence_slope(x))


def spence(x: ArrayLike) -> Any:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x: Li2(1 - x), for x >= 0.

    Source: Lewin, Polylogarithms and associated functions, 1981; scipy.special.spence.

    >>> from weft.scipy import special
    >>> round(float(special.spence(0.5)), 4)
    0.5822
    """
    return _spence_op(wnp.asarray(x))
