"""Padding of truth values and whole numbers, against NumPy."""

import numpy as np
import pytest

import weft.numpy as wnp


@pytest.mark.parametrize("mode", ["mean", "median"])
def test_a_mean_of_truth_values_above_zero_is_true(mode):
    x = np.array([True, False, False, True])
    np.testing.assert_array_equal(wnp.pad(x, 1, mode=mode), np.pad(x, 1, mode=mode))


def test_ramps_of_whole_numbers_round_down():
    x = np.array([3, 1, 2, 1], np.int32)
    options = {"mode": "linear_ramp", "end_values": (7, -3)}
    np.testing.assert_array_equal(wnp.pad(x, 3, **options), np.pad(x, 3, **options))
