"""Positions as arrays: what they refuse."""

import pytest

import weft.numpy as wnp


def test_flat_indices_come_of_integers():
    with pytest.raises(TypeError, match="ravel_multi_index: indices must be integers, got f32"):
        wnp.ravel_multi_index((wnp.array(1.0), wnp.array(2)), (2, 3))
