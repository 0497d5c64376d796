"""Methods of ufuncs at the edge of their arguments."""

import numpy as np
import pytest

import weft.numpy as wnp


@pytest.mark.parametrize("indices", [[0, 4], [-1, 2]])
def test_slices_to_reduce_start_within_the_array(indices):
    with pytest.raises(IndexError, match="add.reduceat: indices must be from 0 to 3"):
        wnp.add.reduceat(np.arange(4), np.array(indices))


def test_slices_to_reduce_start_at_integers():
    with pytest.raises(TypeError, match="indices must be a vector of integers, got float64"):
        wnp.add.reduceat(np.arange(4), np.array([0.5]))


def test_running_truth_values_come_in_the_dtype_asked_for():
    got = wnp.logical_and.accumulate(np.array([1, 1, 0, 1]), dtype=float)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [1, 1, 0, 0])


def test_a_ufunc_is_made_of_a_function():
    with pytest.raises(TypeError, match="func must be callable, got 3"):
        wnp.frompyfunc(3, 1, 1)


def test_vectorized_functions_take_lists():
    np.testing.assert_array_equal(wnp.vectorize(lambda x, y: x + y)([1, 2], 3), [4, 5])
