"""Control flow on arrays split over devices: values, gradients, where results live."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.ops.test_control_table import (
    ALL,
    PROGRAMS,
    P,
    X,
    close,
    differences,
    grad_reference,
    loss,
)
from weft import lax

AUTO = weft.sharding.AxisType.Auto
EXPLICIT = weft.sharding.AxisType.Explicit
# Four examples over four devices; the programs are mapped over them.
XS = np.stack([X, X + 0.1, -X, 0.5 * X])
PS = np.array([0.4, 0.6, 0.9, 0.55])


@pytest.fixture(autouse=True)
def _x64():
    with weft.enable_x64(True):
        yield


def split(x, kind=AUTO):
    mesh = weft.make_mesh((4,), ("x",), axis_types=(kind,))
    return weft.device_put(x, weft.NamedSharding(mesh, weft.P("x")))


@pytest.mark.parametrize("name", ALL)
def test_a_loop_over_split_examples_agrees_with_numpy_and_stays_split(name):
    program, reference = ALL[name]
    out = weft.jit(weft.vmap(program))(split(XS), split(PS))
    close(out, [reference(x, p) for x, p in zip(XS, PS, strict=True)])
    assert len(out.sharding.device_set) == 4
    if name != "while_loop" and "dynamic" not in name:
        assert out.sharding.shard_shape(out.shape) == (1, 3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_over_split_examples_agree_with_numpy(name):
    program, reference = PROGRAMS[name]
    g = weft.jit(weft.vmap(weft.grad(loss(program, jnp))))(split(XS), split(PS))
    want = [grad_reference(reference, p)(x) for x, p in zip(XS, PS, strict=True)]
    close(g, want, 1e-6)


def test_gradients_of_shared_parameters_are_summed_over_devices():
    program, reference = PROGRAMS["scan"]
    total = lambda p, xs: jnp.sum(weft.vmap(program, in_axes=(0, None))(xs, p))
    g = weft.jit(weft.grad(total))(P, split(XS))
    want = differences(lambda q: sum(reference(x, q[0]).sum() for x in XS), np.array([P]))
    close(g, want[0], 1e-6)


def test_a_carry_split_over_devices_stays_split_in_the_loop():
    def f(x, stack):
        return lax.scan(lambda c, a: (jnp.tanh(c @ a), None), x, stack)[0]

    stack = np.random.default_rng(0).standard_normal((3, 8, 8))
    x = np.arange(32.0).reshape(4, 8) / 32
    want = x
    for a in stack:
        want = np.tanh(want @ a)
    compiled = weft.jit(f).lower(split(x), stack).compile()
    close(compiled(split(x), stack), want)
    assert "all-gather" not in compiled.as_text()


def test_predicates_on_split_arrays_choose_one_branch_for_all():
    f = weft.jit(lambda x: lax.cond(jnp.sum(x) > 0, lambda x: x * 2, lambda x: -x, x))
    x = np.array([1.0, -2.0, 3.0, -1.0])
    close(f(split(x)), 2 * x)
    close(f(split(-x)), x)
    loop = weft.jit(lambda x: lax.while_loop(lambda x: jnp.max(x) < 20, lambda x: x * 2, x))
    close(loop(split(x)), 8 * x)


def test_explicit_types_pass_through_loops_and_branches():
    x = split(np.arange(8.0), EXPLICIT)

    @weft.jit
    def f(x):
        seen = []

        def body(c, _):
            seen.append(weft.typeof(c))
            return jnp.sin(c), c * 2

        last, ys = lax.scan(body, x, None, length=2)
        chosen = lax.cond(jnp.sum(x) > 0, lambda x: x + 1, lambda x: x - 1, last)
        looped = lax.fori_loop(0, 2, lambda i, c: c * 0.5, chosen)
        assert all("x" in t.sharding.spec for t in seen)
        assert weft.typeof(looped).sharding.spec == weft.P("x")
        assert weft.typeof(ys).sharding.spec == weft.P(None, "x")
        return looped, ys

    v = np.arange(8.0)
    close(f(x)[0], (np.sin(np.sin(v)) + 1) / 4)
    close(f(x)[1], np.stack([2 * v, 2 * np.sin(v)]))
    close(weft.jit(weft.grad(lambda x: f(x)[0].sum()))(x), np.cos(np.sin(v)) * np.cos(v) / 4)


def test_a_carry_that_changes_its_explicit_sharding_is_an_error_that_says_how_to_mend_it():
    x = split(np.arange(8.0), EXPLICIT)
    with pytest.raises(TypeError, match="carry must keep its type") as info:
        weft.jit(lambda x: lax.scan(lambda c, _: (weft.reshard(c, weft.P()), None), x, None, 2))(x)
    assert "weft.reshard(x, weft.P('x'" in str(info.value)
    with pytest.raises(TypeError, match="branches must return the same types"):
        weft.jit(lambda x: lax.cond(True, lambda x: weft.reshard(x, weft.P()), lambda x: x, x))(x)


def test_loops_inside_shard_map_communicate_in_every_iteration():
    mesh = weft.make_mesh((4,), ("x",), axis_types=(AUTO,))

    def local(x):
        def body(c, _):
            return c + lax.ppermute(c, "x", [(i, (i + 1) % 4) for i in range(4)]), lax.psum(c, "x")

        return lax.scan(body, x, None, length=2)

    f = weft.shard_map(
        local, mesh=mesh, in_specs=weft.P("x"), out_specs=(weft.P("x"), weft.P(None))
    )
    v = np.array([1.0, 2.0, 4.0, 8.0])
    once = v + np.roll(v, 1)
    want = (once + np.roll(once, 1), np.array([[v.sum()], [once.sum()]]))
    for wrap in (lambda g: g, weft.jit):
        out = wrap(f)(v)
        close(out[0], want[0])
        close(out[1], want[1])
    grad = weft.jit(weft.grad(lambda v: jnp.sum(f(v)[0] * v)))(v)
    matrix = np.eye(4) + np.roll(np.eye(4), 1, axis=0)
    square = matrix @ matrix
    close(grad, (square + square.T) @ v)


def test_loops_inside_shard_map_may_start_from_values_like_their_operands():
    mesh = weft.make_mesh((4,), ("x",), axis_types=(AUTO,))

    def loss(w, x):
        def local(w, x):
            start = jnp.zeros_like(x) + lax.full_like(x, 0.0)
            return lax.scan(lambda c, a: (c * w + a, None), start, jnp.stack([x, x]))[0]

        f = weft.shard_map(
            local, mesh=mesh, in_specs=(weft.P(), weft.P("x")), out_specs=weft.P("x")
        )
        return jnp.sum(f(w, x))

    v = np.array([1.0, 2.0, 4.0, 8.0])
    value, grad = weft.jit(weft.value_and_grad(loss))(2.0, v)
    close(value, 3 * v.sum())
    close(grad, v.sum())


def test_a_loop_that_ends_differently_on_each_device_gives_a_value_that_varies():
    mesh = weft.make_mesh((4,), ("x",), axis_types=(AUTO,))
    types = []

    def local(x):
        count, twos, fixed = lax.while_loop(
            lambda s: (s[0] < x).all(),
            lambda s: (s[0] + 1, s[1] * 2.0, jnp.zeros(1)),
            (0, jnp.ones(1), jnp.ones(1)),
        )
        power = lax.fori_loop(0, x[0].astype("int32"), lambda i, c: c * 3.0, jnp.ones(1))
        types.extend(weft.typeof(v).mat.varying for v in (count, twos, fixed, power))
        return count[None], twos, fixed, power

    f = weft.shard_map(local, mesh=mesh, in_specs=weft.P("x"), out_specs=weft.P("x"))
    v = np.arange(4.0)
    count, twos, fixed, power = weft.jit(f)(v)
    assert set(types) == {frozenset("x")}
    for got, want in ((count, v), (twos, 2**v), (fixed, v == 0), (power, 3**v)):
        close(got, want)
    with pytest.raises((TypeError, ValueError), match="vary|varies"):
        weft.shard_map(local, mesh=mesh, in_specs=weft.P("x"), out_specs=weft.P())(v)

    def scaled(w, x):
        step = lambda s: (s[0] + 1, s[1] * w)
        return lax.while_loop(lambda s: (s[0] < x).all(), step, (0, jnp.ones(1)))[1]

    g = weft.shard_map(scaled, mesh=mesh, in_specs=(weft.P(), weft.P("x")), out_specs=weft.P("x"))
    _, tangent = weft.jit(lambda w: weft.jvp(lambda w: g(w, v), (w,), (1.0,)))(2.0)
    close(tangent, v * 2.0 ** np.maximum(v - 1, 0))
