"""Programs that import jax run on weft: the entrance, the modules, what is missing."""

import os
import subprocess
import sys
import textwrap

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*words, env=None):
    """What a new process of Python prints; its errors, where it fails."""
    kept = {k: v for k, v in os.environ.items() if k not in ("WEFT_AS_JAX", "PYTHONPATH")}
    given = {**kept, "PYTHONPATH": ROOT, **(env or {})}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=given, timeout=300
    )
    return (done.stdout if done.returncode == 0 else done.stderr).strip()


def on_weft(program, *words):
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    return run("-m", "weft.as_jax", "-c", textwrap.dedent(program), *words, env=devices)


def test_jax_is_weft_whichever_way_it_is_imported():
    program = """
        import importlib.metadata, pickle, sys
        import jax, jax.numpy as jnp
        assert "jax.core" in sys.modules
        from jax import lax, random, jit
        from jax.experimental import pallas as pl, shard_map
        from jax.experimental.shard_map import shard_map as shard_map_function
        from jax.numpy import *
        import jax.numpy.linalg, jax.nn.initializers
        import weft
        assert jax.jit is weft.jit and jnp.linalg.solve is weft.numpy.linalg.solve
        assert jax.shard_map is weft.shard_map and pl.BlockSpec is weft.pallas.BlockSpec
        mesh, P = jax.sharding.Mesh(jax.devices()[:1], "i"), jax.P
        f = shard_map_function(lambda x: lax.psum(x, "i"), mesh, P("i"), P(), check_rep=False)
        assert f(jnp.ones(2)).tolist() == [1, 1]
        assert isinstance(sin(1.0), jax.Array)  # of the star
        assert pickle.loads(pickle.dumps(jnp.sin)) is weft.numpy.sin
        assert jax.__version_info__ == (0, 10, 2) and "weft" in jax.__version__
        assert list(map(float, jax.__version__.split("."))) == [0, 10, 2]
        assert importlib.metadata.version("jax") == "0.10.2"
        assert jax.__version__.startswith("0.10.2.") and "weft" in jax.__version__
        assert jax.config is weft.config and "numpy" in dir(jax) and "arange" in dir(jnp)
        print(*sys.argv[1:], jit(lambda x: x + 1)(jnp.arange(3)))
    """
    assert on_weft(program, "a", "--b") == "a --b [1 2 3]"


def test_what_weft_lacks_names_itself_and_the_nearest_name():
    program = """
        import jax
        for use in (lambda: jax.numpy.arrange, lambda: __import__("jax.nowhere")):
            try:
                use()
            except (AttributeError, ImportError) as e:
                print(type(e).__name__, str(e).partition(";")[0])
        print(hasattr(jax, "partition"), hasattr(jax.core, "nothing"))
    """
    assert on_weft(program).splitlines() == [
        "AttributeError weft has no jax.numpy.arrange: did you mean jax.numpy.arange?",
        "ModuleNotFoundError weft has no jax.nowhere",
        "False False",
    ]


def test_private_modules_have_the_names_of_public_ones_and_no_others():
    program = """
import importlib
import jax, numpy as np
from jax._src.flatten_util import ravel_pytree
from jax._src.lax.lax import add_p
from jax._src.lax import lax as private_lax
from jax._src.mesh import Mesh
from jax._src.numpy.lax_numpy import where
from jax._src.typing import Array
import jax._src.public_test_util as util
from jax._src.distributed import global_state
assert Mesh is jax.sharding.Mesh and where is jax.numpy.where and add_p is jax.lax.add_p
assert private_lax.mul_p is jax.lax.mul_p and util.check_grads
assert (global_state.process_id, global_state.num_processes, global_state.client) == (0, 1, None)
assert callable(jax.Array.all) and callable(jax.Array.__add__) and jax.Array.shape
assert type(jax.numpy.finfo("bfloat16").max).__name__ == "bfloat16"
assert np.ndarray in jax.interpreters.xla.canonicalize_dtype_handlers
assert np.ndarray in jax.core.pytype_aval_mappings
assert not jax.interpreters.batching.is_vmappable(1.0)
for name in ("no_such_module", "lax.no_such_module"):
    try:
        importlib.import_module("jax._src." + name)
    except ModuleNotFoundError as error:
        assert "weft has no jax._src." + name in str(error)
    else:
        raise AssertionError(name)
"""
    assert on_weft(program) == ""


