"""Elements chosen by indices out of bounds and by truth values, against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("compiled", [False, True])
def test_clipping_makes_negative_indices_zero(axis, compiled):
    take = lambda x, i: wnp.take(x, i, axis=axis, mode="clip")
    i = np.array([0, 9, -1, -9])
    got = (weft.jit(take) if compiled else take)(X, i)
    np.testing.assert_array_equal(got, np.take(X, i, axis=axis, mode="clip"))


@pytest.mark.parametrize("mode", [None, "clip", "wrap"])
def test_truth_values_count_as_indices_0_and_1(mode):
    got = wnp.take(X, np.array([True, False]), axis=1, mode=mode)
    np.testing.assert_array_equal(got, X[:, [1, 0]])
