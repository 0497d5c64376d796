"""Private names of JAX's that public repositories import, by what they do."""

import numpy as np
import pytest
from scipy import special

import weft
import weft.numpy as wnp
from tests.compat.test_as_jax import on_weft
from weft.compat.jax._src import ad_util, api, api_util, core, mesh, tree_util, util
from weft.compat.jax._src.lax import lax
from weft.compat.jax._src.lax.control_flow import loops
from weft.compat.jax._src.numpy import util as numpy_util
from weft.compat.jax._src.random import prng
from weft.compat.jax._src.scipy.sparse import linalg
from weft.compat.jax._src.state.indexing import Slice
from weft.compat.jax.interpreters import batching, partial_eval
from weft.core.jaxpr import jaxpr_as_fun
from weft.core.state import state


def test_private_modules_have_the_names_of_public_ones():
    program = """
        import importlib, jax

        PUBLIC = {
            "ad_checkpoint remat_p": "extend.core.primitives",
            "callback pure_callback": "", "environment_info print_environment_info": "",
            "debugging debug_callback": "debug callback", "debugging debug_print": "debug print",
            "export._export export": "export", "image.scale resize": "image",
            "lax.control_flow.conditionals cond": "lax",
            "lax.control_flow.conditionals cond_p": "extend.core.primitives",
            "lax.control_flow.loops scan_p": "extend.core.primitives",
            "lax.control_flow.solves custom_linear_solve": "lax",
            "lax.lax add_p": "lax", "lax.linalg cholesky": "lax.linalg",
            "lax.linalg lu_p": "lax.linalg", "lax.windowed_reductions reduce_window": "lax",
            "numpy.vectorize vectorize": "numpy", "ops.scatter segment_sum": "ops",
            "ops.special logsumexp": "scipy.special",
            "pallas.pallas_call pallas_call": "experimental.pallas",
            "pallas.core BlockSpec": "experimental.pallas",
            "random PRNGKey": "random", "scipy.optimize.minimize minimize": "scipy.optimize",
            "scipy.stats._core mode": "scipy.stats", "shard_map shard_map_p":
            "extend.core.primitives", "tree_util Partial": "tree_util",
            "typing Array": "", "xla_bridge process_index": "",
        }
        for private, public in PUBLIC.items():
            module, name = private.split()
            home, _, other = public.partition(" ")
            module = importlib.import_module("jax._src." + module)
            home = importlib.import_module(("jax." + home).rstrip("."))
            assert getattr(module, name) is getattr(home, other or name), private
        from jax._src.typing import DimSize, DType, DuckTypedArray, Shape, StaticScalar
        from jax._src.random import Shape
        from jax._src.core import AxisName, AxisSize, ConcretizationTypeError, typeof
        from jax._src.xla_bridge import backends
        from jax._src.numpy.array_methods import _IndexUpdateHelper, _IndexUpdateRef
        from jax.interpreters import pxla
        from jax._src.interpreters import ad

        kinds = []
        jax.linearize(lambda x: kinds.append(type(x)) or x, 1.0)
        assert issubclass(kinds[0], ad.LinearizeTracer) and ad.Zero is jax.interpreters.ad.Zero
        x = jax.numpy.arange(3)
        assert isinstance(x.at, _IndexUpdateHelper) and isinstance(x.at[0], _IndexUpdateRef)
        assert typeof(1.0) == jax.typeof(1.0) and "cpu" in backends()
        assert pxla.thread_resources.env.physical_mesh.empty
        with jax.make_mesh((2,), ("x",)) as mesh:
            assert pxla.thread_resources.env.physical_mesh is mesh
        try:
            importlib.import_module("jax._src.core").nothing_p
        except AttributeError:
            print("done")
    """
    assert on_weft(program) == "done"


def test_lists_and_functions():
    assert util.unzip3([(1, 2, 3), (4, 5, 6)]) == ((1, 4), (2, 5), (3, 6))
    assert [util.canonicalize_axis(i, 3) for i in (-3, 2, np.int32(-1))] == [0, 2, 2]
    with pytest.raises(ValueError, match="axis 3 is out of bounds for array of dimension 3"):
        util.canonicalize_axis(3, 3)
    assert util.ceil_of_ratio(7, 3) == 3 and util.ceil_of_ratio(6, 3) == 2
    assert util.wrap_name("jvp", "f") == "jvp(f)" and util.fun_name(len) == "len"
    seen = []
    util.foreach(lambda a, b: seen.append((a, b)), [1, 2], [3, 4])
    assert seen == [(1, 3), (2, 4)]
    with pytest.raises(ValueError, match="shorter"):
        util.foreach(print, [1, 2], [3])
    ordered = util.OrderedSet([3, 1, 3])
    ordered.add(2)
    assert list(ordered) == [3, 1, 2] and 1 in ordered

    calls = []

    @util.memoize
    def square(x):
        calls.append(x)
        return x * x

    assert [square(3), square(3), square(2)] == [9, 9, 4] and calls == [3, 2]
    assert lax.remaining([0, 1, 2, 3], [1], [3]) == [0, 2]
    assert [list(r) for r in lax.ranges_like("ab", "", "cde")] == [[0, 1], [], [2, 3, 4]]
    full = {"a": [1, 2], "b": 3}
    assert tree_util.broadcast_prefix({"a": "x", "b": "y"}, full) == ["x", "x", "y"]
    assert core.definitely_equal(2, 2) and not core.definitely_equal(2, 3)


