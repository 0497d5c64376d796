"""jit: caching, static arguments, donation, options, ahead-of-time stages."""

import dataclasses
import functools
import gc
import weakref

import numpy as np
import pytest

import weft
from weft import P, lax, tree_util
from weft.sharding import AxisType, NamedSharding


def counted(f):
    calls = []

    def g(*args, **kwargs):
        calls.append(1)
        return f(*args, **kwargs)

    return g, calls


def test_one_signature_is_traced_once():
    g, calls = counted(lambda x: lax.sin(x))
    f = weft.jit(g)
    for _ in range(3):
        np.testing.assert_allclose(f(np.ones(3, np.float32)), np.sin(np.ones(3)), rtol=1e-6)
    assert len(calls) == 1
    f(np.ones(4, np.float32))
    assert len(calls) == 2


def test_weak_types_and_dtypes_are_part_of_the_signature():
    g, calls = counted(lambda x: x)
    f = weft.jit(g)
    f(1.0), f(np.float32(1.0)), f(1), f(2.0)
    assert len(calls) == 3


def test_pytrees_pass_in_and_out():
    f = weft.jit(lambda d, *, k: {"sum": d["a"] + k[0], "rest": (d["b"], None)})
    out = f({"a": 1.0, "b": np.arange(2)}, k=[2.0])
    assert float(out["sum"]) == 3.0 and out["rest"][1] is None
    np.testing.assert_array_equal(out["rest"][0], [0, 1])


def test_static_arguments_by_number_and_name():
    g, calls = counted(lambda x, n: x * n if n > 1 else x)
    f = weft.jit(g, static_argnums=1)
    assert float(f(2.0, 3)) == 6.0 and float(f(2.0, 1)) == 2.0 and float(f(5.0, 3)) == 15.0
    assert len(calls) == 2

    @weft.jit
    def h(x):
        return x

    def power(x, *, n):
        return x**n

    named = weft.jit(power, static_argnames="n")
    assert float(named(2.0, n=3)) == 8.0


def test_a_static_argument_must_hash():
    f = weft.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(ValueError, match="hash"):
        f(1.0, [1, 2])


def test_wrong_argument_numbers_and_names_are_refused():
    with pytest.raises(ValueError, match="static_argnums 3"):
        weft.jit(lambda x: x, static_argnums=3)
    with pytest.raises(ValueError, match="'z' is not an argument"):
        weft.jit(lambda x: x, static_argnames="z")
    with pytest.raises(TypeError, match="function"):
        weft.jit(3)


def test_donated_buffers_are_gone_and_reused():
    f = weft.jit(lambda x: lax.add(x, 1.0), donate_argnums=0)
    # The result of a program: a transferred NumPy array may share its memory, which stays its own.
    x = weft.jit(lambda z: lax.add(z, 1.0))(np.zeros(1000, np.float32))
    pointer = x.unsafe_buffer_pointer()
    y = f(x)
    assert x.is_deleted()
    assert y.unsafe_buffer_pointer() == pointer
    with pytest.raises(RuntimeError, match="deleted|donated"):
        np.asarray(x)


def test_a_donated_buffer_that_fits_no_result_is_announced():
    f = weft.jit(lambda x: lax.convert_element_type(x, "int8"), donate_argnums=0)
    with pytest.warns(UserWarning, match=r"f32\[3\]"):
        f(weft.device_put(np.zeros(3, np.float32)))


def test_unread_arguments_are_dropped_unless_kept():
    text = weft.jit(lambda x, y: x).lower(1.0, 2.0).as_text()
    assert "%arg1" not in text
    assert "%arg1" in weft.jit(lambda x, y: x, keep_unused=True).lower(1.0, 2.0).as_text()
    assert float(weft.jit(lambda x, y: x)(1.0, 2.0)) == 1.0


def test_large_constants_are_passed_and_small_ones_compiled_in():
    big = weft.device_put(np.ones(5000, np.float32))
    small = weft.device_put(np.ones(3, np.float32))
    text = weft.jit(lambda x: (lax.add(x, big), small)).lower(1.0).as_text()
    assert "tensor<5000xf32>" in text.split("\n")[1]
    f = weft.jit(lambda x: lax.mul(x, big))
    for k in (1.0, 2.0, 3.0):
        np.testing.assert_array_equal(f(k), np.full(5000, k))


