"""custom_vmap and sequential_vmap: the batching rule is what vmap sees."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax

X = np.array([0.5, -1.0, 2.0], np.float32)
custom_vmap = weft.custom_batching.custom_vmap
sequential_vmap = weft.custom_batching.sequential_vmap


def ruled(log=None):
    """x + y, and ten more under vmap."""

    @custom_vmap
    def f(x, y):
        return x + y

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        if log is not None:
            log.append((axis_size, in_batched))
        return x + y + 10.0, any(in_batched)

    return f


STACKS = {
    "vmap": lambda f: weft.vmap(f, in_axes=(0, None)),
    "jit of vmap": lambda f: weft.jit(weft.vmap(f, in_axes=(0, None))),
    "vmap of jit": lambda f: weft.vmap(weft.jit(f), in_axes=(0, None)),
    "vmap of scan": lambda f: weft.vmap(
        lambda x, y: lax.scan(lambda c, _: (f(c, y), None), x, None, length=1)[0], in_axes=(0, None)
    ),
    "vmap of cond": lambda f: weft.vmap(
        lambda x, y: lax.cond(y > 0, f, lambda x, y: x, x, y), in_axes=(0, None)
    ),
}


@pytest.mark.parametrize("stack", STACKS)
def test_the_rule_batches_under(stack):
    close(STACKS[stack](ruled())(X, 2.0), X + 12)


def test_the_rule_is_told_the_size_and_which_arguments_are_batched():
    log = []
    f = ruled(log)
    close(f(1.0, 2.0), 3.0)
    weft.vmap(f, in_axes=(0, None))(X, 2.0)
    weft.vmap(f, in_axes=(None, 1))(1.0, np.ones((2, 5), np.float32))
    assert log == [(3, [True, False]), (5, [False, True])]


def test_batched_arguments_have_the_axis_in_front():
    f = custom_vmap(lambda x: x)

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        assert x.shape == (4, 2, 3)
        return x * 2, True

    y = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    close(weft.vmap(f, in_axes=2, out_axes=2)(y), 2 * y)


def test_results_may_be_unbatched_and_trees():
    f = custom_vmap(lambda p: {"a": p["x"] * 2, "b": (p["y"], 1.0)})

    @f.def_vmap
    def rule(axis_size, in_batched, p):
        (flags,) = in_batched
        assert flags == {"x": True, "y": False}
        return {"a": p["x"] * 3, "b": (p["y"], 7.0)}, {"a": True, "b": False}

    got = weft.vmap(f, in_axes=({"x": 0, "y": None},))({"x": X, "y": 2.0})
    close(got, {"a": 3 * X, "b": ([2.0] * 3, [7.0] * 3)})


def test_nested_vmaps_apply_the_rule_of_the_function_called_in_the_rule():
    f = custom_vmap(lambda x: x)

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        return f(x) + 1.0, True

    close(weft.vmap(weft.vmap(f))(np.zeros((2, 3), np.float32)), np.full((2, 3), 2.0))


def test_derivatives_are_those_of_the_body():
    f = custom_vmap(lambda x: jnp.sin(x))
    f.def_vmap(lambda size, batched, x: (jnp.sin(x), True))
    close(weft.grad(f)(0.5), np.cos(0.5))
    close(weft.vmap(weft.grad(f))(X), np.cos(X))
    close(weft.jit(weft.grad(lambda x: jnp.sum(weft.vmap(f)(x))))(X), np.cos(X))


def test_sequential_vmap_maps_one_example_after_the_other():
    shapes = []

    @sequential_vmap
    def f(x, y):
        shapes.append(x.shape)
        return x * y, jnp.sum(x)

    ys = np.array([1.0, 2.0], np.float32)
    xs = np.stack([X, 2 * X])
    for wrap in (lambda h: h, weft.jit):
        got = wrap(weft.vmap(f))(xs, ys)
        close(got, (xs * ys[:, None], xs.sum(1)))
        close(wrap(weft.vmap(f, in_axes=(0, None)))(xs, 3.0), (3 * xs, xs.sum(1)))
    assert set(shapes) == {(3,)}


def test_custom_vmap_inside_custom_jvp_and_back():
    batched = ruled()

    @weft.custom_jvp
    def g(x, y):
        return batched(x, y)

    g.defjvp(lambda p, t: (g(*p), 5.0 * t[0]))
    close(weft.vmap(g, in_axes=(0, None))(X, 2.0), X + 12)
    close(weft.vmap(weft.grad(g), in_axes=(0, None))(X, 2.0), [5.0] * 3)


A, B = np.arange(1.0, 4.0, dtype=np.float32), np.arange(2.0, 5.0, dtype=np.float32)


def scaled(x, w):
    """Twice the product for one example, three times in a batch: which one is differentiated?"""
    f = weft.custom_batching.custom_vmap(lambda x, w: (2 * x * w, 0))

    @f.def_vmap
    def rule(size, batched, x, w):
        assert w.shape == (3,) or not batched[1]
        return (3 * x * w, 0), (batched[0] or batched[1], False)

    return f(x, w)[0]


DERIVATIVES = {
    "jvp": (lambda x, w: weft.jvp(scaled, (x, w), (1.0, 0.0))[1], lambda x, w: 3 * w),
    "grad": (weft.grad(scaled), lambda x, w: 3 * w),
    "grad of both": (lambda x, w: sum(weft.grad(scaled, (0, 1))(x, w)), lambda x, w: 3 * (x + w)),
    "linearize": (lambda x, w: weft.linearize(scaled, x, w)[1](1.0, 1.0), lambda x, w: 3 * (x + w)),
    "jitted inside": (weft.jit(weft.grad(scaled)), lambda x, w: 3 * w),
    "checkpoint": (weft.grad(weft.checkpoint(scaled)), lambda x, w: 3 * w),
    "grad of jvp": (
        weft.grad(lambda x, w: weft.jvp(scaled, (x, w), (x, w))[1]),
        lambda x, w: 6 * w,
    ),
    "grad of grad": (
        weft.grad(lambda x, w: weft.grad(scaled)(x, w) * w * x),
        lambda x, w: 3 * w * w,
    ),
    "scan": (
        weft.grad(lambda x, w: weft.lax.scan(lambda c, _: (scaled(c, w), None), x, None, 2)[0]),
        lambda x, w: 9 * w * w,
    ),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)], ids=str)
def test_the_derivative_of_a_batch_is_that_of_the_rule(name, jitted, axes):
    derivative, expected = DERIVATIVES[name]
    args = [v if a == 0 else v[1] for v, a in zip((A, B), axes, strict=True)]
    batched = weft.vmap(derivative, in_axes=axes)
    got = (weft.jit(batched) if jitted else batched)(*args)
    np.testing.assert_allclose(got, np.broadcast_to(expected(*args), (3,)), rtol=1e-6)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda n, b, x: ((x, x), True), "structure of the function's output"),
        (lambda n, b, x: (np.ones((3, 5), np.float32), True), r"output 0 has type f32\[3,5\]"),
        (lambda n, b, x: (x.astype(int), True), r"output 0 has type i32\[3\].*f32\[\]"),
        (lambda n, b, x: (x, False), r"expected f32\[\]"),
        (lambda n, b, x: (np.ones(4, np.float32), True), "does not begin with the axis size 3"),
    ],
)
def test_what_a_rule_returns_has_the_types_of_the_function(rule, words):
    f = weft.custom_batching.custom_vmap(lambda x: 2 * x)
    f.def_vmap(rule)
    for batched in (weft.vmap(f), weft.jit(weft.vmap(f)), weft.vmap(weft.jit(f))):
        with pytest.raises(ValueError, match=words):
            batched(A)


def test_a_custom_vjp_function_has_the_attributes_of_its_function():
    f = weft.custom_vjp(custom_vmap(lambda x, y: jnp.sin(x) * y))
    f.def_vmap(lambda size, batched, x, y: (jnp.cos(x) * y, True))
    f.defvjp(lambda x, y: (f(x, y), (jnp.cos(x), y)), lambda res, g: (res[0] * g * res[1], g))
    np.testing.assert_allclose(weft.vmap(f)(jnp.zeros(3), jnp.ones(3)), np.ones(3))
    assert weft.grad(f)(jnp.zeros(()), jnp.ones(())) == 1.0
    assert not hasattr(f, "no_such_attribute")
