"""pure_callback, io_callback, debug.callback, debug.print."""

import contextlib
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as wnp

X = np.arange(12, dtype=np.float32).reshape(3, 4)
P = weft.P


def like(x):
    return weft.ShapeDtypeStruct(x.shape, x.dtype)


def host(function, x, **options):
    return weft.pure_callback(function, like(x), x, **options)


def double(x):
    return 2 * np.asarray(x)


def sharded(value, *spec):
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    return weft.device_put(value, weft.NamedSharding(mesh, P(*spec)))


# Results and arguments --------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_a_function_computes_on_the_host(wrap):
    np.testing.assert_array_equal(wrap(lambda x: host(double, x) + 1)(X), 2 * X + 1)


def test_operands_split_by_their_types_are_not_gathered_silently():
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Explicit,))
    values = np.arange(8.0, dtype=np.float32)
    x = weft.device_put(values, weft.NamedSharding(mesh, P("x")))
    with weft.set_mesh(mesh):
        with pytest.warns(
            UserWarning, match=r"operand 0 .*@x.* is gathered .*weft.reshard"
        ) as told:
            got = weft.jit(lambda x: host(double, x))(x)
        assert told[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            whole = weft.jit(lambda x: host(double, weft.reshard(x, P(None))))(x)
            parts = weft.shard_map(lambda x: host(double, x), in_specs=P("x"), out_specs=P("x"))
            each = weft.jit(parts)(x)
    for result in (got, whole, each):
        np.testing.assert_array_equal(np.asarray(result), 2 * values)


def test_pytrees_go_in_and_out():
    def function(pair, *, bias):
        return {"sum": np.asarray(pair[0]) + np.asarray(pair[1]), "bias": np.asarray(bias)}

    spec = {"sum": weft.ShapeDtypeStruct((4,), "float32"), "bias": np.zeros((), np.int32)}
    got = weft.jit(lambda x: weft.pure_callback(function, spec, (x[0], x[1]), bias=np.int32(7)))(X)
    np.testing.assert_array_equal(got["sum"], X[0] + X[1])
    assert got["bias"] == 7


def test_a_callback_gets_arrays():
    seen = []
    weft.jit(lambda x: host(lambda x: (seen.append(type(x)), double(x))[1], x))(X)
    assert issubclass(seen[0], weft.Array)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "complex64", "bfloat16"])
def test_any_dtype_passes(dtype):
    x = wnp.array([0, 1, 1]).astype(dtype)
    np.testing.assert_array_equal(weft.jit(lambda x: host(np.asarray, x))(x), np.asarray(x))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_any_shape_passes(shape):
    x = np.ones(shape, np.float32)
    np.testing.assert_array_equal(weft.jit(lambda x: host(double, x))(x), 2 * x)


def test_python_scalars_are_results():
    spec = weft.ShapeDtypeStruct((), "float32")
    assert weft.jit(lambda x: weft.pure_callback(lambda x: float(x.sum()), spec, x))(X) == 66


def test_an_unused_pure_callback_may_be_dropped():
    seen = []
    weft.jit(lambda x: (host(lambda x: (seen.append(1), x)[1], x), x)[1])(X).block_until_ready()
    assert seen == []


# vmap -------------------------------------------------------------------------------------------

SHAPES = {
    "sequential": [((4,), (4,))] * 3,
    "sequential_unrolled": [((4,), (4,))] * 3,
    "expand_dims": [((3, 4), (1, 4))],
    "broadcast_all": [((3, 4), (3, 4))],
    "legacy_vectorized": [((3, 4), (4,))],
}


@pytest.mark.parametrize("method", SHAPES)
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_each_vmap_method_calls_as_it_says(method, wrap):
    seen = []

    def add(x, w):
        seen.append((x.shape, w.shape))
        return np.asarray(x) + np.asarray(w)

    w = np.full(4, 5, np.float32)
    f = lambda x: weft.pure_callback(add, like(x), x, w, vmap_method=method)
    np.testing.assert_array_equal(wrap(weft.vmap(f))(X), X + 5)
    assert seen == SHAPES[method]


def test_vmap_without_a_method_names_them():
    with pytest.raises(NotImplementedError, match="pure_callback of double .* 'sequential'"):
        weft.vmap(lambda x: host(double, x))(X)


# Derivatives ------------------------------------------------------------------------------------


