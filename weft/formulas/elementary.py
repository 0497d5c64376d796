# Tests: tests/pallas/test_cpu_math.py
"""Exponentials, logarithms, trigonometric functions.

Float32 and float64, errors of at most 2 ulp (tests/pallas/test_cpu_math.py), special
values as IEEE 754-2008 asks. Methods and coefficients: S. L. Moshier, Cephes Mathematical
Library (logf, sinf, cosf); fdlibm, Sun Microsystems 1993 (log, log1p, sin, cos);
W. J. Cody, W. Waite, "Software Manual for the Elementary Functions", 1980 (argument reduction).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from weft.formulas.language import (
    bits,
    clamp,
    exponent_bias,
    fma,
    from_bits,
    is_wide,
    ldexp_p,
    mantissa_bits,
    polynomial,
    power_of_two,
    round_scaled,
    split_exponent,
    to_float,
    where,
    whole_power_of_two,
)
from weft.ops.arithmetic import max_p, min_p, round_p

if TYPE_CHECKING:
    from weft.runtime.array import Array

LN2_HI = {"float32": 0.693359375, "float64": 6.93147180369123816490e-01}
LN2_LO = {"float32": -2.12194440e-4, "float64": 1.90821492927058770002e-10}

# Exponentials -------------------------------------------------------------------------------------

_EXP = {
    "float32": (1.3950478751e-3, 8.3688823506e-3, 4.1666205972e-2, 1.6666519642e-1, 0.5),
    "float64": tuple(1 / math.factorial(k) for k in range(13, 1, -1)),
}
"""(exp(r) - 1 - r) / r**2 for |r| <= ln(2)/2: by Remez' exchange to 0.05 ulp, Taylor's series."""


def exp_near_zero(r: Array, lost: Array) -> Array:
    """Return exp(r + lost) for |r| <= ln(2)/2 and a tiny rest."""
    return (r + fma(r * r, polynomial(r, _EXP[r.dtype.name]), fma(lost, r, lost))) + 1


def exp(x: Array) -> Array:
    return ldexp_p.bind(*_scaled_exp(x))


def half_exp(x: Array) -> Array:
    """exp(x) / 2, also where exp(x) overflows."""
    value, n = _scaled_exp(x)
    return ldexp_p.bind(value, n - 1)


def _scaled_exp(x: Array) -> tuple[Array, Array]:
    """Return exp(x) as a number near 1 and the exponent of a power of two."""
    return split_exp(clamp(x, *((-746.0, 711.0) if is_wide(x) else (-104.0, 90.0))))


def split_exp(x: Array) -> tuple[Array, Array]:
    """Return the same of an argument whose exponent is of a normal number."""
    r, n = _remainder(x)
    return polynomial(r, (*_EXP[x.dtype.name], 1.0, 1.0)), n


def split_expm1(x: Array, rest: Array) -> tuple[Array, Array]:
    """Return the same of an argument and a small rest, less 1."""
    r, n = _remainder(x)
    r = r + rest
    return fma(r * r, polynomial(r, _EXP[x.dtype.name]), r), n


def _remainder(x: Array) -> tuple[Array, Array]:
    """Return x - n ln 2 and n, for the integer n nearest to x / ln 2."""
    kind = x.dtype.name
    whole, n = round_scaled(x, 1 / math.log(2))
    r = fma(whole, -LN2_HI[kind], x)
    return fma(whole, -LN2_LO[kind], r), n


def exp2(x: Array) -> Array:
    x = clamp(x, *((-1076.0, 1025.0) if is_wide(x) else (-151.0, 129.0)))
    whole, n = round_scaled(x, 1.0)
    fraction = x - whole
    # fraction * ln 2 in two parts: the low one is the error of the product.
    high = fraction * math.log(2)
    low = fma(fraction, math.log(2), -high)
    tail = fma(high * high, polynomial(high, _EXP[x.dtype.name]), low)
    return ldexp_p.bind((tail + high) + 1, n)


def _exp_less_one(x: Array) -> tuple[Array, Array, Array]:
    """exp(r) - 1 in two parts and n where x = r + n ln 2, with what rounding r lost."""
    kind = x.dtype.name
    whole, n = round_scaled(x, 1 / math.log(2))
    exact = fma(whole, -LN2_HI[kind], x)
    r = fma(whole, -LN2_LO[kind], exact)
    lost = fma(whole, -LN2_LO[kind], exact - r)
    rest = fma(r * r, polynomial(r, _EXP[kind]), fma(lost, r, lost))
    high = r + rest
    return high, (r - high) + rest, n


def expm1(x: Array) -> Array:
    bounded = clamp(x, *((-40.0, 710.0) if is_wide(x) else (-20.0, 89.0)))
    high, low, n = _exp_less_one(bounded)
    # 2**n overflows for the largest n where the result does not: halve, then double.
    half = power_of_two(n - 1)
    result = fma(low, half, fma(high, half, half - 0.5)) * 2
    # Keeps -0 and the smallest numbers as they are.
    return where(abs(x) < 2.0 ** -(mantissa_bits(x) + 2), x, result)


_TANH = {
    "float32": (-0.0527255534, 0.13331179, -0.333333227),
    "float64": (-0.0013875127241830236, 0.0035888623386737214, -0.0088631542464240481,
        0.021869487422243675, -0.053968253960082829, 0.1333333333333049, -0.3333333333333333),
}  # fmt: skip
"""(tanh(h) / h - 1) / h**2 in h**2, for |h| up to ln(2) / 4, by Remez' exchange."""
_HALF_LN2 = math.log(2) / 2


