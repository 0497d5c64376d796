"""Stacks of control flow, checkpoints, rules and regions over elementwise functions.

The reference is NumPy on pairs (value, derivative): every function here maps numbers to numbers.
"""

import random

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.collectives.harness import COMPILER_OPTIONS
from weft import P, lax
from weft.ad_checkpoint import checkpoint_name

X = np.float32([0.3, -0.8, 1.1, 0.6])
MESH = weft.make_mesh((2, 4), ("x", "y"), axis_types=(weft.sharding.AxisType.Auto,) * 2)
POLICIES = {
    "everything": weft.checkpoint_policies.everything_saveable,
    "nothing": weft.checkpoint_policies.nothing_saveable,
    "dots": weft.checkpoint_policies.dots_saveable,
    "names": weft.checkpoint_policies.save_only_these_names("mid"),
    "other names": weft.checkpoint_policies.save_any_names_but_these("mid"),
    "offloaded": weft.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["mid"],
        names_which_can_be_offloaded=[],
        offload_src="device",
        offload_dst="pinned_host",
    ),
}


def chain(outer, inner):
    """outer(value) -> (value, derivative) after inner."""

    def composed(v):
        a, da = inner(v)
        b, db = outer(a)
        return b, db * da

    return composed


def tanh(v):
    return np.tanh(v), 1 - np.tanh(v) ** 2


def sine(v):
    return np.sin(v), np.cos(v)


def checkpointed(policy):
    def wrap(f):
        return weft.checkpoint(lambda v: f(checkpoint_name(jnp.tanh(f(v)), "mid")), policy=policy)

    return wrap


def by_custom_jvp(f):
    g = weft.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (g(*primals), 1.5 * weft.jvp(f, primals, tangents)[1]))
    return g


def by_custom_vjp(f):
    g = weft.custom_vjp(f)
    g.defvjp(lambda v: (g(v), v), lambda v, ct: (1.5 * weft.vjp(f, v)[1](ct)[0],))
    return g


def steeper(f):
    return lambda v: (f(v)[0], 1.5 * f(v)[1])


def chosen(f):
    def reference(v):
        (a, da), (b, db) = f(v), sine(v)
        return np.where(v > 0, a, b), np.where(v > 0, da, db)

    return reference


def twice(f):
    return chain(f, chain(tanh, f))


def region(check_vma, spec):
    def wrap(f):
        g = weft.shard_map(f, mesh=MESH, in_specs=spec, out_specs=spec, check_vma=check_vma)
        return lambda v: g(v[None])[0] if spec == P() else g(v)

    return wrap


def spread(f):
    g = weft.shard_map(f, mesh=MESH, in_specs=P(), out_specs=P(), check_vma=False)
    return lambda v: weft.vmap(g, spmd_axis_name="y")(v[:, None])[:, 0]


def scanned(**options):
    def wrap(f):
        return lambda v: lax.scan(lambda c, _: (f(jnp.tanh(f(c))), None), v, None, 1, **options)[0]

    return wrap


# Each takes a function to another; what it computes stands beside it.
LAYERS = {
    "jit": (weft.jit, lambda f: f),
    "custom_jvp": (by_custom_jvp, steeper),
    "custom_vjp": (by_custom_vjp, steeper),
    "cond": (
        lambda f: weft.vmap(lambda v: lax.cond(v > 0, f, jnp.sin, v)),
        chosen,
    ),
    "switch": (
        lambda f: weft.vmap(lambda v: lax.switch(jnp.int32(v > 0), [jnp.sin, f], v)),
        chosen,
    ),
    "map": (lambda f: lambda v: lax.map(f, v), lambda f: f),
    "map by two": (lambda f: lambda v: lax.map(f, v, batch_size=3), lambda f: f),
    "vmap of rows": (
        lambda f: lambda v: weft.vmap(f, in_axes=1, out_axes=1)(jnp.stack([v, v], 1))[:, 1],
        lambda f: f,
    ),
    "vmap of trees": (
        lambda f: (
            lambda v: weft.vmap(
                lambda t: {"out": f(t["a"][0]), "same": t["a"][1]},
                in_axes=({"a": (0, None)},),
                out_axes={"out": 0, "same": None},
            )({"a": (v, 1.0)})["out"]
        ),
        lambda f: f,
    ),
    "fori_loop": (
        lambda f: lambda v: lax.fori_loop(0, 1, lambda i, c: f(jnp.tanh(f(c))), v),
        twice,
    ),
    "scan": (scanned(), twice),
    "scan in reverse": (scanned(reverse=True), twice),
    "scan over the elements": (
        lambda f: lambda v: lax.scan(lambda c, a: (c + 1, f(a)), 0, v, unroll=2)[1],
        lambda f: f,
    ),
    "region": (region(True, P("y")), lambda f: f),
    "untracked region": (region(False, P("y")), lambda f: f),
    "replicated region": (region(True, P()), lambda f: f),
    "spread over a mesh axis": (spread, lambda f: f),
    **{f"checkpoint, {k}": (checkpointed(p), twice) for k, p in POLICIES.items()},
}
STACKS = [random.Random(seed).sample(sorted(LAYERS), 3) for seed in range(36)]


def allowed(stack):
    """Regions over one mesh do not nest, nor do loops over elements inside of one element."""
    regions = [s for s in stack if "region" in s or "spread" in s]
    inner = ("cond", "switch", "map", "scan over", "vmap of trees", "region", "spread")
    elementwise = [s.startswith(("cond", "switch", "map", "scan over", "vmap of t")) for s in stack]
    below = elementwise.index(True) if any(elementwise) else len(stack)
    return len(regions) < 2 and not any(s.startswith(inner) for s in stack[below + 1 :])


STACKS = [
    s for s in STACKS if allowed(s) and not any("region" in x or "spread" in x for x in s[1:])
]


@pytest.mark.parametrize("stack", STACKS, ids=", ".join)
def test_values_and_derivatives_of(stack):
    f, reference = jnp.sin, sine
    for name in reversed(stack):
        layer, meaning = LAYERS[name]
        f, reference = layer(f), meaning(reference)
    value, slope = reference(X.astype(float))

    def run(x):
        out, vjp = weft.vjp(f, x)
        forward = () if "custom_vjp" in stack else (weft.jvp(f, (x,), (jnp.ones_like(x),))[1],)
        return out, vjp(jnp.ones_like(out))[0], *forward

    out, *slopes = weft.jit(run, compiler_options=COMPILER_OPTIONS)(X)
    np.testing.assert_allclose(out, value, rtol=1e-5, atol=1e-6)
    for got in slopes:
        np.testing.assert_allclose(got, slope, rtol=1e-4, atol=1e-6)