def test_constants_have_the_dtype_of_an_example():
    for dtype in ("float16", "int8", "complex64"):
        value = lax._const(np.zeros(2, dtype), 3)
        assert value.dtype == dtype and value == 3 and value.shape == ()
    assert lax._const(2.0, 3) == 3.0 and type(lax._const(2.0, 3)) is float
    x = wnp.ones((2, 3), "int16")
    assert lax._zero(x) == 0 and lax._one(x) == 1 and lax._one(x).dtype == "int16"
    np.testing.assert_array_equal(lax._eye("int8", (2, 3), 1), np.eye(2, 3, 1))
    weak = wnp.asarray(2.0)
    assert weak.weak_type and not lax._convert_element_type(weak).weak_type
    assert lax._convert_element_type(weak, "int32", weak_type=True).weak_type
    zeros = ad_util.zeros_like_aval(x.aval)
    assert zeros.shape == (2, 3) and zeros.dtype == "int16" and not zeros.any()
    np.testing.assert_array_equal(ad_util.add_jaxvals(x, x), np.full((2, 3), 2))


def test_a_distribution_promotes_its_arguments_as_those_of_the_library():
    def logpmf(x, p):
        x, p = numpy_util.promote_args_inexact("logpmf", x, p)
        one = lax._const(x, 1)
        return special.xlogy(np.asarray(x), np.asarray(p)) + special.xlog1py(
            np.asarray(one - x), -np.asarray(p)
        )

    x, p = np.array([0, 1, 1], np.int32), np.float32(0.25)
    np.testing.assert_allclose(logpmf(x, p), np.log([0.75, 0.25, 0.25]), rtol=1e-6)
    a, b = numpy_util.promote_args("f", np.ones((2, 3), np.int8), np.ones(3, np.int16))
    assert a.dtype == b.dtype == "int16" and b.shape == (1, 3)
    a, b = numpy_util.promote_args_numeric("f", np.array([True, False]), 2)
    assert a.dtype == b.dtype == "int32" and b.shape == ()
    assert numpy_util.ensure_arraylike("f", [2][0]) == 2
    assert [x.shape for x in numpy_util.ensure_arraylike("f", 2, np.ones(3))] == [(), (3,)]
    for wrong in ([1, 2], "a", None):
        with pytest.raises(TypeError, match="f requires ndarray or scalar .* at position 1"):
            numpy_util.check_arraylike("f", 1.0, wrong)


