"""weft.stages: what each stage of a jitted function tells of its arguments and results."""

import functools

import numpy as np
import pytest

import weft
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P
from weft.stages import ArgInfo, Compiled, Lowered, Traced, Wrapped

X = np.ones((2, 3), np.float32)


@pytest.fixture(scope="module")
def stages():
    f = weft.jit(lambda n, x, *, y: {"sum": x + y * n}, static_argnums=0, donate_argnums=1)
    assert isinstance(f, Wrapped)
    traced = f.trace(3, X, y=X[0])
    lowered = traced.lower()
    return traced, lowered, lowered.compile()


@pytest.mark.parametrize("i, kind", list(enumerate((Traced, Lowered, Compiled))))
def test_every_stage_knows_types_and_donation_of_its_dynamic_arguments(stages, i, kind):
    stage = stages[i]
    assert isinstance(stage, kind)
    (x,), kwargs = stage.args_info
    assert isinstance(x, ArgInfo) and x.donated and not kwargs["y"].donated
    assert (x.shape, x.dtype) == ((2, 3), np.float32)
    (x_aval,), _ = stage.in_avals
    assert x_aval.str_short() == "f32[2,3]"
    assert stage.donate_argnums == (0,)
    assert stage.in_tree == weft.tree.structure(((0,), {"y": 0}))
    assert stage.out_tree == weft.tree.structure({"sum": 0})
    assert stage.out_info["sum"].shape == (2, 3)


def test_every_stage_tells_the_shardings_of_results_that_it_knows():
    auto = (weft.sharding.AxisType.Auto,)
    rows = weft.NamedSharding(weft.make_mesh((8,), ("x",), auto), weft.P("x"))
    function = weft.jit(lambda k: (weft.random.split(k, 8), k), out_shardings=(rows, None))
    traced = function.trace(weft.random.key(0))
    lowered = traced.lower()
    shapes = function.eval_shape(weft.random.key(0))
    assert weft.eval_shape(function, weft.random.key(0)) == shapes
    for result in (shapes, traced.out_info, lowered.out_info):
        assert result[0].sharding == rows and result[1].sharding is None
    whole = rows.update(spec=weft.P())
    assert [r.sharding for r in lowered.compile().out_info] == [rows, whole]
    assert weft.jit(lambda x: x + 1).lower(1.0).compile().out_info.sharding is None


def test_eval_shape_knows_the_static_arguments_of_a_jitted_function():
    zeros = weft.jit(lambda x, n: weft.numpy.zeros((n, *x.shape)), static_argnums=1)
    assert weft.eval_shape(zeros, X, 4).shape == (4, 2, 3)
    pair = functools.wraps(zeros)(lambda x: (zeros(x, 4), 1.0))
    assert len(weft.eval_shape(pair, X)) == 2


def test_a_trace_has_the_tree_of_result_types(stages):
    assert stages[0].out_avals["sum"].str_short() == "f32[2,3]"


def test_other_functions_are_not_wrapped():
    assert not isinstance(np.sin, Wrapped)


def test_what_a_function_closes_over_is_no_argument_of_its_stages():
    seen = []

    def outer(c):
        seen.append(weft.jit(lambda x: x * c).trace(X).in_avals)
        return c

    weft.make_jaxpr(outer)(1.0)
    assert weft.tree.structure(seen[0]) == weft.tree.structure(((0,), {}))


def test_options_of_one_compilation_are_not_those_of_the_next():
    lowered = weft.jit(lambda x: x + 1).lower(X)
    with pytest.raises(weft.errors.CompileError, match="no_such_option"):
        lowered.compile({"no_such_option": 1})
    with pytest.raises(TypeError, match="must be a dict of XLA's options"):
        lowered.compile(["xla_cpu_enable_fast_math"])
    fast = lowered.compile({"xla_cpu_enable_fast_math": True})
    plain = lowered.compile()
    assert fast.runtime_executable() is not plain.runtime_executable()
    for compiled in (fast, plain):
        np.testing.assert_array_equal(compiled(X), X + 1)