def test_nested_jits_are_calls_in_the_jaxpr_and_inline_ones_are_not():
    inner = weft.jit(lambda x: lax.sin(x))
    assert "jit[" in str(weft.make_jaxpr(lambda x: inner(x))(1.0))
    inlined = weft.jit(lambda x: lax.sin(x), inline=True)
    assert "jit" not in str(weft.make_jaxpr(lambda x: inlined(x))(1.0))


def test_equal_inner_functions_are_lowered_once():
    inner = weft.jit(lambda x: lax.sin(x))
    text = weft.jit(lambda x: inner(inner(x))).lower(1.0).as_text()
    assert text.count("stablehlo.sine") == 1 and text.count("call @") == 2


def test_jit_of_a_closure_over_tracers():
    def f(x):
        return weft.jit(lambda y: lax.mul(x, y))(2.0)

    assert float(f(3.0)) == 6.0
    assert float(weft.jit(f)(3.0)) == 6.0
    assert float(weft.grad(f)(3.0)) == 2.0
    np.testing.assert_array_equal(weft.vmap(f)(np.arange(3.0)), [0, 2, 4])


@pytest.mark.parametrize("rows", [8, 256], ids=["compiled in", "an argument of the program"])
def test_arrays_that_a_function_closes_over_follow_its_arguments_to_their_devices(rows):
    cpus = weft.devices()
    all_of_them = weft.make_mesh((8,), ("d",), (AxisType.Auto,))
    half = weft.sharding.Mesh(np.array(cpus[:4]), ("d",))
    x = np.arange(2.0 * rows, dtype=np.float32).reshape(rows, 2)
    split = weft.device_put(x, NamedSharding(all_of_them, P("d")))
    w = np.float32([[1, 2], [3, -1]])
    for closed_over in (split, weft.device_put(x, cpus[2])):
        f = weft.jit(lambda w, x=closed_over: x @ w)
        for place in (cpus[0], cpus[3], NamedSharding(half, P()), NamedSharding(all_of_them, P())):
            out = f(weft.device_put(w, place))
            np.testing.assert_array_equal(out, x @ w)
            wanted = {place} if place in cpus else place.device_set
            assert out.devices() == wanted and out.committed
        assert not f(w).committed
    committed = weft.device_put(w, NamedSharding(all_of_them, P()))
    f = weft.jit(lambda w: split @ w)
    assert f(committed).sharding.spec == P("d") or rows == 8  # where it is, if the program is there


def test_concrete_calls_inside_a_trace_are_staged():
    inner = weft.jit(lambda x: lax.sin(x))
    c = weft.device_put(np.float32(2.0))
    inner(c), inner(c)
    assert "sin" in str(weft.make_jaxpr(lambda x: lax.add(x, inner(c)))(1.0))


def test_disable_jit_runs_op_by_op():
    g, calls = counted(lambda x: lax.sin(x))
    f = weft.jit(g)
    with weft.disable_jit():
        f(1.0), f(1.0)
    assert len(calls) == 2


def test_ahead_of_time_stages():
    f = weft.jit(lambda x, n: {"y": lax.mul(x, float(n))}, static_argnums=1)
    traced = f.trace(weft.ShapeDtypeStruct((3,), "float32"), 2)
    assert traced.out_info["y"].shape == (3,)
    lowered = traced.lower()
    assert "stablehlo.multiply" in lowered.as_text()
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(np.ones(3, np.float32))["y"], [2, 2, 2])
    assert "multiply" in compiled.as_text()
    assert compiled.memory_analysis().argument_size_in_bytes == 12
    with pytest.raises(TypeError, match=r"f32\[3\].*f32\[4\]"):
        compiled(np.ones(4, np.float32))
    assert f.eval_shape(np.ones(3, np.float32), 2)["y"].dtype == np.float32


def test_a_dropped_function_frees_its_traces_and_programs():
    sharding = weft.sharding.SingleDeviceSharding(weft.devices()[0])

    def make(**options):
        def f(x):
            return lax.sin(x)

        weft.jit(f, **options)(1.0)
        return weakref.ref(f)

    refs = [make(), make(out_shardings=sharding), make(static_argnames="x")]
    gc.collect()
    assert [ref() for ref in refs] == [None, None, None]


