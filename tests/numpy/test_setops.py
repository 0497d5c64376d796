"""Sets of numbers NumPy has no dtype for."""

import ml_dtypes
import numpy as np
import pytest

import weft.numpy as wnp


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3b11fnuz"])
def test_the_members_of_small_floats_are_sorted_with_nan_last(dtype):
    x = np.array([3, np.nan, -28, 16, -3, 3, np.nan], getattr(ml_dtypes, dtype))
    got = wnp.unique(x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(np.asarray(got).astype(float), [-28, -3, 3, 16, np.nan])
