"""Options as context managers: guards against transfers, traces and runs; contexts of users."""

import threading

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

X = np.ones(2, np.float32)


@pytest.fixture(scope="module")
def double():
    f = weft.jit(lambda x: x + x)
    f(weft.device_put(X))
    return f


@pytest.mark.parametrize("level", ["disallow", "disallow_explicit"])
def test_a_transfer_guard_refuses_host_values_among_arguments(double, level):
    x = weft.device_put(X)
    x + 1, 2.5 * x  # numbers that were moved before are refused, too
    with weft.transfer_guard(level):
        np.testing.assert_array_equal(double(x), [2, 2])
        host = (lambda: double(X), lambda: x + X, lambda: x + 1, lambda: 2.5 * x)
        for implicit in (*host, lambda: jnp.array([1, 2])):
            with pytest.raises(RuntimeError, match="Disallowed host-to-device transfer"):
                implicit()
    np.testing.assert_array_equal(double(X), [2, 2])


def test_transfers_that_are_asked_for_pass_unless_those_are_guarded_too():
    x = weft.device_put(X)
    with weft.transfer_guard("disallow"):
        moved = weft.device_put(x, weft.devices()[1])
        assert moved.device == weft.devices()[1] and weft.device_put(X).shape == (2,)
        np.testing.assert_array_equal(weft.device_get(x), X)
    with weft.transfer_guard("disallow_explicit"):
        with pytest.raises(RuntimeError, match="Disallowed host-to-device"):
            weft.device_put(X)
        with pytest.raises(RuntimeError, match="Disallowed device-to-device"):
            weft.device_put(x, weft.devices()[1])


def test_one_direction_is_guarded_alone_on_this_thread_and_inner_levels_end(double):
    with weft.transfer_guard_host_to_device("disallow"):
        with weft.transfer_guard_host_to_device("allow"):
            double(X)
        with pytest.raises(RuntimeError, match="Disallowed"):
            double(X)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(double(X)))
        thread.start()
        thread.join()
        assert seen[0].shape == (2,)


def test_guards_are_set_for_the_process_and_taken_back(double):
    try:
        weft.config.update("jax_transfer_guard", "disallow")
        assert weft.config.transfer_guard_host_to_device == "disallow"
        with pytest.raises(RuntimeError, match="Disallowed"):
            double(X)
    finally:
        weft.config.update("jax_transfer_guard", None)
    np.testing.assert_array_equal(double(X), [2, 2])


@pytest.mark.parametrize(
    ("guard", "level"),
    [(weft.transfer_guard, "maybe"), (weft.array_garbage_collection_guard, "disallow")],
)
def test_unknown_levels_list_the_known_ones(guard, level):
    with pytest.raises(ValueError, match="expected one of .*'allow', 'log'"), guard(level):
        pass


def test_collected_arrays_may_be_logged_and_threads_guarded():
    with weft.array_garbage_collection_guard("log"), weft.thread_guard(True):
        assert weft.config.array_garbage_collection_guard == "log" and weft.config.thread_guard
    assert weft.config.array_garbage_collection_guard is None


def test_without_tracing_only_known_calls_work(double):
    x = weft.device_put(X)
    with weft.no_tracing(True):
        np.testing.assert_array_equal(double(x), [2, 2])
        with pytest.raises(RuntimeError, match=r"<lambda> would be traced .*\(f32\[3\]\)"):
            double(np.ones(3, np.float32))


def test_without_execution_nothing_runs_but_tracing_does(double):
    with weft.no_execution(True):
        assert double.trace(X).out_info.shape == (2,)
        with pytest.raises(RuntimeError, match="<lambda> would run"):
            double(X)
    np.testing.assert_array_equal(double(X), [2, 2])