def test_a_callback_has_no_derivative_and_says_what_to_write():
    with pytest.raises(ValueError, match="of double is not differentiable.*custom_jvp"):
        weft.grad(lambda x: host(double, x).sum())(X)


def test_custom_rules_around_callbacks():
    @weft.custom_jvp
    def sine(x):
        return host(np.sin, x, vmap_method="broadcast_all")

    sine.defjvp(lambda p, t: (sine(*p), host(np.cos, p[0], vmap_method="broadcast_all") * t[0]))
    got = weft.jit(weft.vmap(weft.grad(lambda x: sine(x).sum())))(X)
    np.testing.assert_allclose(got, np.cos(X), rtol=1e-6)
    second = weft.grad(lambda x: weft.jvp(sine, (x,), (wnp.ones(4),))[1].sum())
    with pytest.raises(ValueError, match="of cos is not differentiable"):
        second(X[0])


def test_a_callback_in_control_flow_and_remat():
    def step(c, x):
        return host(double, c), host(double, x)

    last, ys = weft.lax.scan(step, X[0], X)
    np.testing.assert_array_equal(last, 8 * X[0])
    np.testing.assert_array_equal(ys, 2 * X)
    pick = weft.jit(lambda p, x: weft.lax.cond(p, lambda x: host(double, x), lambda x: x, x))
    np.testing.assert_array_equal(pick(True, X), 2 * X)
    np.testing.assert_array_equal(pick(False, X), X)
    remat = weft.checkpoint(lambda x: host(double, weft.lax.stop_gradient(x)) * x)
    np.testing.assert_array_equal(weft.grad(lambda x: remat(x).sum())(X), 2 * X)


# Devices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
def test_a_sharded_argument_arrives_whole(partitioner):
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    seen = set()

    def function(x):
        seen.add(x.shape)
        return double(x)

    f = weft.jit(lambda x: host(function, x), partitioner=partitioner)
    np.testing.assert_array_equal(f(sharded(value, "x")), 2 * value)
    assert seen == {(8, 4)}


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "float32", "complex64"]
)
def test_one_call_serves_all_devices_exactly(dtype):
    value = wnp.array([-0.0, 1, np.nan, 0, -1, 2, 3, np.inf]).astype(dtype)
    result = np.asarray(value)
    calls = []
    f = weft.jit(lambda x: host(lambda x: (calls.append(1), result)[1], x))
    got = np.asarray(f(sharded(value, "x")))
    assert got.tobytes() == result.tobytes()
    assert len(calls) == 1


@pytest.mark.parametrize(
    "dtypes, collectives",
    [
        (["float32", "int32", "uint32"], 1),
        (["float16", "int8", "bfloat16"], 2),
        (["int64", "float64"], 1),
        (["int16", "complex64", "bool"], 3),
        (["bool"], 1),
    ],
)
def test_results_and_the_error_of_the_one_call_travel_together(dtypes, collectives):
    bad = []

    def function(x):
        if bad:
            raise KeyError("no such key")
        return tuple(values)

    with weft.enable_x64(True):
        values = [np.asarray(wnp.array([[-0.0, 1, 2], [3, 0, 5]]).astype(d)) for d in dtypes]
        f = weft.jit(lambda x: weft.pure_callback(function, tuple(map(like, values)), x))
        x = sharded(np.ones((8, 4), np.float32), "x")
        for got, value in zip(f(x), values, strict=True):
            assert np.asarray(got).tobytes() == value.tobytes()
        text = f.lower(x).compile().as_text()
        bad.append(True)
        with pytest.raises(KeyError, match="no such key"):
            np.asarray(f(x)[0])
    assert 1 <= text.count(" all-reduce(") <= collectives


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("split", [False, True])
def test_a_callback_has_the_mode_of_its_call_and_no_mesh_on_any_thread(wrap, split):
    value = np.ones((8, 4))
    seen = set()

    def function(x):
        y = wnp.sin(x)
        seen.add((x.dtype.name, y.dtype.name, len(y.devices()), weft.get_mesh()))
        return np.asarray(y)

    with weft.enable_x64(True):
        x = sharded(value, "x") if split else weft.device_put(value)
        mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
        with weft.set_mesh(mesh):
            f = wrap(lambda x: host(function, x))
            got = [np.asarray(f(x)) for _ in range(3)][-1]
    np.testing.assert_allclose(got, np.sin(value), rtol=1e-15)
    assert seen == {("float64", "float64", 1, None)}


