"""Whole numbers rounded to tens beyond their dtype, sums of booleans, against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("decimals", [0, -1, -2, -3, -10])
def test_whole_numbers_round_to_tens_of_any_size(dtype, decimals):
    x = np.array([0, 7, 15, 45, 49, 111], dtype)
    want = np.round(x.astype(np.int64), decimals)
    np.testing.assert_array_equal(wnp.round(x, decimals), want)


def test_the_sum_of_two_booleans_is_their_disjunction_among_constants_too():
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    for f in (wnp.add, lambda a, b: wnp.asarray(a) + b, lambda a, b: wnp.asarray(a).at[...].add(b)):
        np.testing.assert_array_equal(weft.jit(lambda f=f: f(x, y))(), x | y)
        np.testing.assert_array_equal(weft.jit(f)(x, y), x | y)
        np.testing.assert_array_equal(f(x, y), x | y)
        np.testing.assert_array_equal(weft.vmap(f)(x, y), x | y)


def test_angles_of_complex_pairs_have_values_and_derivatives():
    y, x = np.complex64([1 + 2j, -1 + 0.5j]), np.complex64([0.3 - 1j, 2 + 1j])
    r = np.sqrt(x * x + y * y)
    out, t = weft.jvp(wnp.arctan2, (y, x), (np.ones_like(y), 1j * np.ones_like(x)))
    np.testing.assert_allclose(out, -1j * np.log((x + 1j * y) / r), rtol=1e-5)
    np.testing.assert_allclose(t, (x - 1j * y) / (r * r), rtol=1e-5)


def test_dtypes_that_numpy_does_not_promote_are_spaced_and_scaled():
    ones = wnp.ones(2, "bfloat16")
    for start in (ones, np.asarray(ones), wnp.bfloat16(1)):
        out = wnp.linspace(start, 2.5, 4)
        assert out.dtype == "bfloat16"
        want = np.linspace(np.asarray(start, np.float32), 2.5, 4)
        np.testing.assert_array_equal(np.asarray(out, np.float32), want)
    assert wnp.linspace(wnp.float16(1), wnp.bfloat16(2), 3).dtype == "float32"
    np.testing.assert_array_equal(
        wnp.ldexp(np.float32([1.5, 1.5]), np.array([True, False])), [3, 1.5]
    )
