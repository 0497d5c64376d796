# Tests: tests/pallas/test_cpu_math.py
"""Inverse and hyperbolic functions, powers, roots.

Written for float64; float32 goes through float64, which is the shortest accurate way. Errors are
at most 2 ulp (tests/pallas/test_cpu_math.py). Sources: Cephes (atan); fdlibm (asin, acos,
asinh, acosh, atanh, cbrt as improved in FreeBSD); T. J. Dekker, "A floating-point
technique for extending the available precision", 1971 (the double-double logarithm of pow).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.ops.arithmetic import div_p
from weft.ops.transcendental import sqrt_p
from weft.pallas.formulas.elementary import LN2_HI, LN2_LO, exp, expm1, log, log1p
from weft.pallas.formulas.language import (
    bits,
    copysign,
    floor,
    fma,
    from_bits,
    in_double,
    is_negative,
    polynomial,
    split_exponent,
    two_sum,
    where,
)

if TYPE_CHECKING:
    from weft.runtime.array import Array

PI_2, PI_2_LOW = 1.5707963267948966, 6.123233995736766e-17

# Inverse trigonometric functions ------------------------------------------------------------------

_ATAN_P = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
    -1.228866684490136173410e2, -6.485021904942025371773e1,
)  # fmt: skip
_ATAN_Q = (
    1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
    4.853903996359136964868e2, 1.945506571482613964425e2,
)  # fmt: skip


@in_double
def atan(x: Array) -> Array:
    return _atan(x)


def _atan(x: Array) -> Array:
    size = abs(x)
    large, middle = size > 2.414213562373095, size > 0.66
    t = where(large, -1 / size, where(middle, (size - 1) / (size + 1), size))
    base = where(middle, x.dtype.type(PI_2 / 2), 0.0)
    base = where(large, PI_2, base)
    more = where(middle, x.dtype.type(PI_2_LOW / 2), 0.0)
    more = where(large, PI_2_LOW, more)
    z = t * t
    ratio = (z * polynomial(z, _ATAN_P)) / polynomial(z, _ATAN_Q)
    return copysign(base + (fma(t, ratio, t) + more), x)


@in_double
def atan2(y: Array, x: Array) -> Array:
    a, b = abs(y), abs(x)
    # 0/0 and inf/inf have no quotient: the angles are 0 and pi/4.
    quotient = where(a == b, where(a == 0, x.dtype.type(0), 1.0), a / b)
    angle = _atan(quotient)
    back = 2 * PI_2 - (angle - 2 * PI_2_LOW)
    return copysign(where(is_negative(x), back, angle), y)


_ASIN_P = (
    3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02,
    2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01,
)  # fmt: skip
_ASIN_Q = (
    7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e00,
    -2.40339491173441421878e00, 1.0,
)  # fmt: skip


def _asin_ratio(z: Array) -> Array:
    return (z * polynomial(z, _ASIN_P)) / polynomial(z, _ASIN_Q)


def _half_angle(size: Array) -> tuple[Array, Array]:
    """sqrt((1 - |x|) / 2) and what asin of it exceeds it by, with the root's own error."""
    z = (1 - size) * 0.5
    s = sqrt_p.bind(z)
    error = where(s == 0, 0.0, fma(-s, s, z) / (s + s))
    return s, fma(s, _asin_ratio(z), error)


@in_double
def asin(x: Array) -> Array:
    size = abs(x)
    s, tail = _half_angle(size)
    large = PI_2 - ((s + tail) * 2 - PI_2_LOW)
    small = fma(size, _asin_ratio(size * size), size)
    return copysign(where(size < 0.5, small, large), x)


@in_double
def acos(x: Array) -> Array:
    size = abs(x)
    small = PI_2 - (x - fma(-x, _asin_ratio(x * x), PI_2_LOW))
    s, tail = _half_angle(size)
    double = (s + tail) * 2
    left = 2 * PI_2 - (double - 2 * PI_2_LOW)
    return where(size < 0.5, small, where(x < 0, left, double))


# Hyperbolic functions -----------------------------------------------------------------------------


def _half_exp(size: Array) -> Array:
    """exp(size) / 2 where exp(size) may overflow."""
    half = exp(size * 0.5)
    return (half * 0.5) * half


@in_double
def sinh(x: Array) -> Array:
    size = abs(x)
    e = expm1(size)
    small = (e + e / (e + 1)) * 0.5
    value = where(size < 700, small, _half_exp(size))
    return copysign(where(x != x, x, value), x)


