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


def program_of(function):
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    return cells["_program_"].cell_contents


@pytest.mark.parametrize(
    ("function", "operands", "reference"),
    [
        (wnp.triu, (X,), np.triu),
        (wnp.nanmedian, (X,), np.nanmedian),
        (wnp.searchsorted, (X[0], X[0]), np.searchsorted),
        (wnp.atleast_3d, (X,), np.atleast_3d),
        (wnp.stack, ([X, X],), np.stack),
        (wnp.nan_to_num, (X,), np.nan_to_num),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_functions_of_several_ops_are_traced_once(function, operands, reference):
    on_host = weft.tree.map(np.asarray, operands)
    for _ in range(2):
        np.testing.assert_allclose(function(*operands), reference(*on_host), rtol=1e-6)
    assert program_of(function)._cache_size() >= 1


def test_arguments_that_no_program_takes_run_op_by_op():
    np.testing.assert_array_equal(
        wnp.nan_to_num(X / 0, nan=X, posinf=-1.0), np.full((2, 4), -1.0) * (np.asarray(X) > 0)
    )
    np.testing.assert_array_equal(wnp.flip(X, axis=np.int64(1)), np.flip(np.asarray(X), 1))
    with pytest.raises(TypeError, match="triu"):
        wnp.triu([1.0, 2.0])
    with pytest.raises(ValueError, match="axis"):
        wnp.sum(X, axis=5)


def test_programs_leave_traces_and_switches_to_the_function():
    np.testing.assert_array_equal(
        weft.grad(lambda x: wnp.triu(x).sum())(X), np.triu(np.ones((2, 4)))
    )
    assert "triu" not in str(weft.make_jaxpr(wnp.triu)(X))
    with weft.disable_jit():
        np.testing.assert_array_equal(wnp.triu(X), np.triu(np.asarray(X)))
