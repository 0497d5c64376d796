"""What policies of checkpoint keep inside of loops and branches."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.ad_checkpoint import checkpoint_name

W = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) / 2
POLICIES = weft.checkpoint_policies


def count(jaxpr, name):
    """How often a primitive stands in a jaxpr and in those inside of it."""
    total = 0
    for eqn in jaxpr.eqns:
        total += eqn.primitive.name == name
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner, "eqns"):
                    total += count(inner, name)
    return total


def step(x, w):
    return jnp.sin(checkpoint_name(jnp.sin(x @ w), "hidden") @ w)


def in_scan(x, w):
    return lax.scan(lambda c, _: (step(c, w), None), x, None, length=3)[0].sum()


def in_cond(x, w):
    return lax.cond(x.sum() > -1e6, lambda x: step(x, w), lambda x: x * 2, x).sum()


def in_switch(x, w):
    kinds = [lambda x: step(x, w), lambda x: jnp.cos(x @ w), lambda x: x]
    return sum(lax.switch(i, kinds, x).sum() for i in range(3))


def in_both(x, w):
    def body(c, i):
        return lax.cond(i > 0, lambda c: step(c, w), lambda c: jnp.tanh(c @ w), c), i

    return lax.scan(body, x, jnp.arange(3))[0].sum()


def in_jit(x, w):
    return lax.scan(lambda c, _: (weft.jit(step)(c, w), None), x, None, length=3)[0].sum()


PROGRAMS = [in_scan, in_cond, in_switch, in_both, in_jit]


def numeric_gradient(f, x, eps=1e-3):
    """Central differences along three directions, with the directions."""
    rng = np.random.default_rng(1)
    directions = [rng.normal(size=x.shape).astype(np.float32) for _ in range(3)]
    return [(d, (float(f(x + eps * d)) - float(f(x - eps * d))) / (2 * eps)) for d in directions]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "policy",
    [
        POLICIES.checkpoint_dots,
        POLICIES.save_only_these_names("hidden"),
        POLICIES.everything_saveable,
        POLICIES.nothing_saveable,
        POLICIES.save_and_offload_only_these_names(
            names_which_can_be_saved=[],
            names_which_can_be_offloaded=["hidden"],
            offload_src="device",
            offload_dst="pinned_host",
        ),
    ],
    ids=["dots", "names", "everything", "nothing", "offload"],
)
def test_derivatives_are_those_of_the_function(program, policy):
    x = W[:2] * 1.5
    kept = weft.checkpoint(program, policy=policy)
    grad = np.asarray(weft.jit(weft.grad(kept))(x, W))
    for direction, slope in numeric_gradient(weft.jit(lambda x: program(x, W)), x):
        np.testing.assert_allclose((grad * direction).sum(), slope, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("program", PROGRAMS)
def test_products_that_are_kept_are_not_computed_again(program):
    x = W[:2]

    def products(f):
        return count(weft.make_jaxpr(weft.grad(f))(x, W).jaxpr, "dot_general")

    plain, none = products(program), products(weft.checkpoint(program))
    assert products(weft.checkpoint(program, policy=POLICIES.checkpoint_dots)) == plain < none


def test_a_batched_checkpoint_keeps_products_too():
    f = weft.checkpoint(in_scan, policy=POLICIES.checkpoint_dots)
    xs = np.stack([W, 2 * W])
    grads = weft.vmap(weft.grad(f), in_axes=(0, None))(xs, W)
    for x, grad in zip(xs, grads, strict=True):
        for direction, slope in numeric_gradient(lambda x: in_scan(x, W), x):
            np.testing.assert_allclose((grad * direction).sum(), slope, rtol=2e-2, atol=2e-2)
