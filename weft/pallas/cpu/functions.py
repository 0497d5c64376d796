"""More elementary functions: inverse and hyperbolic ones, powers, roots, the error function.

Written for float64; float32 goes through float64, which is the shortest accurate way. Errors are
at most 2 ulp (tests/pallas/test_cpu_math.py). Sources: Cephes (atan); fdlibm (asin, acos,
asinh, acosh, atanh, cbrt as improved in FreeBSD, erf, erfc); T. J. Dekker, "A floating-point
technique for extending the available precision", 1971 (the double-double logarithm of pow).
"""

from __future__ import annotations

import math as constants
from collections.abc import Callable

from weft.pallas.cpu.math import (
    LN2_HI,
    LN2_LO,
    Real,
    _split_exponent,
    exp,
    expm1,
    log,
    log1p,
    sin,
    tan,
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
    fraction, k = _split_exponent(m, x)
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


# The error function ----------------------------------------------------------------------------

_ERF_SMALL = (
    (
        -2.37630166566501626084e-05,
        -5.77027029648944159157e-03,
        -2.84817495755985104766e-02,
        -3.25042107247001499370e-01,
        1.28379167095512558561e-01,
    ),
    (
        -3.96022827877536812320e-06,
        1.32494738004321644526e-04,
        5.08130628187576562776e-03,
        6.50222499887672944485e-02,
        3.97917223959155352819e-01,
        1.0,
    ),
)
_ERF_AT_1 = 8.45062911510467529297e-01
_ERF_MIDDLE = (
    (
        -2.16637559486879084300e-03,
        3.54783043256182359371e-02,
        -1.10894694282396677476e-01,
        3.18346619901161753674e-01,
        -3.72207876035701323847e-01,
        4.14856118683748331666e-01,
        -2.36211856075265944077e-03,
    ),
    (
        1.19844998467991074170e-02,
        1.36370839120290507362e-02,
        1.26171219808761642112e-01,
        7.18286544141962662868e-02,
        5.40397917702171048937e-01,
        1.06420880400844228286e-01,
        1.0,
    ),
)
_ERFC_NEAR = (
    (
        -9.81432934416914548592e00,
        -8.12874355063065934246e01,
        -1.84605092906711035994e02,
        -1.62396669462573470355e02,
        -6.23753324503260060396e01,
        -1.05586262253232909814e01,
        -6.93858572707181764372e-01,
        -9.86494403484714822705e-03,
    ),
    (
        -6.04244152148580987438e-02,
        6.57024977031928170135e00,
        1.08635005541779435134e02,
        4.29008140027567833386e02,
        6.45387271733267880336e02,
        4.34565877475229228821e02,
        1.37657754143519042600e02,
        1.96512716674392571292e01,
        1.0,
    ),
)
_ERFC_FAR = (
    (
        -4.83519191608651397019e02,
        -1.02509513161107724954e03,
        -6.37566443368389627722e02,
        -1.60636384855821916062e02,
        -1.77579549177547519889e01,
        -7.99283237680523006574e-01,
        -9.86494292470009928597e-03,
    ),
    (
        -2.24409524465858183362e01,
        4.74528541206955367215e02,
        2.55305040643316442583e03,
        3.19985821950859553908e03,
        1.53672958608443695994e03,
        3.25792512996573918826e02,
        3.03380607434824582924e01,
        1.0,
    ),
)


def _ratio(m: Real, z: str, fit: tuple) -> str:
    return m.div(m.polynomial(z, fit[0]), m.polynomial(z, fit[1]))


def _erf_parts(m: Real, x: str) -> tuple[str, str, str, str]:
    """|x|, (erf(x) - x)/x near 0, erf(|x|) - erx in the middle, erfc(|x|) beyond 1.25."""
    size = m.abs(x)
    near = _ratio(m, m.mul(x, x), _ERF_SMALL)
    middle = _ratio(m, m.sub(size, m.c(1)), _ERF_MIDDLE)
    bounded = m.clamp(size, 0.5, 28.0)
    inverse = m.div(m.c(1), m.mul(bounded, bounded))
    fit = m.select(
        m.compare("olt", bounded, m.c(1 / 0.35)),
        _ratio(m, inverse, _ERFC_NEAR),
        _ratio(m, inverse, _ERFC_FAR),
    )
    square = m.mul(bounded, bounded)
    low = m.fma(bounded, bounded, m.neg(square))
    shape = exp(m, m.sub(m.sub(fit, m.c(0.5625)), low))
    tail = m.div(m.mul(exp(m, m.neg(square)), shape), bounded)
    return size, near, middle, tail


def _erf(m: Real, x: str) -> str:
    size, near, middle, tail = _erf_parts(m, x)
    small = m.fma(size, near, size)
    value = m.select(
        m.compare("olt", size, m.c(1.25)),
        m.add(m.c(_ERF_AT_1), middle),
        m.sub(m.c(1), tail),
    )
    value = m.select(m.compare("ult", size, m.c(0.84375)), small, value)
    return m.call("copysign", value, x)


_ERF_FLOAT = (
    7.853861353153693e-5,
    -8.010193625184903e-4,
    5.188327685732524e-3,
    -2.685381193529856e-2,
    1.128358514861418e-1,
    -3.761262582423300e-1,
    0.128379165726710,  # the constant term less 1, which is added apart
)
_ERFC_FLOAT_NEAR = (
    2.326819970068386e-2,
    -1.387039388740657e-1,
    3.687424674597105e-1,
    -5.824733027278666e-1,
    6.210004621745983e-1,
    -4.944515323274145e-1,
    3.404879937665872e-1,
    -2.741127028184656e-1,
    5.638259427386472e-1,
)
_ERFC_FLOAT_FAR = (
    -1.047766399936249e1,
    1.297719955372516e1,
    -7.495518717768503,
    2.921019019210786,
    -1.015265279202700,
    4.218463358204948e-1,
    -2.820767439740514e-1,
    5.641895067754075e-1,
)


def erf(m: Real, x: str) -> str:
    """In float32 by Cephes' erff, whose fits are short; it is the gelu's function."""
    if m.wide:
        return _erf(m, x)
    size = m.abs(x)
    small = m.fma(x, m.polynomial(m.mul(x, x), _ERF_FLOAT), x)
    bounded = m.clamp(size, 1.0, 4.0)
    inverse = m.div(m.c(1), bounded)
    q = m.mul(inverse, inverse)
    near, far = m.polynomial(q, _ERFC_FLOAT_NEAR), m.polynomial(q, _ERFC_FLOAT_FAR)
    fit = m.select(m.compare("olt", bounded, m.c(2)), near, far)
    tail = m.mul(m.mul(exp(m, m.neg(m.mul(bounded, bounded))), inverse), fit)
    large = m.call("copysign", m.sub(m.c(1), tail), x)
    return m.select(m.compare("ult", size, m.c(1)), small, large)


def _erfc(m: Real, x: str) -> str:
    size, near, middle, tail = _erf_parts(m, x)
    below = m.compare("olt", x, m.c(0))
    quarter = m.compare("olt", x, m.c(0.25))
    spread = m.fma(x, near, x)
    # Near 0.5 and above, 1 - x is not exact: 0.5 - (x - 0.5 + x*near) is.
    inner = m.fma(x, near, m.sub(x, m.c(0.5)))
    small = m.select(quarter, m.sub(m.c(1), spread), m.sub(m.c(0.5), inner))
    far = m.sub(m.c(1 - _ERF_AT_1), middle)
    left = m.add(m.c(1 + _ERF_AT_1), middle)
    value = m.select(
        m.compare("olt", size, m.c(1.25)),
        m.select(below, left, far),
        m.select(below, m.sub(m.c(2), tail), tail),
    )
    # At NaN, too: its arithmetic gives NaN again.
    return m.select(m.compare("ult", size, m.c(0.84375)), small, value)


_ERF_INV_NEAR = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_ERF_INV_FAR = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def erf_inv(m: Real, x: str) -> str:
    """M. Giles, "Approximating the erfinv function", 2011, to about 1e-7; in float64 with two steps
    of Newton's method on erfc."""
    w = m.neg(log1p(m, m.neg(m.mul(x, x))))
    near = m.compare("olt", w, m.c(5))
    t = m.select(near, m.sub(w, m.c(2.5)), m.sub(m.call("sqrt", w), m.c(3)))
    fit = m.select(near, m.polynomial(t, _ERF_INV_NEAR), m.polynomial(t, _ERF_INV_FAR))
    y = m.mul(fit, x)
    if m.wide:
        size, rest = m.abs(y), m.sub(m.c(1), m.abs(x))
        for _ in range(2):
            slope = m.mul(exp(m, m.mul(size, size)), m.c(constants.sqrt(constants.pi) / 2))
            size = m.fma(m.sub(_erfc(m, size), rest), slope, size)
        small = m.compare("olt", m.abs(x), m.c(1e-5))
        y = m.call("copysign", size, x)
        y = m.select(small, m.mul(x, m.c(constants.sqrt(constants.pi) / 2)), y)
    end = m.compare("oeq", m.abs(x), m.c(1))
    return m.select(end, m.call("copysign", m.c(constants.inf), x), y)


# The gamma function ----------------------------------------------------------------------------

_LANCZOS_G = 7.0
_LANCZOS_FIRST = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)
"""C. Lanczos, "A precision approximation of the gamma function", 1964, for g = 7."""


