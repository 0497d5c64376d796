"""Jaxprs in JAX's operations: what weft records as one op is a call of a formula."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.scipy.special as special
from weft import lax
from weft.compat.equations import shown
from weft.compat.jax.extend import core
from weft.compat.spelled import spelled
from weft.core.jaxpr import walk_eqns
from weft.sharding import AxisType
from weft.sharding import PartitionSpec as P

X = np.linspace(-0.9, 0.9, 4).astype(np.float32)
POSITIVE = np.linspace(0.1, 0.9, 4).astype(np.float32)
MATRIX = np.diag([2.0, 4.0, 5.0]).astype(np.float32)


def _softmax(x):
    return np.exp(x) / np.exp(x).sum()


def _logistic(x):
    return 1 / (1 + np.exp(-x))


# Name: the function, its argument, the values, and the gradient of their sum or None.
CASES = {
    "relu": (weft.nn.relu, X, np.maximum(X, 0), (X > 0) * 1.0),
    "softplus": (weft.nn.softplus, X, np.log1p(np.exp(X)), _logistic(X)),
    "softmax": (weft.nn.softmax, X, _softmax(X), np.zeros(4)),
    "log_softmax": (weft.nn.log_softmax, X, np.log(_softmax(X)), 1 - 4 * _softmax(X)),
    "log2": (jnp.log2, POSITIVE, np.log2(POSITIVE), 1 / (POSITIVE * np.log(2))),
    "entr": (special.entr, POSITIVE, -POSITIVE * np.log(POSITIVE), -np.log(POSITIVE) - 1),
    "solve": (
        lambda b: jnp.linalg.solve(MATRIX, b),
        np.ones(3, np.float32),
        [0.5, 0.25, 0.2],
        [0.5, 0.25, 0.2],
    ),
    "in a loop": (
        lambda x: lax.fori_loop(0, 3, lambda _, v: weft.nn.relu(v) + 1, x),
        X,
        np.maximum(X, 0) + 3,
        (X > 0) * 1.0,
    ),
    "in a checkpoint": (
        weft.checkpoint(lambda x: weft.nn.relu(x) * 2),
        X,
        2 * np.maximum(X, 0),
        (X > 0) * 2.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_operation_is_left_that_jax_lacks(name):
    function, x, *_ = CASES[name]
    closed = weft.make_jaxpr(function)(x)
    assert any(eqn.primitive.formula is not None for eqn in walk_eqns(closed))
    program = spelled(closed)
    assert all(eqn.primitive.formula is None for eqn in walk_eqns(program))
    assert "custom_jvp_call" in {eqn.primitive.name for eqn in walk_eqns(program)}


@pytest.mark.parametrize("name", CASES)
def test_the_program_computes_the_same_and_has_the_same_derivative(name):
    function, x, values, gradient = CASES[name]
    program = core.jaxpr_as_fun(shown(spelled(weft.make_jaxpr(function)(x))))
    for run in (program, weft.jit(program)):
        np.testing.assert_allclose(run(x)[0], values, rtol=1e-5, atol=1e-6)
    got = weft.grad(lambda x: program(x)[0].sum())(x)
    np.testing.assert_allclose(got, gradient, rtol=1e-5, atol=1e-6)
    rows = weft.vmap(lambda x: program(x)[0])(np.stack([x, x]))
    np.testing.assert_allclose(rows, [values, values], rtol=1e-5, atol=1e-6)


def test_a_program_without_such_operations_is_left_as_it_is():
    closed = weft.make_jaxpr(lambda x: jnp.sin(x) * 2)(X)
    assert spelled(closed) is closed


def test_sums_and_casts_of_manual_axes_have_jaxs_names():
    mesh = weft.make_mesh((4,), ("i",), (AxisType.Auto,))
    body = weft.shard_map(
        lambda x: x + lax.pcast(lax.psum(x, "i"), "i", to="varying"),
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P("i"),
    )
    program = shown(spelled(weft.make_jaxpr(body)(X)))
    (eqn,) = program.jaxpr.eqns
    seen = {e.primitive.name: e.params for e in eqn.params["jaxpr"].eqns}
    assert seen == {"psum_invariant": {"axes": ("i",)}, "pvary": {"axes": ("i",)}, "add": {}}
    (got,) = core.jaxpr_as_fun(program)(X)
    np.testing.assert_allclose(got, X + X.sum(), rtol=1e-6, atol=1e-6)
    (bound,) = weft.jit(lambda x: eqn.primitive.bind(x, **eqn.params))(X)
    np.testing.assert_allclose(bound, X + X.sum(), rtol=1e-6, atol=1e-6)
