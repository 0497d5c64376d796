"""checkpoint: the same derivatives under every policy, and what each policy keeps."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax
from weft.ad_checkpoint import checkpoint_name, print_saved_residuals
from weft.ad_checkpoint import saved_residuals as residuals
from weft.core.jaxpr import walk_eqns

cp = weft.checkpoint_policies
A = np.array([[0.2, -0.3], [0.5, 0.1]], np.float32)
B = np.array([[1.0, 0.5], [-0.5, 0.2]], np.float32)
X = np.array([0.7, -0.4], np.float32)
COUNTS = ("sin", "cos", "tanh", "exp", "dot_general", "logistic")


def layer(a, x):
    h = checkpoint_name(jnp.sin(a @ x), "hidden")
    return checkpoint_name(jnp.sin(B @ h), "out") + jnp.sin(x)


def reference_grad(x):
    h = np.sin(A @ x)
    inner = (B.T @ np.cos(B @ h)) * np.cos(A @ x)
    return A.T @ inner + np.cos(x), np.outer(inner, x)


POLICIES = {
    "none given": None,
    "nothing": cp.nothing_saveable,
    "everything": cp.everything_saveable,
    "dots": cp.dots_saveable,
    "dots, by its other name": cp.checkpoint_dots,
    "dots without batch dimensions": cp.dots_with_no_batch_dims_saveable,
    "hidden": cp.save_only_these_names("hidden"),
    "both names": cp.save_only_these_names("hidden", "out"),
    "any name but hidden": cp.save_any_names_but_these("hidden"),
    "anything but hidden": cp.save_anything_except_these_names("hidden"),
    "hidden or dots": cp.save_from_both_policies(
        cp.save_only_these_names("hidden"), cp.dots_saveable
    ),
    "offloaded": cp.save_and_offload_only_these_names(
        names_which_can_be_saved=["out"],
        names_which_can_be_offloaded=["hidden"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
    "offloaded dots": cp.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "written by hand": lambda prim, *avals, **params: prim.name == "sin",
}
# How often sin and dot_general are computed in value and gradient together, with each policy:
# forward three times and two, and again in the backward pass what is needed and not kept. The
# gradient's own products are three (B.T, A.T and the outer product).
SINES = {"none given": 4, "nothing": 4, "dots": 3, "hidden": 3, "everything": 3}
PRODUCTS = {"none given": 4, "nothing": 4, "dots": 2, "hidden": 4, "everything": 2}


def gradients(policy, **options):
    f = weft.checkpoint(lambda a, x: jnp.sum(layer(a, x)), policy=policy, **options)
    return weft.value_and_grad(f, argnums=(1, 0))


def counts(fun, *args):
    names = [e.primitive.name for e in walk_eqns(weft.make_jaxpr(fun)(*args))]
    return {n: names.count(n) for n in COUNTS}


@pytest.mark.parametrize("name", POLICIES)
def test_the_gradient_does_not_depend_on_the_policy(name):
    want = reference_grad(X)
    close(weft.jit(gradients(POLICIES[name]))(A, X)[1], want)
    xs = np.stack([X, -X])
    got = weft.jit(weft.vmap(gradients(POLICIES[name]), in_axes=(None, 0)))(A, xs)[1]
    wants = [reference_grad(x) for x in xs]
    close(got, tuple(np.stack(w) for w in zip(*wants, strict=True)))


@pytest.mark.parametrize("name", POLICIES)
def test_second_derivatives_do_not_depend_on_the_policy(name):
    f = weft.checkpoint(lambda x: jnp.sum(jnp.sin(x) ** 3), policy=POLICIES[name])
    s, c = np.sin(X), np.cos(X)
    want = np.diag(6 * s * c**2 - 3 * s**3)
    close(weft.jit(weft.hessian(f))(X), want)
    v = np.array([1.0, 2.0], np.float32)
    close(weft.jit(weft.grad(lambda x: weft.grad(f)(x) @ v))(X), want @ v)


@pytest.mark.parametrize("name", SINES)
def test_a_policy_decides_what_is_computed_again(name):
    found = counts(gradients(POLICIES[name]), A, X)
    plain = counts(weft.value_and_grad(lambda a, x: jnp.sum(layer(a, x)), (1, 0)), A, X)
    assert found["sin"] == SINES[name], found
    assert found["dot_general"] - plain["dot_general"] == PRODUCTS[name] - 2, found


def kept(policy):
    f = weft.checkpoint(lambda x: layer(A, x), policy=policy)
    return [(aval.str_short(), what) for aval, what in residuals(f, X)]


def test_saved_residuals_name_what_is_kept_and_where_it_comes_from():
    assert [what for _, what in kept(None) if "argument" in what] == ["the argument x"]
    assert not [what for _, what in kept(None) if "output of" in what or "named" in what]
    named = [what for _, what in kept(cp.save_only_these_names("hidden")) if "named" in what]
    assert len(named) == 1 and named[0].startswith("named 'hidden', from test_remat.py:")
    moved = cp.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["hidden"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    away = [what for _, what in kept(moved) if "pinned_host" in what]
    assert len(away) == 1 and away[0].startswith("in pinned_host, from test_remat.py:")
    dots = [what for _, what in kept(cp.dots_saveable) if what.startswith("output of dot_general")]
    assert len(dots) == 2
    assert all(text == "f32[2]" for text, what in kept(cp.dots_saveable) if "dot_general" in what)


def test_without_checkpoint_all_intermediate_values_are_kept(capsys):
    found = [what for _, what in residuals(lambda x: jnp.sin(jnp.exp(x)), X)]
    assert len([w for w in found if w.startswith("output of")]) == 2
    print_saved_residuals(lambda x: jnp.sin(jnp.exp(x)), X)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(found) and all(line.startswith("f32[2]") for line in lines)


def test_the_value_alone_is_computed_once():
    f = weft.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    assert counts(f, X)["sin"] == 2
    close(f(X), np.sin(np.sin(X)))
    close(weft.jit(weft.vmap(f))(X), np.sin(np.sin(X)))


def test_nested_checkpoints_compute_inner_parts_again_in_the_outer_ones():
    sin = lambda x: jnp.sin(x)
    f = weft.checkpoint(lambda x: weft.checkpoint(lambda y: sin(sin(y)))(weft.checkpoint(sin)(x)))
    want = np.cos(X) * np.cos(np.sin(X)) * np.cos(np.sin(np.sin(X)))
    close(weft.jit(weft.grad(lambda x: jnp.sum(f(x))))(X), want)
    # Forward 3; the backward pass of the outer one again 2; that of the inner one again 1.
    assert counts(weft.grad(lambda x: jnp.sum(f(x))), X)["sin"] <= 3 + 2 + 2


def test_checkpointed_loops_keep_carries_only():
    def body(c, a):
        return jnp.sin(jnp.sin(a @ c)), None

    stack = np.stack([A, B, A + B])

    def loss(checkpointed, x, stack):
        step = weft.checkpoint(body) if checkpointed else body
        return jnp.sum(lax.scan(step, x, stack)[0])

    carries = [X]
    for a in stack:
        carries.append(np.sin(np.sin(a @ carries[-1])))
    ct, of_stack = np.ones(2), np.zeros_like(stack)
    for k in (2, 1, 0):
        product = stack[k] @ carries[k]
        ct = ct * np.cos(np.sin(product)) * np.cos(product)
        of_stack[k] = np.outer(ct, carries[k])
        ct = stack[k].T @ ct
    for flag in (True, False):
        got = weft.jit(weft.grad(lambda x, s, flag=flag: loss(flag, x, s), argnums=(0, 1)))
        close(got(X, stack), (ct, of_stack))
    kept_with = residuals(lambda x: loss(True, x, stack), X)
    kept_without = residuals(lambda x: loss(False, x, stack), X)
    size = lambda found: sum(a.size for a, what in found if "output of scan" in what)
    assert size(kept_with) == 3 * 2 < size(kept_without)


def test_prevent_cse_puts_a_barrier_before_what_is_computed_again():
    f = lambda x: jnp.sum(jnp.sin(jnp.sin(x)))
    text = weft.jit(weft.grad(weft.checkpoint(f))).lower(X).as_text()
    assert "optimization_barrier" in text
    text = weft.jit(weft.grad(weft.checkpoint(f, prevent_cse=False))).lower(X).as_text()
    assert "optimization_barrier" not in text


def test_static_arguments_are_not_traced():
    f = weft.checkpoint(lambda x, n, *, flag: x**n if flag else x, static_argnums=(1,),
                        static_argnames="flag")  # fmt: skip
    close(weft.grad(lambda x: f(x, 3, flag=True))(2.0), 12.0)
    close(weft.grad(lambda x: f(x, 3, flag=False))(2.0), 1.0)


def test_it_works_as_a_decorator_with_options():
    @weft.checkpoint(policy=cp.dots_saveable)
    def f(x):
        """Twice."""
        return 2 * x

    assert f.__name__ == "f" and f.__doc__ == "Twice."
    close(weft.grad(f)(1.0), 2.0)
    assert weft.remat is weft.checkpoint


def test_closed_over_values_are_differentiated():
    def f(scale, x):
        return weft.checkpoint(lambda y: jnp.sum(jnp.sin(scale * y)))(x)

    want = (np.sum(np.cos(2 * X) * X), 2 * np.cos(2 * X))
    for wrap in (lambda g: g, weft.jit):
        close(wrap(weft.grad(f, argnums=(0, 1)))(2.0, X), want)


def test_trees_and_integers_pass_through():
    f = weft.checkpoint(lambda p, n: ({"y": p["x"] * n}, n + 1))
    out, n = f({"x": 2.0}, 3)
    close((out, n), ({"y": 6.0}, 4))
    close(weft.grad(lambda p: f(p, 3)[0]["y"])({"x": 2.0}), {"x": 3.0})


def test_randomness_is_the_same_when_it_is_computed_again():
    key = weft.random.key(3)

    def f(x):
        mask = weft.random.bernoulli(key, 0.5, x.shape)
        return jnp.sum(jnp.where(mask, jnp.sin(x), 0.0))

    x = np.linspace(0, 1, 16, dtype=np.float32)
    mask = np.asarray(weft.random.bernoulli(key, 0.5, x.shape))
    assert 0 < mask.sum() < 16
    close(weft.jit(weft.grad(weft.checkpoint(f)))(x), np.where(mask, np.cos(x), 0))


def test_derivatives_of_checkpoints_in_custom_rules_of_scans_reverse_batched():
    def chain(x, w):
        z = w * 2

        def step(carry, t):
            return weft.checkpoint(lambda c: jnp.sin(c) * z + t)(carry), None

        return lax.scan(step, x, jnp.arange(3.0))[0]

    f = weft.custom_jvp(chain)
    f.defjvp(lambda primals, tangents: weft.jvp(chain, primals, tangents))
    x, w = np.linspace(0.5, 1.5, 4, dtype=np.float32), np.float32(0.5)
    dx, dw = weft.grad(lambda x, w: weft.vmap(lambda x: f(x, w))(x).sum(), (0, 1))(x, w)

    value, by_x, by_w = x.astype(np.float64), np.ones(4), np.zeros(4)
    for t in range(3):
        by_x = np.cos(value) * by_x * 2 * w
        by_w = np.cos(value) * by_w * 2 * w + 2 * np.sin(value)
        value = np.sin(value) * 2 * w + t
    np.testing.assert_allclose(dx, by_x, rtol=1e-5)
    np.testing.assert_allclose(dw, by_w.sum(), rtol=1e-5)


def test_policies_may_return_the_names_of_their_answers():
    from weft.ad_checkpoint import Offloadable, Recompute, Saveable

    keep = weft.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=lambda *_, **__: Saveable)
    drop = weft.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=lambda *_, **__: Recompute)
    kept = [len(weft.ad_checkpoint.saved_residuals(f, 1.0)) for f in (keep, drop)]
    assert kept[0] > kept[1]
    assert Offloadable(src="device", dst="pinned_host").dst == "pinned_host"


def test_concrete_checkpoints_say_what_to_do():
    with pytest.raises(NotImplementedError, match="static_argnums"):
        weft.checkpoint(lambda x: x, concrete=True)


def test_equal_static_values_share_one_trace():
    traces = []

    def scaled(x, n, *, mode="a"):
        traces.append((n, mode))
        return x * n if mode == "a" else x + n

    f = weft.checkpoint(scaled, static_argnums=1, static_argnames="mode")
    for _ in range(3):
        assert float(weft.grad(f)(2.0, 3)) == 3
        assert float(f(2.0, 3, mode="b")) == 5
        assert float(f(2.0, 4)) == 8
    assert sorted(traces) == [(3, "a"), (3, "b"), (4, "a")]
    assert float(f(2.0, 3.0)) == 6 and len(traces) == 4  # a number of another type
    assert float(weft.checkpoint(lambda x, v: x * v[0], static_argnums=-1)(2.0, [5])) == 10


def test_static_values_without_bound_are_not_all_kept():
    f = weft.checkpoint(lambda x, n: x + n, static_argnums=1)
    assert [float(f(1.0, n)) for n in range(200)] == [1.0 + n for n in range(200)]