def test_what_a_function_was_called_with_first_is_freed():
    def first(function):
        x = weft.device_put(np.ones(3, np.float32))
        function(x)
        return weakref.ref(x)

    def lowered(x):
        kept.append(double.lower(x).compile())

    kept: list = []
    double = weft.jit(lambda x: x * 2)
    refs = [first(double), first(lowered)]
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
    np.testing.assert_array_equal(kept[0](np.ones(3, np.float32)), [2, 2, 2])


def test_objects_that_do_not_hash_have_traces_of_their_own():
    @dataclasses.dataclass
    class Repeat:
        times: int

        def __call__(self, x):
            return lax.broadcast(x, (self.times,))

    for times in range(1, 9):
        assert weft.jit(Repeat(times)).eval_shape(1.0).shape == (times,)
        gc.collect()
    kept = weft.jit(Repeat(2))
    kept(1.0)
    weft.clear_caches()
    np.testing.assert_array_equal(kept(3.0), [3, 3])


def test_names_of_arguments_skip_static_ones():
    f = weft.jit(
        lambda n, x, m, *, key, w: x["a"] * n + w, static_argnums=(0, 2), static_argnames="key"
    )
    lowered = f.lower(2, {"a": 1.0}, 3, key="k", w=1.0)
    assert lowered.arg_names() == ["x['a']", "w"]
    compiled = lowered.compile()
    assert float(compiled({"a": 3.0}, w=1.0)) == 7
    with pytest.raises(TypeError, match=r"argument x\['a'\] of type"):
        compiled({"a": np.ones(2, np.float32)}, w=1.0)


def all_kinds(a, n=2, *rest, b=0.0, k=3):
    return a * n + sum(rest) + b * k


ROW = np.arange(4, dtype=np.float32)
LEAVE_IT_OUT = "is part of the compiled program: leave it out of the call"
LOWERED = {  # options of jit, the call lowered, the call of the compiled function, those refused
    "number": (
        {"static_argnums": 1},
        ((ROW, 5), {}),
        ((ROW,), {}),
        [
            ((ROW, 5), {}, f"static argument at position 1 {LEAVE_IT_OUT}"),
            ((ROW,), {"n": 5}, f"static argument 'n' {LEAVE_IT_OUT}"),
            ((), {"a": ROW}, "takes 1 by position, as the call that was lowered"),
        ],
    ),
    "name": (
        {"static_argnames": ("n", "k")},
        ((ROW,), {"n": 5, "b": ROW, "k": 7}),
        ((ROW,), {"b": ROW}),
        [
            ((ROW,), {"b": ROW, "k": 7}, f"static argument 'k' {LEAVE_IT_OUT}"),
            ((ROW, ROW), {}, "takes 1 by position"),
            ((ROW,), {}, "compiled for arguments of structure"),
        ],
    ),
    "number given by name": (
        {"static_argnums": 1},
        ((ROW,), {"n": 5}),
        ((ROW,), {}),
        [((ROW,), {"n": 5}, f"static argument 'n' {LEAVE_IT_OUT}")],
    ),
    "default": (
        {"static_argnames": ("n", "k")},
        ((ROW,), {"b": ROW}),
        ((ROW,), {"b": ROW}),
        [((ROW,), {"b": ROW, "n": 2}, f"static argument 'n' {LEAVE_IT_OUT}")],
    ),
    "first": (
        {"static_argnums": 0},
        ((3.0, 5, ROW), {}),
        ((5, ROW), {}),
        [((3.0, 5, ROW), {}, f"static argument at position 0 {LEAVE_IT_OUT}")],
    ),
    "last of several": (
        {"static_argnums": -1},
        ((ROW, 5, ROW, 2.0), {}),
        ((ROW, 5, ROW), {}),
        [((ROW, 5, ROW, 2.0), {}, f"static argument at position 3 {LEAVE_IT_OUT}")],
    ),
    "all": (
        {"static_argnums": (0, 1)},
        ((2.0, 3), {}),
        ((), {}),
        [((2.0, 3), {}, f"static argument at position 0 {LEAVE_IT_OUT}")],
    ),
}


