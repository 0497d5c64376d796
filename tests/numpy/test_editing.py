"""Zeros are trimmed at the front and the back only."""

import numpy as np
import pytest

import weft.numpy as wnp


def test_zeros_are_trimmed_at_the_ends_named():
    x = np.array([0, 0, 1, 0, 2, 0])
    for ends in ("f", "b", "fb", "BF"):
        np.testing.assert_array_equal(wnp.trim_zeros(x, ends), np.trim_zeros(x, ends))
    with pytest.raises(ValueError, match="trim must be 'f', 'b' or 'fb', got 'x'"):
        wnp.trim_zeros(x, "x")
