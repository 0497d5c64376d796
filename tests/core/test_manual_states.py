"""The table of casts and collectives is true of the ops, and closed under transposition."""

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax
from weft.collectives import gather
from weft.collectives.groups import AxisGroup
from weft.core.jaxpr import Var
from weft.core.manual_states import CASTS, DUAL, STATES, TABLE
from weft.core.primitive import PRIMITIVES

N = 4
TEAM = AxisGroup(("x",), (N,), None, ("x",))
RING = [(i, (i + 1) % N) for i in range(N)]


def in_state(v, state):
    """A value of v's shape in the given state along x; v varies."""
    if state == "varying":
        return v
    if state == "unreduced":
        return lax.pcast(v, "x", to="unreduced")
    equal = lax.psum(v, "x")
    return equal if state == "invarying" else lax.pcast(equal, "x", to="reduced")


def ragged(x):
    one = lax.pcast(np.ones(N, np.int32), "x", to="varying")
    at = lax.pcast(np.arange(N, dtype=np.int32), "x", to="varying")
    return lax.ragged_all_to_all(x, x * 0, at, one, at, one, axis_name="x")


def function_of(row):
    """What a user calls for a row, on a value of shape [N, N]."""
    return {
        "pcast": lambda x: lax.pcast(x, "x", to=row.after),
        "psum": lambda x: lax.psum(x, "x"),
        "all_gather": lambda x: lax.all_gather(x, "x", to=row.after, tiled=True),
        "all_slice": lambda x: gather.all_slice_p.bind(x, over=TEAM, axis=0, tiled=True),
        "psum_scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),
        "ppermute": lambda x: lax.ppermute(x, "x", RING),
        "all_to_all": lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True),
        "ragged_all_to_all": ragged,
        "pbroadcast": lambda x: lax.pbroadcast(x, "x", 1),
        "pmax": lambda x: lax.pmax(x, "x"),
        "pmin": lambda x: lax.pmin(x, "x"),
    }[row.op]


def on_devices(body):
    """Traces a per-device function of a varying f32[N, N] over x."""
    mesh = mesh_of(Machine(x=N), ("x",))
    mapped = weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    return weft.make_jaxpr(mapped)(np.ones((N * N, N), np.float32))


def state_of(x):
    return weft.typeof(x).mat.state("x")


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r.op}, {r.before} to {r.after}")
def test_an_op_takes_and_gives_the_states_its_row_says(row):
    def body(v):
        operand = in_state(v, row.before)
        assert state_of(operand) == row.before
        assert state_of(function_of(row)(operand)) == row.after
        return v

    on_devices(body)


LINEAR = [row for row in TABLE if row.transpose]
FUNCTIONS = {"reduce_scatter": "psum_scatter"}  # of primitives that are named otherwise


@pytest.mark.parametrize("row", LINEAR, ids=lambda r: f"{r.op}, {r.before} to {r.after}")
def test_a_transpose_consists_of_the_rows_that_the_table_says(row):
    ops = {r.op for r in TABLE}
    seen = []

    def body(v):
        operand = in_state(v, row.before)
        out = weft.eval_shape(function_of(row), operand)
        zeros = lax.pcast(np.zeros(out.shape, np.float32), "x", to="varying")
        cotangent = in_state(zeros, DUAL[row.after])
        transposed = weft.linear_transpose(function_of(row), operand)
        jaxpr = weft.make_jaxpr(transposed)(cotangent).jaxpr
        reached = set(jaxpr.invars)  # what the cotangent flows into
        for eqn in jaxpr.eqns:
            if reached.isdisjoint(v for v in eqn.invars if isinstance(v, Var)):
                continue
            reached.update(eqn.outvars)
            name = FUNCTIONS.get(eqn.primitive.name, eqn.primitive.name)
            if name in ops:
                ends = (eqn.invars[0], eqn.outvars[0])
                seen.append((name, *(v.aval.mat.state("x") for v in ends)))
        assert jaxpr.outvars[0].aval.mat.state("x") == DUAL[row.before]
        return v

    on_devices(body)
    assert tuple(seen) == row.transpose