def test_the_command_lists_what_a_package_uses_and_weft_lacks(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "some.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "from jax.nowhere import thing as t\n"
        "def f(x):\n"
        "    return jnp.sin(jnp.sinn(x)) + jax.lax.nope.more + t.x + x.jax.y\n"
    )
    said = run("-m", "weft.cli", "compat", str(tmp_path)).replace(str(tmp_path), "P").splitlines()
    assert said == [
        "P uses 3 names of JAX that weft lacks",
        "jax.lax.nope: did you mean jax.lax.ne?",
        "    P/inner/some.py:4",
        "jax.nowhere",
        "    P/inner/some.py:2",
        "    P/inner/some.py:4",
        "jax.numpy.sinn: did you mean jax.numpy.sin?",
        "    P/inner/some.py:4",
    ]
    assert run("-m", "weft.cli", "compat", "nothing_of_this_name").endswith(
        "there is no file, folder or package 'nothing_of_this_name'"
    )


def test_processes_that_a_program_starts_inherit_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, subprocess, sys\n"
        "def double(x):\n"
        "    import jax\n"
        "    return float(jax.numpy.float32(x) * 2), jax.__version__[-4:]\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [1, 2]))\n"
        "    code = 'import jax; print(jax.__version__[-4:])'\n"
        "    print(subprocess.check_output([sys.executable, '-c', code], text=True).strip())\n"
    )
    expected = "[(2.0, 'weft'), (4.0, 'weft')]\nweft"
    assert run("-m", "weft.as_jax", str(script)) == expected


def test_the_environment_variable_is_enough_with_the_folder_in_the_path():
    folder = run("-m", "weft.as_jax", "--path")
    env = {"PYTHONPATH": os.pathsep.join([folder, ROOT])}
    program = "import sys, jax; print('weft' in sys.modules, jax.__version__)"
    said = run("-c", program, env={**env, "WEFT_AS_JAX": "1"})
    assert said.startswith("True 0.10.2") and said.endswith("weft")
    idle = "import sys; print('weft' in sys.modules, 'numpy' in sys.modules)"
    assert run("-c", idle, env={**env, "WEFT_AS_JAX": "1"}) == "False False"
    off = "import sys; print(any('jax' in str(f) for f in sys.meta_path))"
    assert run("-c", off, env=env) == "False"


def test_variables_that_a_program_sets_before_it_imports_jax_are_read():
    program = """
        import os
        os.environ["JAX_ENABLE_X64"] = "1"
        import jax
        print(jax.config.jax_enable_x64, jax.numpy.ones(2).dtype)
    """
    assert on_weft(program) == "True float64"
    folder = run("-m", "weft.as_jax", "--path")
    env = {"PYTHONPATH": os.pathsep.join([folder, ROOT]), "WEFT_AS_JAX": "1"}
    assert run("-c", textwrap.dedent(program), env=env) == "True float64"
    own = {"WEFT_ENABLE_X64": "0"}  # weft's own variable comes first
    said = run("-m", "weft.as_jax", "-c", textwrap.dedent(program), env=own)
    assert said == "False float32"


def test_a_jax_that_was_imported_first_is_reported():
    program = "import sys, types; sys.modules['jax'] = types.ModuleType('jax')\nimport weft"
    assert "call weft.as_jax() before anything imports jax" in run("-c", program)


def test_weft_alone_still_refuses_jax():
    assert "call weft.as_jax() first" in run("-c", "import weft, jax")