@pytest.mark.parametrize("case", LOWERED)
def test_a_compiled_function_takes_its_dynamic_arguments_only(case):
    options, (args, kwargs), (given, named), refused = LOWERED[case]
    compiled = weft.jit(all_kinds, **options).lower(*args, **kwargs).compile()
    for _ in range(2):  # checked, and from the cache of signatures
        np.testing.assert_allclose(compiled(*given, **named), all_kinds(*args, **kwargs))
    for bad, bad_named, message in refused:
        with pytest.raises(TypeError, match=message):
            compiled(*bad, **bad_named)


def test_a_compiled_function_donates_the_arguments_behind_static_ones():
    f = weft.jit(lambda n, x, y: x * n + y, static_argnums=0, donate_argnums=(1,))
    compiled = f.lower(2, ROW, ROW).compile()
    x, y = weft.numpy.asarray(ROW), weft.numpy.asarray(ROW)
    np.testing.assert_array_equal(compiled(x, y), 3 * ROW)
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(ValueError, match="donate"):
        compiled(y, y)


def test_nodes_may_refuse_what_is_no_array():
    class Box:
        def __init__(self, value):
            if not hasattr(value, "shape"):
                raise ValueError("arrays only")
            self.value = value

    tree_util.register_pytree_node(Box, lambda box: ((box.value,), None), lambda _, c: Box(*c))
    box = Box(np.ones(2, np.float32))
    f = weft.jit(lambda box, x: Box(box.value * x))
    np.testing.assert_array_equal(f(box, 2.0).value, [2, 2])
    lowered = f.lower(box, 2.0)
    assert lowered.arg_names() == ["box (leaf 0)", "x"]
    np.testing.assert_array_equal(lowered.compile()(box, 3.0).value, [3, 3])


def test_results_shardings_and_constraints_over_8_devices():
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)
    s = weft.NamedSharding(mesh, weft.P("x", "y"))
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    f = weft.jit(lambda x: lax.mul(x, 2.0), in_shardings=s, out_shardings=s)
    y = f(x)
    assert y.sharding == s
    np.testing.assert_array_equal(y, 2 * x)
    total = weft.jit(lambda v: lax.reduce_sum(v, (0, 1)))(y)
    assert float(total) == 2 * x.sum()


def test_the_lowered_text_has_mesh_and_shardings():
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)
    s = weft.NamedSharding(mesh, weft.P("x", "y"))
    f = weft.jit(lambda x: x * 2, in_shardings=s, out_shardings=s)
    text = f.lower(np.zeros((8, 4), np.float32)).as_text()
    assert "mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32" in text
    assert 'sdy.mesh @mesh = <["x"=4, "y"=2]>' in text
    assert text.count('sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>') == 2


def test_gspmd_attributes_without_shardy():
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    s = weft.NamedSharding(mesh, weft.P("x"))
    weft.config.update("use_shardy", False)
    try:
        f = weft.jit(lambda x: lax.mul(x, 3.0), in_shardings=s, out_shardings=s)
        x = np.arange(8, dtype=np.float32)
        text = f.lower(x).as_text()
        assert "mhlo.sharding" in text and "sdy" not in text
        np.testing.assert_array_equal(f(x), 3 * x)
    finally:
        weft.config.update("use_shardy", True)


def test_a_program_has_one_set_of_devices():
    a = weft.device_put(np.zeros(4, np.float32), weft.devices()[0])
    b = weft.device_put(np.zeros(4, np.float32), weft.devices()[1])
    with pytest.raises(ValueError, match=r"devices.*device_put"):
        weft.jit(lambda x, y: lax.add(x, y))(a, b)


def test_an_argument_that_does_not_divide_is_named():
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    s = weft.NamedSharding(mesh, weft.P("x"))
    f = weft.jit(lambda batch: batch, in_shardings=(s,))
    with pytest.raises(ValueError, match=r"batch.*f32\[6\].*not divisible by 8"):
        f(np.zeros(6, np.float32))


def test_errors_leave_without_wefts_frames():
    def f(x):
        return lax.add(x, np.ones(3, np.float32))

    with pytest.raises(TypeError) as info:
        weft.jit(f)(np.ones(2, np.float32))
    files = [str(entry.path) for entry in info.traceback]
    inner = [p for p in files if "/weft/" in p and not p.endswith("boundary.py")]
    assert not inner, files
    assert files[-1] == __file__


