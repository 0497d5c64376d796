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
    gt,
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
    values = np.exp(near * (np.cos(angles) - 1)) * np.cos(n * angles) * np.sqrt(near)
    # Abramowitz and Stegun 9.7.1.
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(1, 12):
        term = term * ((2 * k - 1) ** 2 - 4 * n**2) / (8 * k * x)
        total = total + term
    return np.where(x < 500, values.mean(axis=-1), total / math.sqrt(2 * math.pi))


@cache
def _bessel_coefficients(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev series of e^-x In(x) / x^n in x/4 - 1 on [0, 8], of the scaled one in 16/x - 1."""
    fit: Any = np.polynomial.chebyshev.chebinterpolate

    def near(t: np.ndarray) -> np.ndarray:
        x = 4 * (t + 1)
        return _scaled_bessel(n, x) / np.sqrt(x) / x**n

    return fit(near, 36), fit(lambda t: _scaled_bessel(n, 16 / np.maximum(t + 1, 1e-12)), 24)


def _clenshaw(t: Array, coefficients: np.ndarray) -> Any:
    twice = add(t, t)
    b1, b2 = _full(t, 0), _full(t, 0)
    for c in coefficients[:0:-1]:
        b1, b2 = add(sub(mul(twice, b1), b2), _full(t, c)), b1
    return add(sub(mul(t, b1), b2), _full(t, coefficients[0]))


def _bessel(n: int, x: Array) -> Any:
    """e^-|x| In(x) for n of 0 and 1."""
    size = abs(x)
    one, eight = _full(x, 1), _full(x, 8)
    near, far = _bessel_coefficients(n)
    near, far = (c[: np.flatnonzero(np.abs(c) > _eps(x) / 2**14)[-1] + 1] for c in (near, far))
    low = _clenshaw(sub(_times(size, 0.25), one), near)
    safe = select(gt(size, eight), size, eight)
    high = div(_clenshaw(sub(div(_full(x, 16), safe), one), far), sqrt(safe))
    if n:
        low, high = mul(low, x), mul(high, sign(x))
    return select(le(size, eight), low, select(ne(x, x), x, high))


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