def test_the_table_is_closed_under_transposition():
    rows = {(r.op, r.before, r.after) for r in TABLE}
    for row in LINEAR:
        assert set(row.transpose) <= rows
        states = [DUAL[row.after]]
        for _, before, after in row.transpose:
            assert before == states[-1]
            states.append(after)
        assert states[-1] == DUAL[row.before]


def test_a_transpose_of_one_op_has_that_op_as_its_transpose():
    table = {(r.op, r.before, r.after): r for r in TABLE}
    for row in LINEAR:
        if len(row.transpose) == 1:
            assert table[row.transpose[0]].transpose == ((row.op, row.before, row.after),)


def test_the_dual_of_the_dual_is_the_state_itself():
    assert {DUAL[DUAL[s]] for s in STATES} == set(STATES)
    assert all(DUAL[DUAL[s]] == s for s in STATES)


def test_every_collective_is_in_the_table():
    collectives = {
        FUNCTIONS.get(name, name)
        for name, prim in PRIMITIVES.items()
        if prim.named_axes is not None and prim.batch is not None and not prim.higher_order
    }
    starts = {name for name in collectives if name.removesuffix("_start") != name}
    without_state = {"axis_index", "psend"}  # no operand; a ppermute whose result is a token
    assert collectives - starts - without_state <= {row.op for row in TABLE}


BAD_CASTS = [
    (before, to)
    for before in STATES
    for to in ("varying", "unreduced", "reduced")
    if (before, to) not in CASTS
]


@pytest.mark.parametrize(("before", "to"), BAD_CASTS)
def test_a_cast_that_does_not_exist_names_the_type_and_those_that_do(before, to):
    def body(v):
        with pytest.raises(ValueError) as caught:
            lax.pcast(in_state(v, before), "x", to=to)
        text = str(caught.value)
        letter = {"varying": "{V:x}", "unreduced": "{U:x}", "reduced": "{R:x}", "invarying": ""}
        assert f"f32[{N},{N}]{letter[before]} is {before} along the axis" in text
        assert f"cannot be cast to {to}" in text
        assert "invarying to varying" in text
        return v

    on_devices(body)


@pytest.mark.parametrize(
    ("state", "text"),
    [("varying", "{V:x}"), ("unreduced", "{U:x}"), ("reduced", "{R:x}"), ("invarying", "]")],
)
def test_a_state_is_shown_in_the_type(state, text):
    def body(v):
        assert str(weft.typeof(in_state(v, state))).endswith(text)
        return v

    on_devices(body)


def test_where_states_are_not_tracked_a_cast_does_nothing():
    for to in ("varying", "unreduced", "reduced"):
        f = weft.vmap(lambda v, to=to: lax.pcast(v, "i", to=to), axis_name="i")
        assert not weft.make_jaxpr(f)(np.ones(3)).jaxpr.eqns


def test_an_op_that_mixes_invarying_and_varying_operands_promotes():
    jaxpr = str(on_devices(lambda v: v + lax.psum(v, "x")))
    assert "pcast[axes=('x',) to=varying]" in jaxpr


def test_beside_partial_sums_invarying_operands_become_reduced():
    """So that their cotangents, which differ from device to device, are added up."""
    jaxpr = str(on_devices(lambda v: (in_state(v, "unreduced") * lax.psum(v, "x"), v)[1]))
    assert "pcast[axes=('x',) to=reduced]" in jaxpr


def test_beside_varying_operands_reduced_ones_become_varying():
    """A gathered weight meets a part of the batch: its cotangents stay apart, to be scattered."""
    jaxpr = str(on_devices(lambda v: v * lax.pcast(lax.psum(v, "x"), "x", to="reduced")))
    assert "pcast[axes=('x',) to=varying]" in jaxpr

    def grads(rows, w):
        f = weft.shard_map(
            lambda v, w: lax.psum(
                (v @ lax.all_gather(w, "x", tiled=True, to="reduced")).sum(), "x"
            ),
            mesh=mesh_of(Machine(x=N), ("x",)),
            in_specs=(P("x"), P("x")),
            out_specs=P(),
        )
        return weft.grad(f, 1)(rows, w)

    rows, w = (
        np.arange(2.0 * N * N, dtype=np.float32).reshape(2 * N, N),
        np.ones((N, 3), np.float32),
    )
    wanted = np.repeat(rows.sum(0)[:, None], 3, axis=1)
    np.testing.assert_allclose(grads(rows, w), wanted, rtol=1e-6)
    assert "reduce_scatter" in str(weft.make_jaxpr(grads)(rows, w))


