# Tests: tests/pallas/test_cpu_math.py, tests/native/test_formulas.py
"""Inverse and hyperbolic functions, powers, roots.

Errors are at most 2 ulp (tests/pallas/test_cpu_math.py), with products and sums that are rounded
once or twice. Polynomials are minimax fits of the relative error, by Remez' exchange. Sources:
fdlibm (the reductions of asin and acos, the double-double logarithm of pow); W. Kahan, "Computing a
real cube root", 1991.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.formulas.elementary import exp_near_zero, half_exp, log, log_of_normal
from weft.formulas.language import (
    bits,
    clamp,
    copysign,
    floor,
    fma,
    from_bits,
    in_double,
    is_negative,
    is_wide,
    ldexp_p,
    polynomial,
    round_scaled,
    split_exponent,
    to_float,
    where,
)
from weft.ops.arithmetic import max_p, min_p
from weft.ops.transcendental import sqrt_p

if TYPE_CHECKING:
    from weft.runtime.array import Array

PI_2 = {"float32": 1.57079637050628662, "float64": 1.5707963267948966}
PI_2_LOW = {"float32": -4.37113900018624283e-8, "float64": 6.123233995736766e-17}


def _odd(x: Array, fits: dict[str, tuple]) -> Array:
    """x + x**3 p(x**2)."""
    z = x * x
    return fma(x * z, polynomial(z, fits[x.dtype.name]), x)


# Inverse trigonometric functions ------------------------------------------------------------------

_ATAN = {
    "float32": (
        0.00293931551, -0.0164450314, 0.0433423296, -0.0756379813, 0.106717557,
        -0.142126232, 0.199939847, -0.333331645,
    ),
    "float64": (
        1.3471882144738254e-05, -0.00015467508258188388, 0.00084318406989284701,
        -0.0029193124704742679, 0.0072650748427709319, -0.014000217846937632,
        0.022094065789214284, -0.029995940183332317, 0.036702323361193813,
        -0.042222780490899926, 0.047235646532057349, -0.052539056705454099,
        0.058806205503992195, -0.066664208498114497, 0.076922820810157277,
        -0.090909072157664694, 0.11111111020632426, -0.14285714283113671,
        0.19999999999962823, -0.33333333333333159,
    ),
}  # fmt: skip
"""(atan(t) / t - 1) / t**2 in t**2, for t up to 1."""


def atan(x: Array) -> Array:
    kind, size = x.dtype.name, abs(x)
    large = size > 1
    angle = _odd(where(large, 1 / size, size), _ATAN)
    return copysign(where(large, PI_2[kind] - (angle - PI_2_LOW[kind]), angle), x)


def atan2(y: Array, x: Array) -> Array:
    kind, a, b = x.dtype.name, abs(y), abs(x)
    steep = a > b
    quotient = where(steep, b, a) / where(steep, a, b)
    # 0/0 and inf/inf have no quotient: the angles are 0 and pi/4.
    angle = _odd(where(a == b, where(a == 0, a, 1.0), quotient), _ATAN)
    back = is_negative(x)
    quarters = where(steep, x.dtype.type(1), where(back, x.dtype.type(2), 0.0))
    angle = where(steep ^ back, -angle, angle)
    value = quarters * PI_2[kind] + (angle + quarters * PI_2_LOW[kind])
    return copysign(value, y)


_ASIN = {
    "float32": (
        0.0419848263, 0.0242973026, 0.0454434454, 0.0749554932, 0.166667446,
    ),
    "float64": (
        0.031491650602512175, -0.015575423896484307, 0.019088962427760644,
        0.0066994997917424687, 0.012126546220956385, 0.013892283799690472,
        0.017358922843269953, 0.022371815609720156, 0.030381956425758992,
        0.044642856904400646, 0.075000000002264228, 0.16666666666666005,
    ),
}  # fmt: skip
"""(asin(s) / s - 1) / s**2 in s**2, for s up to 1/2."""


def _half_angle(x: Array) -> tuple[Array, Array, Array]:
    """Tell whether |x| < 1/2, and s in two parts with a tail: asin(s) is their sum.

    s is |x|, or else sqrt((1 - |x|) / 2), the first part of which has an exact square.
    """
    size = abs(x)
    small = size < 0.5
    z = where(small, size * size, (1 - size) * 0.5)
    root = sqrt_p.bind(z)
    s = where(small, size, root)
    tail = (s * z) * polynomial(z, _ASIN[x.dtype.name])
    top = from_bits(bits(root) & (-1 << (27 if is_wide(x) else 12)))
    low = (z - top * top) / (root + where(z == 0, z + 1, top))
    return small, where(small, size, top), where(small, tail, low + tail)


def asin(x: Array) -> Array:
    kind = x.dtype.name
    small, s, tail = _half_angle(x)
    large = (PI_2[kind] - (s + s)) - ((tail + tail) - PI_2_LOW[kind])
    return copysign(where(small, s + tail, large), x)


def acos(x: Array) -> Array:
    kind = x.dtype.name
    small, s, tail = _half_angle(x)
    left = x < 0
    middle = PI_2[kind] - (x - (PI_2_LOW[kind] - where(left, -tail, tail)))
    s, tail = s + s, tail + tail
    ends = where(left, (2 * PI_2[kind] - s) - (tail - 2 * PI_2_LOW[kind]), s + tail)
    return where(small, middle, ends)


# Hyperbolic functions -----------------------------------------------------------------------------

_SINH = {
    "float32": (
        2.81684925e-06, 0.000198361813, 0.0083333496, 0.166666672,
    ),
    "float64": (
        2.8481587610841859e-15, 7.6464859621460198e-13, 1.6059050549519561e-10,
        2.5052108346966903e-08, 2.7557319224114023e-06, 0.00019841269841269605,
        0.0083333333333333332, 0.16666666666666666,
    ),
}  # fmt: skip
"""(sinh(x) / x - 1) / x**2 in x**2, for x up to 1."""


def sinh(x: Array) -> Array:
    size = abs(x)
    half = half_exp(size)
    value = where(size < 1, _odd(size, _SINH), half - 0.25 / half)
    return copysign(value, x)


def cosh(x: Array) -> Array:
    half = half_exp(abs(x))
    return half + 0.25 / half


_ASINH = {
    "float32": (
        -0.000393962691, 0.00242458051, -0.00707049761, 0.0136359092, -0.0210233927,
        0.0300717186, -0.0446014181, 0.0749972537, -0.166666597,
    ),
    "float64": (
        2.0070523353650532e-06, -2.3094034389567687e-05, 0.00012629877337614251,
        -0.0004393470050162316, 0.0011009643868522886, -0.0021431973724213883,
        0.0034320821053709905, -0.0047567728299004212, 0.0059852512787590675,
        -0.0071363494417051362, 0.0083365006069410757, -0.0097486207341963178,
        0.011549371055447429, -0.013964499486082187, 0.017352728628422756,
        -0.022372156476993976, 0.030381944318717949, -0.044642857139257155,
        0.074999999999948774, -0.16666666666666644,
    ),
}  # fmt: skip
"""(asinh(x) / x - 1) / x**2 in x**2, for x up to 1."""


def _log_of_sum(size: Array, root: Callable[[Array], Array]) -> Array:
    """log(size + root(size)), where size**2 - root(size)**2 is 1 or -1; inf, NaN of themselves."""
    large = size > (2.0**28 if is_wide(size) else 2.0**12)  # of which the root is the size
    inside = where(large, size.dtype.type(2), size)
    other = root(inside)
    total = where(large, size, inside + other)
    lost = min_p.bind(inside, other) - (total - max_p.bind(inside, other))
    # What rounding the sum lost over the sum, whose inverse is the difference.
    lost = where(large, size.dtype.type(0), lost * abs(other - inside))
    value = log_of_normal(total, lost) + where(large, size.dtype.type(math.log(2)), 0.0)
    return where(size < math.inf, value, size)


def asinh(x: Array) -> Array:
    size = abs(x)
    value = _log_of_sum(size, lambda s: sqrt_p.bind(fma(s, s, 1.0)))
    return copysign(where(size < 1, _odd(size, _ASINH), value), x)


_ACOSH = {
    "float32": (
        -2.70749879e-05, 0.000176119429, -0.000632559881, 0.0018715167, -0.00557415839,
        0.0187493246, -0.083333306,
    ),
    "float64": (
        -6.494637913964995e-09, 6.613416274816801e-08, -3.3430151878866499e-07,
        1.1556315491455626e-06, -3.2063681719159634e-06, 7.9536098129006086e-06,
        -1.8946520379257939e-05, 4.5080157179072812e-05, -0.00010908838070936229,
        0.00027113461981710961, -0.00069912966020473154, 0.001898871500638761,
        -0.0055803571414564483, 0.018749999999963875, -0.083333333333333023,
    ),
}  # fmt: skip
"""(acosh(1 + t) / sqrt(2 t) - 1) / t in t, for t up to 1."""


def acosh(x: Array) -> Array:
    t = x - 1
    root = sqrt_p.bind(t + t)
    near = fma(root * t, polynomial(t, _ACOSH[x.dtype.name]), root)
    value = _log_of_sum(x, lambda s: sqrt_p.bind((s - 1) * (s + 1)))
    return where(x < 2, near, value)


_ATANH = {
    "float32": (
        0.175637767, 0.0521785691, 0.117995985, 0.142260596, 0.200023144,
        0.333333045,
    ),
    "float64": (
        0.22140689911239841, -0.14727819171971279, 0.1407755698148222,
        0.016357969615948712, 0.059322707720421246, 0.057838985948618186,
        0.066767015964387805, 0.076916066837321329, 0.09090941679881176,
        0.1111111015653992, 0.14285714301703092, 0.19999999999872958,
        0.33333333333333637,
    ),
}  # fmt: skip
"""(atanh(x) / x - 1) / x**2 in x**2, for x up to 1/2."""


def atanh(x: Array) -> Array:
    size = abs(x)
    value = log((1 + size) / (1 - size)) * 0.5
    return copysign(where(size < 0.5, _odd(size, _ATANH), value), x)


# Roots and powers ---------------------------------------------------------------------------------

_CBRT_TERMS = (35 / 243, 14 / 81, 2 / 9, 1 / 3)
_CBRT = {"float32": (_CBRT_TERMS,), "float64": (_CBRT_TERMS, _CBRT_TERMS[-2:])}
_CBRT_GUESS = 4 / 3 * (127 - 0.0423) * 2**23, 4 / 3 * (1023 - 0.0423) * 2**20
"""The steps towards x**(-1/3): ((1 - d)**(-1/3) - 1) / d in d."""


def cbrt(x: Array) -> Array:
    """x y**2 for y = x**(-1/3): a guess by its bits, then series in 1 - x y**3; no division."""
    wide, size = is_wide(x), abs(x)
    lift = 108 if wide else 48
    tiny = size < (2.0**-900 if wide else 2.0**-64)  # whose defects would be subnormal
    normal = where(tiny, size * 2.0**lift, size)
    # A third of the bits, of float64 of their upper half: divisions of integers make no vectors.
    if wide:
        third = to_float(bits(normal) >> 32) * (1 / 3)
        guess = (1.5 * 2.0**52 + _CBRT_GUESS[1]) - third
        y = from_bits(bits(guess) << 32)
    else:
        third = bits(normal).astype("float32") * (1 / 3)
        y = from_bits((_CBRT_GUESS[0] - third).astype("int32"))
    for terms in _CBRT[x.dtype.name]:
        defect = 1 - ((normal * y) * y) * y
        y = fma(y * defect, polynomial(defect, terms), y)
    root = (normal * y) * y
    # The rounding of y goes with a last step, in which only that of the root's cube counts.
    root = fma(normal - (root * root) * root, (y * y) * (1 / 3), root)
    root = where(tiny, root * 2.0 ** -(lift // 3), root)
    plain = (size == 0) | (size == math.inf) | (size != size)
    return copysign(where(plain, size, root), x)


# 2 / (3 ln 2) and ln 2, whose first parts have products of half numbers that are exact.
_THIRDS = 0.96179669392597560491
_THIRDS_HI, _THIRDS_LO = 9.61796700954437255859e-01, -7.02846165095275826516e-09
_LN2 = math.log(2)
_LN2_TOP, _LN2_REST = 6.93147182464599609375e-01, -1.90465429995776804525e-09


def _half(x: Array) -> Array:
    """Return the first half of a number's bits: products of two halves are exact."""
    return from_bits(bits(x) & (-1 << 27))


