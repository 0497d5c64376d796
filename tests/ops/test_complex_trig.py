"""Sine and cosine of complex numbers at zeros, infinities, NaN and large imaginary parts."""

import numpy as np
import pytest

import weft

PARTS = np.array([0, -0.0, 1, -2, 0.5, np.inf, -np.inf, np.nan, 1e-30, 1e30, 50, -89.5])
NUMBERS = (PARTS[:, None] + 0j).repeat(len(PARTS), 1)
NUMBERS.imag = PARTS
NUMBERS = NUMBERS.astype(np.complex64)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_both_parts_are_those_of_numpy_in_double_precision(name):
    with np.errstate(all="ignore"):
        want = getattr(np, name)(NUMBERS.astype(complex)).astype(np.complex64)
    got = np.asarray(getattr(weft.numpy, name)(NUMBERS))
    # The sign of an infinite part beside a NaN is open in C99.
    beside_nan = np.isnan(want.real) | np.isnan(want.imag)
    for part, expected in ((got.real, want.real), (got.imag, want.imag)):
        part, expected = (np.where(beside_nan, abs(v), v) for v in (part, expected))
        np.testing.assert_allclose(part, expected, rtol=2e-5, atol=1e-37)


def test_zeros_keep_their_signs():
    signs = np.array([complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)], np.complex64)
    for name in ("sin", "cos"):
        got, want = np.asarray(getattr(weft.numpy, name)(signs)), getattr(np, name)(signs)
        np.testing.assert_array_equal(np.signbit(got.real), np.signbit(want.real))
        np.testing.assert_array_equal(np.signbit(got.imag), np.signbit(want.imag))


def test_derivatives_and_batches_pass_through():
    z = np.complex64(0.5 + 30j)
    _, slope = weft.jvp(weft.numpy.sin, (z,), (np.complex64(1),))
    np.testing.assert_allclose(slope, np.cos(z.astype(complex)), rtol=1e-5)
    rows = np.array([[0.5 + 1j], [2 - 3j]], np.complex64)
    np.testing.assert_allclose(weft.vmap(weft.numpy.cos)(rows), np.cos(rows), rtol=1e-5)