PROGRAMS = {
    "an op with rules given one by one": """
        import numpy as np
        from jax.extend.core import Primitive
        from jax.interpreters import ad, batching, mlir, xla

        def halve(x):
            return halve_p.bind(x)

        halve_p = Primitive("halve")
        halve_p.def_impl(lambda x: np.asarray(x) / 2)
        halve_p.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
        mlir.register_lowering(halve_p, mlir.lower_fun(lambda x: x / 2, multiple_results=False))
        ad.deflinear2(halve_p, lambda ct, x: [halve(ct)])
        batching.defvectorized(halve_p)
        x = jnp.arange(4.0)
        close(halve(x), np.arange(4.0) / 2)
        close(jax.jit(halve)(x), np.arange(4.0) / 2)
        close(jax.vmap(halve)(x), np.arange(4.0) / 2)
        close(jax.grad(lambda x: halve(x) ** 2)(3.0), 1.5)
        slope = jax.vmap(jax.jit(jax.grad(lambda x: jnp.sin(halve(x)))))
        close(slope(x), np.cos(np.arange(4.0) / 2) / 2)
        close(jax.jvp(halve, (2.0,), (1.0,)), (1.0, 0.5))
        assert [e.primitive for e in jax.make_jaxpr(halve)(1.0).jaxpr.eqns] == [halve_p]
    """,
    "several results, zeros of the type, rules over the axis": """
        import numpy as np
        from jax.extend.core import Primitive
        from jax.interpreters import ad, batching, mlir

        both_p = Primitive("sum_and_difference")
        both_p.multiple_results = True
        impl = lambda x, y, *, scale: [scale * (x + y), x - y]
        both_p.def_impl(impl)
        both_p.def_abstract_eval(lambda x, y, *, scale: [x, x])
        mlir.register_lowering(both_p, mlir.lower_fun(impl, multiple_results=True))
        seen = set()

        def jvp(primals, tangents, *, scale):
            seen.update(type(t) is ad.Zero for t in tangents)
            out = both_p.bind(*primals, scale=scale)
            return out, both_p.bind(*map(ad.instantiate_zeros, tangents), scale=scale)

        def transpose(cts, x, y, *, scale):
            seen.update("ct" for ct in cts if type(ct) is ad.Zero)
            s, d = map(ad.instantiate_zeros, cts)
            given = [scale * s + d, scale * s - d]
            return [ct if ad.is_undefined_primal(v) else None for ct, v in zip(given, (x, y))]

        def batch(size, name, _, args, dims, *, scale):
            assert size == 3
            moved = [batching.bdim_at_front(a, d, size) for a, d in zip(args, dims)]
            return both_p.bind(*moved, scale=scale), (0, 0)

        ad.primitive_jvps[both_p] = jvp
        ad.primitive_transposes[both_p] = transpose
        batching.axis_primitive_batchers[both_p] = batch
        f = lambda x, y: both_p.bind(x, y, scale=3.0)
        close(jax.jit(f)(1.0, 2.0), [9.0, -1.0])
        close(jax.grad(lambda x, y: f(x, y)[0], (0, 1))(1.0, 2.0), [3.0, 3.0])
        close(jax.jit(jax.grad(lambda x: f(x, 2.0)[1]))(1.0), 1.0)
        close(jax.vmap(f, (0, None))(jnp.arange(3.0), 1.0), [[3, 6, 9], [-1, 0, 1]])
        assert seen == {True, False, "ct"}
        rule = ad.primitive_jvps[jax.lax.sin_p]  # of weft's own, by the same convention
        close(rule((1.0,), (2.0,)), [np.sin(1.0), 2 * np.cos(1.0)])
        assert type(rule((1.0,), (ad.Zero(jax.typeof(1.0)),))[1]) is ad.Zero
    """,
    "an interpreter of jaxprs, as JAX's documentation writes one": """
        from jax.extend import core

        inverses = {jax.lax.exp_p: jnp.log, jax.lax.tanh_p: jnp.arctanh}

        def inverse(fun):
            def wrapped(*args):
                closed = jax.make_jaxpr(fun)(*args)
                return inverse_jaxpr(closed.jaxpr, closed.literals, *args)[0]
            return wrapped

        def inverse_jaxpr(jaxpr, consts, *args):
            env = dict(zip(jaxpr.outvars, args))
            env.update(zip(jaxpr.constvars, consts))
            read = lambda v: v.val if type(v) is core.Literal else env[v]
            for eqn in jaxpr.eqns[::-1]:
                env[eqn.invars[0]] = inverses[eqn.primitive](*map(read, eqn.outvars))
            return [env[v] for v in jaxpr.invars]

        close(inverse(lambda x: jnp.exp(jnp.tanh(x)))(jnp.exp(jnp.tanh(0.3))), 0.3)
        jaxpr = jax.make_jaxpr(lambda x: (x * 2, jnp.sin(x)))(1.0)
        kept, used = pe.dce_jaxpr(jaxpr.jaxpr, [False, True])
        assert [e.primitive.name for e in kept.eqns] == ["sin"] and used == [True]
        doubled = jaxpr.replace(jaxpr=jaxpr.jaxpr.replace(outvars=jaxpr.jaxpr.outvars[::-1]))
        close(core.jaxpr_as_fun(doubled)(1.0), [np.sin(1.0), 2.0])
        close(jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, 2.0), [4.0, np.sin(2.0)])
    """,
    "transformations written with wrapped functions": """
        from jax.extend import linear_util as lu
        from jax.api_util import flatten_fun, flatten_fun_nokwargs

        @lu.transformation_with_aux
        def count(*args):
            out = yield tuple(2 * a for a in args), {}
            yield out, len(args)

        f, counted = count(lu.wrap_init(lambda x, y: x + y))
        assert f.call_wrapped(1, 2) == 6 and counted() == 2
        leaves, tree = jax.tree.flatten(((1.0, {"a": 2.0}), {"z": 3.0}))
        flat, out_tree = flatten_fun(lu.wrap_init(lambda x, y, z: {"r": x + y["a"] + z}), tree)
        assert flat.call_wrapped(*leaves) == [6.0]
        assert jax.tree.unflatten(out_tree(), [1]) == {"r": 1}
        sine = lu.wrap_init(lambda x: [jnp.sin(x)])
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(sine, [jax.typeof(1.0)])
        close(jax.core.eval_jaxpr(jaxpr, consts, 1.0), [np.sin(1.0)])
    """,
    "questions about traces and types": """
        states = [jax.core.get_opaque_trace_state(convention="flax")]
        assert states[0] == jax.core.get_opaque_trace_state()

        @jax.jit
        def f(x):
            states.append(jax.core.get_opaque_trace_state())
            assert isinstance(x, jax.core.Tracer) and isinstance(x, jax.Array)
            assert isinstance(jax.typeof(x), jax.core.AbstractValue)
            return x
        f(1.0)
        assert states[0] != states[1]
        aval = jax.core.ShapedArray((2, 3), jnp.float32)
        assert jax.core.mapped_aval(3, 1, aval).shape == (2,)
        assert jax.core.unmapped_aval(4, 0, aval).shape == (4, 2, 3)
        assert aval.to_tangent_aval() == aval
        assert jax.typeof(jnp.int32(1)).to_tangent_aval().dtype == jax.dtypes.float0
    """,
    "pmap": """
        x = jnp.arange(8.0).reshape(4, 2)
        share = lambda x, y: (x + y) / jax.lax.psum(x, "i")
        mean = jax.pmap(share, axis_name="i", in_axes=(0, None))
        want = (np.arange(8.0).reshape(4, 2) + 1) / np.arange(8.0).reshape(4, 2).sum(0)
        close(mean(x, 1.0), want)
        assert len(mean(x, 1.0).sharding.device_set) == 4
        f = jax.pmap(lambda x, n, *, y: {"a": x * n, "b": y}, static_broadcasted_argnums=1)
        out = f(x, 3, y=x)
        close((out["a"], out["b"]), (3 * np.array(x), np.array(x)))
        close(jax.pmap(lambda x: x.sum(), in_axes=1)(x), np.array(x).sum(0))
        close(jax.pmap(lambda x: x, out_axes=1)(x), np.array(x).T)
        close(jax.pmap(lambda: jax.lax.axis_index("i"), "i", axis_size=3)(), [0, 1, 2])
        loss = lambda w, x: jax.pmap(lambda w, x: jnp.sum(w * x), in_axes=(None, 0))(w, x).sum()
        close(jax.grad(loss)(2.0, x), np.array(x).sum())
        try:
            jax.pmap(lambda x: x)(jnp.ones(9))
        except ValueError as e:
            assert "requires 9 logical devices, but only 8 XLA devices" in str(e)
        else:
            raise AssertionError("nothing was raised")
    """,
    "what a callback raises, as JAX has it": """
        def refuse(x):
            raise LookupError("nothing there")
        shape = jax.ShapeDtypeStruct((), "float32")
        calls = (
            jax.jit(lambda x: jax.pure_callback(refuse, shape, x)),
            lambda x: jax.pure_callback(refuse, shape, x),
            lambda x: jax.experimental.io_callback(refuse, shape, x),
        )
        for call in calls:
            try:
                call(1.0).block_until_ready()
            except jax.errors.JaxRuntimeError as e:
                assert "LookupError: nothing there" in str(e)
            else:
                raise AssertionError("nothing was raised")
    """,
    "a jaxpr is split in what is known and the rest": """
        from jax.extend.core import jaxpr_as_fun
        def f(a, b, c):
            return jnp.sin(a) * b, jnp.cos(a) + c, c
        whole = jax.make_jaxpr(f)(1.0, 2.0, 3.0)
        for instantiate, unknown in ((False, [True, False, False]), (True, [True] * 3)):
            known, rest, outs, residuals = pe.partial_eval_jaxpr_nounits(
                whole, [False, True, False], instantiate
            )
            assert outs == unknown and len(residuals) == len(known.out_avals) - outs.count(False)
            first = jaxpr_as_fun(known)(1.0, 3.0)
            second = jaxpr_as_fun(rest)(2.0, *first[outs.count(False):])
            first, second = iter(first), iter(second)
            close([next(second if out else first) for out in outs], f(1.0, 2.0, 3.0))
        assert not any(e.primitive.name == "sin" for e in rest.eqns)
        moved = pe.move_binders_to_front(whole, [False, True, True])
        close(jaxpr_as_fun(moved)(2.0, 3.0, 1.0), f(1.0, 2.0, 3.0))
        moved = pe.move_binders_to_back(whole, [True, False, False])
        close(jaxpr_as_fun(moved)(2.0, 3.0, 1.0), f(1.0, 2.0, 3.0))
    """,
    "arrays and tracers are not hashable": """
        from collections.abc import Hashable
        def f(x):
            assert not isinstance(x, Hashable)
            return x
        f(jax.jit(f)(jax.grad(f)(f(jnp.float32(1)))))
    """,
    "parameters that are members of enumerations": """
        def param(f, x, name):
            return jax.make_jaxpr(f)(x).eqns[-1].params[name]
        x = jnp.ones((2, 2))
        half = jax.lax.RoundingMethod.TO_NEAREST_EVEN
        assert param(lambda x: jax.lax.round(x, half), x, "rounding_method") is half
        key = jnp.zeros(4, "uint32")
        bits = param(lambda k: jax.lax.rng_bit_generator(k, (3,)), key, "algorithm")
        assert bits is jax.lax.RandomAlgorithm.RNG_DEFAULT
        assert param(jax.lax.linalg.svd, x, "algorithm") is None
        for f, a in (
            (lambda x: jax.lax.round(x, half), x * 2.5),
            (lambda x: jax.lax.linalg.svd(x, compute_uv=False), x),
            (lambda k: jax.lax.rng_bit_generator(k, (3,)), key),
        ):
            eqn = jax.make_jaxpr(f)(a).eqns[-1]
            bound = eqn.primitive.bind(a, **eqn.params)
            close(jax.tree.leaves(bound), jax.tree.leaves(f(a)))
    """,
}

