# Tests: tests/pallas/test_cpu_math.py
"""The error function, its inverse, and the gamma function.

Float32 goes through float64 but for the error functions, which kernels of networks use. Fits are by
Remez' exchange; sources of methods are named beside the functions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.formulas.elementary import exp, log, sin, sin_cos_near_zero, split_expm1
from weft.formulas.language import (
    bits,
    clamp,
    copysign,
    floor,
    fma,
    from_bits,
    in_double,
    is_wide,
    ldexp_p,
    polynomial,
    where,
)
from weft.ops.arithmetic import round_p
from weft.ops.transcendental import log_p, sqrt_p

if TYPE_CHECKING:
    from weft.runtime.array import Array

# The error function -------------------------------------------------------------------------------

_ERF_FLOAT = (
    -8.59871754e-6, 0.000108699752, -0.000842638321, 0.00521686271, -0.0268638851, 0.112837552,
    -0.376126367, 0.128379167,
)  # fmt: skip
"""(erf(x) - x) / x in x**2, for x up to 1.125."""
_ROOT_ERFC = (
    -1.2371552e-5, -8.37778447e-5, 0.00168092521, -0.00610052898, -0.00314475814, 0.0504958112,
    0.00441491163, -0.415498012, 0.629770143,
)  # fmt: skip
"""erfc(x)**(1/4) in x - 1, to 3.93, where erf(x) is 1; fitted by the error of its fourth power."""


def erf(x: Array) -> Array:
    if is_wide(x):
        return _erf_double(x)
    size = abs(x)
    near = fma(x, polynomial(x * x, _ERF_FLOAT), x)
    root = polynomial(where(size > 3.93, 3.93, size) - 1, _ROOT_ERFC)
    square = root * root
    return where(size < 1.125, near, copysign(1 - square * square, x))


_ERF_TO_1 = (
    5.945208846413487e-11, -1.1365632663547331e-09, 1.4657870624604193e-08,
    -1.6350023747627671e-07, 1.64609726661924e-06, -1.49255934966061e-05,
    0.00012055331036426252, -0.00085483269787276406, 0.0052239776247805765,
    -0.026866170645072861, 0.11283791670954857, -0.37612638903183748,
    0.12837916709551259,
)  # fmt: skip
"""(erf(x) - x) / x in x**2, for x up to 1."""
_LOG_ERFC = (
    6.5034382181874218e-15, -2.8355313559310815e-13, 5.7364076978742751e-12,
    -7.1474447314469578e-11, 6.1293770660183636e-10, -3.8136069951452016e-09,
    1.7491434959032329e-08, -5.7007950941135416e-08, 1.0429549975810445e-07,
    1.3660099783899917e-07, -2.056046492260372e-06, 9.6077176761703465e-06,
    -2.7159001309295237e-05, 2.6277803368489974e-05, 0.00023732262032594015,
    -0.001977902648031135, 0.010033825395595336, -0.041561098044500172,
    -0.84310725635852868, -2.6389675142347908, -1.8496055099332482,
)  # fmt: skip
"""log(erfc(x)) in x - 1, for x from 1 to 6, where erf(x) is 1."""


def _erf_double(x: Array) -> Array:
    size = abs(x)
    near = fma(x, polynomial(x * x, _ERF_TO_1), x)
    far = 1 - exp(polynomial(clamp(size, 1.0, 6.0) - 1, _LOG_ERFC))
    return where(size < 1, near, copysign(far, x))


_ERFC = {
    "float32": (
        -0.296484736, -0.27758591, 0.643603751, 0.00981051131, -1.52645041, 2.94864624,
        -3.38273607, 2.72853674, -1.5545167, 0.506016112,
    ),
    "float64": (
        -0.011515487722874454, -0.024716339709646682, 0.0012155437625059767,
        0.045319555696348754, 0.02469769905367279, -0.051118765090062454,
        -0.054067248489677235, 0.05086659011666589, 0.08820994418459722, -0.05615693756633425,
        -0.13657566893274234, 0.08856702919069587, 0.21191961662209577, -0.21364378969996287,
        -0.2924522269678453, 0.6297308573546783, 0.008896724091666567, -1.5257613170717994,
        2.9487375335333565, -3.3827473814093527, 2.728534960326865, -1.554516657577244,
        0.5060161165394593,
    ),
}  # fmt: skip
"""(erfc(x) exp(x**2) (1 + 2 x) - 1) / s in s - 1/2 for s = x / (x + 3), to where it underflows."""


def erfc(x: Array, *, of_root_half: bool = False) -> Array:
    """M. Shepherd, J. Laframboise, "Chebyshev approximation of (1 + 2 x) exp(x**2) erfc x", 1981.

    What rounding the quotient loses is added to it beside the exponential less 1, so that the
    product is rounded once. of_root_half: return erfc(x sqrt(1/2)) as of the exact product, whose
    rounding would change exp(-x**2 / 2) by x**2 times as much.
    """
    kind, wide = x.dtype.name, is_wide(x)
    factor, square = (math.sqrt(0.5), -0.5) if of_root_half else (1.0, -1.0)
    clamped = clamp(abs(x), 0.0, (28.0 if wide else 10.1) / factor)
    size = clamped * factor if of_root_half else clamped
    s = size / (size + 3)
    fit = fma(s, polynomial(s - 0.5, _ERFC[kind]), 1.0)
    below = fma(size, 2.0, 1.0)
    inverse = 1 / below
    quotient = fit * inverse
    lost = fma(-quotient, below, fit) * inverse
    # The square of the first half of the bits is exact; the rest is small.
    top = from_bits(bits(clamped) & (-1 << (27 if wide else 12)))
    rest = (top - clamped) * (top + clamped)
    less, n = split_expm1((top * top) * square, rest * -square)
    value = ldexp_p.bind(quotient + fma(quotient, less, lost), n)
    return where(x < 0, 2 - value, value)


_ERF_INV_NEAR = (
    -9.367794243e-9, 2.333813861e-7, -2.08591455e-6, 4.502212001e-6, 4.314364986e-5,
    -0.0001252149435, -0.00233631194, 0.01154955248, 0.2320136601,
)  # fmt: skip
_ERF_INV_FAR = (
    0.000125706944, -0.000317686707, -7.07736481e-5, 0.0014946019, -0.00359055213,
    0.00568360493, -0.00763859214, 0.00944564509, 1.00167504, 2.8329768,
)  # fmt: skip
"""In w = -log(1 - x**2) beside the value at 0, or in its root less 3."""
_HALF_ROOT_PI = math.sqrt(math.pi) / 2
# Of float64, by the greatest w: in w as it is, less 4; in its root less 3.25, less 5.
_ERF_INV_TO_2 = (
    1.2629586368262603e-13, -3.1657957202071678e-12, 2.739430851509112e-11,
    -5.8062680541287626e-11, -4.4353905241133629e-10, 6.4193699623425564e-10,
    2.2908133943703582e-08, -3.7380614712297605e-08, -1.0125083964463432e-06,
    2.0199713662888741e-06, 4.6611444909027972e-05, -0.00012804329499986597,
    -0.0023351016415409289, 0.011549342038267792, 0.23201366653465452,
)  # fmt: skip
_ERF_INV_TO_6 = (
    2.2697664608081406e-17, -2.9825628305777768e-16, 7.5793595845399521e-16,
    1.348221932545203e-14, -1.5416983477910332e-13, 4.6738980453073093e-13,
    5.2426578609056112e-12, -7.176768274350617e-11, 2.9099375911800729e-10,
    1.8500589437856394e-09, -3.3436457872180256e-08, 1.7724371780827026e-07,
    4.8654244110322095e-07, -1.5515141176127839e-05, 0.00011887778912814137,
    -0.00020397201750374944, -0.0072210599518378908, 0.22835468533769029,
    1.8587791124269735,
)  # fmt: skip
_ERF_INV_TO_16 = (
    -1.5102695423335064e-8, 6.969241977629694e-10, 1.3104351499972014e-7, -2.7134511054394561e-7,
    -2.7004219280868946e-8, 1.4987130784186126e-6, -3.986084395214756e-6, 2.9257291901789825e-6,
    1.2465167157087252e-5, -4.7318984120112455e-5, 6.8287086547533767e-5, 2.4031257015092524e-5,
    -0.00035503780975963811, 0.00095328936374356372, -0.0016882755357337072, 0.0024914420969817609,
    -0.0037512085082155611, 0.0053709145535716796, 1.0052589676941653, 3.0838856104922206,
)  # fmt: skip
_ERF_INV_TO_37 = (
    -1.6320962179941371e-11, 4.3103152359013069e-11, 5.1136029306794398e-11,
    -4.3859651175304178e-10, 1.3507496650455144e-9, -3.4694660413452833e-9, 7.7861300288933021e-9,
    -1.5256842433074981e-8, 2.9039515855085833e-8, -6.755522900318211e-8, 2.2904559101209625e-7,
    -9.9302968851155571e-7, 4.5260539273597682e-6, -1.9681770648501067e-5, 7.5995277961231122e-5,
    -0.00021503011983188415, -0.00013871931837512345, 1.0103004648645454, 4.8499064014085843,
)  # fmt: skip


def erf_inv(x: Array) -> Array:
    """Source: M. Giles, "Approximating the erfinv function", 2011."""
    w = -log((1 - x) * (1 + x))
    if is_wide(x):
        root = sqrt_p.bind(w)
        y = where(
            w < 16,
            polynomial(root - 3.25, _ERF_INV_TO_16),
            polynomial(root - 5, _ERF_INV_TO_37),
        )
        y = where(w < 6.25, polynomial(w - 4, _ERF_INV_TO_6), y)
        low = fma(w, polynomial(w, _ERF_INV_TO_2), _HALF_ROOT_PI)
        y = where(w < 2, low, y) * x
    else:
        near = fma(w, polynomial(w, _ERF_INV_NEAR), _HALF_ROOT_PI)
        y = where(w < 5, near, polynomial(sqrt_p.bind(w) - 3, _ERF_INV_FAR)) * x
    return where(abs(x) == 1, copysign(math.inf, x), y)


# The gamma function -------------------------------------------------------------------------------

_LOG_GAMMA = (
    -1.5069416728386754e-7, -5.9290805367051974e-7, -8.6694598780420401e-7,
    -1.7898878266475368e-7, 7.051540265756957e-7, 7.7398117341479863e-7, -3.0047995251347476e-7,
    1.4425579993472215e-8, -9.4034075442122039e-7, 1.911608575161866e-6, -3.8015976880951231e-6,
    8.207856505261183e-6, -1.7671676469105627e-5, 3.8169804769248772e-5, -8.3093919865148497e-5,
    0.00018255263768054602, -0.00040570748083887937, 0.00091537691933317461,
    -0.002108130830829956, 0.0049986411648252133, -0.012384192193425489, 0.032965000621154263,
    -0.10031730167435364, 0.42278433509846714,
)  # fmt: skip
"""lgamma(2 + u) / (u (u + 1)) for u from -1 to 1/2."""


@in_double
def lgamma(x: Array) -> Array:
    """Return log(|gamma(x)|): near 2, from there by products, Stirling's series from 8 on.

    Of negative numbers by reflection, to 2 ulp of its terms: near its zeros the error is theirs.
    """
    size = abs(x)
    u, product = size, x.dtype.type(1)
    for _ in range(6):  # from 8 to 2.5 and below
        above = u > 2.5
        u = where(above, u - 1, u)
        product = where(above, product * u, product)
    # Below 1 the product is a divisor: of gamma(x + 1) / x, gamma(x + 2) / (x (x + 1)).
    below = size < 1
    product = where(below, where(size < 0.5, fma(size, size, size), size), product)
    u = where(size < 0.5, size, where(below, u - 1, u - 2))
    large = size > 8
    logarithm = log(where(large, size, product))
    near = fma(u * (u + 1), polynomial(u, _LOG_GAMMA), where(below, -logarithm, logarithm))
    inverse = 1 / size
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(bernoulli(8), 1)]
    series = fma(inverse, polynomial(inverse * inverse, terms[::-1]), _HALF_LOG_TAU - 0.5)
    value = where(large, fma(size - 0.5, logarithm - 1, series), near)
    part = size - floor(size)
    wave = sin(where(part > 0.5, 1 - part, part) * math.pi)
    reflected = (math.log(math.pi) - log(wave * size)) - value
    reflected = where(wave == 0, math.inf, where(size < 2.0**-60, value, reflected))
    value = where(x < 0, reflected, value)
    return where(size == math.inf, size, where(size == 0, math.inf, value))


def lgamma_near_roots(x: Array, far: Array) -> Array:
    """Return lgamma(x) for x from 1/2 to 5/2, where its roots are, else what is known of it."""
    low = x < 1
    u = where(low, x - 1, x - 2)
    near = fma(u * (u + 1), polynomial(u, _LOG_GAMMA), where(low, -log_p.bind(x), 0.0))
    return where((x >= 0.5) & (x <= 2.5), near, far)


_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_SHIFT_PRODUCTS = (0.0, 8.0, 14.0, 18.0, 20.0)
"""(y + k) (y + 9 - k) less y (y + 9), for k of 0 to 4."""


def bernoulli(count: int) -> list[float]:
    """B(2), B(4), …, by the recurrence of their binomial sums."""
    numbers = [1.0, -0.5]
    for n in range(2, 2 * count + 1):
        numbers.append(-sum(math.comb(n + 1, k) * numbers[k] for k in range(n)) / (n + 1))
    return numbers[2::2]


_DIGAMMA_ROOT = 1.4616321449683622, 9.549995429965697e-17
_DIGAMMA_ABOVE = (
    2.775097709017378e-07, 0.00017525522538409035, 0.007068408256338002, 0.09070324377068241,
    0.4879892285981946, 1.1423094395852738, 0.9510558760318328,
)  # fmt: skip
_DIGAMMA_BELOW = (
    3.528229003932381e-05, 0.0020835317017686966, 0.036808768555845375, 0.2775452787254448,
    0.9935900959754306, 1.6465245632048646, 1.0,
)  # fmt: skip
"""digamma(x) over the distance to its root in x - 3/2, as a quotient, for x from 1 to 3."""


def _cotangent_of_half_turns(x: Array) -> Array:
    """Return pi / tan(pi x) for |x| <= 1/2, by sine and cosine of half the angle."""
    sin, cos = sin_cos_near_zero(x * (math.pi / 2))
    return ((cos - sin) * (cos + sin)) * math.pi / (2 * (sin * cos))


def _digamma_near_root(y: Array) -> Array:
    """Return digamma for y from 1/2 to 3, by that of y + 1 below 1."""
    low = y < 1
    x = where(low, y + 1, y)
    root, rest = _DIGAMMA_ROOT
    part = x - 1.5
    factor = polynomial(part, _DIGAMMA_ABOVE) / polynomial(part, _DIGAMMA_BELOW)
    value = fma(factor, x - root, factor * -rest)  # not (x - root) - rest: quirks.CONSTANT_SUMS
    return where(low, value - 1 / y, value)


def digamma_near_root(x: Array, far: Array) -> Array:
    """Return digamma(x) for x from 1/2 to 3, where its root is, else what is known of it."""
    return where((x >= 0.5) & (x < 3), _digamma_near_root(x), far)


def digamma(x: Array) -> Array:
    """Return log(z) less its series from z = x + 10 on, and its reflection below 1/2.

    Floats of 32 bits need no more digits near the root than the terms have.
    Source: M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions", 1964, 6.3.
    """
    near_root = is_wide(x)
    return in_double(lambda x: _digamma(x, near_root))(x)


def _digamma(x: Array, near_root: bool) -> Array:
    reflected = x < 0.5
    y = where(reflected, 1 - x, x)
    large = y > 2.0**30  # where ten terms 1 / (y + k) change nothing
    t = where(large, x.dtype.type(1), y * (y + 9))
    above, below = t * 0, t * 0 + 1
    for c in _SHIFT_PRODUCTS:  # the sum of 1 / (t + c) as one quotient
        above, below = fma(above, t + c, below), below * (t + c)
    terms = where(large, x.dtype.type(0), (y + y + 9) * (above / below))
    z = where(large, y, y + 10)
    inverse = 1 / z
    square = inverse * inverse
    coefficients = [b / (2 * k) for k, b in enumerate(bernoulli(8), 1)]
    series = square * polynomial(square, coefficients[::-1])
    value = log(z) - fma(inverse, 0.5, series) - terms
    if near_root:
        value = where(y < 3, _digamma_near_root(y), value)
    part = x - round_p.bind(x, rounding_method=1)
    value = where(reflected, value - _cotangent_of_half_turns(part), value)
    value = where(x == math.inf, x, value)
    return where(((x <= 0) & (part == 0)) | (x == -math.inf), math.nan, value)
