"""Functions and methods of several ops, which outside of jit run as one program."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp

X = wnp.arange(8.0).reshape(2, 4)


@pytest.mark.parametrize("call", [lambda axis: weft.nn.glu(X, axis=axis), lambda axis: X.sum(axis)])
def test_equal_numbers_of_another_kind_are_other_options(call):
    call(1)
    with pytest.raises(TypeError):
        call(1.0)


def test_options_that_do_not_hash_run_op_by_op():
    spacing = np.array([0.0, 1.0, 3.0, 6.0], np.float32)
    want = np.gradient(np.arange(8.0).reshape(2, 4), spacing, axis=1)
    np.testing.assert_allclose(wnp.gradient(X, spacing, axis=1), want, rtol=1e-6)
    np.testing.assert_allclose(wnp.gradient(X, axis=[1]), np.ones((2, 4)))
