"""enable_checks: jaxprs that rules have made wrongly are found when they are made."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.core.check import JaxprTypeError, check_jaxpr
from weft.core.jaxpr import ClosedJaxpr, Var

X = np.arange(3, dtype=np.float32)


def jaxpr_of(f, *args):
    return weft.make_jaxpr(f)(*args).jaxpr


def nested(x):
    def body(c, a):
        return jnp.sin(c) * a, lax.cond(a > 0, lambda: c, lambda: -c)

    return weft.jit(lambda x: weft.grad(lambda x: lax.scan(body, x[0], x)[0])(x))(x)


def test_programs_as_they_are_traced_pass():
    """Passes where nothing raises."""
    closed = weft.make_jaxpr(weft.vmap(nested))(np.ones((2, 3), np.float32))
    check_jaxpr(closed)
    with weft.enable_checks(True):
        check_jaxpr(weft.make_jaxpr(weft.hessian(lambda x: jnp.sum(nested(x))))(X))


def test_values_without_a_sharding_stand_for_replicated_ones():
    mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Explicit,))
    with weft.enable_checks(True), weft.set_mesh(mesh):
        a = weft.device_put(np.ones((4, 8), np.float32), weft.P("x", None))
        b = weft.device_put(np.full((8, 4), 2.0, np.float32), weft.P(None, None))
        product = weft.jit(lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=weft.P("x")))
        for i, want in enumerate((np.full((4, 8), 8.0), np.full((8, 4), 4.0))):
            np.testing.assert_array_equal(weft.grad(lambda *ab: product(*ab).sum(), i)(a, b), want)
        repeat = weft.jit(lambda x: jnp.broadcast_to(x, (3, 2)))
        x = weft.device_put(np.ones(2, np.float32), weft.P(None))
        np.testing.assert_array_equal(weft.jacrev(repeat)(x), [np.eye(2)] * 3)


def test_a_variable_that_nothing_has_made_is_found():
    j = jaxpr_of(lambda x: jnp.sin(x) * 2, X)
    with pytest.raises(JaxprTypeError, match="mul .*: operand 0 of mul is a variable of type f32"):
        check_jaxpr(j.replace(eqns=j.eqns[1:]))
    with pytest.raises(JaxprTypeError, match="operand 0 of the result"):
        check_jaxpr(j.replace(outvars=[Var(j.in_avals[0])]))


def test_a_result_of_another_type_than_its_op_gives_is_found():
    j = jaxpr_of(lambda x: jnp.sin(x), X)
    wrong = j.eqns[0].replace(outvars=[Var(weft.typeof(np.ones(4, np.float32)))])
    with pytest.raises(JaxprTypeError, match=r"result 0 has type f32\[4\], the op gives f32\[3\]"):
        check_jaxpr(j.replace(eqns=[wrong], outvars=wrong.outvars))
    two = j.eqns[0].replace(outvars=[*j.outvars, Var(j.in_avals[0])])
    with pytest.raises(JaxprTypeError, match="2 results, the op has 1"):
        check_jaxpr(j.replace(eqns=[two]))


def test_operands_that_do_not_fit_are_found():
    j = jaxpr_of(lambda x, y: x + y, X, X)
    other = Var(weft.typeof(np.ones(4, np.float32)))
    with pytest.raises(JaxprTypeError, match="operands do not fit"):
        check_jaxpr(j.replace(invars=[j.invars[0], other],
                              eqns=[j.eqns[0].replace(invars=[j.invars[0], other])]))  # fmt: skip


def test_a_variable_that_is_made_twice_is_found():
    j = jaxpr_of(lambda x: jnp.sin(x), X)
    with pytest.raises(JaxprTypeError, match="assigned twice"):
        check_jaxpr(j.replace(eqns=[j.eqns[0], j.eqns[0]]))


def test_inner_programs_are_checked():
    j = jaxpr_of(weft.jit(lambda x: jnp.sin(x) * 2), X)
    (call,) = j.eqns
    inner = call.params["jaxpr"].jaxpr
    broken = ClosedJaxpr(inner.replace(eqns=inner.eqns[1:]))
    with pytest.raises(JaxprTypeError, match="that nothing has made"):
        check_jaxpr(j.replace(eqns=[call.replace(params={**call.params, "jaxpr": broken})]))


MESH = weft.make_mesh((8,), ("x",), axis_types=(weft.sharding.AxisType.Auto,))
ONES = np.ones((8, 2), np.float32)


def shifted(part, params):
    """Params whose inner program takes a last operand of another shape."""
    closed = params[part]
    inner = closed[0] if isinstance(closed, tuple) else closed
    shapes = [a.shape for a in inner.in_avals]
    shapes[-1] = (3, *shapes[-1])
    args = [np.ones(d, a.dtype) for d, a in zip(shapes, inner.in_avals, strict=True)]
    results = lambda *xs: [jnp.zeros(a.shape, a.dtype) for a in inner.out_avals]
    broken = ClosedJaxpr(jaxpr_of(results, *args))
    return {**params, part: (broken, *closed[1:]) if isinstance(closed, tuple) else broken}


@pytest.mark.parametrize(
    ("program", "part", "words"),
    [
        (weft.jit(jnp.sin), "jaxpr", "jit .*the program inside"),
        (weft.checkpoint(jnp.sin), "jaxpr", "remat2 .*the program inside"),
        (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), "branches", "cond .*branch 0"),
        (lambda x: lax.scan(lambda c, r: (c + r, r), x[0], x), "jaxpr", "scan .*the body"),
        (
            lambda x: lax.while_loop(lambda c: c.sum() > 0, lambda c: c - 1, x),
            "cond_jaxpr",
            "while .*the condition",
        ),
        (
            lambda x: lax.while_loop(lambda c: c.sum() > 0, lambda c: c - 1, x),
            "body_jaxpr",
            "while .*the body",
        ),
        (
            weft.shard_map(jnp.sin, mesh=MESH, in_specs=weft.P("x"), out_specs=weft.P("x")),
            "jaxpr",
            "shard_map .*the body",
        ),
    ],
    ids=["jit", "checkpoint", "cond", "scan", "condition", "while", "shard_map"],
)
def test_operands_that_an_inner_program_does_not_take_are_found(program, part, words):
    j = jaxpr_of(program, ONES)
    check_jaxpr(j)
    at = next(i for i, e in enumerate(j.eqns) if part in e.rule_params)
    wrong = j.eqns[at].replace(rule_params=shifted(part, j.eqns[at].rule_params))
    with pytest.raises(JaxprTypeError, match=words):
        check_jaxpr(j.replace(eqns=[*j.eqns[:at], wrong, *j.eqns[at + 1 :]]))


def test_missing_constants_are_found():
    closed = weft.make_jaxpr(lambda x: x + X)(1.0)
    with pytest.raises(JaxprTypeError, match="0 constants for 1 variables"):
        check_jaxpr(ClosedJaxpr(closed.jaxpr, []))


def test_the_option_checks_every_trace():
    from weft.ops.elementwise_api import sin_p

    abstract, cache = sin_p.abstract, sin_p.rule_cache
    calls = []

    def changing(*avals, **params):
        calls.append(1)
        return abstract(*avals, **params).update(shape=(len(calls),))

    sin_p.abstract, sin_p.rule_cache = changing, {}
    try:
        jaxpr_of(lambda x: jnp.sin(x), X)
        with weft.enable_checks(True), pytest.raises(JaxprTypeError, match="result 0 has type"):
            jaxpr_of(lambda x: jnp.sin(x), np.ones(2, np.float32))
    finally:
        sin_p.abstract, sin_p.rule_cache = abstract, cache
