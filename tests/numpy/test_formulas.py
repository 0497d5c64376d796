"""Infinities, NaN, zeros and least integers: values against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp


def _edges(name, *operands):
    with np.errstate(all="ignore"):
        want = getattr(np, name)(*operands)
    got = getattr(wnp, name)(*operands)
    np.testing.assert_allclose(got, np.asarray(want, np.asarray(got).dtype), rtol=1e-5)


INF, NAN = np.float32(np.inf), np.float32(np.nan)
WITH_NAN = np.array([1, np.nan, 1 + 1j, complex(0, np.nan), -2j, complex(-2, np.inf)], np.complex64)


@pytest.mark.parametrize(
    "name, operands",
    [
        ("hypot", (np.array([INF, NAN, -INF, NAN, 3]), np.array([NAN, -INF, 1, 1, 4], np.float32))),
        ("modf", (np.array([INF, -INF, 2.5, -0.25, 0], np.float32),)),
        ("gcd", (np.array([5, -(2**31), 12], np.int32), np.array([-(2**31), 6, -9], np.int32))),
        ("power", (np.zeros(3, np.complex64), np.array([2, 0.5 + 1j, 3 - 2j], np.complex64))),
        ("float_power", (np.zeros(3, np.complex64), np.array([2, 0.5 + 1j, 3], np.complex64))),
        ("power", (np.array([2j, 0, 1], np.complex64), np.array([2, 0, 1j], np.complex64))),
        *(
            (name, (np.repeat(WITH_NAN, 6), np.tile(WITH_NAN, 6)))
            for name in ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum")
        ),
        *((name, (np.repeat(WITH_NAN, 6), np.tile(WITH_NAN, 6))) for name in ("fmax", "fmin")),
        ("exp2", (np.array([complex(np.inf, 0), complex(np.inf, 1), 2 + 1j], np.complex64),)),
    ],
)
def test_edge_values_are_those_of_numpy(name, operands):
    _edges(name, *operands)


def test_the_fraction_of_a_whole_number_has_a_derivative():
    x = np.array([2.0, 2.5, np.inf], np.float32)
    _, (slope, _) = weft.jvp(wnp.modf, (x,), (np.ones_like(x),))
    np.testing.assert_array_equal(slope, [1, 1, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_subnormal_numbers_have_fractions_and_exponents(dtype):
    info = np.finfo(dtype)
    x = np.array([info.smallest_subnormal, -info.tiny / 8, 3 * info.smallest_subnormal, 0], dtype)
    with weft.enable_x64(dtype == "float64"):
        for got, want in zip(wnp.frexp(x), np.frexp(x), strict=True):
            np.testing.assert_array_equal(got, want)


def test_truth_values_unwrap_to_floats():
    got = wnp.unwrap(np.array([True, False]))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [1, 0])


def test_the_fraction_has_slope_1_in_reverse_also_at_0_and_nan():
    x = np.array([0.0, -0.0, 1e-30, 2.5, np.nan], np.float32)
    _, pull = weft.vjp(lambda x: wnp.modf(x)[0], x)
    np.testing.assert_array_equal(pull(np.ones_like(x))[0], np.ones(5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sinc_is_exact_near_integers(dtype):
    with weft.enable_x64(True):
        whole = np.array([-374830.0, -3.0, 1.0, 2.0, 17.0, 1e6], dtype)
        np.testing.assert_array_equal(wnp.sinc(whole), 0)
        x = whole + dtype(2**-4) * np.array([1, -1, 1, -1, 1, 1], dtype)
        part = (x - np.round(x)).astype(np.float64)
        sign = np.where(np.round(x) % 2, -1, 1)
        want = sign * np.sin(np.pi * part) / (np.pi * x.astype(np.float64))
        np.testing.assert_allclose(wnp.sinc(x), want, rtol=5 * np.finfo(dtype).eps)


def test_sinc_has_a_slope_far_from_0_in_reverse():
    x = np.array([1e-8, 0.05, 50.3, 5e3], np.float64)
    want = np.cos(np.pi * x) / x - np.sin(np.pi * x) / (np.pi * x**2)
    want[0] = -(np.pi**2) * x[0] / 3
    with weft.enable_x64(True):
        np.testing.assert_allclose(weft.vmap(weft.grad(wnp.sinc))(x), want, rtol=1e-9)
    for far in (1e10, 1e30):
        assert np.isfinite(weft.grad(wnp.sinc)(np.float32(far)))


@pytest.mark.parametrize("exponent, slope", [(1, 1), (2, 0), (1.5 + 1j, 0), (0.5, None)])
def test_slopes_of_complex_powers_at_0(exponent, slope):
    power = lambda x: wnp.power(x, np.complex64(exponent))
    value, got = weft.jvp(power, (np.complex64(0),), (np.complex64(1),))
    assert value == 0
    assert np.isnan(got) if slope is None else got == slope


@pytest.mark.parametrize("divisor", [0.0, 2.0, -1.5])
def test_floor_divide_is_flat(divisor):
    for argnum in (0, 1):
        assert weft.grad(wnp.floor_divide, argnum)(7.0, divisor) == 0


def test_equal_complex_numbers_share_the_slope_of_their_maximum():
    x = np.complex64(1 + 2j)
    for function in (wnp.maximum, wnp.minimum):
        value, slope = weft.jvp(function, (x, x), (x, 0 * x))
        assert value == x and slope == x / 2


def test_all_numbers_are_close_within_an_infinite_tolerance():
    x = np.array([1.0, np.inf, np.nan, -np.inf])
    with np.errstate(invalid="ignore"):
        for a, b in ((np.inf, x), (x, np.inf), (x, 1.0)):
            want = np.isclose(a, b, atol=np.inf)
            np.testing.assert_array_equal(wnp.isclose(a, b, atol=np.inf), want)


def test_a_complex_number_to_the_power_true_is_itself():
    x = np.array([2j, complex(np.nan, np.inf), 0], np.complex64)
    np.testing.assert_array_equal(wnp.power(x, True), x)
