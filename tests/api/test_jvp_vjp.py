"""jvp, vjp, linearize, linear_transpose: values, structures, dtypes, reuse."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft.dtypes import float0

A = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
V = np.array([1.0, -2.0, 0.5], np.float32)


def f(tree, scale):
    return {"sin": jnp.sin(A @ tree["v"]) * scale, "sum": jnp.sum(tree["v"]) + tree["b"]}


def tangent_of_f(v, tv, tb, scale, ts):
    out = np.cos(A @ v) * (A @ tv) * scale + np.sin(A @ v) * ts
    return {"sin": out, "sum": np.sum(tv) + tb}


TREE = {"v": V, "b": np.float32(2.0)}
TV, TB, TS = np.array([0.3, 0.2, -1.0], np.float32), np.float32(0.5), np.float32(-1.5)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_jvp_pushes_trees_of_tangents_forward(wrap):
    run = wrap(lambda t, s, tt, ts: weft.jvp(f, (t, s), (tt, ts)))
    out, tangent = run(TREE, np.float32(3.0), {"v": TV, "b": TB}, TS)
    close(out, {"sin": np.sin(A @ V) * 3, "sum": np.sum(V) + 2})
    close(tangent, tangent_of_f(V, TV, TB, 3.0, TS))


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_linearize_does_the_nonlinear_work_once(wrap):
    calls = []

    def counted(tree, scale):
        calls.append(1)
        return f(tree, scale)

    @wrap
    def run(tree, scale):
        out, push = weft.linearize(counted, tree, scale)
        return out, [push({"v": k * TV, "b": TB}, TS) for k in (1.0, -2.0)]

    out, tangents = run(TREE, np.float32(3.0))
    close(out["sin"], np.sin(A @ V) * 3)
    for k, t in zip((1.0, -2.0), tangents, strict=True):
        close(t, tangent_of_f(V, k * TV, TB, 3.0, TS))
    assert len(calls) == 1


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_vjp_pulls_trees_of_cotangents_back(wrap):
    @wrap
    def run(tree, scale, ct):
        out, pull = weft.vjp(f, tree, scale)
        return out, pull(ct)

    ct = {"sin": np.array([1.0, -0.5], np.float32), "sum": np.float32(2.0)}
    _, (dtree, dscale) = run(TREE, np.float32(3.0), ct)
    close(dtree["v"], A.T @ (ct["sin"] * np.cos(A @ V) * 3) + 2.0)
    close((dtree["b"], dscale), (2.0, np.sum(ct["sin"] * np.sin(A @ V))))


def test_pullbacks_and_pushforwards_pass_in_and_out_of_jitted_functions():
    _, pull = weft.jit(lambda x: weft.vjp(jnp.sin, x))(V)
    close(pull(TV)[0], np.cos(V) * TV)
    close(weft.jit(lambda pull, ct: pull(ct))(pull, TV)[0], np.cos(V) * TV)
    _, push = weft.jit(lambda x: weft.linearize(jnp.sin, x))(V)
    close(push(TV), np.cos(V) * TV)
    doubled = weft.tree.map(lambda r: 2 * r, push)
    close(doubled(TV), 2 * np.cos(V) * TV)


def test_pullbacks_map_over_batches_of_cotangents():
    _, pull = weft.vjp(lambda v: A @ v, V)
    close(weft.vmap(pull)(np.eye(2, dtype=np.float32))[0], A)
    _, push = weft.linearize(lambda v: A @ v, V)
    close(weft.vmap(push, out_axes=1)(np.eye(3, dtype=np.float32)), A)


def test_pullbacks_are_linear_functions_that_differentiate_again():
    def squared(x):
        _, pull = weft.vjp(jnp.sin, x)
        return pull(x)[0]  # x cos x

    close(weft.grad(squared)(0.7), np.cos(0.7) - 0.7 * np.sin(0.7))
    _, pull = weft.vjp(jnp.sin, 0.7)
    close(weft.grad(lambda ct: pull(ct)[0] ** 2)(2.0), 2 * np.cos(0.7) ** 2 * 2.0)


def test_auxiliary_values_come_last():
    g = lambda x: (x**2, {"x": x})
    out, tangent, aux = weft.jvp(g, (3.0,), (2.0,), has_aux=True)
    close((out, tangent, aux), (9.0, 12.0, {"x": 3.0}))
    out, push, aux = weft.linearize(g, 3.0, has_aux=True)
    close((out, push(2.0), aux), (9.0, 12.0, {"x": 3.0}))
    out, pull, aux = weft.vjp(g, 3.0, has_aux=True)
    close((out, pull(2.0), aux), (9.0, (12.0,), {"x": 3.0}))


def test_integers_have_float0_tangents_and_cotangents():
    g = lambda x, n: (x * n, n + 1)
    zero = np.zeros((), float0)
    out, tangent = weft.jvp(g, (2.0, 3), (1.0, zero))
    close(out, (6.0, 4))
    assert float(tangent[0]) == 3.0 and tangent[1].dtype == float0
    _, push = weft.linearize(g, 2.0, 3)
    assert float(push(1.0, zero)[0]) == 3.0
    _, pull = weft.vjp(g, 2.0, 3)
    dx, dn = pull((1.0, zero))
    assert float(dx) == 3.0 and dn.dtype == float0 and dn.shape == ()


def test_outputs_that_do_not_depend_on_the_inputs_have_zero_tangents():
    out, tangent = weft.jvp(lambda x: (x, jnp.ones(2), 3.0), (V,), (TV,))
    close(tangent, (TV, np.zeros(2), 0.0))
    assert tangent[1].dtype == np.float32
    _, pull = weft.vjp(lambda x: (jnp.ones(2), 3.0), V)
    close(pull((np.ones(2, np.float32), 1.0)), (np.zeros(3),))


def test_an_output_returned_twice_adds_up_its_cotangents():
    _, pull = weft.vjp(lambda x: (x, x, {"again": x}), V)
    close(pull((V, 2 * V, {"again": TV})), (3 * V + TV,))


def test_an_input_is_an_output_with_its_own_tangent():
    out, tangent = weft.jvp(lambda x, y: (y, x), (1.0, 2.0), (3.0, 4.0))
    close((out, tangent), ((2.0, 1.0), (4.0, 3.0)))


def test_weakly_typed_cotangents_take_the_output_s_dtype():
    _, pull = weft.vjp(lambda x: x * 2, jnp.ones((), "bfloat16"))
    (ct,) = pull(1.0)
    assert ct.dtype == "bfloat16" and float(ct) == 2.0
    inside = weft.jit(lambda c: weft.vjp(lambda x: x * 2, jnp.ones((), "bfloat16"))[1](c))(1.0)
    assert inside[0].dtype == "bfloat16"
    close(weft.jvp(lambda x: x * 2, (V,), (np.ones(3, np.float32),))[1], [2.0, 2.0, 2.0])


LINEAR = {
    "matrix product": (lambda x: A @ x, (V,), lambda ct: (A.T @ ct,), np.ones(2, np.float32)),
    "scaling and sum": (lambda x, y: 3.0 * x + y, (V, V), lambda ct: (3 * ct, ct), TV),
    "structure": (
        lambda p: {"sum": jnp.sum(p["v"]), "b": 2.0 * p["b"]},
        (TREE,),
        lambda ct: ({"v": np.full(3, ct["sum"]), "b": 2 * ct["b"]},),
        {"sum": np.float32(3.0), "b": np.float32(4.0)},
    ),
    "an unused input": (lambda x, y: x, (V, 1.0), lambda ct: (ct, 0.0), TV),
    "jit": (weft.jit(lambda x: jnp.cumsum(x)), (V,), lambda ct: (np.cumsum(ct[::-1])[::-1],), TV),
    "indexing": (lambda x: x[np.array([0, 0, 2])], (V,), lambda ct: ([ct[0] + ct[1], 0, ct[2]],),
                 TV),
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR)
def test_linear_transpose_is_the_transposed_map(name):
    fun, primals, transposed, ct = LINEAR[name]
    specs = weft.tree.map(lambda x: weft.ShapeDtypeStruct(np.shape(x), "float32"), primals)
    want = weft.tree.map(np.asarray, transposed(ct), is_leaf=lambda x: isinstance(x, list))
    for given in (primals, specs):
        close(weft.linear_transpose(fun, *given)(ct), want)
        close(weft.jit(weft.linear_transpose(fun, *given))(ct), want)


def test_functions_of_integers_alone_have_integer_transposes():
    m = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    (back,) = weft.linear_transpose(lambda x: m @ x, np.zeros(3, np.int32))(np.int32([1, -1]))
    assert back.dtype == np.int32
    np.testing.assert_array_equal(back, [-3, -3, -3])
    (back,) = weft.vmap(weft.linear_transpose(lambda n: n[::-1] * 2, m[0]))(m)
    np.testing.assert_array_equal(back, m[:, ::-1] * 2)


def test_transposing_twice_gives_the_map_back():
    back = weft.linear_transpose(lambda x: A @ x, V)
    again = weft.linear_transpose(lambda ct: back(ct)[0], np.ones(2, np.float32))
    close(again(V)[0], A @ V)
