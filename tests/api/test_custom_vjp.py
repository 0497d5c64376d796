"""custom_vjp and custom_gradient: the backward rule is what every transformation sees."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from tests.api.test_custom_jvp import FIRST
from weft import lax
from weft.custom_derivatives import SymbolicZero

X = np.array([0.5, -1.0, 2.0], np.float32)


def ruled():
    """x ↦ sin x with three times its derivative, so that the rule shows."""

    @weft.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (3.0 * jnp.cos(x) * ct,))
    return f


f = ruled()
REVERSE = [s for s in FIRST if not any(w in s for w in ("jvp", "jacfwd", "linearize"))] + ["vjp"]


@pytest.mark.parametrize("stack", REVERSE)
def test_the_rule_is_the_derivative_under(stack):
    close(FIRST[stack](f)(X), 3 * np.cos(X))


@pytest.mark.parametrize("wrap", [lambda g: g, weft.jit, weft.vmap, weft.checkpoint])
def test_the_value_is_the_function_s(wrap):
    close(wrap(f)(X), np.sin(X))


def test_the_rules_themselves_are_differentiated_for_higher_orders():
    close(weft.grad(weft.grad(f))(0.5), -3 * np.sin(0.5))
    close(weft.jit(weft.grad(weft.grad(weft.grad(f))))(0.5), -3 * np.cos(0.5))

    # Forward over reverse works where the forward rule does not call f itself.
    g = weft.custom_vjp(f.fun)
    g.defvjp(lambda x: (jnp.sin(x), x), f.bwd)
    close(weft.jvp(weft.grad(g), (0.5,), (1.0,))[1], -3 * np.sin(0.5))
    close(weft.hessian(lambda x: jnp.sum(g(x)))(X), np.diag(-3 * np.sin(X)))


def test_nondiff_arguments_are_handed_to_the_backward_rule_first():
    def fun(g, x, n):
        return g(x) ** n

    for options in ({"nondiff_argnums": (0, 2)}, {"nondiff_argnames": ("g", "n")}):
        power = weft.custom_vjp(fun, **options)
        power.defvjp(lambda g, x, n: (fun(g, x, n), x), lambda g, n, x, ct: (10.0 * n * ct,))
        for wrap in (lambda h: h, weft.jit):
            close(wrap(lambda x, p=power: p(jnp.sin, x, 3))(0.5), np.sin(0.5) ** 3)
            close(wrap(weft.grad(lambda x, p=power: p(jnp.sin, x, 3)))(0.5), 30.0)


def test_defaults_and_keywords_reach_the_rules_by_position():
    @weft.custom_vjp
    def g(x, scale=2.0):
        return x * scale

    g.defvjp(lambda x, scale: (g(x, scale), scale), lambda scale, ct: (10 * scale * ct, None))
    close(weft.grad(g)(1.0), 20.0)
    close(weft.grad(lambda x: g(scale=3.0, x=x))(1.0), 30.0)


def test_none_and_partial_trees_of_cotangents_stand_for_zeros():
    @weft.custom_vjp
    def g(p, y):
        return p["a"] * p["b"][0] * y

    g.defvjp(
        lambda p, y: (g(p, y), (p, y)),
        lambda kept, ct: ({"a": 5.0 * ct, "b": None}, None),
    )
    close(weft.grad(g, argnums=(0, 1))({"a": 1.0, "b": (2.0,)}, 3.0),
          ({"a": 5.0, "b": (0.0,)}, 0.0))  # fmt: skip


@pytest.mark.parametrize("wrap", [lambda g: g, weft.jit], ids=["eager", "jit"])
def test_symbolic_zeros_say_what_is_differentiated_and_which_cotangents_are_zero(wrap):
    seen = []

    @weft.custom_vjp
    def g(x, y):
        return x * y, x + y

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        return g(x.value, y.value), y.value

    def bwd(y, cts):
        seen.append(tuple(type(c) is SymbolicZero for c in cts))
        return cts[0] * y, None

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    close(wrap(weft.grad(lambda x: g(x, 3.0)[0]))(2.0), 3.0)
    assert (True, False) in seen and (False, True) in seen


def test_cotangents_are_arrays_of_zeros_without_symbolic_zeros():
    @weft.custom_vjp
    def g(x):
        return x, {"other": jnp.stack([x, x])}

    def bwd(_, cts):
        assert cts[1]["other"].shape == (2,)
        return (cts[0] + jnp.sum(cts[1]["other"]),)

    g.defvjp(lambda x: (g(x), None), bwd)
    close(weft.jit(weft.grad(lambda x: g(x)[0] * 2.0))(1.0), 2.0)


def test_residuals_may_hold_trees_integers_and_none():
    @weft.custom_vjp
    def g(x, n):
        return x**n

    g.defvjp(
        lambda x, n: (x**n, {"x": x, "n": (n, None)}),
        lambda r, ct: (r["n"][0] * r["x"] ** (r["n"][0] - 1) * ct, None),
    )
    for wrap in (lambda h: h, weft.jit):
        close(wrap(weft.grad(lambda x, n: g(x, n)))(2.0, 3), 12.0)


def test_integer_arguments_may_have_float0_cotangents():
    g = weft.custom_vjp(lambda x, n: x * n)
    zero = np.zeros((), weft.dtypes.float0)
    g.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n, zero))
    close(weft.grad(g)(2.0, 3), 3.0)
    close(weft.jit(weft.grad(g))(2.0, 3), 3.0)


def test_batched_and_unbatched_arguments_mix():
    g = weft.custom_vjp(lambda x, y: x * jnp.sum(y))
    g.defvjp(
        lambda x, y: (g(x, y), (x, y)),
        lambda r, ct: (2 * ct * jnp.sum(r[1]), jnp.full_like(r[1], 2 * ct * r[0])),
    )
    ys = np.stack([X, 2 * X])
    got = weft.vmap(weft.grad(g, argnums=(0, 1)), in_axes=(None, 0))(3.0, ys)
    close(got, (2 * ys.sum(1), np.full((2, 3), 6.0)))
    total = lambda x, ys: jnp.sum(weft.vmap(g, in_axes=(None, 0))(x, ys))
    for wrap in (lambda h: h, weft.jit):
        close(wrap(weft.grad(total))(3.0, ys), 2 * ys.sum())
    close(weft.vmap(weft.vmap(weft.grad(g), (None, 0)), (0, None))(X, ys),
          np.tile(2 * ys.sum(1), (3, 1)))  # fmt: skip


def test_rules_see_the_axis_names_of_vmap():
    g = weft.custom_vjp(lambda x: x)
    g.defvjp(lambda x: (x, None), lambda _, ct: (lax.pmean(ct, "batch"),))
    weights = np.array([1.0, 2.0, 6.0], np.float32)
    grads = weft.vmap(weft.grad(lambda x, w: w * g(x)), axis_name="batch")(X, weights)
    close(grads, [3.0, 3.0, 3.0])
    close(weft.jit(weft.vmap(weft.grad(lambda x, w: w * g(x)), axis_name="batch"))(X, weights),
          [3.0, 3.0, 3.0])  # fmt: skip


def test_rules_in_scan_bodies_run_once_an_iteration():
    clip = weft.custom_vjp(lambda x: x)
    clip.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))

    def f(x):
        return lax.scan(lambda c, a: (clip(c * a), None), 1.0, x)[0]

    # Backward, each step clips what the later ones multiply: 1 → 2 → clipped to 1, …
    xs = np.array([3.0, 4.0, 2.0], np.float32)
    want = [1.0, 3.0, 12.0]  # ct of step 2: 1 (times c = 12); 2 clipped to 1 (times 3); 4 → 1
    close(weft.grad(f)(xs), want)
    close(weft.jit(weft.grad(f))(xs), want)


def test_closing_over_values_of_outer_transformations_that_are_not_differentiated():
    def outer(scale, x):
        g = weft.custom_vjp(lambda x: scale * x)
        g.defvjp(lambda x: (scale * x, None), lambda _, ct: (7.0 * scale * ct,))
        return weft.grad(g)(x)

    scales = np.array([1.0, 2.0], np.float32)
    close(weft.vmap(outer, in_axes=(0, None))(scales, 3.0), 7 * scales)
    close(weft.jit(outer)(2.0, 3.0), 14.0)
    close(weft.jit(weft.vmap(outer, in_axes=(0, None)))(scales, 3.0), 7 * scales)
    looped = lambda s: lax.scan(lambda c, x: (c + outer(s, x), None), 0.0, X)[0]
    close(looped(2.0), 42.0)
    close(weft.jit(looped)(2.0), 42.0)


def test_custom_gradient_closes_over_what_the_value_computed():
    @weft.custom_gradient
    def g(x, y):
        s = jnp.sin(x)
        return s * y, lambda ct: (10.0 * ct * y, s * ct)

    for wrap in (lambda h: h, weft.jit):
        close(wrap(g)(0.5, 2.0), 2 * np.sin(0.5))
        close(wrap(weft.grad(g, argnums=(0, 1)))(0.5, 2.0), (20.0, np.sin(0.5)))
    close(weft.vmap(weft.grad(g), (0, None))(X, 2.0), [20.0] * 3)
    square = weft.custom_gradient(lambda x: (x**2, lambda ct: 5.0 * ct))
    close(weft.grad(square)(3.0), 5.0)


def test_linear_call_brings_its_own_transpose():
    linear_call = weft.custom_derivatives.linear_call
    forward = lambda scale, x: {"y": scale * x}
    backward = lambda scale, ct: 100.0 * scale * ct["y"]
    g = lambda x: linear_call(forward, backward, 2.0, x)["y"]
    for wrap in (lambda h: h, weft.jit):
        close(wrap(g)(X), 2 * X)
        close(wrap(weft.grad(lambda x: jnp.sum(g(x))))(X), [200.0] * 3)
        close(wrap(lambda x: weft.jvp(g, (x,), (x,))[1])(X), 2 * X)
        close(wrap(weft.vmap(weft.grad(g)))(X), [200.0] * 3)
    close(weft.linear_transpose(g, X)(X)[0], 200 * X)
    twice = weft.linear_transpose(lambda ct: weft.linear_transpose(g, X)(ct)[0], X)
    close(twice(X)[0], 2 * X)


def test_optimize_remat_is_accepted_and_keeps_the_gradient():
    g = weft.custom_vjp(lambda x: jnp.sin(x))
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (3 * jnp.cos(x) * ct,), optimize_remat=True)
    close(weft.jit(weft.grad(weft.checkpoint(lambda x: jnp.sum(g(x) ** 2))))(X),
          6 * np.sin(X) * np.cos(X))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "int32", "bool"])
def test_cotangents_of_another_dtype_become_the_argument_s(dtype):
    g = weft.custom_vjp(lambda x: 2.0 * x)
    g.defvjp(lambda x: (2.0 * x, None), lambda _, ct: (ct.astype(dtype),))
    out = weft.grad(lambda x: (g(x) + x).sum())(X)
    np.testing.assert_array_equal(out, np.full(3, 2, np.float32), strict=True)


def test_a_complex_cotangent_of_a_real_argument_is_refused():
    g = weft.custom_vjp(lambda x: 2.0 * x)
    g.defvjp(lambda x: (2.0 * x, None), lambda _, ct: (ct * 1j,))
    with pytest.raises(TypeError, match=r"f32\[3\], got c64\[3\]; take its real part"):
        weft.grad(lambda x: g(x).sum())(X)


def test_the_backward_rule_runs_where_its_cotangents_are_zero_and_its_results_are_read():
    @weft.custom_vjp
    def scaled(x, s):
        return x * s, s

    # What it returns is no derivative, such as the next scale of a quantized product.
    scaled.defvjp(lambda x, s: (scaled(x, s), (x, s)), lambda r, g: (g[0] * r[1], 7 * r[1]))

    @weft.custom_vjp
    def hides(a, b, x):
        return a * b * x

    hides.defvjp(lambda a, b, x: (hides(a, b, x), None), lambda _, g: (None, None, g))

    def loss(x, s):
        return hides(*scaled(x, s), x)

    for f in (weft.grad(loss, (0, 1)), weft.jit(weft.grad(loss, (0, 1)))):
        np.testing.assert_allclose(f(2.0, 3.0), (1, 21))
    unread = weft.grad(lambda x, s: (scaled(x, s), x * 5)[1], (0, 1))
    np.testing.assert_allclose(unread(2.0, 3.0), (5, 0))


def test_the_backward_rule_is_given_arrays():
    f = weft.custom_vjp(lambda x: x * 2)
    # A NumPy scalar, by which a derivative begins, has no `at`.
    f.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct.at[()].multiply(2),))
    for derivative in (weft.grad(f), weft.jit(weft.grad(f)), weft.vjp(f, 1.0)[1]):
        np.testing.assert_allclose(derivative(1.0), 2)
