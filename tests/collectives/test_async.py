"""Started collectives: their type, their StableHLO, and futures across loops and branches."""

import inspect
import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.collectives.harness import COMPILER_OPTIONS, mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 8
RING = [(i, (i + 1) % N) for i in range(N)]
X = np.arange(1.0, N + 1, dtype=np.float32)
SPLIT = P("x")


def on_devices(body, out_specs=SPLIT):
    mesh = mesh_of(Machine(x=N), ("x",))
    mapped = weft.shard_map(body, mesh=mesh, in_specs=SPLIT, out_specs=out_specs)
    return weft.jit(mapped, compiler_options=COMPILER_OPTIONS)


def overlapped(v):
    future = lax.psum_start(v, "x")
    w = jnp.sin(v) * jnp.cos(v)
    return future.done() + w


STARTS = {
    "psum": lambda v: lax.psum_start(v, "x"),
    "all_gather": lambda v: lax.all_gather_start(v, "x", axis=1),
    "psum_scatter": lambda v: lax.psum_scatter_start(v, "x", scatter_dimension=1),
    "all_to_all": lambda v: lax.all_to_all_start(v, "x", 1, 0),
    "pbroadcast": lambda v: lax.pbroadcast_start(v, "x", 3),
    "ppermute": lambda v: lax.ppermute_start(v, "x", RING),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_value_under_way_has_its_own_type_in_the_jaxpr(name):
    text = str(weft.make_jaxpr(on_devices(lambda v: STARTS[name](v).done()))(np.ones((N, N))))
    primitive = "reduce_scatter" if name == "psum_scatter" else name
    assert f":in_flight[{primitive} f32[" in text
    assert re.search(rf"= {primitive}_start\[.*\] \w+\n.* = done ", text)


@pytest.mark.parametrize("name", STARTS)
def test_a_start_has_the_collectives_parameters_and_its_errors_name_it(name):
    start, collective = getattr(lax, f"{name}_start"), getattr(lax, name)
    assert (start.__module__, collective.__module__) == ("weft.lax", "weft.lax")
    parameters = inspect.signature(start).parameters
    assert list(parameters.values()) == list(inspect.signature(collective).parameters.values())
    with pytest.raises(TypeError, match=rf"{name}_start\(\) missing .* 'axis_name'"):
        start(X)
    with pytest.raises(NameError, match=rf"lax.{name}_start: .*axis name 'q' is not bound"):
        required = [p for p in parameters.values() if p.default is p.empty]
        start(X, "q", *[0] * len(required[2:]))


@pytest.mark.parametrize("name", STARTS)
def test_a_start_and_its_done_are_apart_in_stablehlo(name):
    """What is traced between them stands between them, free to overlap."""

    def body(v):
        future = STARTS[name](v)
        return jnp.sin(v).sum() + future.done()

    text = on_devices(body).lower(np.ones((N, N), np.float32)).as_text()
    places = [text.index(op) for op in ("async_start", "stablehlo.sine", "async_done")]
    assert places == sorted(places)
    assert text.count("async_start") == text.count("async_done") == 1


def test_the_partitioned_program_keeps_the_overlap():
    text = str(on_devices(overlapped).lower(X).stages.local)
    places = [text.index(op) for op in ("async_start", "stablehlo.sine", "async_done")]
    assert places == sorted(places)


def test_the_compiled_program_names_the_start():
    """XLA:CPU joins start and done again (jaxlib 0.10.2); the name it keeps tells."""
    text = on_devices(overlapped).lower(X).compile().as_text()
    assert re.search(r"all-reduce(-start)?\(", text)
    assert "psum_start" in text


def test_start_and_done_around_the_compute_of_a_scan_body():
    def body(v):
        def step(c, _):
            future = lax.ppermute_start(c, "x", RING)
            return jnp.sin(c) + future.done(), None

        return lax.scan(step, v, None, length=3)[0]

    want = X
    for _ in range(3):
        want = np.sin(want) + np.roll(want, 1)
    np.testing.assert_allclose(on_devices(body)(X), want, rtol=1e-5)
    loop = on_devices(body).lower(X).as_text().split("stablehlo.while")[1]
    places = [loop.index(op) for op in ("async_start", "stablehlo.sine", "async_done")]
    assert places == sorted(places)


def carried(v):
    """Every iteration uses what the one before it started."""

    def step(state, _):
        future, total = state
        arrived = future.done()
        return (lax.all_gather_start(2 * v, "x", tiled=True), total + arrived.sum()), None

    first = (lax.all_gather_start(v, "x", tiled=True), 0 * v.sum())
    (future, total), _ = lax.scan(step, first, None, length=3)
    return total[None] + future.done().sum()


def test_a_future_may_be_carried_by_a_loop():
    np.testing.assert_allclose(on_devices(carried)(X), np.full(N, 7 * X.sum()), rtol=1e-6)


def test_a_carried_future_is_differentiated():
    gradient = weft.grad(lambda x: on_devices(carried)(x).sum())(X)
    np.testing.assert_allclose(gradient, np.full(N, 7 * N), rtol=1e-6)


@pytest.mark.parametrize("name", STARTS)
def test_futures_of_the_iterations_of_a_scan_are_stacked(name):
    start = STARTS[name]
    x = np.arange(64.0, dtype=np.float32).reshape(N, N)

    def values(v):
        done = lax.scan(lambda c, k: (c, start(k * v)), 0, jnp.array([1.0, 3.0]))[1].done()
        return done[:, None]

    once = on_devices(lambda v: start(v).done()[None])(x)
    np.testing.assert_allclose(on_devices(values, P(None, "x"))(x), np.stack([once, 3 * once]))


def test_a_future_may_be_done_behind_a_loop():
    def body(v):
        future = lax.psum_start(v, "x")
        w = lax.fori_loop(0, 3, lambda _, c: 2 * c, v)
        return future.done() + w

    np.testing.assert_allclose(on_devices(body)(X), X.sum() + 8 * X, rtol=1e-6)
    text = on_devices(body).lower(X).as_text()
    places = [text.index(op) for op in ("async_start", "stablehlo.while", "async_done")]
    assert places == sorted(places)


def test_a_future_may_come_out_of_a_branch():
    def body(v):
        def start(w):
            return lambda: lax.ppermute_start(w, "x", RING)

        return lax.cond(lax.psum(v, "x")[0] > 3, start(v), start(2 * v)).done()

    np.testing.assert_allclose(on_devices(body)(X), np.roll(X, 1))


def test_examples_choose_among_futures_of_branches():
    def body(v, p):
        start = lambda w: lax.psum_start(w, "x")
        return lax.cond(p, lambda v: start(2 * v), lambda v: start(v * v), v).done()

    mesh = mesh_of(Machine(x=N), ("x",))
    mapped = weft.shard_map(body, mesh=mesh, in_specs=(SPLIT, P()), out_specs=P())
    out = weft.vmap(mapped, (None, 0))(X, np.array([True, False]))
    np.testing.assert_allclose(out, [[2 * X.sum()], [(X * X).sum()]])


def test_a_future_may_be_carried_by_a_loop_whose_examples_end_differently():
    def body(v, n):
        def step(state):
            k, future = state
            return k + 1, lax.ppermute_start(future.done(), "x", RING)

        first = (0, lax.ppermute_start(v, "x", RING))
        return lax.while_loop(lambda state: state[0] < n, step, first)[1].done()

    mesh = mesh_of(Machine(x=N), ("x",))
    mapped = weft.shard_map(body, mesh=mesh, in_specs=(SPLIT, P()), out_specs=SPLIT)
    out = weft.vmap(mapped, (None, 0))(X, np.array([0, 2]))
    np.testing.assert_array_equal(out, [np.roll(X, 1), np.roll(X, 3)])


def test_a_future_may_be_returned_from_jit_and_vmap():
    def start(v):
        return lax.ppermute_start(v, "i", RING)

    future = weft.jit(weft.vmap(start, axis_name="i"))(X)
    np.testing.assert_allclose(future.done(), np.roll(X, 1))


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("shape", [(N, N, 0), (0, N, N)])
def test_a_start_of_no_elements_arrives(name, shape):
    out = on_devices(lambda v: STARTS[name](v[0]).done()[None])(np.zeros((N, *shape)))
    assert out.size == 0


def test_a_start_along_an_axis_of_size_one_leaves_other_collectives_as_they_are():
    mesh = mesh_of(Machine(x=1, y=N), ("x", "y"))

    def body(v):
        return lax.all_gather_start(lax.psum(v, "y"), "x", tiled=True).done()

    mapped = weft.shard_map(body, mesh=mesh, in_specs=P("y"), out_specs=P("x"))
    text = weft.jit(mapped).lower(X).as_text()
    assert "all_reduce" in text
    assert "async_start" not in text


def test_a_function_that_returns_a_future_has_a_pullback():
    def body(v):
        future, back = weft.vjp(lambda v: lax.ppermute_start(v * v, "x", RING), v)
        return back(future)[0]

    np.testing.assert_allclose(on_devices(body)(X), 2 * X**3, rtol=1e-6)


def test_the_shape_of_a_future_is_its_type():
    shape = weft.eval_shape(weft.vmap(lambda v: lax.psum_start(v, "i"), axis_name="i"), X)
    assert repr(shape) == "Future(in_flight[psum f32[8]])"


def test_a_future_of_a_pytree_gives_the_pytree():
    def body(v):
        return lax.psum_start({"a": v, "b": (2, v.astype(bool))}, "x").done()

    out = on_devices(body, P())(X)
    assert (out["a"], out["b"][0], out["b"][1]) == (X.sum(), 16, 8)


def test_done_may_be_called_twice():
    def body(v):
        future = lax.psum_start(v, "x")
        return future.done() + future.done()

    np.testing.assert_allclose(on_devices(body, P())(X), [2 * X.sum()])


def test_a_value_that_is_never_asked_for_is_no_error():
    def body(v):
        lax.psum_start(v, "x")
        return v

    np.testing.assert_allclose(on_devices(body)(X), X)


def test_a_future_that_leaves_the_devices_is_an_error_that_says_done():
    with pytest.raises(TypeError, match=r"in_flight\[psum f32\[1\]\].*call \.done\(\)"):
        on_devices(lambda v: lax.psum_start(v, "x"), P())(X)


def test_a_carry_that_becomes_a_future_is_an_error_that_shows_both():
    def body(v):
        return lax.scan(lambda c, _: (lax.psum_start(c, "x"), None), v, None, length=2)[0]

    with pytest.raises(TypeError, match=r"(?s)the body must return a carry.*Future"):
        on_devices(body)(X)


def test_branches_that_start_different_collectives_are_an_error_that_shows_both():
    def body(v):
        starts = (lambda: lax.psum_start(v, "x"), lambda: lax.ppermute_start(v, "x", RING))
        return lax.cond(lax.psum(v, "x")[0] > 3, *starts).done()

    with pytest.raises(TypeError, match=r"(?s)in_flight\[ppermute.*in_flight\[psum"):
        on_devices(body)(X)


@pytest.mark.parametrize(
    "use",
    [
        *(jnp.sin, jnp.stack, lambda f: f + 1, lambda f: np.ones(2) * f, lambda f: f // 2),
        *(lambda f: f[0], lambda f: -f, lambda f: f == f, bool, float, len),
    ],
)
def test_a_future_is_no_array(use):
    with pytest.raises(
        TypeError, match=r"in_flight\[psum f32\[1\]\] is in flight: call \.done\(\)"
    ):
        on_devices(lambda v: use(lax.psum_start(v, "x")))(X)
    with pytest.raises(AttributeError, match=r"call \.done\(\) on the future before 'mean'"):
        on_devices(lambda v: lax.psum_start(v, "x").mean())(X)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "bool"])
@pytest.mark.parametrize("shape", [(N,), (N, 2)])
def test_eager_values_under_way_are_told_apart(dtype, shape):
    """Neither shape nor dtype of another future or message decides which program runs."""
    x = (np.arange(N * np.prod(shape[1:], dtype=int)) % 3).reshape(shape).astype(dtype)

    def send(v):
        return lax.precv(lax.psend(v, "i", RING), v, "i", RING)

    future = weft.vmap(lambda v: lax.ppermute_start(v, "i", RING), axis_name="i")(x)
    for out in (future.done(), weft.jit(lambda f: f.done())(future)):
        np.testing.assert_array_equal(out, np.roll(x, 1, 0))
    np.testing.assert_array_equal(weft.vmap(send, axis_name="i")(x), np.roll(x, 1, 0))
