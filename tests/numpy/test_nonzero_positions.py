"""Positions as arrays: what they refuse."""

import pytest

import weft.numpy as wnp


def test_flat_indices_come_of_integers():
    with pytest.raises(TypeError, match="ravel_multi_index: indices must be integers, got f32"):
        wnp.ravel_multi_index((wnp.array(1.0), wnp.array(2)), (2, 3))


def test_ravel_multi_index_of_python_numbers_is_not_weakly_typed():
    assert not wnp.ravel_multi_index((1, 2), (3, 4)).weak_type
