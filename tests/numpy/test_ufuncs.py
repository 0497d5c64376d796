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
