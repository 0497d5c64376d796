"""vmap(spmd_axis_name=…) of a shard_map: examples spread over a mesh axis."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.collectives.harness import COMPILER_OPTIONS, mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

W = np.float32(3)


@pytest.fixture
def x(rng):
    """Four examples for mesh axis y; dimension 1 is split over x."""
    return rng.standard_normal((4, 2, 3)).astype(np.float32)


def spread(body, check_vma=True, in_axes=(0, None)):
    mesh = mesh_of(Machine(x=2, y=4), ("x", "y"))
    mapped = weft.shard_map(
        body, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=check_vma
    )
    f = weft.vmap(mapped, in_axes=in_axes, spmd_axis_name="y")
    return weft.jit(f, compiler_options=COMPILER_OPTIONS)


def _times_total(v, w):
    return w * v * lax.psum(v, "x")


def _scan(v, w):
    return lax.scan(lambda c, _: (c * lax.psum(v, "x"), None), w * v, None, length=1)[0]


def _scan_of_equal_carry(v, w):
    total = lax.scan(lambda c, _: (c * w, None), lax.psum(v, "x"), None, length=1)[0]
    return v * total


def _chosen(v, w):
    everything = lax.psum(v, "x").sum()
    return lax.cond(everything > -1e9, lambda: _times_total(v, w), lambda: v)


@weft.custom_vjp
def _tripled(v):
    return 3 * v


_tripled.defvjp(lambda v: (_tripled(v), None), lambda _, ct: (3 * ct,))

BODIES = {
    "product": _times_total,
    "jit": lambda v, w: weft.jit(_times_total)(v, w),
    "checkpoint": weft.checkpoint(_times_total),
    "scan": _scan,
    "scan of a carry that is equal": _scan_of_equal_carry,
    "cond": _chosen,
    "custom derivative": lambda v, w: _tripled(v) * lax.psum(v, "x") * (w / 3),
    "map": lambda v, w: lax.map(lambda r: r * w * lax.psum(r, "x"), v),
}


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_values_and_derivatives_are_those_of_the_examples(name, check_vma, x):
    f = spread(BODIES[name], check_vma)
    total = x.sum(1, keepdims=True)
    np.testing.assert_allclose(f(x, W), W * x * total, rtol=1e-4, atol=1e-5)
    loss = weft.jit(lambda x, w: f(x, w).sum(), compiler_options=COMPILER_OPTIONS)
    by_x, by_w = weft.grad(loss, (0, 1))(x, W)
    np.testing.assert_allclose(by_x, 2 * W * np.repeat(total, 2, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_w, (x * total).sum(), rtol=1e-4)


def test_a_carry_that_becomes_batched_in_the_loop(x):
    def body(v, w):
        return v * lax.scan(lambda c, _: (c * w, None), jnp.float32(1), None, length=2)[0]

    f = spread(body, in_axes=(0, 0))
    ws = np.arange(1.0, 5.0, dtype=np.float32)
    np.testing.assert_allclose(f(x, ws), (ws**2)[:, None, None] * x, rtol=1e-5)
    slopes = weft.grad(lambda w: f(x, w).sum())(ws)
    np.testing.assert_allclose(slopes, 2 * ws * x.sum((1, 2)), rtol=1e-4, atol=1e-5)


def test_examples_of_one_device_may_end_a_loop_differently(x):
    def body(v, w):
        return lax.while_loop(lambda u: lax.psum((u * u).sum(), "x") < 50, lambda u: 2 * u, v)

    want = x.copy()
    for example in want:
        while (example * example).sum() < 50:
            example *= 2
    np.testing.assert_allclose(spread(body)(x, W), want, rtol=1e-5)


def test_batched_values_vary_over_the_axis_in_inner_programs(x):
    text = str(weft.make_jaxpr(spread(_scan))(x, W))
    inner = text[text.index("scan[") :]
    assert "{V:x,y}" in inner[: inner.index("in (")]


def _branches(p, v):
    """Devices along x take different branches; one gives a constant."""
    return lax.cond(p > 0, lambda v: v * 2, lambda v: 1.0, v)


def _branches_in_a_loop(p, v):
    return lax.scan(lambda c, _: (_branches(p, c), None), v, None, length=2)[0]


def _from_a_constant(p, v):
    return lax.scan(lambda c, _: (c + v, None), lax.pcast(1.0, "x", to="varying"), None, length=2)[
        0
    ]


def _by_jvp(fun):
    f = weft.custom_jvp(fun)
    f.defjvp(lambda primals, tangents: (f(*primals), 5 * tangents[1]))
    return f


def _by_vjp(fun):
    f = weft.custom_vjp(fun)
    f.defvjp(lambda p, v: (fun(p, v), None), lambda _, ct: (None, 5 * ct))
    return f


@pytest.mark.parametrize("rule", [_by_jvp, _by_vjp], ids=["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("fun", [_branches, _branches_in_a_loop, _from_a_constant])
def test_rules_join_types_over_the_axis_that_they_cannot_know(rule, fun):
    mesh = mesh_of(Machine(x=2, y=4), ("x", "y"))
    f = rule(fun)
    mapped = weft.shard_map(
        lambda p, v: f(p[0], v[0])[None], mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x")
    )
    p = np.float32([-1, 1])
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    spread_over_y = lambda x: weft.vmap(mapped, (None, 0), spmd_axis_name="y")(p, x)
    jitted = weft.jit(
        lambda x: weft.value_and_grad(lambda x: spread_over_y(x).sum())(x),
        compiler_options=COMPILER_OPTIONS,
    )
    out = {
        _branches: np.where(p > 0, 2 * x, 1),
        _branches_in_a_loop: np.where(p > 0, 4 * x, 1),
        _from_a_constant: 1 + 2 * x,
    }[fun]
    value, grad = jitted(x)
    np.testing.assert_array_equal(value, out.sum())
    np.testing.assert_array_equal(grad, np.full_like(x, 5))


def test_residuals_of_an_untracked_body_leave_the_axis_to_examples():
    mesh = mesh_of(Machine(x=2, y=4), ("x", "y"))
    f = weft.shard_map(jnp.sin, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    g = weft.vmap(weft.grad(lambda v: f(v).sum()), spmd_axis_name="y")
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    got = weft.jit(g, compiler_options=COMPILER_OPTIONS)(x)
    np.testing.assert_allclose(got, np.cos(x), rtol=1e-6)
