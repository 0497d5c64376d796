"""Sets of numbers NumPy has no dtype for."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3b11fnuz"])
def test_the_members_of_small_floats_are_sorted_with_nan_last(dtype):
    x = np.array([3, np.nan, -28, 16, -3, 3, np.nan], getattr(ml_dtypes, dtype))
    got = wnp.unique(x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(np.asarray(got).astype(float), [-28, -3, 3, 16, np.nan])


def test_rows_with_nans_in_the_same_places_are_one():
    x = np.array([[np.nan, 1], [np.nan, 1], [0, np.nan], [0, 2]], np.float32)
    values, first, inverse, counts = wnp.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=0
    )
    np.testing.assert_array_equal(values, [[0, 2], [0, np.nan], [np.nan, 1]])
    np.testing.assert_array_equal(first, [3, 2, 0])
    np.testing.assert_array_equal(inverse, [2, 2, 1, 0])
    np.testing.assert_array_equal(counts, [1, 1, 2])
    assert wnp.unique(x, axis=0, equal_nan=False).shape == (4, 2)


@pytest.mark.parametrize("other", [[np.nan, 1], [1, 3]])
def test_setxor1d_keeps_the_nan_of_each_array(other):
    x, y = np.array([1, np.nan, 2, np.nan], np.float32), np.array(other, np.float32)
    np.testing.assert_array_equal(wnp.setxor1d(x, y), np.setxor1d(x, y))


@pytest.mark.parametrize("equal_nan", [True, False])
@pytest.mark.parametrize("counted", [True, False])
def test_values_without_their_places_are_those_of_numpy(counted, equal_nan, rng):
    x = rng.integers(-50, 50, (30, 40)).astype(np.float32)
    x[3, :5] = np.nan
    want = np.unique(x, return_counts=True, equal_nan=equal_nan)
    static = {"size": want[0].size + 3, "fill_value": 99}
    for options in ({}, static):
        got = wnp.unique(x, return_counts=counted, equal_nan=equal_nan, **options)
        run = weft.jit(
            lambda x: wnp.unique(x, return_counts=counted, equal_nan=equal_nan, **static)
        )
        for result in (got, run(x)):
            values, *counts = result if counted else (result,)
            np.testing.assert_array_equal(values[: want[0].size], want[0])
            np.testing.assert_array_equal(values[want[0].size :], 99)
            if counted:
                np.testing.assert_array_equal(counts[0][: want[0].size], want[1])


def test_the_derivative_of_distinct_values_goes_to_an_element_of_each():
    x = np.array([3.0, 1.0, 2.0], np.float32)
    grad = weft.grad(lambda x: (wnp.unique(x, size=3) * np.float32([1, 10, 100])).sum())(x)
    np.testing.assert_array_equal(grad, [100, 1, 10])