def _lanczos(m: Real, x: str) -> tuple[str, str, str, str, str]:
    """Whether x < 1/2, the point x - 1 or -x beyond that, the series, its derivative, g + z + 1/2."""
    reflected = m.compare("olt", x, m.c(0.5))
    z = m.select(reflected, m.neg(x), m.sub(x, m.c(1)))
    series, slope = m.c(_LANCZOS_FIRST), m.c(0)
    for k, c in enumerate(_LANCZOS):
        term = m.div(m.c(c), m.add(z, m.c(k + 1)))
        series = m.add(series, term)
        slope = m.sub(slope, m.div(term, m.add(z, m.c(k + 1))))
    return reflected, z, series, slope, m.add(z, m.c(_LANCZOS_G + 0.5))


def _lgamma(m: Real, x: str) -> str:
    reflected, z, series, _, t = _lanczos(m, x)
    log_t = log(m, t)
    factor = m.sub(m.add(z, m.c(0.5)), m.div(t, log_t))
    value = m.add(m.fma(factor, log_t, m.c(0.5 * constants.log(2 * constants.pi))), log(m, series))
    size = m.abs(x)
    part = m.sub(size, m.call("floor", size))
    near = m.select(m.compare("ogt", part, m.c(0.5)), m.sub(m.c(1), part), part)
    wave = sin(m, m.mul(near, m.c(constants.pi)))
    other = m.sub(m.sub(m.c(constants.log(constants.pi)), log(m, wave)), value)
    value = m.select(reflected, other, value)
    infinite = m.compare("oeq", size, m.c(constants.inf))
    return m.select(infinite, size, m.select(m.compare("uno", x, x), x, value))