@in_double
def cosh(x: Array) -> Array:
    size = abs(x)
    e = expm1(size)
    up = e + 1
    near = 1 + (e * e) / (up + up)
    t = exp(size)
    value = where(size < 0.35, near, t * 0.5 + 0.5 / t)
    return where(size < 700, value, _half_exp(size))


@in_double
def asinh(x: Array) -> Array:
    size = abs(x)
    square = size * size
    value = log1p(size + square / (sqrt_p.bind(square + 1) + 1))
    return copysign(where(size < 2.0**28, value, log(size) + math.log(2)), x)


@in_double
def acosh(x: Array) -> Array:
    t = x - 1
    value = log1p(t + sqrt_p.bind(fma(t, t, t + t)))
    return where(x < 2.0**28, value, log(x) + math.log(2))


@in_double
def atanh(x: Array) -> Array:
    size = abs(x)
    t, rest = size + size, 1 - size
    argument = where(size < 0.5, t + (t * size) / rest, t / rest)
    return copysign(log1p(argument) * 0.5, x)


# Roots and powers ---------------------------------------------------------------------------------

_CBRT = (
    0.145996192886612446982, -0.758397934778766047437, 1.621429720105354466140,
    -1.88497979543377169875, 1.87595182427177009643,
)  # fmt: skip


@in_double
def cbrt(x: Array) -> Array:
    size = abs(x)
    tiny = size < 2.0**-1022
    normal = where(tiny, size * 2.0**54, size)
    high = bits(normal) >> 32  # of a positive number
    t = from_bits((div_p.bind(high, high.dtype.type(3)) + 715094163) << 32)
    # To 23 bits by a polynomial in t**3/x, rounded so that its square is exact, then one step.
    t = t * polynomial((t * t) * (t / normal), _CBRT)
    t = from_bits((bits(t) + 0x80000000) & -0x40000000)
    r = normal / (t * t)
    t = fma(t, (r - t) / ((t + t) + r), t)
    t = where(tiny, t * 2.0**-18, t)
    plain = (size == 0) | (size == math.inf) | (size != size)
    return copysign(where(plain, size, t), x)


def _long_log(x: Array) -> tuple[Array, Array]:
    """log of a positive normal number to about 68 bits, as the sum of two numbers."""
    fraction, k = split_exponent(x)
    exponent = k.astype("float64")
    f, g = fraction - 1, fraction + 1
    g_low = fraction - (g - 1)
    s = f / g
    s_low = fma(-s, g_low, fma(-s, g, f)) / g
    z = s * s
    z_low = fma(s + s, s_low, fma(s, s, -z))
    cube = z * s
    cube_low = fma(z, s_low, fma(z_low, s, fma(z, s, -cube)))
    c, c_low = 2 / 3, 3.700743415417188e-17
    third = cube * c
    third_low = fma(cube_low, c, fma(cube, c_low, fma(cube, c, -third)))
    series = polynomial(z, [2 / n for n in range(25, 3, -2)])
    high, e1 = two_sum(exponent * LN2_HI["float64"], s + s)
    high, e2 = two_sum(high, third)
    low = fma(exponent, LN2_LO["float64"], s_low + s_low)
    low = (e1 + e2) + (low + (third_low + (cube * z) * series))
    total = high + low
    return total, low - (total - high)


@in_double
def power(x: Array, y: Array) -> Array:
    """x**y for doubles; the base's sign and the special cases of C99 Annex F."""
    size, inf = abs(x), x.dtype.type(math.inf)
    tiny = size < 2.0**-1022
    high, low = _long_log(where(tiny, size * 2.0**54, size))
    high = high + where(tiny, x.dtype.type(-54 * LN2_HI["float64"]), 0.0)
    product = high * y
    value = exp(product)
    corrected = fma(value, fma(low, y, fma(high, y, -product)), value)
    value = where(value < inf, corrected, value)
    # A base of 0 or inf, an exponent of inf: what the logarithm's sign says.
    infinite, up = size == inf, y > 0
    value = where(infinite, where(up, inf, 0.0), value)
    value = where(size == 0, where(up, 0.0, inf), value)
    far = where((size < 1) ^ up, inf, 0.0)
    value = where(abs(y) == inf, where(size == 1, 1.0, far), value)
    # Odd integers keep a negative base's sign; fractions of negative bases are no numbers.
    whole, half = floor(y) == y, y * 0.5
    odd = whole & (floor(half) != half)
    value = where(odd & is_negative(x), -value, value)
    value = where((x < 0) & ~whole & ~infinite, math.nan, value)
    value = where((x != x) | (y != y), math.nan, value)
    return where((x == 1) | (y == 0), 1.0, value)