@pytest.mark.parametrize("first", ["call", "compile"])
def test_a_program_is_lowered_and_compiled_once_for_its_calls_and_its_stages(first):
    seen = []
    weights = np.arange(40.0, dtype=np.float32).reshape(8, 5)
    rows = weft.NamedSharding(weft.make_mesh((8,), ("x",)), weft.P("x"))
    x = weft.device_put(np.ones((8, 5), np.float32), rows)
    f = weft.jit(lambda x: x * weights)

    def listen(event, duration, **_):
        kind = event.rsplit("/")[-1]
        if kind in ("jaxpr_to_mlir_module_duration", "backend_compile_duration"):
            seen.append(kind)

    weft.monitoring.register_event_duration_secs_listener(listen)
    try:
        results = [f(x)] if first == "call" else []
        compiled = [f.lower(x).compile() for _ in range(2)]
        results += [f(x), *(c(x) for c in compiled)]
    finally:
        weft.monitoring.unregister_event_duration_listener(listen)
    assert seen == ["jaxpr_to_mlir_module_duration", "backend_compile_duration"]
    for result in results:
        np.testing.assert_array_equal(result, weights)
        assert result.sharding.is_equivalent_to(rows, 2)


def test_functions_of_refs_are_lowered_on_what_the_refs_hold():
    def scale(ref, x):
        ref[...] = ref[...] * x
        return ref[0] + 1

    ref = weft.new_ref(np.ones(3, np.float32))
    lowered = weft.jit(scale).lower(ref, 2.0)
    assert "(tensor<f32>" in lowered.as_text() and lowered.out_info.shape == ()
    compiled = lowered.compile()
    assert compiled(ref, 3.0) == 4
    assert compiled(ref, 3.0) == 10
    np.testing.assert_array_equal(ref[...], [9, 9, 9])


@pytest.mark.parametrize("devices", [1, 8])
def test_functions_that_close_over_refs_are_lowered_on_what_the_refs_hold(devices):
    auto = (weft.sharding.AxisType.Auto,)
    mesh = weft.make_mesh((devices,), ("x",), auto, devices=weft.devices()[:devices])
    rows = weft.sharding.NamedSharding(mesh, weft.P("x"))
    total = weft.new_ref(weft.device_put(np.zeros(8, np.float32), rows))
    unread = weft.new_ref(np.zeros(3, np.float32))

    def add(ref, x, unused, n):
        total[...] += x * n
        ref[0] = x[0]
        unread[...] = 1.0
        return weft.numpy.sum(total[...])

    ref, x = weft.new_ref(np.zeros(2, np.float32)), weft.device_put(np.ones(8, np.float32), rows)
    traced = weft.jit(add, static_argnums=3).trace(ref, x, 7.0, 2)
    lowered = traced.lower()
    assert [i.shape for i in weft.tree.leaves(lowered.args_info)] == [(2,), (8,), ()]
    assert "a closed-over Ref{f32[8" in str(lowered.arg_names())
    compiled = lowered.compile()
    (shardings, _) = compiled.input_shardings
    assert len(shardings) == 3 and len(compiled.input_formats[0]) == 3
    assert compiled(ref, x, 7.0) == 16
    assert compiled(ref, x * 3, 7.0) == 64
    np.testing.assert_array_equal(total[...], np.full(8, 8.0))
    np.testing.assert_array_equal(ref[...], [3, 0])
    np.testing.assert_array_equal(unread[...], np.ones(3))
    with pytest.raises(TypeError, match=r"argument x .*f32\[8\].*f32\[4\]"):
        compiled(ref, np.ones(4, np.float32), 7.0)


def test_compiled_shardings_are_spelled_as_the_arguments():
    mesh = weft.sharding.Mesh(np.array(weft.devices()[:2]), "i")
    for spec in (P("i"), P("i", None)):
        there = NamedSharding(mesh, spec)
        x = weft.device_put(np.ones((4, 3), np.float32), there)
        for given in (x, weft.ShapeDtypeStruct(x.shape, x.dtype, sharding=there)):
            compiled = weft.jit(lambda x: (x * 2, x.T)).lower(given).compile()
            assert compiled.input_shardings[0][0].spec == spec
            assert [s.spec for s in compiled.output_shardings] == [spec, P(None, "i")]


@pytest.mark.parametrize("rows", [1, 64])
def test_costs_count_products_that_kernels_compute(rows):
    n, k, m = rows, 784, 1024
    arrays = [np.ones(shape, np.float32) for shape in ((n, k), (k, m), (m,))]
    lowered = weft.jit(lambda x, w, b: x @ w + b).lower(*arrays)
    for stage in (lowered, lowered.compile()):
        costs = stage.cost_analysis()
        assert costs["flops"] == 2 * n * k * m + n * m
        assert costs["bytes accessed"] >= 4 * (n * k + k * m + m + n * m)
