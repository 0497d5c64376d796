# Tests: tests/scipy/test_special.py
"""The error function's family: the normal distribution's integral, Faddeeva, Dawson, Owen's T."""

from __future__ import annotations

from functools import cache
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft import lax
from weft.core.errors import ArgumentError
from weft.numpy.common import static_int, strong
from weft.scipy.special.elementwise import choose, polynomial, special_op
from weft.scipy.special.factorials import _unary, as_float, float_array

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

erf = _unary("erf", lax.erf, "Return the error function.")
erfc = _unary("erfc", lax.erfc, "1 - erf(x), accurate where it is small.")
erfinv = _unary("erfinv", lax.erf_inv, "Return the inverse of the error function.")

_TERMS = 48
_SCALE = sqrt(_TERMS / sqrt(2))


@cache
def _weideman_coefficients() -> np.ndarray:
    """Weideman, Computation of the complex error function, SIAM J. Numer. Anal. 31, 1994."""
    size = 4 * _TERMS
    angles = np.arange(1 - size // 2, size // 2) * (2 * pi / size)
    t = _SCALE * np.tan(angles / 2)
    values = np.concatenate([[0.0], np.exp(-(t**2)) * (_SCALE**2 + t**2)])
    return np.real(np.fft.fft(np.fft.fftshift(values)))[1 : _TERMS + 1] / size


def _upper_faddeeva(plus: Array, minus: Array) -> Any:
    """w(z) of the upper half plane from scale - iz and scale + iz."""
    total = polynomial(plus / minus, _weideman_coefficients())
    return (2 * total / minus + 1 / sqrt(pi)) / minus


def _erfcx_of_large(x: Array) -> Any:
    """Return two terms of the asymptotic series."""
    return (1 - 0.5 / x / x) / (sqrt(pi) * x)


def _erfcx(x: Array) -> Any:
    size = wnp.abs(x)
    far = size > 1e4
    safe = wnp.where(far, 1, size)
    right = wnp.where(
        far, _erfcx_of_large(wnp.where(far, size, 1)), _upper_faddeeva(_SCALE - safe, _SCALE + safe)
    )
    return wnp.where(x < 0, 2 * wnp.exp(x * x) - right, right)


def _dawsn(x: Array) -> Any:
    size = wnp.abs(x)
    far, near = size > 50, size < 0.3
    z = wnp.where(far, 1, size)
    plus, minus = (
        lax.complex(wnp.full_like(z, _SCALE), z),
        lax.complex(wnp.full_like(z, _SCALE), -z),
    )
    between = _upper_faddeeva(plus, minus).imag * (sqrt(pi) / 2)
    # Maclaurin's series sum (-2 x^2)^k / (2k+1)!!, and the asymptotic one.
    ratios = np.cumprod([1.0] + [-2.0 / (2 * k + 1) for k in range(1, 11)])
    small = size * polynomial(wnp.where(near, x * x, 0), ratios)
    inverse = 1 / wnp.where(far, size, 1)
    series = (0.5, 0.25, 0.375, 0.9375, 3.28125, 14.765625)
    large = inverse * polynomial(inverse * inverse, series)
    return wnp.sign(x) * choose(near, small, far, large, between)


_erfcx_op = special_op(
    "erfcx",
    _erfcx,
    lambda out, x: 2 * x * out - 2 / sqrt(pi),
    of_complex=lambda x: wofz(1j * x),
)
_dawsn_op = special_op("dawsn", _dawsn, lambda out, x: 1 - 2 * x * out)


def erfcx(x: ArrayLike) -> Any:
    """exp(x**2) * erfc(x), which does not underflow.

    Source: Weideman, Computation of the complex error function, 1994; scipy.special.erfcx.

    >>> from weft.scipy import special
    >>> round(float(special.erfcx(0.5)), 4)
    0.6157
    """
    return _erfcx_op(x)


def dawsn(x: ArrayLike) -> Any:
    """Dawson's integral exp(-x**2) times the integral of exp(t**2) from 0 to x.

    Source: Weideman, Computation of the complex error function, 1994; scipy.special.dawsn.

    >>> from weft.scipy import special
    >>> round(float(special.dawsn(0.5)), 4)
    0.4244
    """
    return _dawsn_op(x)


def wofz(z: Any) -> Any:
    """Return the Faddeeva function exp(-z**2) * erfc(-i z) of complex z; the result is complex.

    Source: Weideman, Computation of the complex error function, 1994; scipy.special.wofz.

    >>> from weft.scipy import special
    >>> round(float(special.wofz(0.5j).real), 4)
    0.6157
    """
    z = as_float(z)
    z = z.astype(wnp.result_type(z.dtype, np.complex64))
    # The rational function holds above the real axis; w(z) = 2 exp(-z^2) - w(-z) below.
    below = z.imag < 0
    upper = wnp.where(below, -z, z)
    far = wnp.abs(upper) > 1e3
    safe = wnp.where(far, 1j, upper)
    inverse = 1 / wnp.where(far, upper, 1)
    distant = 1j / sqrt(pi) * inverse * (1 + inverse * inverse / 2)
    w = wnp.where(far, distant, _upper_faddeeva(_SCALE + 1j * safe, _SCALE - 1j * safe))
    inside = wnp.where(below, z, 0)
    return wnp.where(below, 2 * wnp.exp(-inside * inside) - w, w)


def ndtr(x: Any) -> Any:
    """Return the integral of the standard normal density up to x.

    Source: scipy.special.ndtr.

    >>> from weft.scipy import special
    >>> round(float(special.ndtr(0.5)), 4)
    0.6915
    """
    return 0.5 * erfc(strong(float_array(x)) * -sqrt(0.5))


def _log_ndtr(x: Array) -> Any:
    low = x < -1
    tail = wnp.where(low, x, -1)
    below = wnp.log(_erfcx(-tail * sqrt(0.5)) / 2) - tail * tail / 2
    return wnp.where(low, below, wnp.log1p(-0.5 * erfc(wnp.where(low, 0, x) * sqrt(0.5))))


def _normal_hazard(x: Array) -> Any:
    """Return the derivative of log_ndtr: density / ndtr."""
    low = x < 0
    left = sqrt(2 / pi) / _erfcx_op(-wnp.where(low, x, 0) * sqrt(0.5))
    right = wnp.exp(-x * x / 2) / sqrt(2 * pi) / ndtr(wnp.where(low, 0, x))
    return wnp.where(low, left, right)


_log_ndtr_op = special_op("log_ndtr", _log_ndtr, lambda out, x: _normal_hazard(x))


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Any:
    """Return the logarithm of ndtr(x), accurate in the lower tail.

    series_order: from 0 to 30; the result is accurate whatever it is.
    Source: by erfcx in the tail; scipy.special.log_ndtr.

    >>> from weft.scipy import special
    >>> round(float(special.log_ndtr(0.5)), 4)
    -0.3689
    """
    if not 0 <= static_int(series_order, "log_ndtr: series_order") <= 30:
        raise ArgumentError(f"log_ndtr: series_order must be from 0 to 30, got {series_order}")
    return _log_ndtr_op(wnp.asarray(x))


_TAIL = (
    2.938163982698783, 4.374664141464968, -2.549732539343734, -2.400758277161838,
    -0.3223964580411365, -0.007784894002430293,
)  # fmt: skip
_TAIL_DIVISOR = (
    1.0, 3.754408661907416, 2.445134137142996, 0.3224671290700398, 0.007784695709041462,
)  # fmt: skip


def _ndtri(p: Array) -> Any:
    lower = wnp.minimum(p, 1 - p)
    inside = (lower > 0) & (lower < 1)
    q = wnp.where(inside, lower, 0.25)
    # erf_inv in the middle; in the tail P. Acklam's quotient of 2003, to 1.2e-9.
    middle = sqrt(2) * erfinv(2 * q - 1)
    tail = q < 0.02425
    log_q = wnp.log(wnp.where(tail, q, 0.01))
    root = wnp.sqrt(-2 * log_q)
    x = polynomial(root, _TAIL) / polynomial(root, _TAIL_DIVISOR)
    if x.dtype == wnp.float64:
        # A step of Newton's method on the logarithm of ndtr(x) / q = 1 + off.
        scaled = _erfcx(-x * sqrt(0.5))
        off = scaled / 2 * wnp.exp(-x * x / 2 - log_q) - 1
        x = x - (off - off * off / 2) * (scaled * sqrt(pi / 2))
    size = wnp.where(tail, x, middle)
    value = wnp.where(p > 0.5, -size, size)
    return choose(inside, value, p == 0, -wnp.inf, p == 1, wnp.inf, wnp.nan)


_ndtri_op = special_op(
    "ndtri", _ndtri, lambda out, p: sqrt(2 * pi) * wnp.exp(wnp.minimum(out * out / 2, 700))
)


def ndtri(p: ArrayLike) -> Any:
    """Return the x with ndtr(x) = p: -inf at 0, inf at 1, NaN outside.

    Source: scipy.special.ndtri.

    >>> from weft.scipy import special
    >>> round(float(special.ndtri(0.5)), 4)
    0.0
    """
    return _ndtri_op(p)


_NODES, _WEIGHTS = (v.astype(float) for v in np.polynomial.legendre.leggauss(40))


def _owens_t(h: Array, a: Array) -> Any:
    """Integrate by Gauss-Legendre where [0, min(|a|, 1/|a|)] is not negligible."""
    h, size = wnp.abs(h), wnp.abs(a)
    swap = size > 1
    slope = wnp.where(swap, 1 / wnp.where(swap, size, 1), size)
    height = wnp.where(swap, h * wnp.where(swap, size, 1), h)
    height = wnp.where(wnp.isnan(height), 0, height)
    end = wnp.minimum(slope, 9 / wnp.maximum(height, 1e-3))
    total = wnp.zeros_like(h)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        x2 = (end * ((node + 1) / 2)) ** 2
        total = total + weight * wnp.exp(-height * height * (1 + x2) / 2) / (1 + x2)
    inner = total * end / (4 * pi)
    # T(h, a) = (Q(h) + Q(ah)) / 2 - Q(h) Q(ah) - T(ah, 1/a) with Q the upper normal integral.
    q, q_scaled = erfc(h * sqrt(0.5)) / 2, erfc(height * sqrt(0.5)) / 2
    outer = (q + q_scaled) / 2 - q * q_scaled - inner
    value = wnp.where(swap, outer, inner)
    endless = wnp.isinf(a)
    value = wnp.where(endless, q / 2, value)
    return wnp.sign(a) * wnp.where(wnp.isinf(h), 0, value)


_owens_t_op = special_op(
    "owens_t",
    _owens_t,
    lambda out, h, a: -wnp.exp(-h * h / 2) * erf(a * h * sqrt(0.5)) / sqrt(8 * pi),
    lambda out, h, a: wnp.exp(-h * h * (1 + a * a) / 2) / (2 * pi * (1 + a * a)),
)


def owens_t(h: object, a: ArrayLike) -> Any:
    """Owen's T: the probability of X > h and 0 < Y < a X for independent normal X and Y.

    Source: Owen, Tables for computing bivariate normal probabilities, 1956; scipy.special.owens_t.

    >>> from weft.scipy import special
    >>> round(float(special.owens_t(0.5, 1.0)), 4)
    0.1067
    """
    return _owens_t_op(h, a)
