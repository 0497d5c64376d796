"""Equations as JAX has them: names, parameters, and interpreters written for them."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.compat.jax.core import clean_up_dead_vars, eval_jaxpr, last_used
from weft.compat.jax.extend import core, source_info_util
from weft.sharding import PartitionSpec as P

X = np.linspace(0.1, 0.9, 4).astype(np.float32)
ROWS = np.array([0, 2], np.int32)
MESH = weft.make_mesh((4,), ("i",), (weft.sharding.AxisType.Auto,))


def evaluated(closed, args):
    """Evaluate a jaxpr as JAX's documentation shows it for custom interpreters."""
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))

    def read(v):
        return v.val if isinstance(v, core.Literal) else env[v]

    for eqn in closed.jaxpr.eqns:
        params = eqn.primitive.get_bind_params(eqn.params)
        outs = eqn.primitive.bind(*map(read, eqn.invars), **params)
        env.update(
            zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs], strict=True)
        )
    return [read(v) for v in closed.jaxpr.outvars]


def sharded(body, out_specs=None, **options):
    out_specs = P("i") if out_specs is None else out_specs
    return weft.shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=out_specs, **options)


@weft.custom_jvp
def cubed(x):
    return x**3


cubed.defjvp(lambda primals, tangents: (cubed(*primals), 3 * primals[0] ** 2 * tangents[0]))


@weft.custom_vjp
def squared(x):
    return x * x


squared.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))


@weft.custom_batching.custom_vmap
def doubled(x):
    return 2 * x


doubled.def_vmap(lambda size, batched, x: (2 * x, batched[0]))


def solved(a):
    return lax.custom_linear_solve(
        lambda v: a * v, jnp.ones(4), lambda matvec, b: b / a, symmetric=True
    )


SHAPE = weft.ShapeDtypeStruct((4,), np.float32)
RING = [(k, (k + 1) % 4) for k in range(4)]
AXIS = {"axis_name", "axis_index_groups"}

# Name: the function of X, the primitive, names of its parameters, the result.
CASES = {
    "exp": (jnp.exp, "exp", {"accuracy"}, np.exp(X)),
    "scatter-add": (
        lambda x: x.at[ROWS].add(1.0),
        "scatter-add",
        {
            *("update_jaxpr", "update_consts", "dimension_numbers", "indices_are_sorted"),
            *("unique_indices", "mode"),
        },
        X + [1, 0, 1, 0],
    ),
    "reduce_window": (
        lambda x: lax.reduce_window(x, 0.0, lambda a, b: a + 2 * b, (1,), (1,), "VALID"),
        "reduce_window",
        {
            *("jaxpr", "consts", "window_dimensions", "window_strides", "padding"),
            *("base_dilation", "window_dilation"),
        },
        2 * X,
    ),
    "checkpoint": (
        weft.checkpoint(jnp.sin),
        "remat2",
        {"jaxpr", "policy", "prevent_cse", "differentiated"},
        np.sin(X),
    ),
    "jit": (
        weft.jit(jnp.sin),
        "jit",
        {
            *("jaxpr", "in_shardings", "out_shardings", "in_layouts", "out_layouts"),
            *("donated_invars", "ctx_mesh", "name", "keep_unused", "inline"),
            "compiler_options_kvs",
        },
        np.sin(X),
    ),
    "custom_jvp": (
        cubed,
        "custom_jvp_call",
        {"call_jaxpr", "jvp_jaxpr_fun", "num_consts", "symbolic_zeros"},
        X**3,
    ),
    "custom_vjp": (
        squared,
        "custom_vjp_call",
        {"call_jaxpr", "fwd_jaxpr_thunk", "bwd", "num_consts", "out_trees", "symbolic_zeros"},
        X**2,
    ),
    "custom_vmap": (doubled, "custom_vmap_call", {"call", "rule", "in_tree", "out_tree"}, 2 * X),
    "linear_call": (
        lambda x: weft.custom_derivatives.linear_call(
            lambda r, v: r * v, lambda r, v: r * v, 2.0, x
        ),
        "linear_call",
        {"callee", "transpose_thunk", "num_callee_consts", "num_res"},
        2 * X,
    ),
    "linear solve": (solved, "custom_linear_solve", {"const_lengths", "jaxprs"}, 1 / X),
    "device_put": (
        lambda x: weft.device_put(x, weft.devices()[0]),
        "device_put",
        {"devices", "srcs", "copy_semantics"},
        X,
    ),
    "pure_callback": (
        lambda x: weft.pure_callback(np.sin, SHAPE, x),
        "pure_callback",
        {"callback", "result_avals", "sharding", "vmap_method"},
        np.sin(X),
    ),
    "io_callback": (
        lambda x: weft.io_callback(np.sin, SHAPE, x, ordered=True),
        "io_callback",
        {"callback", "result_avals", "sharding", "ordered"},
        np.sin(X),
    ),
    "conj": (lambda x: jnp.conj(lax.complex(x, x)).imag, "conj", {"input_dtype"}, -X),
    "shard_map": (
        sharded(jnp.sin),
        "shard_map",
        {"jaxpr", "mesh", "in_specs", "out_specs", "check_vma", "newly_manual_axes"},
        np.sin(X),
    ),
    "pmax": (
        sharded(lambda x: lax.pmax(x, "i"), P()),
        "pmax",
        {"axes", "axis_index_groups"},
        X[3:],
    ),
    "all_gather": (
        sharded(lambda x: lax.all_gather(x, "i", tiled=True)[:1]),
        "all_gather",
        {"all_gather_dimension", "axis_size", "tiled", *AXIS},
        [X[0]] * 4,
    ),
    "psum_scatter": (
        sharded(lambda x: lax.psum_scatter(jnp.tile(x, 4), "i", tiled=True)),
        "reduce_scatter",
        {"scatter_dimension", "axis_size", "tiled", *AXIS},
        [X.sum()] * 4,
    ),
    "all_to_all": (
        sharded(lambda x: lax.all_to_all(jnp.tile(x, 4), "i", 0, 0, tiled=True)[3:]),
        "all_to_all",
        {"split_axis", "concat_axis", "tiled", *AXIS},
        [X[3]] * 4,
    ),
    "ppermute": (
        sharded(lambda x: lax.ppermute(x, "i", RING)),
        "ppermute",
        {"axis_name", "perm"},
        np.roll(X, 1),
    ),
    "axis_index": (
        sharded(lambda x: x + lax.axis_index("i")),
        "axis_index",
        {"axis_name"},
        X + np.arange(4),
    ),
    "groups": (
        sharded(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), check_vma=False),
        "psum",
        {"axes", "axis_index_groups"},
        np.repeat([X[0] + X[1], X[2] + X[3]], 2),
    ),
}


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in core.jaxprs_in_params(eqn.params):
            yield from equations(inner)


