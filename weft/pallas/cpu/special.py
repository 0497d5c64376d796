"""The error function, its inverse, and the gamma function.

Float32 goes through float64 but for erf and erf_inv, which kernels of networks use. Sources: Cephes
(erff), fdlibm (erf, erfc), and those named beside the functions.
"""

from __future__ import annotations

import math as constants

from weft.pallas.cpu.functions import in_double
from weft.pallas.cpu.math import Real, exp, log, log1p, sin

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


def _lgamma(m: Real, x: str) -> str:
    reflected = m.compare("olt", x, m.c(0.5))
    z = m.select(reflected, m.neg(x), m.sub(x, m.c(1)))
    series = m.c(_LANCZOS_FIRST)
    for k, c in enumerate(_LANCZOS):
        series = m.add(series, m.div(m.c(c), m.add(z, m.c(k + 1))))
    t = m.add(z, m.c(_LANCZOS_G + 0.5))
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


erfc = in_double(_erfc)
lgamma = in_double(_lgamma)