def test_debug_nans_names_the_line():
    with weft.debug_nans(True):
        with pytest.raises(FloatingPointError, match=r"log.*test_jit\.py"):
            weft.jit(lambda x: lax.add(lax.log(x), 1.0))(-1.0)
        assert float(weft.jit(lambda x: lax.log(x))(1.0)) == 0.0


def test_debug_nans_looks_into_jitted_functions_that_are_called_alone():
    inner = weft.jit(lambda x: lax.log(lax.neg(x)))
    with weft.debug_nans(True), pytest.raises(FloatingPointError, match="in the result of log"):
        weft.jit(lambda x: inner(x))(1.0)


def test_debug_nans_keeps_donated_arguments_to_look_for_the_nan():
    function = weft.jit(lambda x: lax.log(lax.neg(x)), donate_argnums=0)
    kept, donated = weft.numpy.ones(3), weft.numpy.full(3, -1.0)
    with weft.debug_nans(True), pytest.raises(FloatingPointError, match="NaN in the result of log"):
        function(kept)
    np.testing.assert_array_equal(kept, [1.0, 1.0, 1.0])
    function(donated)
    assert donated.is_deleted()


@pytest.mark.parametrize("stage", ["__call__", "lower", "trace", "eval_shape"])
def test_an_argument_without_a_type_is_named_in_every_stage(stage):
    function = weft.jit(lambda a, b: a)
    call = getattr(function, stage)
    with pytest.raises(TypeError, match=r"^jit of <lambda>: argument b of type object is not an"):
        call(1.0, object())
    with pytest.raises(TypeError, match=r"^[^ ]*<lambda>\(\) missing 1 required positional"):
        call(1.0)


def test_an_array_of_no_numbers_is_named():
    with pytest.raises(TypeError, match="^jit of <lambda>: argument b: dtype <U1 is not a type"):
        weft.jit(lambda a, b: a)(1.0, np.array(["a"]))


def test_a_type_without_data_is_not_blamed_for_another_argument():
    spec = weft.ShapeDtypeStruct((3,), "float32")
    with pytest.raises(TypeError, match="argument b of type str"):
        weft.jit(lambda a, b: a).lower(spec, "text")


@pytest.mark.parametrize("donated", [(), (0,)])
def test_arrays_over_devices_in_another_order_may_meet_in_call_after_call(donated):
    auto = (weft.AxisType.Auto,) * 2
    forward = weft.make_mesh((4, 2), ("x", "y"), auto)
    backward = weft.make_mesh((2, 4), ("a", "b"), auto, devices=weft.devices()[::-1])
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    add = weft.jit(lambda a, b: a + b, donate_argnums=donated)
    for spec, other in ((P("x", "y"), P("a")), (P("x"), P()), (P(), P("b", "a"))):
        for _ in range(3):
            a = weft.device_put(value, weft.NamedSharding(forward, spec))
            b = weft.device_put(10 * value, weft.NamedSharding(backward, other))
            np.testing.assert_array_equal(add(a, b), 11 * value)


@pytest.mark.parametrize("spec", [None, P(), P("y", "x"), P(None, "y", "x")])
def test_vmap_of_a_function_with_shardings_takes_arrays_wherever_they_are(spec):
    mesh = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
    f = weft.jit(lambda x: x * 2, in_shardings=rows, out_shardings=columns)
    value = np.arange(64, dtype=np.float32).reshape(2, 8, 4)
    x = value if spec is None else weft.device_put(value, NamedSharding(mesh, spec))
    for _ in range(2):
        out = weft.vmap(f)(x)
        np.testing.assert_array_equal(out, value * 2)
        assert out.sharding.shard_shape(out.shape)[1:] == (8, 2)


def test_compiler_options_belong_to_the_outermost_jit():
    options = {"xla_backend_optimization_level": 0}
    f = weft.jit(lambda x: lax.sin(x) * x, compiler_options=options)
    slope = np.sin(2.0) + 2 * np.cos(2.0)
    for g in (weft.grad(f), weft.jit(weft.grad(f), compiler_options=options)):
        np.testing.assert_allclose(g(2.0), slope, rtol=1e-5)
    with pytest.raises(ValueError, match="optimization_level.*give it to the outermost jit"):
        weft.jit(lambda x: f(x) + 1)(2.0)


