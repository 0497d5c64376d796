"""Functions of complex numbers whose parts cancel in plain formulas, against mpmath's values."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax

TABLES = {
    "log": (
        (0.7035349607467651, 0.7070953845977783, -0.0025337470875867914, 0.7879221529757049),
        (0.7660284638404846, 1.000000013351432e-10, -0.26653595087124166, 1.3054345374294979e-10),
        (-0.7656000256538391, 9.999999682655225e-21, -0.2670954053352438, 3.141592653589793),
        (0.6000000238418579, -0.800000011920929, 2.3841857696993432e-08, -0.9272952060806836),
        (3.0000000095132306e-30, 1.9999999593223797e-31, -67.97672319955228, 0.06656816221543307),
        (-1.9999999124047052e25, 6.999999844737416e22, 58.25778058657619, 3.1380926678056955),
        (1.0000001192092896, 0.0003000000142492354, 1.642092739662907e-07, 0.00029999996948645353),
        (-5.0, 12.0, 2.5649493574615367, 1.965587446494658),
    ),
    "log1p": (
        (-0.23426289856433868, 0.019553299993276596, -0.266590459125935, 0.025529717327630694),
        (-0.8973103761672974, 0.11483210325241089, -1.8704745084330854, 0.8411622048702515),
        (
            9.999999682655225e-21,
            -2.9999999047965676e-21,
            9.999999682655225e-21,
            -2.9999999047965676e-21,
        ),
        (-0.24500000476837158, 0.1289999932050705, -0.26664981562185575, 0.16922677546449438),
        (-1.899999976158142, 0.4300000071525574, -0.0025565431697131273, 2.695880324186305),
        (2.0000000400817547e20, 100000.0, 46.744849060481734, 4.999999899795615e-16),
    ),
    "tanh": (
        (3.799999959142042e-08, 1.570796251296997, 5319198.910089532, 10568114.455593996),
        (-0.014600000344216824, 1.5839999914169312, -37.68260112098543, -34.06985620228282),
        (0.11999999731779099, 4.6000001030499504e-10, 0.1194272958904329, 4.534390858163137e-10),
        (2.5, -4.71238899230957, 1.0135673098126086, 3.2577213056688433e-10),
        (30.0, 0.75, 1.0, 1.7469151171868447e-26),
        (-0.20000000298023224, 7.85398006439209, -5.066489489611265, 3.872052365466144e-05),
    ),
    "tan": (
        (-4.71238899230957, 3.799999959142042e-08, 7517879.1039571315, 23956584.21578417),
        (1.570796251296997, -9.999999717180685e-10, 13243078.232559077, -175409.8847404152),
        (1.5700000524520874, 0.004699999932199717, 35.040771099799585, 206.8308721313539),
        (0.30000001192092896, -25.0, 2.1781082453353724e-22, -1.0),
        (-2.0, 0.5, 0.8508781211449377, 1.3212865837711918),
    ),
    "logistic": (
        (-5.800000124622784e-08, -9.42477798461914, -14747720.07611098, 6064303.485250158),
        (0.0010000000474974513, 3.1415927410125732, 1000.5000281931456, -0.087422763745626),
        (-20.5, 1.25, 3.9420115643637744e-10, 1.1863758411089765e-09),
        (17.0, -0.5, 0.9999999636686294, -1.9847917263960196e-08),
        (-0.75, 2.4000000953674316, -0.2377823599525067, 0.6060253284054755),
        (0.5, 0.0, 0.6224593312018546, 0.0),
    ),
    "exp2": (
        (-92.74839782714844, -12.462249755859375, -8.490056699529666e-29, -8.510568229759746e-29),
        (100.5, 18.375, 1.7668226937490133e30, 3.036670172597955e29),
        (0.25, 45.5, 1.1803288628052728, 0.1450425385943953),
        (-20.0, -33.125, -5.396214666513301e-07, 7.863226910766314e-07),
    ),
    "rsqrt": (
        (-1.2695000171661377, -1.2799999775381377e-12, 4.474359751902475e-13, 0.887531231488389),
        (
            -2.9999999838992083e25,
            1.0000000200408773e20,
            3.0429031827088143e-19,
            -1.8257418632422614e-13,
        ),
        (2.0, -3.0, 0.464325452650815, 0.24849944091130338),
        (-1.0000000031710769e-30, 5.000000015855384e-31, 217286896407123.47, -920442063800529.8),
        (0.5, 9.0, 0.241964755076945, -0.2288953834082283),
    ),
}
"""Function -> the parts of points and of the values there, by mpmath."""
POWERS = (
    (
        -2.6000000763470865e-12,
        1.8999999490398878e-11,
        -0.75,
        2.25,
        2268721.3677465213,
        -592284.6742190198,
    ),
    (
        -4.666999816894531,
        -2.6549999713897705,
        -4.840000152587891,
        4.980000019073486,
        -84.30557419744972,
        110.55652039101419,
    ),
    (1.5, 0.25, 2.0, 0.0, 2.1875, 0.75),
    (
        3.000000058624444e-25,
        -9.999999887266023e-27,
        -1.25,
        -0.5,
        -4.4265098245596173e30,
        -2.0913498961082485e26,
    ),
    (
        -867.5,
        0.14000000059604645,
        -0.28999999165534973,
        0.30000001192092896,
        0.02393159314962219,
        0.04927434131484203,
    ),
    (1.9999999961012896e19, 3.000000060122632e20, 0.5, 1.5, -1296501392.5658064, 1271645033.126326),
)
"""The parts of bases, of exponents and of powers."""


def numbers(parts, dtype):
    z = np.zeros(len(parts[0]), dtype)
    z.real, z.imag = parts
    return z


def check(out, exact, units):
    """The distance to the exact values, in units of the last place of their larger part."""
    size = np.maximum(abs(exact.real), abs(exact.imag)).astype(out.real.dtype)
    assert (abs(out - exact) <= units * np.spacing(size)).all(), (out, exact)


@pytest.mark.parametrize("size", [1, 900])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", TABLES)
def test_values_are_within_some_units_of_the_tables(name, dtype, size):
    a, b, re, im = np.repeat(np.array(TABLES[name]), size, 0).T
    with weft.enable_x64(True):
        out = np.asarray(weft.jit(getattr(lax, name))(numbers((a, b), dtype)))
    check(out, numbers((re, im), complex), 5)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["log", "rsqrt", "tanh"])
def test_small_parts_beside_large_ones_have_all_digits(name, dtype):
    a, b, re, im = np.array(TABLES[name]).T
    with weft.enable_x64(True):
        out = np.asarray(getattr(lax, name)(numbers((a, b), dtype)))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(out.real, re, rtol=20 * eps)
    np.testing.assert_allclose(out.imag, im, rtol=20 * eps)


def test_powers_of_complex64_are_rounded_once():
    a, b, c, d, re, im = np.array(POWERS).T
    out = np.asarray(wnp.power(numbers((a, b), "complex64"), numbers((c, d), "complex64")))
    check(out, numbers((re, im), complex), 2)


def test_errors_of_powers_of_complex128_are_those_of_their_logarithms():
    a, b, c, d, re, im = np.array(POWERS).T
    with weft.enable_x64(True):
        out = np.asarray(wnp.power(numbers((a, b), complex), numbers((c, d), complex)))
    check(out, numbers((re, im), complex), 300)


def test_powers_of_exponent_zero_are_one():
    z = np.array([0, 2 - 1j, np.inf, complex(0, np.inf)], "complex64")
    np.testing.assert_array_equal(lax.pow(z, np.zeros_like(z)), np.ones(4))


def test_derivatives_are_those_of_the_functions():
    z = np.complex64(0.5 + 0.25j)
    slopes = {
        "log": 1 / z,
        "tan": 1 + np.tan(z) ** 2,
        "logistic": np.exp(-z) / (1 + np.exp(-z)) ** 2,
        "rsqrt": -0.5 / (z * np.sqrt(z)),
    }
    for name, expected in slopes.items():
        _, slope = weft.jvp(getattr(lax, name), (z,), (np.complex64(1),))
        np.testing.assert_allclose(slope, expected, rtol=1e-5)
