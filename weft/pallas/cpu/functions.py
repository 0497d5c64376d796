"""More elementary functions: inverse and hyperbolic ones, powers, roots.

Written for float64; float32 goes through float64, which is the shortest accurate way. Errors are
at most 2 ulp (tests/pallas/test_cpu_math.py). Sources: Cephes (atan); fdlibm (asin, acos,
asinh, acosh, atanh, cbrt as improved in FreeBSD); T. J. Dekker, "A floating-point
technique for extending the available precision", 1971 (the double-double logarithm of pow).
"""

from __future__ import annotations

import math as constants
from collections.abc import Callable

from weft.pallas.cpu.math import (
    LN2_HI,
    LN2_LO,
    Real,
    exp,
    expm1,
    log,
    log1p,
    split_exponent,
    through_double,
)

Function = Callable[..., str]


def in_double(function: Function) -> Function:
    """The function, in float64 whatever its operands."""

    def of(m: Real, *operands: str) -> str:
        if m.wide:
            return function(m, *operands)
        return through_double(m, function, *operands)

    return of


PI_2, PI_2_LOW = 1.5707963267948966, 6.123233995736766e-17


# Inverse trigonometric functions -------------------------------------------------------------

_ATAN_P = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_ATAN_Q = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)


def _atan(m: Real, x: str) -> str:
    size = m.abs(x)
    large = m.compare("ogt", size, m.c(2.414213562373095))
    middle = m.compare("ogt", size, m.c(0.66))
    shifted = m.div(m.sub(size, m.c(1)), m.add(size, m.c(1)))
    t = m.select(large, m.div(m.c(-1), size), m.select(middle, shifted, size))
    base = m.select(large, m.c(PI_2), m.select(middle, m.c(PI_2 / 2), m.c(0)))
    more = m.select(large, m.c(PI_2_LOW), m.select(middle, m.c(PI_2_LOW / 2), m.c(0)))
    z = m.mul(t, t)
    ratio = m.div(m.mul(z, m.polynomial(z, _ATAN_P)), m.polynomial(z, _ATAN_Q))
    value = m.add(base, m.add(m.fma(t, ratio, t), more))
    return m.call("copysign", value, x)


def _atan2(m: Real, y: str, x: str) -> str:
    a, b = m.abs(y), m.abs(x)
    same = m.compare("oeq", a, b)
    # 0/0 and inf/inf have no quotient: the angles are 0 and pi/4.
    zero = m.compare("oeq", a, m.c(0))
    quotient = m.select(same, m.select(zero, m.c(0), m.c(1)), m.div(a, b))
    angle = _atan(m, quotient)
    back = m.sub(m.c(2 * PI_2), m.sub(angle, m.c(2 * PI_2_LOW)))
    negative = m.integer("icmp slt", m.bits(x), 0)
    return m.call("copysign", m.select(negative, back, angle), y)


_ASIN_P = (
    3.47933107596021167570e-05,
    7.91534994289814532176e-04,
    -4.00555345006794114027e-02,
    2.01212532134862925881e-01,
    -3.25565818622400915405e-01,
    1.66666666666666657415e-01,
)
_ASIN_Q = (
    7.70381505559019352791e-02,
    -6.88283971605453293030e-01,
    2.02094576023350569471e00,
    -2.40339491173441421878e00,
    1.0,
)


def _asin_ratio(m: Real, z: str) -> str:
    return m.div(m.mul(z, m.polynomial(z, _ASIN_P)), m.polynomial(z, _ASIN_Q))


def _half_angle(m: Real, size: str) -> tuple[str, str]:
    """sqrt((1 - |x|) / 2) and what asin of it exceeds it by, with the root's own error."""
    z = m.mul(m.sub(m.c(1), size), m.c(0.5))
    s = m.call("sqrt", z)
    error = m.div(m.fma(m.neg(s), s, z), m.add(s, s))
    error = m.select(m.compare("oeq", s, m.c(0)), m.c(0), error)
    return s, m.fma(s, _asin_ratio(m, z), error)


def _asin(m: Real, x: str) -> str:
    size = m.abs(x)
    small = m.fma(size, _asin_ratio(m, m.mul(size, size)), size)
    s, tail = _half_angle(m, size)
    double = m.mul(m.add(s, tail), m.c(2))
    large = m.sub(m.c(PI_2), m.sub(double, m.c(PI_2_LOW)))
    value = m.select(m.compare("olt", size, m.c(0.5)), small, large)
    return m.call("copysign", value, x)