def test_a_wrapper_of_a_jitted_function_has_none_of_its_stages():
    """functools.wraps copies a function's attributes; `lower` would pass the wrapper over."""
    for options in ({}, {"static_argnums": 1}, {"donate_argnums": 0}):
        jitted = weft.jit(lambda x, n: x * n, **options)

        @functools.wraps(jitted)
        def more(x, n, jitted=jitted):
            return jitted(x, n) + 1

        assert more(np.float32(2), 3) == 7
        assert not hasattr(more, "lower") and not hasattr(more, "trace")


def test_methods_may_have_static_and_donated_arguments():
    class Scaled:
        factor = 3

        @functools.partial(weft.jit, static_argnums=0, donate_argnums=1)
        def times(self, x):
            return x * self.factor

    x = weft.numpy.ones(2)
    assert Scaled().times(x).tolist() == [3, 3] and x.is_deleted()
    assert Scaled.times(Scaled(), weft.numpy.ones(2)).tolist() == [3, 3]


PLACED = {
    "array": lambda v, d: weft.numpy.array(v, device=d),
    "asarray": lambda v, d: weft.numpy.asarray(v, device=d),
    "a list": lambda v, d: weft.numpy.array([1.0] * 8, device=d),
    "zeros": lambda v, d: weft.numpy.zeros(8, device=d),
    "full": lambda v, d: weft.numpy.full(8, v, device=d),
    "arange": lambda v, d: weft.numpy.arange(8, device=d),
    "linspace": lambda v, d: weft.numpy.linspace(0, 1, 8, device=d),
    "ones_like": lambda v, d: weft.numpy.ones_like(v, device=d),
    "device_put": weft.device_put,
    "to_device": lambda v, d: weft.numpy.asarray(v).to_device(d),
}


@pytest.mark.parametrize("name", PLACED)
def test_what_a_program_makes_on_a_device_is_there(name):
    v = np.arange(8, dtype=np.float32)
    mesh = weft.make_mesh((8,), ("x",))
    for place in (weft.devices()[3], NamedSharding(mesh, P("x"))):
        out = weft.jit(lambda place=place: PLACED[name](v, place))()
        devices = {place} if place is weft.devices()[3] else set(mesh.devices.flat)
        assert out.devices() == devices and out.committed
        assert len(out.addressable_shards) == len(devices)


def test_a_result_without_placed_operands_is_not_bound_to_a_device():
    there = weft.device_put(np.ones(3, np.float32), weft.devices()[2])
    out = weft.jit(lambda x: weft.numpy.ones(3))(there)
    assert not out.committed
    assert (out + there).devices() == {weft.devices()[2]}


def test_indexing_by_nothing_stays_on_the_device():
    there = weft.device_put(np.arange(8.0), weft.devices()[2])
    none = np.zeros((0,), int)
    for out in (there[none], there[np.zeros(8, bool)], weft.jit(lambda x: x[none])(there)):
        assert out.shape == (0,) and out.devices() == {weft.devices()[2]}


def test_in_shardings_do_not_reach_arguments_by_keyword():
    s = NamedSharding(weft.make_mesh((8,), ("x",)), P("x"))
    x = np.ones(8, np.float32)
    for given in (s, (s, s)):
        with pytest.raises(ValueError, match="some by keyword.*by position"):
            weft.jit(lambda x, y: x + y, in_shardings=given)(x, y=x)
    assert weft.jit(lambda x, y: x + y, in_shardings=s, static_argnames="y")(x, y=2).sharding == s
    there = weft.devices()[3]
    assert weft.jit(lambda x, y: x + y, device=there)(x=x, y=x).devices() == {there}


def test_values_without_bits_pass_through_programs():
    def f(x):
        return (x * 1.0).sum()

    x = np.arange(3)
    g = weft.grad(f, allow_int=True)
    jitted = weft.jit(g)
    scanned = weft.jit(lambda x: lax.scan(lambda c, v: (c, g(v)), 0, x[:, None])[1])
    branch = weft.jit(lambda x: lax.cond(x[0] > 0, g, g, x))
    for out in (g(x), jitted(x), jitted(x), weft.jit(lambda z: z)(g(x)), scanned(x), branch(x)):
        assert type(out) is np.ndarray and out.dtype == weft.dtypes.float0