def test_functions_are_traced_anew_for_each_value_of_a_users_context():
    scale, traces = weft.make_user_context(1.0), []

    @weft.jit
    def f(x):
        traces.append(scale.value)
        return x * scale.value

    results = [float(f(2.0))]
    for value in (3.0, 5.0, 3.0):
        with scale(value):
            results.append(float(f(2.0)))
    assert results == [2, 6, 10, 6] and traces == [1, 3, 5]
    assert scale.value == 1.0
    with pytest.raises(TypeError, match="unhashable"), scale([]):
        pass


def test_jit_may_be_disabled_by_name():
    seen = []
    f = weft.jit(lambda x: seen.append(type(x)) or x)
    with weft.disable_jit(disable=True):
        f(weft.device_put(X))
    assert issubclass(seen[0], weft.Array) and "Tracer" not in seen[0].__name__


# Loops and branches with jit disabled, of one row, and what NumPy gives.
IN_PYTHON = {
    "cond": (
        lambda x: lax.cond(x[0] > 1, lambda x: x * 2, lambda x: -x, x),
        lambda x: x * 2 if x[0] > 1 else -x,
    ),
    "cond of a number": (
        lambda x: lax.cond(x[0].astype(int), lambda: x + 1, lambda: x),
        lambda x: x + 1 if x[0] >= 1 else x,
    ),
    "switch": (
        lambda x: lax.switch(x[0].astype(int), [lambda x: x, lambda x: x * x, lambda x: -x], x),
        lambda x: [x, x * x, -x][min(int(x[0]), 2)],
    ),
    "while_loop": (
        lambda x: lax.while_loop(lambda v: v[0] < 5, lambda v: v * 2, x),
        lambda x: x * 2.0 ** max(np.ceil(np.log2(5 / x[0])), 0),
    ),
    "fori_loop": (
        lambda x: lax.fori_loop(0, x[0].astype(int), lambda i, v: v + i, x),
        lambda x: x + sum(range(int(x[0]))),
    ),
    "scan": (
        lambda x: lax.scan(lambda c, v: (lax.cond(v > 2, lambda: c + v, lambda: c), c), 0.0, x)[0],
        lambda x: np.sum(np.where(x > 2, x, 0)),
    ),
    "checkpoint": (
        weft.checkpoint(lambda x: lax.cond(x[0] > 1, lambda: x * 2, lambda: -x)),
        lambda x: x * 2 if x[0] > 1 else -x,
    ),
}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_control_flow_without_jit_runs_in_python_and_over_a_batch_as_ops(name):
    f, reference = IN_PYTHON[name]
    rows = np.array([[0.5, 3], [1.5, 2.5], [4, 1]], np.float32)
    want = [reference(r) for r in rows]
    with weft.disable_jit():
        np.testing.assert_allclose(weft.vmap(f)(rows), np.stack(want), rtol=1e-6)
        for row, value in zip(rows, want, strict=True):
            np.testing.assert_allclose(f(jnp.asarray(row)), value, rtol=1e-6)


def test_raw_keys_may_be_discouraged_or_replaced():
    raw = weft.random.PRNGKey(0)
    with weft.legacy_prng_key("error"):
        with pytest.raises(ValueError, match=r"split: key is an array of raw words.*random\.key"):
            weft.random.split(raw)
        weft.random.split(weft.random.key(0))
    with weft.legacy_prng_key("warn"), pytest.warns(UserWarning, match="raw words"):
        weft.random.split(raw)
    with weft.enable_custom_prng(True):
        assert weft.random.PRNGKey(0).dtype == weft.random.key(0).dtype


def test_an_offset_moves_every_seed():
    try:
        weft.config.update("jax_random_seed_offset", 2)
        moved = weft.random.key_data(weft.random.key(1))
    finally:
        weft.config.update("jax_random_seed_offset", 0)
    np.testing.assert_array_equal(moved, weft.random.key_data(weft.random.key(3)))


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("jax_use_shardy_partitioner", "use_shardy"),
        ("jax_cpu_collectives_implementation", "cpu_collectives"),
        ("jax_platform_name", "platforms"),
    ],
)
def test_options_are_known_by_jaxs_names(name, option):
    assert getattr(weft.config, name) == getattr(weft.config, option)
