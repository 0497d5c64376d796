"""Convolutions that add up in whole numbers; covariances of weighted observations."""

import numpy as np
import pytest

import weft.numpy as wnp


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_products_of_small_integers_add_up_in_the_preferred_type(name, mode):
    x, y = np.array([100, -50, 3, 7], np.int8), np.array([120, -1], np.int8)
    got = getattr(wnp, name)(x, y, mode=mode, preferred_element_type=np.int32)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, getattr(np, name)(x.astype(int), y.astype(int), mode))


def test_weights_of_a_covariance_count_without_their_sign():
    x = np.array([[1.0, 4.0, 2.0], [3.0, 0.0, 5.0]], np.float32)
    for name in ("fweights", "aweights"):
        want = np.cov(x, **{name: np.array([1, 2, 1])})
        got = wnp.cov(x, **{name: np.array([1, -2, 1])})
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_an_infinite_end_of_an_integral_is_no_nan(size):
    y = np.linspace(0.5, 2.0, size)
    np.testing.assert_allclose(wnp.trapezoid(y, dx=0.25), np.trapezoid(y, dx=0.25), rtol=1e-5)
    y[-1] = np.inf
    np.testing.assert_allclose(wnp.trapezoid(y, dx=0.25), np.trapezoid(y, dx=0.25), rtol=1e-5)