@pytest.mark.parametrize("shape", [(), (3,)])
def test_values_without_bits_are_carried_through_loops(shape):
    zero, x = np.zeros(shape, weft.dtypes.float0), np.ones(2, np.float32)
    loops = (
        lambda x: lax.fori_loop(0, 3, lambda i, c: (c[0], c[1] + 1), (zero, x)),
        lambda x: lax.while_loop(lambda c: c[1][0] < 4, lambda c: (c[0], c[1] + 1), (zero, x)),
        lambda x: lax.cond(x[0] > 0, lambda: (zero, x + 3), lambda: (zero, x)),
    )
    for loop in loops:
        for run in (loop, weft.jit(loop)):
            carried, count = run(x)
            assert carried.dtype == weft.dtypes.float0 and carried.shape == shape
            np.testing.assert_array_equal(count, x + 3)


def test_a_function_jitted_anew_with_equal_shardings_is_not_traced_again():
    traces = []

    def double(x):
        traces.append(x.sharding)
        return x * 2

    mesh = weft.make_mesh((8,), ("i",))
    rows, whole = (lambda: NamedSharding(mesh, P("i"))), NamedSharding(mesh, P())
    for _ in range(3):
        weft.jit(double, in_shardings=(rows(),), out_shardings=rows())(np.ones(8))
    assert len(traces) == 1
    with pytest.raises(ValueError, match="must be a pytree prefix"):
        weft.jit(double, in_shardings=[rows()], out_shardings=rows())(np.ones(8))
    y = weft.jit(double, in_shardings=(whole,), out_shardings=rows())(np.ones(8))
    z = weft.jit(double, in_shardings=(rows(),), out_shardings=whole)(np.ones(8))
    assert (y.sharding, z.sharding) == (rows(), whole)


def test_arguments_are_moved_to_the_device_that_is_asked_for():
    devices = weft.devices()
    add = weft.jit(lambda x, y=0: x + y, device=devices[2])
    mesh = weft.make_mesh((4,), ("x",))
    split = weft.device_put(np.arange(8.0), weft.NamedSharding(mesh, weft.P("x")))
    for _ in range(3):  # the first time by Python, then by the compiled dispatch
        for i in (1, 2, 3):
            x, y = (weft.device_put(np.float32(i), devices[j]) for j in (i, i + 1))
            for out, want in ((add(x), i), (add(x, y), 2 * i), (add(x, y=y), 2 * i)):
                assert out.devices() == {devices[2]} and out == want
            assert x.devices() == {devices[i]}
        out = add(split)
        assert out.devices() == {devices[2]}
        np.testing.assert_array_equal(out, np.arange(8))


def test_a_device_is_where_derivatives_run_too():
    home, away = weft.devices()[1], weft.devices()[3]
    x = weft.device_put(np.arange(3.0, dtype=np.float32), home)
    f = weft.jit(lambda x: (x**2).sum(), device=away)
    value, grad = weft.value_and_grad(f)(x)
    assert value.devices() == {away}
    np.testing.assert_array_equal(grad, [0, 2, 4])


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_results_say_axes_of_size_one_that_their_arguments_say(kind):
    mesh = weft.make_mesh((1, 4), ("a", "b"), axis_types=(kind,) * 2)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    both = weft.device_put(x, NamedSharding(mesh, P("a", "b")))
    rows = weft.device_put(x, NamedSharding(mesh, P("a")))
    for f in (lambda v: v * 2, weft.jit(lambda v: v * 2)):
        assert f(both).sharding.spec == P("a", "b")
        assert f(rows).sharding.spec.axes_of(0) == ("a",)
    assert weft.jit(lambda v, w: v + 0 * w)(both, both).sharding.spec == P("a", "b")
    asked = weft.jit(lambda v: v, out_shardings=NamedSharding(mesh, P("a")))(both)
    assert asked.sharding.spec == P("a")


