"""Rounding of whole numbers to tens beyond their dtype, against NumPy."""

import numpy as np
import pytest

import weft.numpy as wnp


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("decimals", [0, -1, -2, -3, -10])
def test_whole_numbers_round_to_tens_of_any_size(dtype, decimals):
    x = np.array([0, 7, 15, 45, 49, 111], dtype)
    want = np.round(x.astype(np.int64), decimals)
    np.testing.assert_array_equal(wnp.round(x, decimals), want)
