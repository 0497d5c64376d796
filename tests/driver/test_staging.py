"""make_jaxpr, eval_shape, closure_convert, ensure_compile_time_eval, disable_jit, named scopes."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax

X = np.array([0.5, -1.0, 2.0], np.float32)


def primitives(closed):
    return [e.primitive.name for e in closed.eqns]


def test_make_jaxpr_shows_one_equation_for_each_op_with_types():
    text = str(weft.make_jaxpr(lambda x, y: jnp.sin(x) * y)(X, X))
    assert " ".join(text.split()) == (
        "{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = sin a d:f32[3] = mul c b in (d,) }"
    )


def test_make_jaxpr_takes_specifications_trees_and_keywords():
    spec = weft.ShapeDtypeStruct((2, 3), "bfloat16")
    closed = weft.make_jaxpr(lambda p, *, k: {"out": p["x"] * k})({"x": spec}, k=1.0)
    assert [a.str_short() for a in closed.in_avals] == ["bf16[2,3]", "f32[]"]
    assert [a.str_short() for a in closed.out_avals] == ["bf16[2,3]"]


def test_make_jaxpr_options():
    closed = weft.make_jaxpr(lambda x, n: x * n if n > 2 else x, static_argnums=1)(1.0, 3)
    assert len(closed.in_avals) == 1 and primitives(closed) == ["mul"]
    closed, shape = weft.make_jaxpr(lambda x: {"y": x[:2]}, return_shape=True)(X)
    assert shape == {"y": weft.ShapeDtypeStruct((2,), "float32")}
    closed = weft.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(X)
    assert primitives(closed) == ["psum"]


def test_make_jaxpr_of_transformed_functions_has_no_trace_of_the_transformation():
    closed = weft.make_jaxpr(weft.grad(lambda x: x**2))(3.0)
    assert set(primitives(closed)) <= {"integer_pow", "mul", "convert_element_type"}
    assert primitives(weft.make_jaxpr(weft.vmap(lambda x: x @ x))(np.ones((2, 3), "float32"))) == [
        "dot_general"
    ]


def test_constants_are_hoisted_out_of_the_jaxpr():
    closed = weft.make_jaxpr(lambda x: x + X)(1.0)
    (const,) = closed.consts
    np.testing.assert_array_equal(const, X)


def test_eval_shape_computes_nothing():
    calls = []

    def f(p, n):
        calls.append(1)
        return {"prod": p["w"] @ p["x"], "n": n, "none": None}

    huge = weft.ShapeDtypeStruct((10**6, 10**6), "float32")
    out = weft.eval_shape(f, {"w": huge, "x": huge}, 3)
    assert out["prod"] == huge and out["prod"].sharding is None and out["none"] is None
    assert out["n"].dtype == np.int32 and out["n"].weak_type and calls == [1]


DESCRIBED = weft.ShapeDtypeStruct((2, 3), "float32")
BRANCHES = (weft.numpy.sin, lambda x: x + 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: weft.lax.cond(True, *BRANCHES, x),
        lambda x: weft.lax.switch(1, BRANCHES, x),
        lambda x: weft.lax.scan(lambda c, row: (c, row + c.sum()), x, x)[1],
        lambda x: weft.lax.fori_loop(0, 3, lambda i, c: c + i, x),
        lambda x: weft.lax.while_loop(lambda c: c.sum() < 3, BRANCHES[1], x),
        lambda x: weft.checkpoint(BRANCHES[0])(x),
        lambda x: weft.jit(BRANCHES[0])(x),
        lambda x: weft.grad(lambda a: BRANCHES[0](a).sum())(x),
        lambda x: weft.vmap(BRANCHES[0], in_axes=1, out_axes=1)(x),
        lambda x: weft.jit(lambda: weft.nn.relu(x))(),
    ],
)
def test_functions_inside_eval_shape_take_described_values(function):
    out = weft.eval_shape(lambda: function(DESCRIBED))
    assert (out.shape, out.dtype) == ((2, 3), np.dtype("float32"))
    with pytest.raises(TypeError, match="ShapeDtypeStruct"):  # there are no values outside
        function(DESCRIBED)


def test_eval_shape_takes_anything_with_shape_and_dtype():
    class Spec:
        shape, dtype = (2,), np.dtype("float16")

    out = weft.eval_shape(lambda x: jnp.stack([x, x]), Spec())
    assert (out.shape, out.dtype) == ((2, 2), np.dtype("float16"))


def test_shape_dtype_structs_compare_hash_and_update():
    a = weft.ShapeDtypeStruct((2, 3), "float32")
    assert a == weft.ShapeDtypeStruct([2, 3], np.float32) and hash(a) == hash(a.update())
    assert a.update(shape=(4,)) == weft.ShapeDtypeStruct((4,), "float32") != a
    assert (a.ndim, a.size, len(a)) == (2, 6, 2)
    with pytest.raises(ValueError, match="dtype must be given"):
        weft.ShapeDtypeStruct((2,), None)


def test_closure_convert_hoists_differentiated_values_only():
    def f(x, scale):
        converted, values = weft.closure_convert(lambda y: x * scale * y + X, 1.0)
        assert len(values) == 1  # x * scale is computed inside
        return jnp.sum(converted(2.0, *values))

    close(weft.grad(f)(3.0, 4.0), 24.0)
    converted, values = weft.closure_convert(lambda y: y + X, 1.0)
    assert values == []
    close(converted(2.0), X + 2)
    with pytest.raises(TypeError, match="closure_convert: the function was traced for"):
        converted((2.0, 3.0))


def test_closure_convert_makes_solvers_differentiable_by_rules_of_their_own():
    # Bisection for y with fun(y) = 0, with the implicit function theorem as its derivative.
    def root(fun):
        converted, values = weft.closure_convert(fun, 1.0)

        @weft.custom_vjp
        def solve(values):
            lo, hi = 0.0, 4.0
            for _ in range(40):
                mid = (lo + hi) / 2
                below = converted(mid, *values) < 0
                lo, hi = jnp.where(below, mid, lo), jnp.where(below, hi, mid)
            return (lo + hi) / 2

        def fwd(values):
            y = solve(values)
            return y, (y, values)

        def bwd(kept, ct):
            y, values = kept
            slope = weft.grad(converted)(y, *values)
            _, pull = weft.vjp(lambda v: converted(y, *v), values)
            return pull(-ct / slope)

        solve.defvjp(fwd, bwd)
        return solve(values)

    square_root = weft.jit(lambda x: root(lambda y: y**2 - x))
    close(square_root(2.0), np.sqrt(2.0))
    close(weft.grad(square_root)(2.0), 0.5 / np.sqrt(2.0), 1e-4)


def test_ensure_compile_time_eval_runs_ops_on_known_values_at_once():
    @weft.jit
    def f(x):
        with weft.ensure_compile_time_eval():
            table = jnp.arange(3) * 2
            n = int(table[1]) if table.sum() > 5 else 1
        return x * n

    assert float(f(3.0)) == 6.0
    assert len(f.trace(3.0).jaxpr.eqns) == 1


def test_ensure_compile_time_eval_records_ops_on_values_that_are_not_known():
    def f(x):
        with weft.ensure_compile_time_eval():
            return jnp.sin(jnp.ones(3)).sum() * x

    assert [e.primitive.name for e in weft.jit(f).trace(1.0).jaxpr.eqns] == [
        "convert_element_type",
        "mul",
    ]
    close(weft.jit(f)(2.0), 6 * np.sin(1.0))
    close(weft.vmap(weft.grad(f))(np.arange(2.0)), [3 * np.sin(1.0)] * 2)


def test_disable_jit_runs_the_python_code_each_time():
    calls = []

    @weft.jit
    def f(x):
        calls.append(float(x) if not isinstance(x, weft.core.trace.Tracer) else "traced")
        return x * 2

    f(1.0), f(2.0)
    with weft.disable_jit():
        assert float(f(3.0)) == 6.0 and float(f(4.0)) == 8.0
        assert float(weft.grad(f)(5.0)) == 2.0
    assert calls[:3] == ["traced", 3.0, 4.0]


def test_python_conditions_work_in_loops_under_disable_jit():
    with weft.disable_jit():
        seen = []
        lax.scan(lambda c, x: (seen.append(float(x)) or c + x, None), 0.0, X)
        lax.fori_loop(0, 3, lambda i, c: seen.append(int(i)) or c, 0)
        lax.while_loop(lambda c: c < 2, lambda c: seen.append(int(c)) or c + 1, 0)
        lax.cond(True, lambda: seen.append("yes") or 1, lambda: seen.append("no") or 1)
        lax.switch(1, [lambda: seen.append("a") or 1, lambda: seen.append("b") or 1])
    assert seen == [0.5, -1.0, 2.0, 0, 1, 2, 0, 1, "yes", "b"]


def test_named_scopes_reach_the_sources_of_equations():
    def f(x):
        with weft.named_scope("outer"), weft.named_scope("inner"):
            return jnp.sin(x)

    (eqn,) = weft.make_jaxpr(f)(1.0).eqns
    assert eqn.source.scopes == ("outer", "inner") and eqn.source.function.endswith("f")
    (eqn,) = weft.make_jaxpr(weft.named_call(lambda x: jnp.sin(x), name="called"))(1.0).eqns
    assert eqn.source.scopes == ("called",)


def test_equations_keep_the_line_that_made_them_through_transformations():
    def f(x):
        y = jnp.sin(x)
        return jnp.sum(y * y)

    first = f.__code__.co_firstlineno
    closed = weft.make_jaxpr(weft.jit(weft.vmap(weft.grad(f))))(np.ones((2, 3), np.float32))
    (call,) = closed.eqns
    lines = {e.primitive.name: e.source.line for e in call.params["jaxpr"].eqns}
    assert lines["sin"] == lines["cos"] == first + 1
    assert lines["mul"] in (first + 1, first + 2)


def test_a_struct_like_an_array_has_its_type_and_its_sharding_if_committed():
    x = weft.device_put(np.ones((2, 3), np.int8), weft.devices()[1])
    struct = weft.ShapeDtypeStruct.like(x)
    assert (struct.shape, struct.dtype, struct.sharding) == ((2, 3), np.int8, x.sharding)
    weak = weft.ShapeDtypeStruct.like(jnp.asarray(2.0))
    assert (weak.shape, weak.weak_type, weak.sharding) == ((), True, None)


def test_a_struct_takes_a_manual_axis_type():
    mat = weft.sharding.ManualAxisType(varying={"x"}, reduced={"y"})
    struct = weft.ShapeDtypeStruct((2,), "float32", manual_axis_type=mat)
    assert struct.manual_axis_type is mat and struct.vma == {"x"}
    assert struct.update(shape=(3,)).manual_axis_type is mat
    assert struct.update(vma={"y"}).manual_axis_type.varying == {"y"}


def test_a_closed_jaxpr_gives_what_its_jaxpr_has_and_takes_another():
    closed = weft.make_jaxpr(lambda x: x * X)(X)
    assert closed.invars is closed.jaxpr.invars and closed.outvars is closed.jaxpr.outvars
    assert closed.literals is closed.consts and len(closed.constvars) == len(closed.consts)
    assert closed.eqns[0].source_info is closed.eqns[0].source
    renamed = closed.map_jaxpr(lambda jaxpr: jaxpr.replace(debug="other"))
    assert renamed.jaxpr.debug == "other" and renamed.consts == closed.consts


MESH = weft.make_mesh((4, 2), ("x", "y"))
BAD_STRUCTS = {
    "fraction": (((3.5,), "float32"), {}, TypeError, "integers"),
    "text": (("ab", "float32"), {}, TypeError, "integers"),
    "number": ((3, "float32"), {}, TypeError, "integers"),
    "negative": (((-1,), "float32"), {}, ValueError, "negative"),
    "no dtype": (((2,), None), {}, ValueError, "dtype"),
    "no sharding": (((2,), "float32"), {"sharding": 3}, TypeError, "sharding must be.*int"),
    "rank": (((2,), "float32"), {"sharding": weft.P("x", "y")}, ValueError, "2 entries"),
    "rank of a sharding": (
        ((2,), "float32"),
        {"sharding": weft.NamedSharding(MESH, weft.P("x", "y"))},
        ValueError,
        "2 entries",
    ),
}


@pytest.mark.parametrize("case", BAD_STRUCTS)
def test_a_struct_is_of_a_shape_a_dtype_and_a_sharding_that_fits(case):
    args, kwargs, error, match = BAD_STRUCTS[case]
    with pytest.raises(error, match=match):
        weft.ShapeDtypeStruct(*args, **kwargs)


@pytest.mark.parametrize("wide", ["int64", "float64", "complex128"])
def test_structs_keep_64_bits_that_programs_do_not_compute_in(wide):
    struct = weft.ShapeDtypeStruct((2,), wide)
    narrow = {"int64": np.int32, "float64": np.float32, "complex128": np.complex64}[wide]
    assert struct.dtype == np.dtype(wide) and wide in repr(struct)
    assert struct != weft.ShapeDtypeStruct((2,), narrow)
    assert weft.typeof(struct).dtype == narrow
    assert weft.eval_shape(lambda x: x + 1, struct).dtype == narrow
    assert weft.jit(lambda x: x + 1).lower(struct).in_avals[0][0].dtype == narrow
    assert jnp.zeros_like(struct).dtype == weft.lax.full_like(struct, 1).dtype == narrow