SingleDeviceSharding = weft.sharding.SingleDeviceSharding


def calls_of(partitioner, call, x, **options):
    """The program's results, and which branch of the optimized program makes the call."""
    f = weft.jit(lambda x: call(double, like(x), x, **options) + 1, partitioner=partitioner)
    np.testing.assert_array_equal(f(x), 2 * np.asarray(x) + 1)
    return f.lower(x).compile().as_text()


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
@pytest.mark.parametrize("ordered", [None, False, True])
def test_sharding_names_the_device_that_calls(partitioner, ordered):
    call = weft.pure_callback if ordered is None else weft.io_callback
    options = {} if ordered is None else {"ordered": ordered}
    order = [5, 2, 7, 1, 0, 3, 6, 4]
    mesh = weft.sharding.Mesh(np.array(weft.devices())[order], ("x",))
    x = weft.device_put(np.ones((8, 4), np.float32), weft.NamedSharding(mesh, P("x")))
    placed = SingleDeviceSharding(weft.devices()[3])
    text = calls_of(partitioner, call, x, sharding=placed, **options)
    assert "constant(5)" in text and "constant(5)" not in calls_of(partitioner, call, x, **options)


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
@pytest.mark.parametrize("use_shardy", [True, False])
@pytest.mark.parametrize("kind", ["pure", "io", "ordered", "debug", "print"])
def test_any_callback_in_any_partitioner(partitioner, use_shardy, kind, capsys):
    if partitioner == "weft" and not use_shardy:
        partitioner = None
    seen = []

    def note(x):
        seen.append(x.shape)
        return double(x)

    def f(x):
        if kind == "pure":
            return host(note, x)
        if kind == "debug":
            weft.debug.callback(note, x)
        elif kind == "print":
            weft.debug.print("{x}", x=x.sum())
        else:
            return weft.io_callback(note, like(x), x, ordered=kind == "ordered")
        return 2 * x

    value = np.ones((8, 4), np.float32)
    before = weft.config.use_shardy
    weft.config.update("use_shardy", use_shardy)
    try:
        got = weft.jit(f, partitioner=partitioner)(sharded(value, "x"))
        np.testing.assert_array_equal(got, 2 * value)
        weft.effects_barrier()
    finally:
        weft.config.update("use_shardy", before)
    if kind == "print":
        assert capsys.readouterr().out == "32.0\n"
    else:
        assert seen == [(8, 4)]


def test_a_sharding_that_cannot_be_is_refused():
    elsewhere = SingleDeviceSharding(weft.devices()[2])
    f = weft.jit(lambda x: host(double, x, sharding=elsewhere))
    with pytest.raises(ValueError, match="asks for the device .*2, but the program runs on .*0"):
        f(X)
    x = sharded(np.ones((8, 4), np.float32), "x")
    with pytest.raises(ValueError, match="names the one device .* got NamedSharding"):
        host(double, x, sharding=x.sharding)
    f = weft.shard_map(
        lambda x: host(double, x, sharding=elsewhere),
        mesh=x.sharding.mesh,
        in_specs=P("x"),
        out_specs=P("x"),
    )
    with pytest.raises(ValueError, match="in shard_map each device makes the call"):
        f(x)


def test_in_shard_map_each_shard_calls():
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    x = sharded(value, "x")
    seen = []

    def function(x):
        seen.append(float(np.asarray(x)[0, 0]))
        return double(x)

    f = weft.shard_map(
        lambda x: host(function, x), mesh=x.sharding.mesh, in_specs=P("x"), out_specs=P("x")
    )
    np.testing.assert_array_equal(weft.jit(f)(x), 2 * value)
    assert sorted(seen) == [4.0 * i for i in range(8)]


@pytest.mark.parametrize("ordered", [False, True])
def test_an_io_callback_on_sharded_data_happens_once(ordered):
    seen = []

    @weft.jit
    def f(x):
        spec = weft.ShapeDtypeStruct((), "float32")
        note = lambda x: (seen.append(x.shape), np.float32(x.sum()))[1]
        return x + weft.io_callback(note, spec, x, ordered=ordered)

    value = np.ones((8, 4), np.float32)
    np.testing.assert_array_equal(f(sharded(value, "x")), value + 32)
    weft.effects_barrier()
    assert seen == [(8, 4)]