@pytest.mark.parametrize("name", CASES)
def test_an_equation_has_jaxs_name_and_parameters(name):
    function, primitive, params, _ = CASES[name]
    jaxpr = weft.make_jaxpr(function)(X).jaxpr
    found = [eqn for eqn in equations(jaxpr) if eqn.primitive.name == primitive]
    assert [set(eqn.params) for eqn in found] == [params]


@pytest.mark.parametrize("name", CASES)
def test_an_interpreter_binds_the_parameters_that_it_sees(name):
    function, *_, expected = CASES[name]
    closed = weft.make_jaxpr(function)(X)
    traced = weft.jit(lambda x: evaluated(closed, [x]))
    for run in (lambda: evaluated(closed, [X]), lambda: traced(X)):
        (got,) = run()
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_an_equation_is_rewritten_with_the_parameters_that_it_shows(name):
    function, *_, expected = CASES[name]
    closed = weft.make_jaxpr(function)(X)
    eqns = [eqn.replace(params=dict(eqn.params)) for eqn in closed.jaxpr.eqns]
    again = core.ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    (got,) = core.jaxpr_as_fun(again)(X)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5)


def test_a_program_inside_can_be_replaced_before_it_is_bound():
    (eqn,) = weft.make_jaxpr(weft.checkpoint(jnp.sin))(X).jaxpr.eqns
    other = weft.make_jaxpr(jnp.cos)(X).jaxpr
    (got,) = eqn.primitive.bind(X, **{**eqn.params, "jaxpr": other})
    np.testing.assert_allclose(got, np.cos(X), rtol=1e-6)


def test_the_rule_of_a_function_is_kept_when_its_equation_is_bound():
    closed = weft.make_jaxpr(cubed)(X)
    gradient = weft.grad(lambda x: evaluated(closed, [x])[0].sum())
    np.testing.assert_allclose(gradient(X), 3 * X**2, rtol=1e-5)


def test_a_value_that_weft_has_no_meaning_for_is_refused():
    (eqn,) = weft.make_jaxpr(jnp.exp)(X).jaxpr.eqns
    with pytest.raises(NotImplementedError, match="exp: accuracy must be None, a lax.Tol"):
        eqn.primitive.bind(X, accuracy="highest")
    eqn = weft.make_jaxpr(jnp.linalg.qr)(np.eye(2)).jaxpr.eqns[0]
    with pytest.raises(NotImplementedError, match="use_magma must be None"):
        eqn.primitive.bind(np.eye(2), **{**eqn.params, "use_magma": True})


