"""Names of jax.experimental and jax.extend that are made for programs written for JAX."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.compat.test_as_jax import on_weft

ROOT = str(Path(__file__).parents[2])

PROGRAMS = {
    "private helpers that the documentation shows": """
        import jax._src.util as util
        from jax._src.lib.mlir import ir
        from jax._src.lib.mlir.dialects import hlo
        from jax.extend import core

        assert util.safe_map(lambda a, b: a + b, [1, 2], (3, 4)) == [4, 6]
        raises(ValueError, "", util.safe_map, lambda a, b: a, [1, 2], [3])
        assert util.unzip2([(1, 2), (3, 4)]) == ((1, 3), (2, 4))
        assert util.split_list([1, 2, 3, 4], [1, 2]) == [[1], [2, 3], [4]]
        parts = util.partition_list([True, False, True], "abc")
        assert parts == (["b"], ["a", "c"])
        assert util.merge_lists([True, False, True], *parts) == ["a", "b", "c"]
        assert util.subvals("abc", [(1, "x")]) == ("a", "x", "c")
        assert util.tuple_insert((1, 2), 1, 9) == (1, 9, 2)
        assert util.tuple_delete((1, 2), 0) == (2,)
        assert util.curry(pow)(2)(3) == 8

        triple_p = core.Primitive("triple")
        triple_p.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
        def lower(ctx, x):
            assert isinstance(x, ir.Value)
            return [hlo.AddOp(hlo.AddOp(x, x), x).result]
        jax.interpreters.mlir.register_lowering(triple_p, lower, platform="cpu")
        close(jax.jit(triple_p.bind)(jnp.ones(2)), [3, 3])
    """,
    "what a derivative by references does not want": """
        _, pull = jax.vjp(lambda w, x: w @ x, jnp.ones((2, 3)), jnp.ones(3))
        total = jax.new_ref(jnp.full((2, 3), 5.0))
        out = pull.with_refs(total, jax.ad.DontWant())(jnp.ones(2))
        assert isinstance(out[0], jax.ad.GradRef) and isinstance(out[1], jax.ad.DidntWant)
        close(total[...], np.full((2, 3), 6.0))
    """,
    "kernels for TPUs": """
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu as pltpu, triton as plgpu

        assert pltpu.PrefetchScalarGridSpec is pl.PrefetchScalarGridSpec
        assert pltpu.async_copy is not pl.async_copy and plgpu.debug_barrier() is None
        def double(x, o, scratch):
            scratch[...] = x[...]
            o[...] = scratch[...] * 2
        close(pl.pallas_call(
            double,
            out_shape=jax.ShapeDtypeStruct((2,), jnp.float32),
            scratch_shapes=[pltpu.VMEM((2,), jnp.float32)],
            interpret=pltpu.InterpretParams(),
        )(jnp.ones(2)), [2, 2])
        raises(AttributeError, "make_async_remote_copy", getattr, pltpu, "make_async_remote_copy")
    """,
    "compute_on, xla_metadata and their kin": """
        from jax.experimental.compute_on import compute_on
        from jax.experimental.control_deps import control_dep, schedule
        from jax.experimental.fused import fused
        from jax.experimental.scheduling_groups import scheduling_group
        from jax.experimental.xla_metadata import set_xla_metadata

        @compute_on("device_host")
        @jax.jit
        def f(x):
            return x * 2
        close(jax.jit(lambda x: f(x) + 1)(3.0), 7.0)
        raises(ValueError, "must be one of", lambda: compute_on("moon").__enter__())

        @set_xla_metadata(color="red")
        def g(x):
            return jnp.sin(x)
        text = jax.jit(lambda x: g(x) + 1).lower(1.0).compile().as_text()
        assert "xla_metadata(color=red)" in text and 'frontend_attributes={color="red"}' in text

        def h(x):
            y, z = jnp.sin(x), jnp.cos(x)
            return set_xla_metadata(y * z, breakpoint=True, note="a, (b)=c")
        lines = jax.jit(h).lower(1.0).as_text("hlo").splitlines()
        [noted] = [line for line in lines if "frontend_attributes" in line]
        assert " multiply(" in noted and 'breakpoint="true"' in noted
        assert 'note="a, (b)=c"' in noted
        mesh = jax.make_mesh((1,), ("i",), (jax.sharding.AxisType.Auto,))
        rows = jax.sharding.NamedSharding(mesh, jax.P("i"))
        spread = jax.jit(jax.vmap(jax.grad(g)), in_shardings=rows).lower(jnp.ones(2))
        assert 'color="red"' in spread.as_text("hlo")
        close(set_xla_metadata(jnp.ones(2), a=1), [1, 1])

        sine = jax.jit(lambda x: jnp.sin(x) * x)
        plain = sine.lower(1.0).as_text("hlo")
        noted = set_xla_metadata(color="blue")(sine)
        assert 'color="blue"' not in plain
        assert noted.lower(1.0).as_text("hlo").count('color="blue"') == 2
        assert sine.lower(1.0).as_text("hlo") == plain
        close(noted(2.0), 2 * np.sin(2.0))

        @jax.custom_vjp
        def k(x):
            return jnp.sin(x)

        def backward(x, ct):
            with set_xla_metadata(part="angle"):
                y = jnp.cos(x)
            return (set_xla_metadata(y * ct, whole="product"),)
        k.defvjp(lambda x: (k(x), x), backward)
        tripled = jax.jit(jax.grad(lambda x: k(x) * 3))
        lines = tripled.lower(1.0).as_text("hlo").splitlines()
        assert any(" cosine(" in line and 'part="angle"' in line for line in lines)
        assert any(" multiply(" in line and 'whole="product"' in line for line in lines)
        close(jax.grad(k)(1.0), np.cos(1.0))
        raises(ValueError, "give notes", set_xla_metadata)
        close(scheduling_group("a")(jnp.cos)(0.0), 1.0)
        close(control_dep(jnp.ones(2), jnp.zeros(2)), [0, 0])
        close(schedule([lambda: jnp.ones(2), lambda: jnp.zeros(2)]), [[1, 1], [0, 0]])
        close(fused(out_spaces=jax.memory.Space.Device)(jnp.cos)(0.0), 1.0)
        host = jax.memory.Space.Host
        raises(NotImplementedError, "device memory", lambda: fused(out_spaces=host))
    """,
    "callbacks that fill buffers": """
        from jax.experimental.buffer_callback import ExecutionStage, buffer_callback

        def scale(context, out, x, *, by):
            assert context.stage is ExecutionStage.EXECUTE
            assert not x.writeable and out["y"].writeable
            np.asarray(out["y"])[...] = np.asarray(x) * np.asarray(by)

        struct = jax.ShapeDtypeStruct((3,), np.float32)
        call = buffer_callback(scale, {"y": struct}, vmap_method="sequential")
        close(jax.jit(lambda x: call(x, by=2.0)["y"])(jnp.arange(3.0)), [0, 2, 4])
        rows = jnp.arange(6.0).reshape(2, 3)
        close(jax.vmap(lambda x: call(x, by=2.0)["y"])(rows), 2 * np.arange(6.0).reshape(2, 3))

        def add(context, out, x):
            np.asarray(out)[...] += 1
        close(buffer_callback(add, struct, input_output_aliases={0: 0})(jnp.arange(3.0)), [1, 2, 3])
    """,
    "primitives of JAX's that weft makes of others": """
        import jax.extend.core as jexc
        from jax.extend.core import primitives

        assert isinstance(jax.lax.add_p, jexc.Primitive)
        assert not isinstance("add", jexc.Primitive)
        x = jnp.arange(1.0, 4.0)[None]
        close(jax.lax.squeeze_p.bind(x, dimensions=(0,)), [1, 2, 3])
        close(primitives.square_p.bind(x), [[1, 4, 9]])
        close(jax.lax.tile_p.bind(x, reps=(2, 1)), [[1, 2, 3]] * 2)
        close(jax.lax.stack_p.bind(x, x, axis=0), [[[1, 2, 3]]] * 2)
        close(jax.lax.unstack_p.bind(x, axis=1), [[1], [2], [3]])
        options = dict(k=1, reduction_dimension=1, recall_target=0.9, aggregate_to_topk=True)
        close(jax.lax.approx_top_k_p.bind(x, is_max_k=True, **options)[0], [[3]])
        close(jax.jit(lambda x: primitives.squeeze_p.bind(x, dimensions=(0,)))(x), [1, 2, 3])
        bind = jax.lax.select_and_scatter_p.bind
        raises(NotImplementedError, "differentiate lax.reduce_window", bind)
    """,
    "lowerings by jaxlib's constructors of operations": """
        import jax.lib
        from jax.extend import core
        from jax.extend.mlir import dialects, ir
        from jax.extend.mlir.dialects import stablehlo
        from jax.interpreters import ad, mlir, partial_eval as pe

        assert jax.lib.__version__.startswith("0.") and dialects.func.FuncOp is not None
        reverse_p = core.Primitive("reverse_and_add")
        reverse_p.def_abstract_eval(lambda x: x)

        def rule(ctx, x):
            kind, = mlir.aval_to_ir_types(ctx.module_context, ctx.avals_out[0])
            two, = mlir.ir_constants(np.full(3, 2, np.float32))
            flat = mlir.flatten_ir_values([x, (two,)])
            turned = stablehlo.ReverseOp(flat[0], mlir.dense_int_array([0]))
            assert turned.result.type == kind
            added = stablehlo.AddOp(turned.result, flat[1])
            added.operation.attributes["note"] = mlir.ir_attribute({"a": [1, 2.5, True, "b"]})
            return added.results

        mlir.register_lowering(reverse_p, rule)
        pe.dce_rules[reverse_p] = lambda *_: None
        f = jax.jit(lambda x: reverse_p.bind(x))
        close(f(jnp.arange(3.0)), [4, 3, 2])
        assert isinstance(mlir.i64_attr(3), ir.IntegerAttr) and mlir.i32_attr(3).value == 3
        assert len(mlir.dense_int_elements([1, 2])) == 2
        raises(AttributeError, "mlir.dialects.nowhere", getattr, dialects, "nowhere")
        raises(TypeError, "ir_attribute: object", mlir.ir_attribute, object())
    """,
    "what there is no counterpart of says why": """
        from jax.experimental import sparse
        from jax.experimental.pallas import tpu as pltpu

        raises(AttributeError, "jax.lax collectives", getattr, pltpu, "make_async_remote_copy")
        raises(AttributeError, "draw by jax.random", getattr, pltpu, "prng_seed")
        raises(AttributeError, "made of plain operations", getattr, sparse, "bcoo_dot_general_p")
        raises(ImportError, "weft.comm", __import__, "jax.experimental.roofline")
        pallas = __import__("jax.experimental.pallas", fromlist=["pallas"])
        raises(AttributeError, "an array of positions", getattr, pallas, "Indirect")
    """,
    "callable objects whose names are no text": """
        class Scale:
            __annotations__ = None

            def __init__(self):
                self.__name__ = self.__qualname__ = None

            def __call__(self, x):
                return 2 * x
        close(jax.vmap(Scale())(jnp.arange(3.0)), [0, 2, 4])
        close(jax.grad(Scale())(3.0), 2.0)
        close(jax.jit(jax.checkpoint(Scale()))(3.0), 6.0)
        close(jax.make_jaxpr(Scale())(1.0).jaxpr.eqns[0].invars[1].aval.shape, ())
        close(jax.jacfwd(Scale())(3.0), 2.0)
    """,
    "the dictionary of a module has all of its names": """
        assert {"abs", "zeros_like", "linalg", "float32"} <= vars(jnp).keys() == set(dir(jnp)) | {
            n for n in vars(jnp) if n.startswith("_")
        }
        assert vars(jnp.linalg)["norm"] is jnp.linalg.norm
    """,
    "whether a backend has been started": """
        from jax._src import xla_bridge

        assert xla_bridge.backends_are_initialized() is bool(xla_bridge._backends)
        jnp.ones(2)
        assert xla_bridge.backends_are_initialized()
    """,
    "numbers of Python with a dtype": """
        import pickle
        from jax._src.literals import TypedComplex, TypedFloat, TypedInt

        number = pickle.loads(pickle.dumps(TypedInt(3, np.int8)))
        assert number == 3 and number.dtype == np.int8 and "dtype=int8" in repr(number)
        assert TypedFloat(0.5, np.float16) == 0.5 and TypedFloat(0.5, np.float16).aval.shape == ()
        assert TypedComplex(1j, np.complex64) * 2 == 2j
    """,
    "the default generator's functions of raw keys": """
        from jax._src.numpy.util import promote_dtypes, promote_dtypes_inexact
        from jax._src.numpy.util import promote_dtypes_complex

        a, b = promote_dtypes_complex(jnp.arange(2), 0.5)
        assert a.dtype == b.dtype == "complex64"
        a, b = promote_dtypes_inexact(jnp.arange(2), jnp.arange(2, dtype="int8"))
        assert a.dtype == b.dtype == "float32"
        a, b = promote_dtypes(jnp.arange(2, dtype="int16"), jnp.arange(2, dtype="int8"))
        assert a.dtype == b.dtype == "int16"
        from jax._src.random import threefry2x32

        key = threefry2x32.threefry_seed(jnp.asarray(7))
        close(key, [0, 7])
        close(threefry2x32.threefry_split(key, (2,)), jax.random.split(jax.random.PRNGKey(7), 2))
    """,
    "private names that libraries import": """
        from jax._src.lib import xla_client
        from jax._src.numpy.index_tricks import CClass, RClass
        from jax._src.pjit import auto_axes
        from jax._src.sharding_impls import canonicalize_sharding

        assert xla_client.XlaRuntimeError is jax.errors.JaxRuntimeError
        assert type(jnp.c_) is CClass and close(RClass()[1:3, 7], [1, 2, 7]) is None
        assert auto_axes is jax.sharding.auto_axes and canonicalize_sharding(None, "f") is None
        mesh = jax.make_mesh((2,), ("x",))
        with jax.set_mesh(mesh):
            sharding = canonicalize_sharding(jax.P("x"), "f")
        assert sharding.mesh.shape == {"x": 2} and sharding.spec == jax.P("x")
    """,
    "whose values they are": """
        from jax.experimental import sparse

        seen = []
        def see(x):
            seen.append(x)
            return x
        jax.jit(see)(1.0), jax.grad(see)(1.0), jax.vmap(see)(jnp.ones(2))
        seen += [sparse.BCOO.fromdense(jnp.eye(2)), jax.ShapeDtypeStruct((), "float32")]
        assert [type(x).__module__.partition(".")[0] for x in seen] == ["jax"] * 5, seen
        assert type(seen[3]).__module__.startswith("jax.experimental.sparse")
        assert type(jnp.ones(2)).__module__.startswith("jaxlib") and jax.Array.__module__ == "jax"
        assert isinstance(jax.jit(see), jax._src.lib._jax.PjitFunction)
        assert type(seen[0]).__name__ == "DynamicJaxprTracer"
        for x in (jnp.ones(2), jax.make_mesh((2,), ("x",)), jax.make_jaxpr(see)(1.0)):
            assert not hasattr(x, "_repr_html_") and "text/plain" in x._repr_mimebundle_()
        assert {x.__array_namespace__() for x in (*seen[:3], jnp.ones(2))} == {jnp}
        assert jnp.__array_api_version__ >= "2024.12" and not hasattr(jnp, "__array_other__")
        assert jnp.__array_namespace_info__().default_dtypes()["integral"] == jnp.int32
        assert sparse._base.JAXSparse is sparse.JAXSparse

        import pickle
        sharding = jax.sharding.NamedSharding(jax.make_mesh((2,), ("x",)), jax.P("x"))
        for value in (sharding, jnp.ones(2), jax.random.key(0), jax.ShapeDtypeStruct((2,), "int8")):
            again = pickle.loads(pickle.dumps(value))
            assert type(again) is type(value) and repr(again) == repr(value)
    """,
    "lists are traced where functions are": """
        seen = {}
        def look(x):
            for make in (jnp.array, jnp.asarray):
                seen[make.__name__] = make([0, 1]), make([[1.5]], dtype="float16"), make(3)
            return x + seen["asarray"][0].sum() + seen["array"][1].sum()
        close(jax.jit(look)(1.0), 3.5)
        assert all(isinstance(x, jax.core.Tracer) for xs in seen.values() for x in xs)
        assert seen["array"][1].dtype == "float16" and seen["array"][1].shape == (1, 1)
        close(jax.grad(look)(1.0), 1.0)
        assert not any(isinstance(x, jax.core.Tracer) for xs in seen.values() for x in xs)
    """,
    "operands whose operators are their own": """
        class Matrix:
            def __getattr__(self, name):
                if name.startswith("__"):
                    return lambda *_: NotImplemented
                raise NotImplementedError(name)
            def __rmul__(self, other):
                return "times"
            def __radd__(self, other):
                return "plus"
        for x in (jnp.ones(2), jnp.float32(1)):
            assert x * Matrix() == "times" and x + Matrix() == "plus"
            assert jax.jit(lambda x: (x * Matrix() == "times") + 0 * x)(x).sum() == x.sum()
            raises(TypeError, "unsupported operand", lambda: x - Matrix())
    """,
    "native code called by a lowering rule": """
        from jax._src.interpreters.mlir import custom_call
        from jax.extend import core
        from jax.interpreters import mlir

        called_p = core.Primitive("called")
        called_p.def_abstract_eval(lambda x, **_: jax.core.ShapedArray(x.shape, x.dtype))
        def lower(ctx, x, aliases=(), **options):
            out = custom_call(
                b"probe", result_types=[x.type], operands=[x], operand_layouts=[(0, 1)],
                result_layouts=[(0, 1)], backend_config="config",
                operand_output_aliases=dict(aliases), **options,
            )
            return out.results
        mlir.register_lowering(called_p, lower)
        def text(**options):
            return jax.jit(lambda x: called_p.bind(x, **options)).lower(jnp.ones((2, 3))).as_text()
        assert "@probe" in text() and "dense<[0, 1]>" in text() and '"config"' in text()
        assert "has_side_effect = true" in text(has_side_effect=True)
        assert "api_version = 3" in text(api_version=3)
        assert "operand_index = 0" in text(aliases=((0, 0),))
    """,
    "the parts that jax.numpy.vectorize is made of": """
        from jax._src.numpy.vectorize import (
            _apply_excluded,
            _check_output_dims,
            _parse_gufunc_signature,
            _parse_input_dimensions,
        )

        inputs, outputs = _parse_gufunc_signature("(n),(m,n)->(m)")
        assert inputs == [("n",), ("m", "n")] and outputs == [("m",)]
        f = lambda a, b, k: k * (b @ a)
        f, args, _ = _apply_excluded(f, {2}, (jnp.ones(3), jnp.ones((4, 2, 3)), 2.0), {})
        lead, sizes = _parse_input_dimensions(tuple(args), inputs, "of f")
        assert lead == (4,) and sizes == {"n": 3, "m": 2}
        checked = _check_output_dims(f, sizes, outputs, "of f")
        close(checked(args[0], args[1][0]), [6, 6])
        try:
            checked(args[0], args[1])
        except ValueError as error:
            assert "of f" in str(error)
        else:
            raise AssertionError
    """,
    "a trace of one's own": """
        from jax.extend import core

        class Counted(jax.core.Tracer):
            def __init__(self, trace, value):
                super().__init__(trace, jax.typeof(value))
                self.value = value

        class Counter(jax.core.Trace):
            def __init__(self, parent, tag):
                super().__init__()
                self.parent_trace, self.tag, self.seen = parent, tag, []

            def process_primitive(self, primitive, tracers, params):
                values = [t.value if isinstance(t, Counted) else t for t in tracers]
                avals = [jax.typeof(v) for v in values]
                self.seen.append(str(primitive))
                out = primitive.bind_with_trace(self.parent_trace, values, avals, params)
                return jax.tree.map(lambda v: Counted(self, v), out)

        def counted(f, x):
            with core.take_current_trace() as parent:
                trace = Counter(parent, core.TraceTag())
                with core.set_current_trace(trace):
                    out = f(Counted(trace, x))
            assert isinstance(trace, jax.core.Trace)
            return out.value, trace.seen

        value, seen = counted(lambda x: jnp.sin(x) * 2, jnp.ones(2))
        close(value, 2 * np.sin(np.ones(2)))
        assert seen[0] == "sin" and "mul" in seen[-1], seen
        value, seen = counted(lambda x: jnp.broadcast_to(x, (3, 2)).sum(0), jnp.ones(2))
        close(value, [3, 3])
        assert "broadcast_in_dim" in seen, seen
        shape = dict(shape=(2,), broadcast_dimensions=())
        close(jax.lax.broadcast_in_dim_p.bind(1.0, **shape, sharding=None), [1, 1])
        close(jax.lax.exp_p.bind(np.float32(0), accuracy=None), 1)
        close(jax.jit(lambda x: counted(jnp.cos, x)[0])(0.0), 1.0)
    """,
    "values of classes that programs write to": """
        from jax.experimental import hijax

        class Box:
            def __init__(self, value):
                self.value = value
            def __jax_array__(self):
                return self.value

        hijax.register_hitype(Box, lambda box: jax.typeof(box.value))
        close(jnp.sin(Box(jnp.zeros(2))), [0, 0])
        box, add = Box(jnp.zeros(2)), lambda box: (box + 1).sum()
        for trace in (
            lambda: jax.jit(add)(box),
            lambda: jax.grad(add)(box),
            lambda: jax.vjp(add, box),
            lambda: jax.jvp(add, (box,), (jnp.ones(2),)),
            lambda: jax.vmap(add)(box),
            lambda: jax.checkpoint(add)(box),
            lambda: jax.jacfwd(add)(box),
            lambda: jax.make_jaxpr(add)(box),
            lambda: jax.eval_shape(add, box),
            lambda: jax.lax.scan(lambda c, x: (c, x), box, jnp.ones(2)),
            lambda: jax.lax.cond(True, add, add, box),
            lambda: jax.lax.while_loop(lambda c: False, lambda c: c, box),
        ):
            raises(NotImplementedError, "would be lost", trace)
    """,
    "arrays in TensorStore": """
        import tempfile
        from jax.experimental.array_serialization import serialization as s

        folder, done = tempfile.mkdtemp(), []
        arrays = [jnp.arange(6.0).reshape(2, 3), jnp.int8(4), jnp.ones(3, jnp.bfloat16)]
        manager = s.GlobalAsyncCheckpointManager()
        paths = [f"{folder}/{i}" for i in range(3)]
        manager.serialize_with_paths(arrays, paths, on_commit_callback=lambda: done.append(1))
        manager.wait_until_finished()
        assert done == [1]
        here = [x.sharding for x in arrays]
        for x, y in zip(manager.deserialize_with_paths(here, paths), arrays):
            assert x.dtype == y.dtype and x.sharding == y.sharding
            close(x, np.asarray(y))
        padded, = manager.deserialize_with_paths(here[:1], paths[:1], [(3, 3)])
        close(padded, [[0, 1, 2], [3, 4, 5], [0, 0, 0]])
        raises(ValueError, "absolute", lambda: s.get_tensorstore_spec("here"))
        manager.serialize_with_paths(arrays[:1], ["/dev/null/x"])
        raises(Exception, "", manager.wait_until_finished)
        manager.check_for_errors()
        assert s.is_remote_storage("gs://a/b") and not s.is_remote_storage({"path": "/a"})
    """,
    "Python next to the devices": """
        from jax.experimental import colocated_python as cp

        @cp.colocated_python
        def f(x):
            return np.asarray(x) * 2
        out = f(jnp.arange(3.0))
        assert isinstance(out, jax.Array)
        close(out, [0, 2, 4])
        cpus = cp.colocated_cpu_devices(jax.devices()[:2])
        assert [d.platform for d in cpus] == ["cpu", "cpu"]
        mesh = jax.make_mesh((2,), ("i",), devices=jax.devices()[:2])
        assert cp.colocated_cpu_devices(mesh).axis_names == ("i",)

        @cp.colocated_python_class
        class Counter:
            def __init__(self):
                self.n = 0
            def add(self, x):
                self.n += int(x)
                return np.float32(self.n)
        counter = Counter()
        counter.add(jnp.int32(2))
        close(counter.add(jnp.int32(3)), 5)
    """,
    "executables as bytes": """
        from jax.experimental.serialize_executable import deserialize_and_load, serialize
        compiled = jax.jit(lambda d, y: {"z": d["x"] * y}).lower({"x": jnp.ones(3)}, 2.0).compile()
        again = deserialize_and_load(*serialize(compiled))
        close(again({"x": jnp.arange(3.0)}, 2.0)["z"], [0, 2, 4])
        wrong = lambda: deserialize_and_load(b"x", None, None)
        raises(ValueError, "not written by serialize", wrong)
        raises(TypeError, "compile", lambda: serialize(jnp.sin))
    """,
    "sources of random numbers": """
        from jax.experimental.random import stateful_rng
        rng = stateful_rng(0)
        a, b = rng.normal(size=3), rng.normal(size=3)
        assert a.shape == (3,) and not np.allclose(a, b)
        close(stateful_rng(0).normal(size=3), a)
        one, two = (source.uniform() for source in stateful_rng(0).spawn(2))
        assert one != two
        assert rng.key((2,)).shape == (2,)
        n = np.asarray(rng.integers(5, size=100))
        assert n.min() >= 0 and n.max() < 5
        u = np.asarray(rng.uniform(2, 3, size=50))
        assert u.min() >= 2 and u.max() < 3
    """,
    "memories": """
        host, device = jax.memory.Space.Host, jax.memory.Space.Device
        x = jax.device_put(jnp.ones(3), host)
        assert x.sharding.memory_kind == "pinned_host"
        y = jax.device_put({"a": x}, device)["a"]
        assert y.sharding.memory_kind == "device"
        assert jax.device_put(np.ones(2), host).sharding.memory_kind == "pinned_host"
        close(jax.jit(lambda x: jax.device_put(x, device) * 2)(y), [2, 2, 2])
        to_host = jax.jit(lambda x: jax.device_put(x, host))
        raises(NotImplementedError, "must be a sharding", to_host, y)
    """,
    "other names": """
        import tempfile
        from jax.experimental import multihost_utils, topologies, transfer
        from jax.experimental.compilation_cache import compilation_cache
        from jax.extend import backend, random, sharding, source_info_util
        from jax.experimental.sparse.coo import COO
        from jax.experimental.sparse.bcoo import bcoo_concatenate
        from jax.interpreters.batching import register_vmappable
        assert (jax.host_id(), jax.host_count()) == (0, 1)
        assert "jaxlib" in jax.print_environment_info(return_string=True)
        raises(NotImplementedError, "weft.checkpoints", transfer.start_transfer_server)
        with multihost_utils.live_devices(jax.devices()) as devices:
            assert devices == jax.devices()
        with tempfile.TemporaryDirectory() as folder:
            compilation_cache.set_cache_dir(folder)
            assert jax.config.jax_compilation_cache_dir == folder
            compilation_cache.reset_cache()
        assert "cpu" in backend.backends()
        of_xla = jax.sharding.SingleDeviceSharding(jax.devices()[0])._to_xla_hlo_sharding(1)
        data = sharding.get_serialized_proto_from_hlo_sharding(of_xla)
        assert sharding.get_hlo_sharding_from_serialized_proto(data) == of_xla
        assert sharding.GSPMDSharding(jax.devices(), of_xla).is_fully_replicated
        key = random.random_seed(jnp.array([3, 4]), impl="threefry2x32")
        close(jax.random.key_data(key)[1], jax.random.key_data(jax.random.key(4)))
        # Threefry's published test vector: zeros, zeros.
        words = random.threefry_2x32((np.uint32(0), np.uint32(0)), np.zeros(2, np.uint32))
        assert [hex(w) for w in np.asarray(words)] == ["0x6b200159", "0x99ba4efe"]
    """,
    "types that are mapped as wholes": """
        from jax.interpreters import batching

        class Pair:
            def __init__(self, a, b):
                self.a, self.b = a, b

        to_elt = lambda cont, size, x, axis: Pair(cont(x.a, axis), cont(x.b, axis))
        from_elt = lambda cont, size, x, axis: Pair(cont(size, x.a, axis), cont(size, x.b, axis))
        batching.register_vmappable(Pair, int, int, to_elt, from_elt, None)
        pair = Pair(jnp.arange(3.0), jnp.ones(3))
        out = jax.vmap(lambda p, y: Pair(p.a + p.b, y))(pair, jnp.arange(3.0))
        close(out.a, [1, 2, 3])
        close(out.b, [0, 1, 2])
        batching.unregister_vmappable(Pair)
    """,
    "keys of a program's own kind": """
        from jax.extend.random import define_prng_impl

        def make(**changes):
            functions = dict(
                key_shape=(3,),
                seed=lambda s: jnp.full(3, s).astype("uint32"),
                split=lambda k, shape: k
                + 10 * jnp.arange(np.prod(shape), dtype="uint32").reshape(*shape, 1),
                random_bits=lambda k, width, shape: (k[0] + jnp.ones(shape)).astype(f"uint{width}"),
                fold_in=lambda k, data: k ^ jnp.asarray(data).astype("uint32"),
                name="mine",
                tag="m",
            )
            return define_prng_impl(**(functions | changes))

        key = jax.random.key(5, impl=make())
        assert key.shape == () and str(key.dtype) == "key<m>"
        close(jax.random.key_data(jax.random.split(key, 2)), [[5] * 3, [15] * 3])
        close(jax.jit(lambda k: jax.random.bits(jax.random.fold_in(k, 3), (2,)))(key), [7, 7])
        close(jax.vmap(jax.random.bits)(jax.random.split(key, 2)), [6, 16])
        raises(TypeError, "split must be a function, got None", lambda: make(split=None))
        short = make(seed=lambda s: jnp.zeros(2, "uint32"))
        words = "seed of mine must return uint32 of shape (3,), got uint32 of shape (2,)"
        raises(TypeError, words, lambda: jax.random.key(0, impl=short))
    """,
}

_PREAMBLE = """
import jax, jax.numpy as jnp, numpy as np

def close(got, want):
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)

def raises(error, words, f, *args):
    try:
        f(*args)
    except error as e:
        assert words in str(e), str(e)
    else:
        raise AssertionError("nothing was raised")
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_written_for_jax_run(name):
    program = _PREAMBLE + textwrap.dedent(PROGRAMS[name])
    command = [sys.executable, "-m", "weft.as_jax", "-c", program]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**__import__("os").environ, "PYTHONPATH": ROOT, "WEFT_NUM_CPU_DEVICES": "2"},
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_arrays_are_made_of_what_is_given_by_keyword():
    out = on_weft("""
        import jax, jax.numpy as jnp
        print(jnp.asarray(a=[1, 2]).tolist(), jnp.array(object=jnp.ones(2)).tolist())
        f = jax.jit(lambda: isinstance(jnp.asarray(a=[1, 2]), jax.core.Tracer))
        print(f())
    """)
    assert out.split("\n")[:2] == ["[1, 2] [1.0, 1.0]", "True"]