# Effects ----------------------------------------------------------------------------------------


def test_an_unused_io_callback_happens():
    seen = []

    @weft.jit
    def f(x):
        weft.io_callback(lambda v: seen.append(float(v)), None, x[0])
        return x

    for i in range(3):
        f(np.full(2, i, np.float32)).block_until_ready()
    weft.effects_barrier()
    assert sorted(seen) == [0.0, 1.0, 2.0]


def test_ordered_callbacks_keep_the_programs_order():
    seen = []

    def note(i):
        weft.io_callback(lambda v: seen.append(int(v)), None, i, ordered=True)

    @weft.jit
    def f(n):
        note(n)
        weft.lax.fori_loop(0, 4, lambda i, _: (note(n + i + 1), None)[1], None)
        weft.lax.cond(n > 0, lambda: note(n + 5), lambda: note(n - 5))
        note(n + 6)

    f(10)
    f(20)
    weft.effects_barrier()
    assert seen == [*range(10, 17), *range(20, 27)]


def test_io_callbacks_under_vmap():
    seen = []
    f = lambda x: weft.io_callback(lambda v: (seen.append(float(v)), v)[1], like(x), x)
    np.testing.assert_array_equal(weft.vmap(f)(X[0]), X[0])
    assert sorted(seen) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="ordered=True cannot be mapped by vmap"):
        weft.vmap(lambda x: weft.io_callback(double, like(x), x, ordered=True))(X)


def test_debug_print_and_callback_pass_every_transformation(capsys):
    seen = []

    def f(x):
        weft.debug.print("x = {x:.1f} of {}", "name", x=x)
        weft.debug.callback(lambda v: seen.append(float(v)), x)
        return x * x

    np.testing.assert_allclose(weft.jit(weft.vmap(weft.grad(f)))(X[0, :2]), 2 * X[0, :2])
    weft.effects_barrier()
    assert sorted(capsys.readouterr().out.splitlines()) == ["x = 0.0 of name", "x = 1.0 of name"]
    assert sorted(seen) == [0.0, 1.0]


# Errors -----------------------------------------------------------------------------------------


def fails(x):
    raise KeyError("no such key")


