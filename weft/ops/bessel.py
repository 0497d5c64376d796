# Tests: tests/ops/test_elementwise_api.py
"""Modified Bessel functions of the first kind, scaled."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import scalar
from weft.ops.elementwise_api import (
    _mul,
    _times,
    abs,
    add,
    div,
    eq,
    exp,
    le,
    mul,
    ne,
    select,
    sign,
    sqrt,
    sub,
)
from weft.ops.special_functions import _eps, _formula, _full

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _scaled_bessel(n: int, x: np.ndarray) -> np.ndarray:
    """sqrt(x) e^-x In(x) on the host: the mean of its integrand, far away its series in 1/x."""
    angles = np.arange(512) * (2 * math.pi / 512)
    near = np.minimum(x, 500.0)[..., None]
    less_1 = -2 * np.sin(angles / 2) ** 2  # cos(angles) - 1, to all digits
    values = np.exp(near * less_1) * np.cos(n * angles) * np.sqrt(near)
    # Abramowitz and Stegun 9.7.1.
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(1, 12):
        term = term * ((2 * k - 1) ** 2 - 4 * n**2) / (8 * k * x)
        total = total + term
    return np.where(x < 500, values.mean(axis=-1), total / math.sqrt(2 * math.pi))


@cache
def _far_coefficients(n: int) -> np.ndarray:
    """Fit a Chebyshev series of sqrt(x) e^-x In(x) in 16/x - 1, for x from 8 on."""
    # NumPy's interpolation loses two digits: it makes its polynomials by their recurrence.
    count = 25
    k, odd = np.arange(count), 2 * np.arange(count) + 1
    cosines = np.cos(math.pi / (2 * count) * np.arange(4 * count))
    waves = cosines[k[:, None] * odd % (4 * count)]
    values = _scaled_bessel(n, 16 / (cosines[odd] + 1))
    return waves @ values * np.where(k == 0, 1, 2) / count


def _near_coefficients(n: int, eps: float) -> np.ndarray:
    """Expand In(x) / (x/2)^n in (x/2)^2, for x up to 8: Abramowitz and Stegun 9.6.10."""
    terms = [1 / (math.factorial(k) * math.factorial(k + n)) for k in range(40)]
    return np.array([c for k, c in enumerate(terms) if c * 16.0**k > eps / 4])


def _polynomial(t: Array, coefficients: np.ndarray) -> Any:
    """Evaluate a polynomial whose lowest power comes first."""
    *lower, total = coefficients
    value = _full(t, total)
    for c in lower[::-1]:
        value = add(mul(value, t), _full(t, c))
    return value


def _bessel(n: int, x: Array) -> Any:
    """e^-|x| In(x) for n of 0 and 1."""
    size, eight = abs(x), _full(x, 8)
    is_near = le(size, eight)
    half = _times(select(is_near, size, eight), 0.5)
    low = _polynomial(mul(half, half), _near_coefficients(n, _eps(x)))
    low = mul(low, exp(_times(half, -2.0)))
    # As a polynomial: Clenshaw's recurrence would lose two digits near its ends.
    far = _far_coefficients(n)
    far = far[: np.flatnonzero(np.abs(far) > _eps(x) / 2**4)[-1] + 1]
    safe = select(is_near, eight, size)
    t = sub(div(_full(x, 16), safe), _full(x, 1))
    high = div(_polynomial(t, np.polynomial.chebyshev.cheb2poly(far)), sqrt(safe))
    if n:
        low, high = mul(low, _times(x, 0.5)), mul(high, sign(x))
    return select(is_near, low, select(ne(x, x), x, high))


def _i1e_derivative(t: ArrayLike, out: Array, x: ArrayLike) -> Any:
    """i0e - i1e (sign(x) + 1/x), which is 1/2 at 0."""
    zero = eq(x, scalar(0, x))
    safe = select(zero, _full(x, 1), x)
    slope = sub(bessel_i0e_p.bind(x), mul(out, add(sign(x), div(scalar(1, x), safe))))
    return _mul(t, select(zero, _full(x, 0.5), slope))


bessel_i0e_p = _formula(
    "bessel_i0e",
    lambda x: _bessel(0, x),
    [lambda t, out, x: _mul(t, sub(bessel_i1e_p.bind(x), mul(sign(x), out)))],
)
bessel_i1e_p = _formula("bessel_i1e", lambda x: _bessel(1, x), [_i1e_derivative])


def bessel_i0e(x: ArrayLike) -> Any:
    """Return the modified Bessel function I0(x) times exp(-|x|).

    >>> from weft import lax, numpy as wnp
    >>> lax.bessel_i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return bessel_i0e_p.bind(x)


def bessel_i1e(x: ArrayLike) -> Any:
    """Return the modified Bessel function I1(x) times exp(-|x|).

    >>> from weft import lax, numpy as wnp
    >>> lax.bessel_i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return bessel_i1e_p.bind(x)