def test_an_accuracy_stands_in_the_parameters_and_is_taken():
    fine = weft.lax.AccuracyMode.HIGHEST
    (eqn,) = weft.make_jaxpr(lambda x: weft.lax.exp(x, accuracy=fine))(X).jaxpr.eqns
    assert eqn.params == {"accuracy": fine}
    np.testing.assert_allclose(eqn.primitive.bind(X, **eqn.params), np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(weft.lax.exp(X, accuracy=fine), np.exp(X), rtol=1e-6)
    again = weft.make_jaxpr(lambda x: eqn.primitive.bind(x, **eqn.params))(X)
    assert again.jaxpr.eqns[0].params == eqn.params


def test_a_jaxpr_is_made_of_parts_in_jaxs_order():
    closed = weft.make_jaxpr(lambda x: jnp.sin(x) * x)(X)
    jaxpr = closed.jaxpr
    eqns = [
        core.JaxprEqn(e.invars, e.outvars, e.primitive, e.params, e.effects, e.source_info, None)
        for e in jaxpr.eqns
    ]
    assert all(isinstance(eqn, core.JaxprEqn) for eqn in (*eqns, *jaxpr.eqns))
    again = core.Jaxpr(
        jaxpr.constvars,
        jaxpr.invars,
        jaxpr.outvars,
        eqns,
        jaxpr.effects,
        debug_info=core.DebugInfo("jit", "made at a line"),
    )
    (got,) = core.jaxpr_as_fun(core.ClosedJaxpr(again))(X)
    np.testing.assert_allclose(got, np.sin(X) * X, rtol=1e-6)
    assert again.replace(debug_info=core.DebugInfo("jit", "other at a line")).debug == "other"


def test_values_are_dropped_behind_the_equation_that_reads_them_last():
    jaxpr = weft.make_jaxpr(lambda x: (jnp.sin(x), jnp.cos(jnp.sin(x))))(X).jaxpr
    last = last_used(jaxpr)
    (x,) = jaxpr.invars
    first, second, third = jaxpr.eqns
    assert last == {
        x: second,
        first.outvars[0]: None,
        second.outvars[0]: third,
        third.outvars[0]: None,
    }
    env = {x: 0, first.outvars[0]: 1, second.outvars[0]: 2}
    for eqn in jaxpr.eqns:
        clean_up_dead_vars(eqn, env, last)
    assert list(env) == [first.outvars[0]]


def test_scopes_of_an_equation_hold_where_it_is_evaluated_again():
    with weft.named_scope("outer"):
        (eqn,) = weft.make_jaxpr(weft.named_call(jnp.sin, name="inner"))(X).jaxpr.eqns
    path = source_info_util.NameStack("around") + "/".join(eqn.source.scopes)
    with source_info_util.user_context(None, name_stack=path):
        assert source_info_util.current_name_stack() == "around/outer/inner"
    assert source_info_util.current_name_stack() == ""


def test_the_rules_of_a_function_are_called_as_jax_calls_them():
    (eqn,) = weft.make_jaxpr(cubed)(X).jaxpr.eqns
    jaxpr, consts, out_zeros = eqn.params["jvp_jaxpr_fun"].call_wrapped(False)
    out, tangent = eval_jaxpr(jaxpr, consts, X, np.ones(4, np.float32))
    np.testing.assert_allclose(out, X**3, rtol=1e-6)
    np.testing.assert_allclose(tangent, 3 * X**2, rtol=1e-6)
    assert out_zeros == [False]
    _, _, out_zeros = eqn.params["jvp_jaxpr_fun"].call_wrapped(True)
    assert len(out_zeros) == 1

    (eqn,) = weft.make_jaxpr(squared)(X).jaxpr.eqns
    residual, out = eval_jaxpr(*eqn.params["fwd_jaxpr_thunk"].call_wrapped(True), X)
    np.testing.assert_allclose((residual, out), (X, X**2), rtol=1e-6)
    (ct,) = eqn.params["bwd"](residual, np.ones(4, np.float32))
    np.testing.assert_allclose(ct, 2 * X, rtol=1e-6)
    out_tree, residual_tree, _ = eqn.params["out_trees"]()
    assert (out_tree.num_leaves, residual_tree.num_leaves) == (1, 1)

    (eqn,) = weft.make_jaxpr(doubled)(X).jaxpr.eqns
    rows, batched = eqn.params["rule"](4, ([], (True,)), [], (X,))
    np.testing.assert_allclose(rows, 2 * X, rtol=1e-6)
    assert batched is True and eqn.params["in_tree"].num_leaves == 1

    (eqn,) = weft.make_jaxpr(CASES["linear_call"][0])(X).jaxpr.eqns
    transpose, consts = eqn.params["transpose_thunk"]()
    (ct,) = eval_jaxpr(transpose.jaxpr, [], *consts, np.float32(2), X)
    np.testing.assert_allclose(ct, 2 * X, rtol=1e-6)


def test_a_rule_that_reads_what_is_traced_around_says_so():
    def around(scale):
        @weft.custom_jvp
        def scaled(x):
            return x * 2

        scaled.defjvp(lambda primals, tangents: (scaled(*primals), tangents[0] * scale))
        return scaled(X)

    (eqn,) = weft.make_jaxpr(around)(X).jaxpr.eqns
    with pytest.raises(NotImplementedError, match="reads traced values.*as arguments"):
        eqn.params["jvp_jaxpr_fun"].call_wrapped(False)
