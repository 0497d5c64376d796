# Tests: tests/pallas/test_cpu_math.py
"""The error function, its inverse, and the gamma function.

Float32 goes through float64 but for erf and erf_inv, which kernels of networks use. Sources: Cephes
(erff), fdlibm (erf, erfc), and those named beside the functions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from weft.formulas.elementary import exp, log, log1p, sin, tan
from weft.formulas.language import (
    clamp,
    copysign,
    floor,
    fma,
    in_double,
    is_wide,
    polynomial,
    where,
)
from weft.ops.arithmetic import round_p
from weft.ops.transcendental import exp_p, sqrt_p

if TYPE_CHECKING:
    from weft.runtime.array import Array

# The error function -------------------------------------------------------------------------------

_ERF_SMALL = (
    (
        -2.37630166566501626084e-05, -5.77027029648944159157e-03, -2.84817495755985104766e-02,
        -3.25042107247001499370e-01, 1.28379167095512558561e-01,
    ),
    (
        -3.96022827877536812320e-06, 1.32494738004321644526e-04, 5.08130628187576562776e-03,
        6.50222499887672944485e-02, 3.97917223959155352819e-01, 1.0,
    ),
)  # fmt: skip
_ERF_AT_1 = 8.45062911510467529297e-01
_ERF_MIDDLE = (
    (
        -2.16637559486879084300e-03, 3.54783043256182359371e-02, -1.10894694282396677476e-01,
        3.18346619901161753674e-01, -3.72207876035701323847e-01, 4.14856118683748331666e-01,
        -2.36211856075265944077e-03,
    ),
    (
        1.19844998467991074170e-02, 1.36370839120290507362e-02, 1.26171219808761642112e-01,
        7.18286544141962662868e-02, 5.40397917702171048937e-01, 1.06420880400844228286e-01, 1.0,
    ),
)  # fmt: skip
_ERFC_NEAR = (
    (
        -9.81432934416914548592e00, -8.12874355063065934246e01, -1.84605092906711035994e02,
        -1.62396669462573470355e02, -6.23753324503260060396e01, -1.05586262253232909814e01,
        -6.93858572707181764372e-01, -9.86494403484714822705e-03,
    ),
    (
        -6.04244152148580987438e-02, 6.57024977031928170135e00, 1.08635005541779435134e02,
        4.29008140027567833386e02, 6.45387271733267880336e02, 4.34565877475229228821e02,
        1.37657754143519042600e02, 1.96512716674392571292e01, 1.0,
    ),
)  # fmt: skip
_ERFC_FAR = (
    (
        -4.83519191608651397019e02, -1.02509513161107724954e03, -6.37566443368389627722e02,
        -1.60636384855821916062e02, -1.77579549177547519889e01, -7.99283237680523006574e-01,
        -9.86494292470009928597e-03,
    ),
    (
        -2.24409524465858183362e01, 4.74528541206955367215e02, 2.55305040643316442583e03,
        3.19985821950859553908e03, 1.53672958608443695994e03, 3.25792512996573918826e02,
        3.03380607434824582924e01, 1.0,
    ),
)  # fmt: skip


def _ratio(z: Array, fit: tuple) -> Array:
    return polynomial(z, fit[0]) / polynomial(z, fit[1])


def _erf_parts(x: Array) -> tuple[Array, Array, Array, Array]:
    """|x|, (erf(x) - x)/x near 0, erf(|x|) - erx in the middle, erfc(|x|) beyond 1.25."""
    size = abs(x)
    near = _ratio(x * x, _ERF_SMALL)
    middle = _ratio(size - 1, _ERF_MIDDLE)
    bounded = clamp(size, 0.5, 28.0)
    inverse = 1 / (bounded * bounded)
    fit = where(bounded < 1 / 0.35, _ratio(inverse, _ERFC_NEAR), _ratio(inverse, _ERFC_FAR))
    square = bounded * bounded
    low = fma(bounded, bounded, -square)
    return size, near, middle, exp(-square) * exp((fit - 0.5625) - low) / bounded


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
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1,
    6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1,
    5.638259427386472e-1,
)  # fmt: skip
_ERFC_FLOAT_FAR = (
    -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786,
    -1.015265279202700, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1,
)  # fmt: skip


def erf(x: Array) -> Array:
    """In float32 by Cephes' erff, whose fits are short; it is the gelu's function."""
    if is_wide(x):
        return _erf_double(x)
    size = abs(x)
    small = fma(x, polynomial(x * x, _ERF_FLOAT), x)
    bounded = clamp(size, 1.0, 4.0)
    inverse = 1 / bounded
    q = inverse * inverse
    fit = where(bounded < 2, polynomial(q, _ERFC_FLOAT_NEAR), polynomial(q, _ERFC_FLOAT_FAR))
    tail = exp_p.bind(-(bounded * bounded)) * inverse * fit
    return where(size >= 1, copysign(1 - tail, x), small)


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


@in_double
def erfc(x: Array) -> Array:
    return _erfc(x)


def _erfc(x: Array) -> Array:
    size, near, middle, tail = _erf_parts(x)
    below = x < 0
    # Near 0.5 and above, 1 - x is not exact: 0.5 - (x - 0.5 + x*near) is.
    small = where(x < 0.25, 1 - fma(x, near, x), 0.5 - fma(x, near, x - 0.5))
    inside = where(below, middle + (1 + _ERF_AT_1), (1 - _ERF_AT_1) - middle)
    value = where(size < 1.25, inside, where(below, 2 - tail, tail))
    # At NaN, too: its arithmetic gives NaN again.
    return where(size >= 0.84375, value, small)


_ERF_INV_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_ERF_INV_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
"""In w = -log(1 - x**2) less 2.5, or in its root less 3."""
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
    8.9464933245723539e-08, -2.6999558221443944e-07, 2.1208953881506056e-08,
    1.4977545333064364e-06, -4.016666008345284e-06, 2.9259930987603529e-06,
    1.2476696721932391e-05, -4.731897231856042e-05, 6.8284459419130735e-05,
    2.4031234117683706e-05, -0.00035503745820686687, 0.00095328936865012297,
    -0.0016882755612013917, 0.0024914420965725759, -0.0037512085073778049,
    0.0053709145535834682, 1.0052589676941572, 3.0838856104922208,
)  # fmt: skip
_ERF_INV_TO_37 = (
    -7.1648301271266377e-12, -2.465538083758516e-10, 1.4290614145793241e-09,
    -3.8238284841755385e-09, 7.7406714420494427e-09, -1.4907761475005532e-08,
    2.9045409250825009e-08, -6.7752316994676023e-08, 2.2905087790705948e-07,
    -9.929661629777993e-07, 4.5260515481101733e-06, -1.9681781574168446e-05,
    7.5995278301837704e-05, -0.00021503011898338091, -0.00013871931839011883,
    1.0103004648645262, 4.8499064014085844,
)  # fmt: skip


def erf_inv(x: Array) -> Array:
    """M. Giles, "Approximating the erfinv function", 2011, in float32 to about 1e-7."""
    if is_wide(x):
        w = -log((1 - x) * (1 + x))
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
        w = -log1p(-(x * x))
        near = w < 5
        t = where(near, w - 2.5, sqrt_p.bind(w) - 3)
        y = where(near, polynomial(t, _ERF_INV_NEAR), polynomial(t, _ERF_INV_FAR)) * x
    return where(abs(x) == 1, copysign(math.inf, x), y)


# The gamma function -------------------------------------------------------------------------------

_LANCZOS_G = 7.0
_LANCZOS_FIRST = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894, -176.61502916214059906584551354,
    12.507343278686904814458936853, -0.13857109526572011689554707, 9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)  # fmt: skip
"""C. Lanczos, "A precision approximation of the gamma function", 1964, for g = 7."""


@in_double
def lgamma(x: Array) -> Array:
    reflected = x < 0.5
    z = where(reflected, -x, x - 1)
    series: Any = _LANCZOS_FIRST
    for k, c in enumerate(_LANCZOS):
        series = series + c / (z + (k + 1))
    t = z + (_LANCZOS_G + 0.5)
    log_t = log(t)
    factor = (z + 0.5) - t / log_t
    value = fma(factor, log_t, 0.5 * math.log(2 * math.pi)) + log(series)
    size = abs(x)
    part = size - floor(size)
    wave = sin(where(part > 0.5, 1 - part, part) * math.pi)
    value = where(reflected, (math.log(math.pi) - log(wave)) - value, value)
    return where(size == math.inf, size, where(x != x, x, value))


_SHIFT_PRODUCTS = (0.0, 8.0, 14.0, 18.0, 20.0)
"""(y + k) (y + 9 - k) less y (y + 9), for k of 0 to 4."""


def bernoulli(count: int) -> list[float]:
    """B(2), B(4), …, by the recurrence of their binomial sums."""
    numbers = [1.0, -0.5]
    for n in range(2, 2 * count + 1):
        numbers.append(-sum(math.comb(n + 1, k) * numbers[k] for k in range(n)) / (n + 1))
    return numbers[2::2]


@in_double
def digamma(x: Array) -> Array:
    """Return log(z) less its series from z = x + 10 on, and its reflection below 1/2.

    Source: M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions", 1964, 6.3.
    """
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
    part = x - round_p.bind(x, rounding_method=1)
    value = where(reflected, value - math.pi / tan(part * math.pi), value)
    value = where(x == math.inf, x, value)
    return where(((x <= 0) & (part == 0)) | (x == -math.inf), math.nan, value)
