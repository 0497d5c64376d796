"""Programs over several devices fail as a whole when one shard's call fails."""

import threading
from pathlib import Path

import numpy as np
import pytest

import weft

P = weft.P
GOOD = np.ones((8, 4), np.float32)
BAD = GOOD.copy()
BAD[3] = -1


@pytest.fixture(scope="module", autouse=True)
def handlers():
    return weft.ffi.build(Path(__file__).parents[1] / "ffi" / "handlers.cc", flags=["-O1"])


def like(x):
    return weft.ShapeDtypeStruct(x.shape, x.dtype)


def root(x):
    """The square roots, computed by NumPy; negative elements are an error."""
    if np.asarray(x).min() < 0:
        raise KeyError("x has a negative element")
    return np.sqrt(np.asarray(x))


def native(x):
    return weft.ffi.ffi_call("CheckedSqrt", like(x))(x)


def pure(x):
    return weft.pure_callback(root, like(x), x)


def io(x):
    return weft.io_callback(root, like(x), x)


def on_buffers(x):
    def write(context, out, x):
        np.asarray(out)[...] = root(x)

    return weft.ffi.buffer_callback(write, like(x))(x)


def without_result(x):
    weft.debug.callback(root, x)
    return x


CALLS = [native, pure, io, on_buffers, without_result]


def shards(value, mesh=None):
    mesh = mesh or weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    return weft.device_put(value, weft.NamedSharding(mesh, P("x")))


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
@pytest.mark.parametrize("call", CALLS)
def test_a_shard_that_fails_before_a_collective_fails_the_program(call, partitioner):
    good, bad = shards(GOOD), shards(BAD)
    f = weft.jit(
        weft.shard_map(
            lambda x: weft.lax.psum(call(x).sum(), "x"),
            mesh=good.sharding.mesh,
            in_specs=P("x"),
            out_specs=P(),
        ),
        partitioner=partitioner,
    )
    assert f(good) == 32
    for _ in range(2):
        with pytest.raises((ValueError, KeyError), match="x has a negative element"):
            f(bad).block_until_ready()
            weft.effects_barrier()
        assert f(good) == 32


@pytest.mark.parametrize("call", CALLS[:-1])
def test_a_collective_of_the_next_program_does_not_wait_for_a_shard_that_failed(call):
    good, bad = shards(GOOD), shards(BAD)
    mesh = good.sharding.mesh
    f = weft.jit(weft.shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    with pytest.raises((ValueError, KeyError), match="x has a negative element"):
        f(bad).sum()
    assert f(good).sum() == 32


def test_a_call_on_shards_of_a_global_program_fails_it():
    def f(x):
        call = weft.ffi.ffi_call("CheckedSqrt", like(x), sharding_rule="b i -> b i")
        return call(x).sum() + x.mean()

    f = weft.jit(f)
    assert f(shards(GOOD)) == 33
    with pytest.raises(ValueError, match=r"'CheckedSqrt' at .*failure\.py:\d+ .*negative"):
        f(shards(BAD))


def test_several_axes_and_loops():
    mesh = weft.make_mesh((2, 4), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)

    def body(x):
        def step(i, x):
            return weft.lax.psum(native(x), "y") / 4

        return weft.lax.fori_loop(0, 3, step, x)

    f = weft.jit(
        weft.shard_map(body, mesh=mesh, in_specs=P(("x", "y")), out_specs=P("x"), check_vma=False)
    )
    place = weft.NamedSharding(mesh, P(("x", "y")))
    np.testing.assert_array_equal(f(weft.device_put(GOOD, place)), GOOD[:2])
    with pytest.raises(ValueError, match="negative"):
        f(weft.device_put(BAD, place))


def test_a_call_in_some_manual_axes_only():
    mesh = weft.make_mesh((2, 4), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)
    f = weft.jit(
        weft.shard_map(
            lambda x: weft.lax.psum(pure(x).sum(), "x"),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P(),
            axis_names={"x"},
        )
    )
    place = weft.NamedSharding(mesh, P("x"))
    assert f(weft.device_put(GOOD, place)) == 32
    with pytest.raises(KeyError, match="negative"):
        f(weft.device_put(BAD, place))


@pytest.mark.parametrize("waits", [lambda s: s < 1, lambda s: ~(s > 1)], ids=["less", "not more"])
def test_a_loop_that_waits_for_results_ends(waits):
    def body(x):
        return weft.lax.while_loop(lambda y: waits(y.sum()), lambda y: pure(x + 0 * y), 0 * x)

    x = shards(BAD)
    mesh = x.sharding.mesh
    f = weft.jit(weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    with pytest.raises(KeyError, match="negative"):
        f(x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int8", "bool", "uint32"])
@pytest.mark.parametrize("where", ["pure", "on buffers"])
def test_results_of_any_dtype(dtype, where):
    def fails(*args):
        raise KeyError("no")

    def f(x):
        spec = weft.ShapeDtypeStruct(x.shape, dtype)
        if where == "pure":
            return weft.pure_callback(fails, spec, x)
        return weft.ffi.buffer_callback(fails, spec)(x)

    x = shards(GOOD)
    f = weft.jit(weft.shard_map(f, mesh=x.sharding.mesh, in_specs=P("x"), out_specs=P("x")))
    with pytest.raises(KeyError, match="no"):
        f(x)


def test_behind_a_failure_functions_are_not_called():
    seen = []

    def after(x):
        seen.append(float(np.asarray(x)[0, 0]))
        return np.asarray(x)

    def body(x):
        y = weft.lax.psum(pure(x), "x")
        return weft.io_callback(after, like(y), y)

    good = shards(GOOD)
    f = weft.jit(
        weft.shard_map(
            body, mesh=good.sharding.mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False
        )
    )
    with pytest.raises(KeyError):
        f(shards(BAD))
    assert seen == []
    f(good)
    assert seen == [8.0] * 8


def test_a_call_on_one_device_fails_on_its_own_while_others_run():
    """The one-device program fails by itself; the error is not the other program's."""
    slow = threading.Event()

    def wait(x):
        slow.wait(5)
        return np.asarray(x)

    good = shards(GOOD)
    mesh = good.sharding.mesh
    f = weft.jit(
        weft.shard_map(
            lambda x: native(weft.pure_callback(wait, like(x), x)),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P("x"),
        )
    )
    got = []
    thread = threading.Thread(target=lambda: got.append(np.asarray(f(good))))
    thread.start()
    with pytest.raises(ValueError, match="negative"):
        np.asarray(weft.jit(native)(BAD))
    slow.set()
    thread.join()
    np.testing.assert_array_equal(got[0], GOOD)


def test_threads_get_their_own_errors():
    good, bad = shards(GOOD), shards(BAD)
    f = weft.jit(
        weft.shard_map(
            lambda x: weft.lax.psum(native(x), "x"),
            mesh=good.sharding.mesh,
            in_specs=P("x"),
            out_specs=P(),
        )
    )
    f(good)
    wrong = []

    def run(fails):
        for _ in range(20):
            try:
                f(bad if fails else good)
                failed = False
            except ValueError:
                failed = True
            if failed != fails:
                wrong.append(fails)

    threads = [threading.Thread(target=run, args=(i % 2 == 0,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_second_names_of_targets_are_not_listed():
    weft.jit(lambda x: native(x))(shards(GOOD)).block_until_ready()
    assert not [name for name in weft.ffi.registered_targets() if "together" in name]