def _acos(m: Real, x: str) -> str:
    size = m.abs(x)
    ratio = _asin_ratio(m, m.mul(x, x))
    inner = m.fma(m.neg(x), ratio, m.c(PI_2_LOW))
    small = m.sub(m.c(PI_2), m.sub(x, inner))
    s, tail = _half_angle(m, size)
    double = m.mul(m.add(s, tail), m.c(2))
    left = m.sub(m.c(2 * PI_2), m.sub(double, m.c(2 * PI_2_LOW)))
    large = m.select(m.compare("olt", x, m.c(0)), left, double)
    return m.select(m.compare("olt", size, m.c(0.5)), small, large)


# Hyperbolic functions --------------------------------------------------------------------------


def _sinh(m: Real, x: str) -> str:
    size = m.abs(x)
    e = expm1(m, size)
    small = m.mul(m.add(e, m.div(e, m.add(e, m.c(1)))), m.c(0.5))
    half = exp(m, m.mul(size, m.c(0.5)))
    large = m.mul(m.mul(half, m.c(0.5)), half)
    value = m.select(m.compare("olt", size, m.c(700)), small, large)
    return m.call("copysign", m.select(m.compare("uno", x, x), x, value), x)


def _cosh(m: Real, x: str) -> str:
    size = m.abs(x)
    e = expm1(m, size)
    up = m.add(e, m.c(1))
    near = m.add(m.c(1), m.div(m.mul(e, e), m.add(up, up)))
    t = exp(m, size)
    middle = m.add(m.mul(t, m.c(0.5)), m.div(m.c(0.5), t))
    half = exp(m, m.mul(size, m.c(0.5)))
    large = m.mul(m.mul(half, m.c(0.5)), half)
    value = m.select(m.compare("olt", size, m.c(0.35)), near, middle)
    return m.select(m.compare("olt", size, m.c(700)), value, large)


def _asinh(m: Real, x: str) -> str:
    size = m.abs(x)
    square = m.mul(size, size)
    root = m.call("sqrt", m.add(square, m.c(1)))
    value = log1p(m, m.add(size, m.div(square, m.add(root, m.c(1)))))
    large = m.add(log(m, size), m.c(constants.log(2)))
    value = m.select(m.compare("olt", size, m.c(2.0**28)), value, large)
    return m.call("copysign", value, x)


def _acosh(m: Real, x: str) -> str:
    t = m.sub(x, m.c(1))
    root = m.call("sqrt", m.fma(t, t, m.add(t, t)))
    value = log1p(m, m.add(t, root))
    large = m.add(log(m, x), m.c(constants.log(2)))
    return m.select(m.compare("olt", x, m.c(2.0**28)), value, large)


def _atanh(m: Real, x: str) -> str:
    size = m.abs(x)
    t = m.add(size, size)
    rest = m.sub(m.c(1), size)
    small = m.add(t, m.div(m.mul(t, size), rest))
    argument = m.select(m.compare("olt", size, m.c(0.5)), small, m.div(t, rest))
    value = m.mul(log1p(m, argument), m.c(0.5))
    return m.call("copysign", value, x)


# Roots and powers ------------------------------------------------------------------------------

_CBRT = (
    0.145996192886612446982,
    -0.758397934778766047437,
    1.621429720105354466140,
    -1.88497979543377169875,
    1.87595182427177009643,
)


def _cbrt(m: Real, x: str) -> str:
    size = m.abs(x)
    tiny = m.compare("olt", size, m.c(2.0**-1022))
    normal = m.select(tiny, m.mul(size, m.c(2.0**54)), size)
    high = m.integer("lshr", m.bits(normal), 32)
    third = m.integer("add", m.integer("udiv", high, 3), 715094163)
    t = m.from_bits(m.integer("shl", third, 32))
    # To 23 bits by a polynomial in t**3/x, rounded so that its square is exact, then one step.
    r = m.mul(m.mul(t, t), m.div(t, normal))
    t = m.mul(t, m.polynomial(r, _CBRT))
    bits = m.integer("add", m.bits(t), 0x80000000)
    t = m.from_bits(m.integer("and", bits, -0x40000000))
    r = m.div(normal, m.mul(t, t))
    r = m.div(m.sub(r, t), m.add(m.add(t, t), r))
    t = m.fma(t, r, t)
    t = m.select(tiny, m.mul(t, m.c(2.0**-18)), t)
    plain = m.compare("oeq", size, m.c(0))
    infinite = m.compare("ueq", size, m.c(constants.inf))
    value = m.select(infinite, size, m.select(plain, size, t))
    return m.call("copysign", value, x)


def _two_sum(m: Real, a: str, b: str) -> tuple[str, str]:
    total = m.add(a, b)
    part = m.sub(total, a)
    return total, m.add(m.sub(a, m.sub(total, part)), m.sub(b, part))