def _digamma(m: Real, x: str) -> str:
    reflected, _, series, slope, t = _lanczos(m, x)
    value = m.sub(m.add(log(m, t), m.div(slope, series)), m.div(m.c(_LANCZOS_G), t))
    part = m.sub(x, m.call("roundeven", x))
    angle = tan(m, m.mul(part, m.c(constants.pi)))
    value = m.select(reflected, m.sub(value, m.div(m.c(constants.pi), angle)), value)
    pole = m.f.op(f"and i1 {m.compare('ole', x, m.c(0))}, {m.compare('oeq', part, m.c(0))}")
    return m.select(pole, m.c(constants.nan), value)


def nextafter(m: Real, x: str, y: str) -> str:
    """The next float from x in the direction of y."""
    up = m.f.op(f"xor i1 {m.compare('ogt', y, x)}, {m.integer('icmp slt', m.bits(x), 0)}")
    step = m.f.op(f"select i1 {up}, {m.int} 1, {m.int} -1")
    moved = m.from_bits(m.integer("add", m.bits(x), step))
    least = m.call("copysign", m.from_bits(m.integer("add", "0", 1)), y)
    zero = m.integer("icmp eq", m.integer("shl", m.bits(x), 1), 0)
    value = m.select(zero, least, moved)
    value = m.select(m.compare("oeq", x, y), y, value)
    return m.select(m.compare("uno", x, y), m.c(constants.nan), value)


lgamma, digamma = in_double(_lgamma), in_double(_digamma)
atan, atan2 = in_double(_atan), in_double(_atan2)
asin, acos = in_double(_asin), in_double(_acos)
sinh, cosh = in_double(_sinh), in_double(_cosh)
asinh, acosh, atanh = in_double(_asinh), in_double(_acosh), in_double(_atanh)
cbrt, power = in_double(_cbrt), in_double(_pow)
erfc = in_double(_erfc)