def test_solvers_compute_with_trees():
    x, y = {"a": wnp.array([1.0, 2j])}, {"a": wnp.array([2.0, 3j])}
    np.testing.assert_array_equal(linalg._add(x, y)["a"], [3, 5j])
    np.testing.assert_array_equal(linalg._sub(x, linalg._mul(2, y))["a"], [-3, -4j])
    assert linalg._vdot_real_tree(x, y) == 8 and linalg._vdot_tree(x, y) == 8
    assert linalg._norm({"a": wnp.array([3.0]), "b": wnp.array([4.0])}) == 5
    matrix = np.array([[1.0, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(linalg._normalize_matvec(matrix)(wnp.ones(2)), [3, 7])
    assert linalg._normalize_matvec(linalg._identity)(3) == 3
    with pytest.raises(TypeError, match="square matrix or a function"):
        linalg._normalize_matvec(np.ones((2, 3)))


def test_there_is_a_mesh_without_axes():
    assert mesh.EMPTY_ENV.empty and mesh.get_concrete_mesh().empty
    assert mesh.empty_abstract_mesh.empty


def test_jacobians_are_taken_in_chunks():
    def f(d):
        return {"y": d["a"] ** 2, "z": d["a"].sum() * d["b"]}

    x = {"a": wnp.arange(3.0), "b": wnp.float32(2)}
    y, push = weft.linearize(f, x)
    columns = weft.vmap(push, out_axes=-1)(api._std_basis(x))
    forward = weft.tree.map(lambda out, t: api._jacfwd_unravel(x, out, t), y, columns)
    y, pull = weft.vjp(f, x)
    (rows,) = weft.vmap(pull)(api._std_basis(y))
    reverse = weft.tree.map(lambda arg, ct: api._jacrev_unravel(y, arg, ct), x, rows)
    assert forward["y"]["b"].shape == (3,) and reverse["a"]["y"].shape == (3, 3)
    for out, arg in (("y", "a"), ("y", "b"), ("z", "a"), ("z", "b")):
        np.testing.assert_allclose(forward[out][arg], weft.jacfwd(f)(x)[out][arg])
        np.testing.assert_allclose(reverse[arg][out], weft.jacrev(f)(x)[out][arg])
    for check, fine, wrong in (
        (api._check_input_dtype_jacfwd, (False, 1.0), (False, 1)),
        (api._check_input_dtype_jacrev, (False, True, 1), (False, False, 1)),
        (api._check_output_dtype_jacrev, (True, 1j), (False, 1j)),
        (api._check_output_dtype_jacfwd, (False, 1), (True, 1.0)),
    ):
        check(*fine)
        with pytest.raises(TypeError, match="are needed, got"):
            check(*wrong)


@pytest.mark.parametrize(
    ("length", "size", "shapes"),
    [(7, 3, ((2, 3, 2), (1, 2))), (6, 3, ((2, 3, 2), None)), (2, 3, (None, (2, 2)))],
)
def test_leaves_are_split_into_batches(length, size, shapes):
    parts = loops._batch_and_remainder({"x": wnp.ones((length, 2))}, size)
    assert tuple(part and part["x"].shape for part in parts) == shapes


def test_positions_of_arguments():
    assert api_util._ensure_index(1) == 1 and api_util._ensure_index([1, 2]) == (1, 2)
    assert api_util._ensure_index_tuple(3) == (3,)
    assert api_util._ensure_inbounds(False, 3, (-1,)) == (2,)
    assert api_util._ensure_inbounds(True, 3, (1, 7)) == (1,)
    f, chosen = api_util.argnums_partial2(lambda a, b, k: (a, b, k), -1, (1, 2), {"k": 3})
    assert chosen == (2,) and f(5) == (1, 5, 3)
    with pytest.raises(TypeError, match="expected a function"):
        api_util.check_callable(3)


def test_examples_of_a_mapped_axis():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(batching.make_iota(3), [0, 1, 2])
    seen = []

    def f(row):
        column = batching.to_elt(row._trace, None, x.T, -1)
        assert batching.to_elt(row._trace, None, 1.0, None) == 1.0
        seen.append((row.batch_dim, column.batch_dim, column.shape))
        return row * column

    np.testing.assert_array_equal(weft.vmap(f)(x), x * x)
    assert seen == [(0, 1, (3,))]


def test_arguments_are_added_to_what_is_traced():
    scale = np.full(3, 2.0, np.float32)

    def f(x):
        y = core.trace_ctx.trace.new_arg(weft.typeof(scale), source_info=None)
        return x * y

    closed = weft.make_jaxpr(f)(np.ones(3, np.float32))
    assert [v.aval.shape for v in closed.jaxpr.invars] == [(3,), (3,)]
    np.testing.assert_array_equal(jaxpr_as_fun(closed)(scale, scale)[0], [4.0] * 3)
    with pytest.raises(TypeError, match="nothing is being traced"):
        core.trace_ctx.trace.new_arg(weft.typeof(scale))


def test_equations_tell_the_users_line_as_a_traceback():
    program = """
        import jax, jax.numpy as jnp
        from jax._src import source_info_util

        def f(x):
            return jnp.sin(x)
        [eqn] = jax.make_jaxpr(f)(1.0).eqns
        frame = source_info_util.user_frame(eqn.source_info.traceback)
        assert (frame.function_name, frame.start_line, frame.line_num) == ("f", 6, 6), frame
        assert [frame] == list(source_info_util.user_frames(eqn.source_info))
        assert source_info_util.is_user_filename(frame.file_name)
        assert source_info_util.user_frame(source_info_util.new_source_info().traceback) is None

        def of_one_trace(x, y):
            return x._trace.main is y._trace.main
        jax.jit(lambda x, y: print(of_one_trace(x, y)))(1.0, 2.0)
        jax.vmap(lambda x: jax.vmap(lambda y: print(of_one_trace(x, y)))(x))(jnp.ones((2, 2)))
    """
    assert on_weft(program) == "True\nFalse"


def test_effects_of_named_axes_are_filtered():
    kept, left_out = core.NamedAxisEffect("kept"), core.NamedAxisEffect("mapped")
    assert core.filter_named_axis_effects({kept, left_out, "other"}, ["mapped"]) == {kept, "other"}


def test_a_jaxpr_is_applied_under_a_trace():
    closed = weft.make_jaxpr(lambda x: wnp.sin(x) * 2)(1.0)

    def f(x):
        trace = state.trace
        [y] = partial_eval.inline_jaxpr_into_trace(trace, None, closed.jaxpr, closed.consts, x)
        return y + 1

    names = [e.primitive.name for e in weft.make_jaxpr(f)(1.0).jaxpr.eqns]
    assert names == ["sin", "mul", "add"]
    assert float(weft.jit(f)(0.5)) == pytest.approx(2 * np.sin(0.5) + 1)


def test_keys_are_wrapped_and_unwrapped_by_their_private_module():
    key = weft.random.key(3)
    words = prng.random_unwrap(key)
    assert isinstance(key, prng.PRNGKeyArray) and isinstance(key.dtype, prng.KeyTy)
    again = prng.random_wrap(words, impl=prng.prngs["threefry2x32"])
    np.testing.assert_array_equal(weft.random.bits(again), weft.random.bits(key))


def test_slices_have_a_start_and_a_size():
    assert (Slice(2, 3).start, Slice(2, 3).size) == (2, 3)
    assert core.JaxprEqnContext().compute_type is None