def _long_log2(x: Array, lifted: Array) -> tuple[Array, Array]:
    """Return the binary logarithm of a positive normal number as half a number and a rest.

    lifted: what is taken off. The series is that of the inverse hyperbolic tangent of f / g, the
    arithmetic fdlibm's: nothing relies on how often a product and a sum are rounded.
    """
    fraction, k = split_exponent(x)
    exponent = to_float(k) - lifted
    f, g = fraction - 1, fraction + 1
    inverse = 1 / g
    s = f * inverse
    s_top, g_top = _half(s), _half(g)
    s_low = ((f - s_top * g_top) - s_top * (fraction - (g_top - 1))) * inverse
    z = s * s
    rest = fma(z * z, polynomial(z, [3 / n for n in range(25, 3, -2)]), s_low * (s_top + s))
    square = s_top * s_top
    series = _half((square + 3) + rest)
    series_low = rest - ((series - 3) - square)
    product, low = s_top * series, fma(s_low, series, series_low * s)
    top = _half(product + low)
    low = low - (top - product)
    low = fma(top, _THIRDS_LO, low * _THIRDS)
    total = _half((top * _THIRDS_HI + low) + exponent)
    return total, low - ((total - exponent) - top * _THIRDS_HI)


@in_double
def power(x: Array, y: Array) -> Array:
    """x**y for doubles; the base's sign and the special cases of C99 Annex F."""
    size, inf = abs(x), x.dtype.type(math.inf)
    tiny = size < 2.0**-1022
    log, log_low = _long_log2(where(tiny, size * 2.0**54, size), where(tiny, size * 0 + 54, 0.0))
    y_top = _half(y)
    high, low = y_top * log, fma(y - y_top, log, y * log_low)
    total = high + low
    whole, n = round_scaled(clamp(total, -1100.0, 1100.0), 1.0)
    high = high - whole
    top = _half(high + low)
    low = fma(low - (top - high), _LN2, top * _LN2_REST)
    r = top * _LN2_TOP + low
    lost = low - (r - top * _LN2_TOP)
    value = ldexp_p.bind(exp_near_zero(r, lost), n)
    value = where(total > 1025, inf, where(total < -1080, 0.0, value))
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
