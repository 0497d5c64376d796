"""Calls under vmap, derivatives, control flow, remat, jit."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.ffi import differentiable, ffi_call

X = np.arange(12, dtype=np.float32).reshape(3, 4)
W = np.ones(4, np.float32)


def scale(x, by, **options):
    result = weft.ShapeDtypeStruct(x.shape, "float32")
    return ffi_call("Scale", result, **options)(x, scale=np.float32(by))


def probe(x, w, method):
    return ffi_call("Probe", weft.ShapeDtypeStruct(x.shape, "float32"), vmap_method=method)(x, w)


# vmap -------------------------------------------------------------------------------------------

# What one call of the handler sees, elements of x + 1000 * elements of w: x has 3 rows of 4.
SEEN = {
    "sequential": 4 + 1000 * 4,
    "sequential_unrolled": 4 + 1000 * 4,
    "expand_dims": 12 + 1000 * 4,
    "broadcast_all": 12 + 1000 * 12,
    "legacy_vectorized": 12 + 1000 * 4,
}


@pytest.mark.parametrize("method", SEEN)
def test_each_vmap_method_calls_as_it_says(method):
    got = weft.vmap(lambda x: probe(x, W, method))(X)
    np.testing.assert_array_equal(got, np.full((3, 4), SEEN[method]))


@pytest.mark.parametrize("method", SEEN)
def test_each_vmap_method_gives_the_same_values(method):
    got = weft.vmap(lambda x: scale(x, 3, vmap_method=method), in_axes=1, out_axes=1)(X)
    np.testing.assert_array_equal(got, 3 * X)


def test_the_shape_of_an_unbatched_operand_under_expand_dims():
    eqn = weft.make_jaxpr(weft.vmap(lambda x: probe(x, W, "expand_dims")))(X).eqns[-1]
    assert [v.aval.shape for v in eqn.invars] == [(3, 4), (1, 4)]


def test_vmap_without_a_method_names_the_methods():
    words = "'Scale' under vmap: .*vmap_method=.*'broadcast_all'"
    with pytest.raises(NotImplementedError, match=words):
        weft.vmap(lambda x: scale(x, 3))(X)


def test_nested_vmap():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    got = weft.vmap(weft.vmap(lambda x: scale(x, 2, vmap_method="broadcast_all")))(x)
    np.testing.assert_array_equal(got, 2 * x)
    mixed = weft.vmap(lambda x: weft.vmap(lambda w: probe(x[0], w, "broadcast_all"))(x))(x)
    np.testing.assert_array_equal(mixed, np.full((2, 3, 4), 24 + 1000 * 24))


def test_several_results_under_vmap():
    f4 = weft.ShapeDtypeStruct((4,), "float32")
    call = ffi_call("DivMod", (f4, f4), vmap_method="broadcast_all")
    got = weft.vmap(call, in_axes=(0, None))(X, 2 * W)
    np.testing.assert_array_equal(got, [X // 2, X % 2])


# Derivatives ------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [weft.grad, weft.jacfwd, weft.jacrev])
def test_a_bare_call_has_no_derivative_and_says_what_to_write(transform):
    with pytest.raises(ValueError, match="'Scale' has no derivative") as e:
        transform(lambda x: scale(x, 3).sum())(X)
    assert "weft.custom_vjp(" in str(e.value) and ".defvjp(" in str(e.value)
    assert "weft.ffi.differentiable(forward, backward)" in str(e.value)


def test_a_call_beside_the_derivative_is_no_obstacle():
    got = weft.grad(lambda x, y: (x * scale(y, 2)).sum())(X, X)
    np.testing.assert_array_equal(got, 2 * X)
    stopped = weft.grad(lambda x: (x * scale(weft.lax.stop_gradient(x), 2)).sum())(X)
    np.testing.assert_array_equal(stopped, 2 * X)


square = differentiable(
    lambda x: (ffi_call("Scale", x)(x * x, scale=np.float32(1)), x),
    lambda x, ct: (scale(x * ct, 2),),
)


def test_differentiable_gives_forward_and_backward_in_native_code():
    np.testing.assert_array_equal(square(X), X * X)
    np.testing.assert_allclose(weft.grad(lambda x: (3 * square(x)).sum())(X), 6 * X)
    value, gradient = weft.jit(weft.value_and_grad(lambda x: square(x).sum()))(X)
    assert value == (X * X).sum()
    np.testing.assert_array_equal(gradient, 2 * X)


def test_an_undifferentiated_call_drops_its_residuals():
    text = weft.jit(square).lower(X).compile().as_text()
    assert text.count('custom_call_target="Scale"') == 1


def test_differentiable_has_nondifferentiated_arguments():
    power = differentiable(
        lambda n, x: (scale(x**n, 1), x),
        lambda n, x, ct: (scale(n * x ** (n - 1) * ct, 1),),
        nondiff_argnums=(0,),
    )
    np.testing.assert_allclose(weft.grad(lambda x: power(3, x).sum())(X), 3 * X**2)


def test_differentiable_takes_functions():
    with pytest.raises(TypeError, match="backward must be a function, got int"):
        differentiable(lambda x: (x, x), 3)


def test_custom_vjp_and_custom_jvp_around_a_call():
    f = weft.custom_vjp(lambda x: scale(x, 3))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (scale(ct, 3),))
    np.testing.assert_array_equal(weft.grad(lambda x: f(x).sum())(X), np.full((3, 4), 3))
    g = weft.custom_jvp(lambda x: scale(x, 3))
    g.defjvp(lambda primals, tangents: (g(*primals), 3 * tangents[0]))
    np.testing.assert_array_equal(weft.jvp(g, (X,), (X,))[1], 3 * X)
    np.testing.assert_array_equal(weft.grad(lambda x: g(x).sum())(X), np.full((3, 4), 3))


# Control flow -----------------------------------------------------------------------------------


def test_a_call_in_scan():
    last, ys = weft.lax.scan(lambda c, x: (scale(c, 2), scale(x, 3)), W, X)
    np.testing.assert_array_equal(last, 8 * W)
    np.testing.assert_array_equal(ys, 3 * X)


def test_a_call_in_cond():
    f = weft.jit(lambda p, x: weft.lax.cond(p, lambda x: scale(x, 2), lambda x: scale(x, 3), x))
    np.testing.assert_array_equal(f(True, X), 2 * X)
    np.testing.assert_array_equal(f(False, X), 3 * X)


def test_a_call_in_a_while_loop():
    def step(state):
        return state[0] + 1, scale(state[1], 2)

    n, got = weft.lax.while_loop(lambda s: s[1].sum() < 100, step, (0, W))
    assert n == 5
    np.testing.assert_array_equal(got, 32 * W)


def test_a_batched_condition_of_calls():
    f = lambda p, x: weft.lax.cond(
        p,
        lambda x: scale(x, 2, vmap_method="broadcast_all"),
        lambda x: scale(x, 3, vmap_method="broadcast_all"),
        x,
    )
    got = weft.vmap(f)(np.array([True, False, True]), X)
    np.testing.assert_array_equal(got, X * np.array([[2], [3], [2]]))


def test_a_call_under_remat_runs_again_in_the_backward_pass():
    def loss(x):
        return weft.checkpoint(lambda x: wnp.sin(square(x)))(x).sum()

    np.testing.assert_allclose(weft.grad(loss)(X), np.cos(X * X) * 2 * X, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_a_scan_of_calls():
    def loss(x):
        return weft.lax.scan(lambda c, _: (square(c), None), x, None, length=2)[0].sum()

    np.testing.assert_allclose(weft.grad(loss)(X / 4), 4 * (X / 4) ** 3, rtol=1e-6)


def test_a_call_in_a_nested_jit_and_under_disable_jit():
    f = weft.jit(lambda x: weft.jit(lambda x: scale(x, 2))(x) + 1)
    np.testing.assert_array_equal(f(X), 2 * X + 1)
    with weft.disable_jit():
        np.testing.assert_array_equal(f(X), 2 * X + 1)


def test_shapes_without_running():
    got = weft.eval_shape(lambda x: scale(x, 2), weft.ShapeDtypeStruct((2, 5), "float32"))
    assert got.shape == (2, 5)
