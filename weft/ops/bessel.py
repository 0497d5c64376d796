# Tests: tests/ops/test_elementwise_api.py
"""Modified Bessel functions of the first kind, as they are and scaled."""

from __future__ import annotations

import math
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
    min,
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


_FAR = (
    (
        0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
        2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09,
        4.94060238822497e-10, 1.1889147107846439e-11, -3.1499165279632416e-11,
        -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
        3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
        -9.554846698828307e-15, 3.811680669352621e-15, 1.7725601330565245e-15,
        -3.425485619677142e-16, -2.827623980516646e-16, 3.461222867695658e-17,
        4.465621420302078e-17, -4.8305044859640105e-18, -7.233180488043844e-18,
    ),
    (
        0.38928811750914005, -0.009761097491361469, -0.00011058893876262371,
        -3.882564808877691e-06, -2.512236237870209e-07, -2.6314688468895196e-08,
        -3.835380385964237e-09, -5.589743462196584e-10, -1.8974958123505413e-11,
        3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
        -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14,
        4.2724400167119517e-14, 1.0420276984128802e-14, -3.814403072437007e-15,
        -1.8803547755107805e-15, 3.30820231092085e-16, 2.9626289976460157e-16,
        -3.209525921991637e-17, -4.6503053684947827e-17, 4.414348323093937e-18,
        7.517296311011398e-18,
    ),
)  # fmt: skip
"""The Chebyshev series of sqrt(x) e^-x In(x) in 16/x - 1, for x from 8 on."""


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


def _bessel(n: int, x: Array, scaled: bool) -> Any:
    """In(x) for n of 0 and 1; scaled: times e^-|x|."""
    size, eight = abs(x), _full(x, 8)
    is_near = le(size, eight)
    half = _times(select(is_near, size, eight), 0.5)
    low = _polynomial(mul(half, half), _near_coefficients(n, _eps(x)))
    # As a polynomial: Clenshaw's recurrence would lose two digits near its ends.
    far = np.array(_FAR[n])
    far = far[: np.flatnonzero(np.abs(far) > _eps(x) / 2**4)[-1] + 1]
    safe = select(is_near, eight, size)
    if not scaled:  # beyond the bound the result is infinite, but no part of it
        safe = min(safe, _full(x, 720 if _eps(x) < 1e-10 else 100))
    t = sub(div(_full(x, 16), safe), _full(x, 1))
    high = div(_polynomial(t, np.polynomial.chebyshev.cheb2poly(far)), sqrt(safe))
    if scaled:
        low = mul(low, exp(_times(half, -2.0)))
    else:
        high = mul(high, exp(safe))
    if n:
        low, high = mul(low, _times(x, 0.5)), mul(high, sign(x))
    return select(is_near, low, select(ne(x, x), x, high))


def _i1e_derivative(t: ArrayLike, out: Array, x: ArrayLike) -> Any:
    """i0e - i1e (sign(x) + 1/x), which is 1/2 at 0."""
    zero = eq(x, scalar(0, x))
    safe = select(zero, _full(x, 1), x)
    slope = sub(bessel_i0e_p.bind(x), mul(out, add(sign(x), div(scalar(1, x), safe))))
    return _mul(t, select(zero, _full(x, 0.5), slope))


def _i1_derivative(t: ArrayLike, out: Array, x: ArrayLike) -> Any:
    """i0 - i1 / x, which is 1/2 at 0."""
    zero = eq(x, scalar(0, x))
    safe = select(zero, _full(x, 1), x)
    return _mul(t, select(zero, _full(x, 0.5), sub(bessel_i0_p.bind(x), div(out, safe))))


bessel_i0e_p = _formula(
    "bessel_i0e",
    lambda x: _bessel(0, x, scaled=True),
    [lambda t, out, x: _mul(t, sub(bessel_i1e_p.bind(x), mul(sign(x), out)))],
)
bessel_i1e_p = _formula("bessel_i1e", lambda x: _bessel(1, x, scaled=True), [_i1e_derivative])
bessel_i0_p = _formula(
    "bessel_i0",
    lambda x: _bessel(0, x, scaled=False),
    [lambda t, out, x: _mul(t, bessel_i1_p.bind(x))],
)
bessel_i1_p = _formula("bessel_i1", lambda x: _bessel(1, x, scaled=False), [_i1_derivative])


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