def tanh(x: Array) -> Array:
    """By the addition theorem it is (s - 1 - t (s + 1)) / (s + 1 - t (s - 1)), where s = 2**n and
    t = tanh(h) of h = n ln(2) / 2 - x. The quotient is c, a number near the result, less that.
    """
    bound = 22.0 if is_wide(x) else 10.0
    x = clamp(x, -bound, bound)
    n = round_p.bind(x * (1 / _HALF_LN2), rounding_method=1)
    h = fma(n, _HALF_LN2, -x)
    square = h * h
    t = fma(h * square, polynomial(square, _TANH[x.dtype.name]), h)
    s = whole_power_of_two(n)
    more, less = s + 1, 1 - s
    c = clamp(n * 0.25, -1.0, 1.0)
    return c - fma(t, fma(c, less, more), fma(c, more, less)) / fma(t, less, more)


def _ratio_to_sum(above: Array, e: Array, more: float) -> Array:
    """above / (e + more) for positive e, without the error of rounding the sum."""
    total = e + more
    part = total - e
    lost = (e - (total - part)) + (more - part)
    quotient = above / total
    rest = fma(-quotient, lost, fma(-quotient, total, above))
    return where(e < 2.0**64, quotient + rest / total, quotient)


def logistic(x: Array) -> Array:
    x = clamp(-x, *((-746.0, 710.0) if is_wide(x) else (-104.0, 89.0)))
    high, low, n = _exp_less_one(x)
    top = high + 1
    tail = ((1 - top) + high) + low
    return _ratio_to_sum(1.0, ldexp_p.bind(top + tail, n), 1.0)


# Logarithms ---------------------------------------------------------------------------------------

_LOG_FLOAT = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_LOG_DOUBLE = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
    2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
    6.666666666666735130e-01,
)  # fmt: skip


def _log_of_parts(z: Array, k: Array, extra: Array | None = None) -> Array:
    """log(1 + z) + k ln 2 (+ extra, tiny)."""
    kind, k = z.dtype.name, to_float(k)
    square = z * z
    low = k * LN2_LO[kind]
    if extra is not None:
        low = low + extra
    if is_wide(z):
        s = z / (z + 2)
        w = s * s
        r = w * polynomial(w, _LOG_DOUBLE)
        half = square * 0.5
        rest = half - fma(s, half + r, low)
        return k * LN2_HI[kind] - (rest - z)
    y = fma(square * z, polynomial(z, _LOG_FLOAT), low)
    y = fma(square, -0.5, y)
    return fma(k, LN2_HI[kind], z + y)


def _log_edges(x: Array, result: Any, pole: float) -> Array:
    """-inf at the pole, NaN below it, inf at inf, NaN at NaN."""
    result = where(x == math.inf, x, result)
    result = where(x == pole, -math.inf, result)
    return where(x < pole, math.nan, result)


def log_of_normal(x: Array, extra: Array | None = None) -> Array:
    """log(x) (+ extra, tiny)."""
    fraction, k = split_exponent(x)
    return _log_of_parts(fraction - 1, k, extra)