PRODUCTS = {
    "partial sum times constant": lambda v, w: lax.psum(in_state(v, "unreduced") * 3.0, "x"),
    "partial sum times invarying": lambda v, w: lax.psum(in_state(v, "unreduced") * w, "x"),
    "invarying times partial sum": lambda v, w: lax.psum(w * in_state(v, "unreduced"), "x"),
    "partial sum times reduced": lambda v, w: lax.psum(
        in_state(v, "unreduced") * lax.pcast(w, "x", to="reduced"), "x"
    ),
    "reduced times varying": lambda v, w: lax.psum(lax.pcast(w, "x", to="reduced") * v, "x"),
    "reduced times invarying": lambda v, w: lax.psum(
        lax.pcast(lax.pcast(w, "x", to="reduced") * w, "x", to="varying") * v, "x"
    ),
    "sine of reduced plus constant": lambda v, w: lax.psum(
        lax.pcast(lax.sin(lax.pcast(w, "x", to="reduced") + 1.0), "x", to="varying") * v, "x"
    ),
}
PLAIN = {
    "partial sum times constant": lambda total, w: (3 * total, 3, 0),
    "partial sum times invarying": lambda total, w: (total * w, w, total),
    "invarying times partial sum": lambda total, w: (total * w, w, total),
    "partial sum times reduced": lambda total, w: (total * w, w, total),
    "reduced times varying": lambda total, w: (total * w, w, total),
    "reduced times invarying": lambda total, w: (total * w * w, w * w, 2 * w * total),
    "sine of reduced plus constant": lambda total, w: (
        total * np.sin(w + 1),
        np.sin(w + 1),
        np.cos(w + 1) * total,
    ),
}
"""The value and its derivatives by every v and by w."""


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_partial_sums_and_reduced_values_have_derivatives(name):
    v, w = np.arange(1.0, N + 1, dtype=np.float32), np.float32(2.0)
    mesh = mesh_of(Machine(x=N), ("x",))
    mapped = weft.shard_map(PRODUCTS[name], mesh=mesh, in_specs=(P("x"), P()), out_specs=P())
    value, (by_v, by_w) = weft.value_and_grad(lambda v, w: mapped(v, w).sum(), (0, 1))(v, w)
    want, want_v, want_w = PLAIN[name](v.sum(), w)
    np.testing.assert_allclose(value, want, rtol=1e-6)
    np.testing.assert_allclose(by_v, np.full(N, want_v), rtol=1e-6)
    np.testing.assert_allclose(by_w, want_w, rtol=1e-6)


WEAK = {
    "psum": lambda v: lax.psum(v, "x"),
    "pmax": lambda v: lax.pmax(v, "x"),
    "all_gather": lambda v: lax.all_gather(v, "x"),
    "psum_scatter": lambda v: lax.psum_scatter(v, "x"),
    "ppermute": lambda v: lax.ppermute(v, "x", [(0, 1)]),
    "pbroadcast": lambda v: lax.pbroadcast(v, "x", 1),
    "psum_start": lambda v: lax.psum_start(v, "x").done(),
}


@pytest.mark.parametrize("name", WEAK)
def test_a_weak_type_stays_weak(name):
    """A Python scalar gives way to other types, also where it went from device to device."""

    seen = []

    def body(v):
        moved = WEAK[name](v.astype("int32") * 2.0)
        seen.append((moved.weak_type, (moved + np.ones((), weft.dtypes.bfloat16)).dtype))
        return v

    on_devices(body)
    weft.vmap(body, axis_name="x")(np.ones((N, N), np.float32))
    assert seen == [(True, weft.dtypes.bfloat16)] * 2