def _long_log(m: Real, x: str) -> tuple[str, str]:
    """log of a positive normal number to about 68 bits, as the sum of two numbers."""
    fraction, k = split_exponent(m, x)
    exponent = m.f.op(f"sitofp i64 {k} to double")
    f = m.sub(fraction, m.c(1))
    g = m.add(fraction, m.c(1))
    g_low = m.sub(fraction, m.sub(g, m.c(1)))
    s = m.div(f, g)
    s_low = m.div(m.fma(m.neg(s), g_low, m.fma(m.neg(s), g, f)), g)
    z = m.mul(s, s)
    z_low = m.fma(m.add(s, s), s_low, m.fma(s, s, m.neg(z)))
    cube = m.mul(z, s)
    cube_low = m.fma(z, s_low, m.fma(z_low, s, m.fma(z, s, m.neg(cube))))
    c, c_low = 2 / 3, 3.700743415417188e-17
    third = m.mul(cube, m.c(c))
    error = m.fma(cube, m.c(c), m.neg(third))
    third_low = m.fma(cube_low, m.c(c), m.fma(cube, m.c(c_low), error))
    series = m.polynomial(z, [2 / n for n in range(25, 3, -2)])
    tail = m.mul(m.mul(cube, z), series)
    high, e1 = _two_sum(m, m.mul(exponent, m.c(LN2_HI["double"])), m.add(s, s))
    high, e2 = _two_sum(m, high, third)
    low = m.fma(exponent, m.c(LN2_LO["double"]), m.add(s_low, s_low))
    low = m.add(m.add(e1, e2), m.add(low, m.add(third_low, tail)))
    total = m.add(high, low)
    return total, m.sub(low, m.sub(total, high))


def _pow(m: Real, x: str, y: str) -> str:
    """x**y for doubles; the base's sign and the special cases of C99 Annex F."""
    size = m.abs(x)
    tiny = m.compare("olt", size, m.c(2.0**-1022))
    normal = m.select(tiny, m.mul(size, m.c(2.0**54)), size)
    high, low = _long_log(m, normal)
    shift = m.select(tiny, m.c(-54 * LN2_HI["double"]), m.c(0))
    high = m.add(high, shift)
    product = m.mul(high, y)
    rest = m.fma(low, y, m.fma(high, y, m.neg(product)))
    value = exp(m, product)
    corrected = m.fma(value, rest, value)
    finite = m.compare("olt", value, m.c(constants.inf))
    value = m.select(finite, corrected, value)
    # A base of 0 or inf, an exponent of inf: what the logarithm's sign says.
    zero = m.compare("oeq", size, m.c(0))
    infinite = m.compare("oeq", size, m.c(constants.inf))
    up = m.compare("ogt", y, m.c(0))
    at_zero = m.select(up, m.c(0), m.c(constants.inf))
    at_infinity = m.select(up, m.c(constants.inf), m.c(0))
    value = m.select(zero, at_zero, m.select(infinite, at_infinity, value))
    endless = m.compare("oeq", m.abs(y), m.c(constants.inf))
    grows = m.f.op(f"xor i1 {m.compare('olt', size, m.c(1))}, {up}")
    far = m.select(grows, m.c(constants.inf), m.c(0))
    value = m.select(endless, m.select(m.compare("oeq", size, m.c(1)), m.c(1), far), value)
    # Odd integers keep a negative base's sign; fractions of negative bases are no numbers.
    whole = m.compare("oeq", m.call("floor", y), y)
    half = m.mul(y, m.c(0.5))
    odd = m.f.op(f"and i1 {whole}, {m.compare('une', m.call('floor', half), half)}")
    negative = m.integer("icmp slt", m.bits(x), 0)
    flips = m.f.op(f"and i1 {odd}, {negative}")
    value = m.select(flips, m.neg(value), value)
    below = m.compare("olt", x, m.c(0))
    real = m.f.op(f"and i1 {below}, {m.f.op(f'xor i1 {whole}, true')}")
    finite_base = m.f.op(f"and i1 {real}, {m.f.op(f'xor i1 {infinite}, true')}")
    value = m.select(finite_base, m.c(constants.nan), value)
    value = m.select(m.compare("uno", x, y), m.c(constants.nan), value)
    one = m.f.op(f"or i1 {m.compare('oeq', x, m.c(1))}, {m.compare('oeq', y, m.c(0))}")
    return m.select(one, m.c(1), value)


atan, atan2 = in_double(_atan), in_double(_atan2)
asin, acos = in_double(_asin), in_double(_acos)
sinh, cosh = in_double(_sinh), in_double(_cosh)
asinh, acosh, atanh = in_double(_asinh), in_double(_acosh), in_double(_atanh)
cbrt, power = in_double(_cbrt), in_double(_pow)
