"""jacfwd, jacrev and hessian: shapes, structures, agreement with analytic results."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft.dtypes import float0

A = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
X = np.array([1.0, -2.0, 0.5], np.float32)
BOTH = pytest.mark.parametrize("jac", [weft.jacfwd, weft.jacrev], ids=["jacfwd", "jacrev"])


@BOTH
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_a_jacobian_has_output_dimensions_first(jac, wrap):
    close(wrap(jac(lambda x: jnp.sin(A @ x)))(X), np.cos(A @ X)[:, None] * A)
    outer = wrap(jac(lambda x: x[:, None] * x[None, :]))(X)
    eye = np.eye(3, dtype=np.float32)
    close(outer, eye[:, None, :] * X[None, :, None] + X[:, None, None] * eye[None])
    close(jac(lambda x: x**2)(3.0), 6.0)


@BOTH
def test_trees_in_and_out_are_nested_output_over_input(jac):
    f = lambda p, s: {"y": s * p["w"], "z": (jnp.sum(p["w"] ** 2) + p["b"],)}
    got = jac(f, argnums=(0, 1))({"w": X, "b": 2.0}, 3.0)
    want = {
        "y": ({"w": 3 * np.eye(3), "b": np.zeros(3)}, X),
        "z": (({"w": 2 * X, "b": 1.0}, 0.0),),
    }
    close(got, want)
    close(jac(f)({"w": X, "b": 2.0}, 3.0)["y"], {"w": 3 * np.eye(3), "b": np.zeros(3)})
    close(jac(lambda x, y: x * y, argnums=(1,))(X, X), (np.diag(X),))
    close(jac(lambda x, y: x * y, argnums=-1)(X, X), np.diag(X))


@BOTH
def test_auxiliary_values_are_those_of_the_evaluation(jac):
    j, aux = jac(lambda x: (x**2, {"sum": jnp.sum(x)}), has_aux=True)(X)
    close(j, np.diag(2 * X))
    close(aux, {"sum": np.sum(X)})


def test_auxiliary_values_may_be_anything():
    for jac in (weft.jacfwd, weft.jacrev):
        assert jac(lambda x: (x**2, "text"), has_aux=True)(X)[1] == "text"


@BOTH
def test_holomorphic_jacobians_are_complex_derivatives(jac):
    z = np.array([1 + 2j, 0.5j], np.complex64)
    close(jac(lambda z: z**2, holomorphic=True)(z), np.diag(2 * z))


def test_real_to_complex_functions_have_forward_jacobians():
    close(weft.jacfwd(lambda x: x * 1j)(X), np.eye(3) * 1j)


def test_complex_to_real_functions_have_reverse_jacobians():
    z = np.array([3 + 4j], np.complex64)
    close(weft.jacrev(jnp.abs)(z), [[np.conj(z[0]) / 5]])


def test_integer_inputs_have_float0_jacobians_if_they_are_allowed():
    jx, ji = weft.jacrev(lambda x, n: x * n, argnums=(0, 1), allow_int=True)(X, 2)
    close(jx, 2 * np.eye(3))
    assert ji.dtype == float0 and ji.shape == (3,)


def test_integer_outputs_have_float0_jacobians():
    j = weft.jacfwd(lambda x: {"n": x.astype("int32"), "y": 2 * x})(X)
    assert j["n"].dtype == float0 and j["n"].shape == (3, 3)
    close(j["y"], 2 * np.eye(3))


@pytest.mark.parametrize("outer", [weft.jacfwd, weft.jacrev], ids=["fwd", "rev"])
@pytest.mark.parametrize("inner", [weft.jacfwd, weft.jacrev], ids=["fwd", "rev"])
def test_every_order_of_modes_gives_the_same_hessian(outer, inner):
    f = lambda x: jnp.sum(jnp.sin(A @ x))
    want = -A.T @ (np.sin(A @ X)[:, None] * A)
    close(outer(inner(f))(X), want)


def test_hessian_of_a_tree_is_a_tree_of_trees():
    h = weft.hessian(lambda p: p["a"] * p["b"] ** 2 + p["a"] ** 3)({"a": 1.0, "b": 2.0})
    close(h, {"a": {"a": 6.0, "b": 4.0}, "b": {"a": 4.0, "b": 2.0}})
    h = weft.hessian(lambda x, y: jnp.sum(x * y**2), argnums=(0, 1))(X, X)
    close(h, ((np.zeros((3, 3)), np.diag(2 * X)), (np.diag(2 * X), np.diag(2 * X))))


def test_hessian_with_auxiliary_values():
    h, aux = weft.hessian(lambda x: (jnp.sum(x**3), x + 1), has_aux=True)(X)
    close(h, np.diag(6 * X))
    close(aux, X + 1)


def test_third_derivatives():
    t = weft.jacfwd(weft.hessian(lambda x: jnp.sum(x**4)))(X)
    want = np.zeros((3, 3, 3))
    want[range(3), range(3), range(3)] = 24 * X
    close(t, want)


def test_jacobians_of_empty_arrays_are_empty():
    assert weft.jacfwd(lambda x: x * 2)(np.zeros(0, np.float32)).shape == (0, 0)
    assert weft.jacrev(lambda x: x * 2)(np.zeros(0, np.float32)).shape == (0, 0)


def test_jacobians_map_over_batches():
    xs = np.stack([X, 2 * X])
    close(weft.vmap(weft.jacrev(lambda x: x**2))(xs), np.stack([np.diag(2 * x) for x in xs]))