def test_specs_of_results_end_in_nones_as_those_of_the_first_argument_that_lies_alike():
    mesh = weft.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    x = np.arange(32, dtype=np.float32).reshape(8, 4)

    def placed(*spec):
        return weft.device_put(x, NamedSharding(mesh, P(*spec)))

    def scale(v):
        return v * 2

    long, short = placed("a", None), placed("a")
    jitted = weft.jit(scale)
    for f in (scale, jitted, weft.grad(lambda v: (v * v).sum())):
        for _ in range(2):  # the second time by the compiled dispatch path
            assert f(long).sharding.spec == P("a", None)
            assert f(short).sharding.spec == P("a")
            np.testing.assert_array_equal(f(long), 2 * x)
    assert jitted(placed(None, None)).sharding.spec == P(None, None)
    add = weft.jit(lambda v, w: v + w)
    assert add(long, short).sharding.spec == P("a", None)
    assert add(short, long).sharding.spec == P("a")
    rows, total = weft.jit(lambda v: (v[:, 0], v.sum()))(long)  # of other ranks
    assert (rows.sharding.spec, total.sharding.spec) == (P("a"), P())
    asked = weft.jit(scale, out_shardings=NamedSharding(mesh, P("a")))
    assert asked(long).sharding.spec == P("a")
    with weft.set_mesh(mesh):
        assert jitted(long).sharding.spec == P("a", None)


def test_static_arguments_given_by_position_and_by_name_are_taken_as_given():
    def inner(a, b):
        return a * len(b)

    # The wrapper takes other arguments than the signature that it has from what it wraps.
    @functools.partial(weft.jit, static_argnums=(0,), static_argnames=["b"])
    @functools.wraps(inner)
    def outer(key, a, *args, **kwargs):
        return inner(a[0], **kwargs)

    assert outer("key", (2.0,), b="hi") == 4.0
    assert outer("key", (2.0,), np.ones(1), b="hello") == 10.0
    with pytest.raises(ValueError, match="static_argnums 7 is out of range"):
        weft.jit(lambda x, n: x, static_argnums=7, static_argnames="n")


def test_programs_with_callbacks_are_looked_up_by_options_and_placement():
    seen = []

    def note(x):
        seen.append(np.asarray(x))
        return np.float32(x * 2)

    def doubled(x):
        return weft.pure_callback(note, weft.ShapeDtypeStruct((), np.float32), x) + 1

    plain = weft.jit(doubled)
    precise = weft.jit(doubled, compiler_options={"xla_cpu_enable_fast_math": False})
    first, second = weft.devices()[:2]
    for _ in range(3):
        for function in (plain, precise):
            for device in (first, second):
                placed = function(weft.device_put(np.float32(3), device))
                with weft.default_device(device):
                    free = function(np.float32(4))
                assert [float(placed), float(free)] == [7.0, 9.0]
                assert placed.devices() == free.devices() == {device}
    assert len(seen) == 24


def test_prints_of_a_program_come_at_each_call(capfd):
    @weft.jit
    def square(x):
        weft.debug.print("x is {}", x)
        return x * x

    for i in range(4):
        assert float(square(np.float32(i))) == i * i
    weft.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:4] == [f"x is {float(i)}" for i in range(4)]


STRUCT = weft.ShapeDtypeStruct((3,), np.float32)


@pytest.mark.parametrize("keep_unused", [False, True])
def test_a_type_without_values_is_an_argument_that_no_result_reads(keep_unused):
    g, calls = counted(lambda x, tree: x * len(tree["a"].shape) + np.float32(tree["a"].size))
    f = weft.jit(g, keep_unused=keep_unused)
    x = np.ones(3, np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(f(x, {"a": STRUCT}), x + 3)
        np.testing.assert_array_equal(weft.jit(lambda x: f(x, {"a": STRUCT}))(x), x + 3)
    np.testing.assert_array_equal(weft.grad(lambda x: f(x, {"a": STRUCT}).sum())(x), x)
    np.testing.assert_array_equal(weft.vmap(lambda x: f(x, {"a": STRUCT}))(x), x + 3)
    assert len(calls) <= 4  # the types of x are f32[3], and f32[] below vmap


def test_computing_with_a_type_without_values_names_the_argument():
    f = weft.jit(lambda x, tree: x * tree["a"])
    for call in (f, weft.jit(lambda *args: f(args[0], {"a": STRUCT}))):
        with pytest.raises(TypeError, match=r"argument tree\['a'\].*ShapeDtypeStruct.*no values"):
            call(np.ones(3, np.float32), {"a": STRUCT})