def log(x: Array) -> Array:
    lift = mantissa_bits(x) + 2
    tiny = x < 2.0 ** (1 - exponent_bias(x))
    fraction, k = split_exponent(where(tiny, x * 2.0**lift, x))
    result = _log_of_parts(fraction - 1, where(tiny, k - lift, k))
    return _log_edges(x, where(x != x, x, result), 0.0)


def log1p(x: Array) -> Array:
    u = x + 1
    fraction, k = split_exponent(u)
    # What rounding 1 + x lost, relative to u, without u - 1 (quirks.CONSTANT_SUMS).
    one = x.dtype.type(1)
    lost = min_p.bind(x, one) - (u - max_p.bind(x, one))
    near = k == 0
    z = where(near, x, fraction - 1)
    result = _log_of_parts(z, k, where(near, 0.0, lost / u))
    result = where(abs(x) < 2.0 ** -(mantissa_bits(x) + 2), x, result)
    return _log_edges(x, result, -1.0)


# Trigonometry -------------------------------------------------------------------------------------

_PI_2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_SIN_FLOAT = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS_FLOAT = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN_DOUBLE = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
    -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01,
)  # fmt: skip
_COS_DOUBLE = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
    2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip


def _quadrant(x: Array) -> tuple[Array, Array, Array]:
    """Return x - n pi/2 in two parts and n, with pi/2 to 160 bits and exact products (fma)."""
    wide = x.astype("float64")
    whole, n = round_scaled(wide, 2 / math.pi)
    r = fma(whole, -_PI_2[0], wide)
    if not is_wide(x):
        r = fma(whole, -_PI_2[1], r)
        return r.astype("float32"), 0.0, n.astype("int32")
    # r - n p1 with its rounding error (two-product, two-sum), then the third part.
    p = whole * _PI_2[1]
    p_low = fma(whole, _PI_2[1], -p)
    high = r - p
    back = high - r
    error = (r - (high - back)) - (p + back)
    return high, error - fma(whole, _PI_2[2], p_low), n


def _sin_cos(x: Array) -> tuple[Array, Array, Array]:
    """sin and cos of the reduced argument, and the quadrant."""
    r, low, n = _quadrant(x)
    z = r * r
    if not is_wide(x):
        sin = fma(z * r, polynomial(z, _SIN_FLOAT), r)
        return sin, fma(z * z, polynomial(z, _COS_FLOAT), fma(z, -0.5, 1.0)), n
    v = z * r
    p = polynomial(z, _SIN_DOUBLE[:-1])
    tail = z * fma(0.5, low, -(v * p)) - low
    sin = r - fma(v, -_SIN_DOUBLE[-1], tail)
    q = (z * z) * polynomial(z, _COS_DOUBLE)
    half = z * 0.5
    w = 1 - half
    return sin, w + (((1 - w) - half) + (q - r * low)), n


def sin_cos_near_zero(r: Array) -> tuple[Array, Array]:
    """Return sin and cos of a float64 between -pi/4 and pi/4."""
    z = r * r
    sin = fma(z * r, polynomial(z, _SIN_DOUBLE), r)
    return sin, fma(z * z, polynomial(z, _COS_DOUBLE), fma(z, -0.5, 1.0))


def _of_quadrant(sin: Array, cos: Array, n: Array) -> Array:
    """sin(r + n pi/2)."""
    value = where((n & 1) != 0, cos, sin)
    return from_bits(bits(value) ^ ((n & 2) << (62 if is_wide(sin) else 30)))


def sin(x: Array) -> Array:
    """Accurate for |x| < 2**50 (float32) and |x| < 2**30 (float64)."""
    return where(x == 0, x, _of_quadrant(*_sin_cos(x)))


def cos(x: Array) -> Array:
    """Accurate for |x| < 2**50 (float32) and |x| < 2**30 (float64)."""
    s, c, n = _sin_cos(x)
    return _of_quadrant(s, c, n + 1)


def tan(x: Array) -> Array:
    if not is_wide(x):
        return tan(x.astype("float64")).astype("float32")
    s, c, n = _sin_cos(x)
    odd = (n & 1) != 0
    return where(odd, -c, s) / where(odd, s, c)
