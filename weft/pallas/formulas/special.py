# Tests: tests/pallas/test_cpu_math.py
"""The error function, its inverse, and the gamma function.

Float32 goes through float64 but for erf and erf_inv, which kernels of networks use. Sources: Cephes
(erff), fdlibm (erf, erfc), and those named beside the functions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from weft.ops.transcendental import exp_p, sqrt_p
from weft.pallas.formulas.elementary import exp, log, log1p, sin
from weft.pallas.formulas.language import (
    clamp,
    copysign,
    floor,
    fma,
    in_double,
    is_wide,
    polynomial,
    where,
)

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
        size, near, middle, tail = _erf_parts(x)
        value = where(size < 1.25, middle + _ERF_AT_1, 1 - tail)
        return copysign(where(size >= 0.84375, value, fma(size, near, size)), x)
    size = abs(x)
    small = fma(x, polynomial(x * x, _ERF_FLOAT), x)
    bounded = clamp(size, 1.0, 4.0)
    inverse = 1 / bounded
    q = inverse * inverse
    fit = where(bounded < 2, polynomial(q, _ERFC_FLOAT_NEAR), polynomial(q, _ERFC_FLOAT_FAR))
    tail = exp_p.bind(-(bounded * bounded)) * inverse * fit
    return where(size >= 1, copysign(1 - tail, x), small)


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


_HALF_ROOT_PI = math.sqrt(math.pi) / 2


def erf_inv(x: Array) -> Array:
    """M. Giles, "Approximating the erfinv function", 2011, to about 1e-7; in float64 with two steps
    of Newton's method on erfc."""
    w = -log1p(-(x * x))
    near = w < 5
    t = where(near, w - 2.5, sqrt_p.bind(w) - 3)
    y = where(near, polynomial(t, _ERF_INV_NEAR), polynomial(t, _ERF_INV_FAR)) * x
    if is_wide(x):
        size, rest = abs(y), 1 - abs(x)
        for _ in range(2):
            size = fma(_erfc(size) - rest, exp(size * size) * _HALF_ROOT_PI, size)
        y = where(abs(x) < 1e-5, x * _HALF_ROOT_PI, copysign(size, x))
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