READS = {
    "block": lambda y: y.block_until_ready(),
    "asarray": np.asarray,
    "barrier": lambda y: weft.block_until_ready([y, y]),
    "used": lambda y: np.asarray(y + 1),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("where", ["eager", "one device", "eight devices"])
def test_an_exception_arrives_as_itself_with_call_and_line(where, read):
    x = sharded(np.ones((8, 4), np.float32), "x") if where == "eight devices" else X
    f = (lambda x: host(fails, x)) if where == "eager" else weft.jit(lambda x: host(fails, x))
    with pytest.raises(KeyError, match="no such key") as e:
        read(f(x))
    (note,) = set(e.value.__notes__)
    assert "pure_callback of fails at" in note and "test_callback.py" in note
    assert e.traceback[-1].name == "fails"


def test_an_exception_of_a_side_effect_arrives_at_the_barrier():
    mesh_value = sharded(np.ones((8, 4), np.float32), "x")
    f = weft.jit(lambda x: (weft.io_callback(fails, None, x), x)[1])
    with pytest.raises(KeyError, match="no such key"):
        f(mesh_value)
        weft.effects_barrier()
    weft.effects_barrier()


@pytest.mark.parametrize("ordered", [False, True])
def test_the_one_call_of_eight_devices_fails_on_all_of_them(ordered):
    """Were it to fail on its own device only, XLA would end the process."""

    @weft.jit
    def f(x):
        y = weft.io_callback(fails, like(x), x, ordered=ordered)
        return weft.lax.with_sharding_constraint(y, x_sharding) + y.sum()

    x = sharded(np.ones((8, 4), np.float32), "x")
    x_sharding = x.sharding
    for _ in range(2):
        with pytest.raises(KeyError, match="no such key"):
            np.asarray(f(x))
            weft.effects_barrier()
    with contextlib.suppress(KeyError):  # of the runs whose results told already
        weft.effects_barrier()
    weft.effects_barrier()


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_64_bit_results_are_narrowed_without_64_bit_mode(wrap):
    spec = {"f": weft.ShapeDtypeStruct((3,), "float32"), "i": weft.ShapeDtypeStruct((), "int32")}
    values = {"f": np.linspace(0, 1, 3), "i": np.int64(7)}
    got = wrap(lambda: weft.pure_callback(lambda: values, spec))()
    np.testing.assert_array_equal(got["f"], np.float32([0, 0.5, 1]))
    assert got["i"] == 7
    with weft.enable_x64(True), pytest.raises(RuntimeError, match="float64.* declared .*float32"):
        np.asarray(wrap(lambda: weft.pure_callback(lambda: values["f"], spec["f"]))())


@pytest.mark.parametrize("devices", [1, 8])
def test_exits_and_interrupts_arrive_as_themselves(devices):
    def leave(x):
        raise SystemExit(3)

    x = sharded(np.ones((8, 4), np.float32), "x") if devices > 1 else X
    with pytest.raises(SystemExit):
        np.asarray(weft.jit(lambda x: host(leave, x))(x))


def test_a_program_runs_again_after_an_exception():
    bad = [True]

    def sometimes(x):
        if bad[0]:
            raise RuntimeError("not now")
        return double(x)

    f = weft.jit(lambda x: host(sometimes, x))
    with pytest.raises(RuntimeError, match="not now"):
        np.asarray(f(X))
    bad[0] = False
    np.testing.assert_array_equal(f(X), 2 * X)


@pytest.mark.parametrize(
    "returned, words",
    [
        (lambda x: np.zeros((2, 2), np.float32), r"float32\[2, 2\] .* declared .* float32\[3, 4\]"),
        (lambda x: np.zeros((3, 4), np.int32), r"int32\[3, 4\] .* declared .* float32\[3, 4\]"),
        (lambda x: np.zeros((3, 4)).astype(complex), r"complex64\[3, 4\] .* declared .* float32"),
        (lambda x: (x, x), "structure"),
        (lambda x: None, "structure"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_a_wrong_result_says_what_was_declared(wrap, returned, words):
    with pytest.raises(RuntimeError, match=words):
        np.asarray(wrap(lambda x: host(returned, x))(X))


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: weft.pure_callback(3, X, X), TypeError, "callback must be a function, got 3"),
        (lambda: weft.io_callback(3, X, X), TypeError, "callback must be a function, got 3"),
        (lambda: weft.pure_callback(double, "x", X), TypeError, "must have a shape and a dtype"),
        (lambda: weft.pure_callback(double, np.zeros(2), X), ValueError, "64-bit mode"),
        (lambda: host(double, X, vmap_method="x"), ValueError, "vmap_method must be one of"),
        (lambda: host(double, X, sharding="x"), TypeError, "sharding must be a .*SingleDevice"),
        (lambda: weft.debug.print("{x}", y=1), ValueError, "placeholders without an argument"),
        (lambda: weft.debug.print("x", 1), ValueError, "no placeholder"),
        (lambda: weft.debug.print(3), TypeError, "fmt must be a string"),
        (
            lambda: weft.debug.callback(print, ordered=True, partitioned=True),
            ValueError,
            "exclude each other",
        ),
    ],
)
def test_bad_arguments_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


# Programs in callbacks --------------------------------------------------------------------------


@weft.jit
def heavy(x):
    """sin(x), after enough work that XLA does it on threads of its pool."""
    product = wnp.full((200, 200), x.sum()) @ wnp.ones((200, 200))
    return wnp.sin(x) + 0 * product[0, 0]


def finished(work):
    """The result of work(), which must not hang."""
    result = []

    def run():
        try:
            result.append((work(), None))
        except BaseException as e:
            result.append((None, e))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(400)
    assert result, "deadlock"
    value, error = result[0]
    if error is not None:
        raise error
    return value


def test_ten_thousand_callbacks_that_run_programs_on_eight_devices():
    x = sharded(np.ones((8, 4), np.float32), "x")
    calls = []

    def function(x):
        calls.append(None)
        return np.asarray(heavy(x))

    f = weft.jit(
        weft.shard_map(
            lambda x: host(function, x), mesh=x.sharding.mesh, in_specs=P("x"), out_specs=P("x")
        )
    )

    def work():
        results = [f(x) for _ in range(1250)]
        return weft.block_until_ready(results)

    results = finished(work)
    assert len(calls) == 10_000
    np.testing.assert_allclose(results[-1], np.full((8, 4), np.sin(1.0)), rtol=1e-6)


def test_callbacks_that_return_results_still_being_computed():
    x = np.ones(4, np.float32)
    f = weft.jit(lambda x: host(heavy, x) + heavy(x))
    results = finished(lambda: weft.block_until_ready([f(x) for _ in range(200)]))
    np.testing.assert_allclose(results[-1], 2 * np.sin(x), rtol=1e-6)


def test_callbacks_in_programs_in_callbacks():
    inner = weft.jit(lambda x: host(lambda v: np.asarray(heavy(v)), heavy(x)))
    outer = weft.jit(lambda x: host(lambda v: np.asarray(inner(v)), x))
    results = finished(lambda: weft.block_until_ready([outer(X) for _ in range(40)]))
    np.testing.assert_allclose(results[-1], np.sin(np.sin(X)), rtol=1e-5)


def test_a_callback_may_trace_compile_and_have_ordered_effects_of_its_own():
    seen = []

    def function(x):
        @weft.jit
        def program(v):
            weft.io_callback(lambda v: seen.append(float(v)), None, v.sum(), ordered=True)
            return v * 3

        return np.asarray(program(x)) * np.asarray(weft.grad(lambda v: wnp.sum(v))(x))

    @weft.jit
    def f(x):
        y = weft.io_callback(function, like(x), x, ordered=True)
        return weft.io_callback(function, like(x), y, ordered=True)

    got = finished(lambda: np.asarray(f(X)))
    np.testing.assert_array_equal(got, 9 * X)
    assert seen == [66.0, 198.0]


@pytest.mark.parametrize("kind", ["pure_callback", "io_callback"])
def test_a_process_ends_after_its_callbacks(kind):
    program = f"""
import time
import numpy as np
import weft

def slow(x):
    time.sleep(0.2)
    print("done", flush=True)
    return np.asarray(x)

mesh = weft.make_mesh((2,), ("x",), axis_types=(weft.AxisType.Auto,))
x = weft.device_put(np.ones((2, 4), np.float32), weft.NamedSharding(mesh, weft.P("x")))
weft.jit(lambda x: weft.{kind}(slow, weft.ShapeDtypeStruct(x.shape, x.dtype), x))(x)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout


def test_callbacks_from_several_threads():
    f = weft.jit(lambda x: host(lambda v: (time.sleep(0.001), np.asarray(heavy(v)))[1], x))

    def work():
        threads = [threading.Thread(target=lambda: [f(X) for _ in range(20)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return np.asarray(f(X))

    np.testing.assert_allclose(finished(work), np.sin(X), rtol=1e-6)


def test_values_are_logged_when_the_program_runs(caplog):
    with caplog.at_level("INFO", logger="weft"):
        weft.jit(lambda x: weft.debug.log("x = {} of {name}", x, name="all", ordered=True))(3)
        weft.effects_barrier()
    assert [r.getMessage() for r in caplog.records if r.name == "weft"] == ["x = 3 of all"]
    with pytest.raises(ValueError, match=r"debug\.log: 'x' has no placeholder"):
        weft.debug.log("x", 3)


def test_options_of_a_callback_may_be_given_first():
    seen = []

    def note(x=0, name=""):
        seen.append((int(x), name))

    weft.jit(lambda x: weft.debug.callback(ordered=True)(note, x, name="x"))(3)
    weft.debug.callback(ordered=True)(note)
    weft.effects_barrier()
    assert seen == [(3, "x"), (0, "")]


@pytest.mark.parametrize("call", ["pure_callback", "io_callback"])
def test_a_callback_may_return_its_results_in_another_container(call):
    x = np.ones(2, np.float32)
    one = weft.ShapeDtypeStruct((2,), np.float32)
    function = getattr(weft, call)
    for give, shapes in (
        (lambda x: [x, x + 1], (one, one)),
        (lambda x: (x, x + 1), [one, one]),
        (lambda x: {"a": x, "b": x + 1}, (one, one)),
    ):
        out = function(give, shapes, x)
        assert type(out) is type(shapes)
        np.testing.assert_array_equal(out, [x, x + 1])
    np.testing.assert_array_equal(function(lambda x: x, (one,), x)[0], x)