_PREAMBLE = """
import jax, jax.numpy as jnp, numpy as np
from jax.interpreters import partial_eval as pe

def close(got, want):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            close(g, w)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-5)
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_written_for_jax(name):
    said = on_weft(_PREAMBLE + textwrap.dedent(PROGRAMS[name]) + "\nprint('ran to its end')")
    assert said == "ran to its end"


def test_types_say_a_sharding_and_whole_names_and_are_asked_for_again():
    program = """
        import jax, jax.numpy as jnp
        x = jnp.ones((2, 3))
        t = jax.typeof(x)
        assert t == x.aval and x.aval == t and hash(t) == hash(x.aval)
        assert t.sharding.is_fully_replicated and t.sharding.mesh.empty
        mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
        split = jax.device_put(x, jax.NamedSharding(mesh, jax.P("x")))
        print(t, repr(jax.typeof(1.0)), jax.typeof(split), jax.typeof(jax.new_ref(1.0)))
        for made in (
            jnp.zeros((2, 3), out_sharding=t.sharding),
            jnp.zeros((2, 3), device=t.sharding),
            jax.lax.full((2, 3), 0.0, sharding=t.sharding),
            jax.random.normal(jax.random.key(0), (2, 3), out_sharding=t.sharding),
            jax.vmap(lambda k: jax.random.bernoulli(k, 0.5, (3,), out_sharding=t.sharding))(
                jax.random.split(jax.random.key(0), 2)
            ),
            x.at[0].set(1.0, out_sharding=t.sharding),
            jnp.broadcast_to(x[0], (2, 3), out_sharding=t.sharding),
            jax.jit(lambda y: jax.sharding.reshard(y, t.sharding))(x),
            jax.jit(lambda y: jax.lax.with_sharding_constraint(y, t.sharding))(x),
            jax.jit(jnp.sin).lower(jax.ShapeDtypeStruct((2, 3), t.dtype, sharding=t.sharding))
                .compile()(x),
        ):
            assert made.shape == (2, 3)
    """
    told = "float32[2,3] ShapedArray(float32[], weak_type=True) float32[2@x,3]"
    assert on_weft(program).startswith(told)


def test_jitted_functions_tell_their_signature_themselves():
    program = """
        import inspect, jax
        def f(a, b, *, c=3): return a
        for g in (jax.jit(f), jax.jit(f, static_argnums=1), jax.jit(f, donate_argnums=0)):
            assert inspect.signature(g, follow_wrapped=False) == inspect.signature(f)
        print("same")
    """
    assert on_weft(program) == "same"


def test_a_program_that_calls_back_runs_without_python_until_the_callback_raises():
    program = """
        import jax, numpy as np
        def f(x):
            if x > 2: raise ValueError("too large")
            return np.float32(x * 2)
        @jax.jit
        def g(x):
            called = lambda x: jax.pure_callback(f, jax.ShapeDtypeStruct((), np.float32), x)
            return jax.lax.cond(x > 0, called, lambda x: x, x)
        print([float(g(v)) for v in (1.0, -1.0, 2.0, -2.0)])
        for v in (3.0, 1.0, 4.0):
            try: print(float(g(v)))
            except Exception as error: print("too large" in str(error))
    """
    printed = run("-m", "weft.as_jax", "-c", textwrap.dedent(program))
    assert printed.splitlines() == ["[2.0, -1.0, 4.0, -2.0]", "True", "2.0", "True"]
