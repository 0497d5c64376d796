"""Control flow that devices of a shard_map take differently: values, derivatives, warnings."""

import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.collectives.harness import COMPILER_OPTIONS, mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 4
X = np.arange(1.0, 2 * N + 1, dtype=np.float32).reshape(N, 2)
W = np.float32(3)
SPLIT = P("x")
LATE = np.arange(N)[:, None] >= 2
RING = [(i, (i + 1) % N) for i in range(N)]


def on_devices(body, out_specs=SPLIT):
    """The body of the device's part of X and of a number that is equal on all devices."""
    mesh = mesh_of(Machine(x=N), ("x",))
    mapped = weft.shard_map(body, mesh=mesh, in_specs=(SPLIT, P()), out_specs=out_specs)
    return weft.jit(mapped, compiler_options=COMPILER_OPTIONS)


def late():
    return lax.axis_index("x") >= 2


def _by_switch(v, w):
    grow = lambda: lax.scan(lambda c, _: (c * w, None), v, None, length=2)[0]
    return lax.switch(lax.axis_index("x") // 2, [lambda: v, grow])


# name: (body, its factor of v on the late devices, the factor's derivative)
BRANCHES = {
    "closed over": (lambda v, w: lax.cond(late(), lambda: v * w, lambda: v), lambda w: w, 1),
    "operand": (
        lambda v, w: lax.cond(late(), lambda v, w: v * w, lambda v, w: v, v, w),
        lambda w: w,
        1,
    ),
    "the value itself": (
        lambda v, w: v * lax.cond(late(), lambda: w, lambda: 1.0),
        lambda w: w,
        1,
    ),
    "cast inside": (
        lambda v, w: lax.cond(late(), lambda: v * lax.pcast(w, "x", to="varying"), lambda: v),
        lambda w: w,
        1,
    ),
    "scan inside, one of three": (_by_switch, lambda w: w * w, 2 * W),
    "in a checkpoint": (
        weft.checkpoint(lambda v, w: lax.cond(late(), lambda: v * (w * w), lambda: v)),
        lambda w: w * w,
        2 * W,
    ),
    "reduced inside": (
        lambda v, w: lax.switch(
            lax.axis_index("x") // 2,
            [
                lambda v, w: v,
                lambda v, w: v * lax.pcast(lax.pcast(w, "x", to="reduced"), "x", to="varying"),
            ],
            v,
            w,
        ),
        lambda w: w,
        1,
    ),
    "reduced": (
        lambda v, w: (
            v * lax.cond(late(), lambda r: r, lambda r: r / r, lax.pcast(w, "x", to="reduced"))
        ),
        lambda w: w,
        1,
    ),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_derivatives_by_equal_values_are_added_up_outside_of_branches(name):
    body, factor, slope = BRANCHES[name]
    f = on_devices(body)
    np.testing.assert_allclose(f(X, W), np.where(LATE, X * factor(W), X), rtol=1e-6)
    loss = weft.jit(lambda x, w: f(x, w).sum(), compiler_options=COMPILER_OPTIONS)
    by_x, by_w = weft.grad(loss, (0, 1))(X, W)
    np.testing.assert_allclose(by_x, np.where(LATE, factor(W), 1) * np.ones_like(X), rtol=1e-6)
    np.testing.assert_allclose(by_w, slope * X[2:].sum(), rtol=1e-6)


def test_values_of_the_surroundings_have_derivatives_too():
    def loss(w):
        f = on_devices(lambda v, _: lax.cond(late(), lambda: v * w, lambda: v))
        return f(X, W).sum()

    np.testing.assert_allclose(weft.grad(loss)(W), X[2:].sum())
    np.testing.assert_allclose(weft.vmap(weft.grad(loss))(np.stack([W, W])), [X[2:].sum()] * 2)


def test_branches_may_differ_in_whether_results_vary_where_the_predicate_does():
    f = on_devices(lambda v, w: lax.cond(late(), lambda: v, lambda: jnp.zeros((1, 2))))
    np.testing.assert_array_equal(f(X, W), np.where(LATE, X, 0))


def test_a_partial_sum_stays_one_in_branches_and_loops():
    def chosen(v, w):
        partial = lax.pcast(v, "x", to="unreduced")
        return lax.psum(lax.cond(late(), lambda u: u, lambda u: u * 2, partial), "x")

    def grown(v, w):
        partial = lax.pcast(v, "x", to="unreduced")
        return lax.psum(lax.fori_loop(0, lax.axis_index("x"), lambda _, u: u * 2, partial), "x")

    np.testing.assert_allclose(on_devices(chosen, P())(X, W)[0], np.where(LATE, X, 2 * X).sum(0))
    powers = 2.0 ** np.arange(N)[:, None]
    np.testing.assert_allclose(on_devices(grown, P())(X, W)[0], (powers * X).sum(0))


def _shifted_on_some(v, w):
    return lax.cond(late(), lambda: lax.ppermute(v, "x", RING), lambda: v)


def _summed_until(v, w):
    def step(state):
        return state[0] + 1, lax.pvary(lax.psum(state[1], "x"), "x")

    return lax.while_loop(lambda state: state[0] < lax.axis_index("x"), step, (0, v))[1]


def _switched(v, w):
    gather = weft.jit(lambda v: lax.psum(v, "x") * v)
    return lax.switch(lax.axis_index("x"), [gather, lambda v: v], v)


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (_shifted_on_some, ["cond: pred of type bool[]{V:x}", "ppermute"]),
        (_summed_until, ["while_loop: the condition of type bool[]{V:x}", "psum"]),
        (_switched, ["switch: index of type i32[]{V:x}", "psum"]),
    ],
)
def test_communication_that_some_devices_may_not_reach_is_warned_of(body, parts):
    with pytest.warns(UserWarning) as caught:
        weft.make_jaxpr(on_devices(body))(X, W)
    text = str(caught[0].message)
    for part in (
        *parts,
        "test_control_diverging.py",
        "waited for forever",
        "weft.lax.pmax(x, 'x')",
    ):
        assert part in text


def test_a_derivative_that_would_communicate_in_a_branch_is_warned_of():
    def body(v, w):
        total = lambda: lax.scan(lambda c, _: (c + w, None), 0.0, None, length=2)[0]
        return v * lax.cond(late(), total, lambda: 1.0)

    with pytest.warns(UserWarning, match=r"derivative of cond.*weft\.lax\.pcast\(x, 'x'"):
        weft.make_jaxpr(weft.grad(lambda w: on_devices(body)(X, w).sum()))(W)


def test_what_all_devices_decide_alike_is_no_reason_to_warn():
    def body(v, w):
        big = lax.pmax(v.sum(), "x") > 3
        u = lax.cond(big, lambda: lax.ppermute(v, "x", RING), lambda: v)
        return lax.cond(late(), lambda: u * lax.axis_index("x"), lambda: u)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = on_devices(body)(X, W)
    shifted = np.roll(X, 1, 0)
    np.testing.assert_array_equal(out, np.where(LATE, shifted * np.arange(N)[:, None], shifted))


@pytest.mark.parametrize("name", BRANCHES)
def test_second_derivatives_are_well_typed(name):
    body, factor, _ = BRANCHES[name]
    f = on_devices(body)
    with weft.enable_checks(True):
        slope = lambda x, w: weft.grad(lambda w: (x * f(x, w)).sum())(w)
        by_x = weft.grad(slope)(X, W)
    d = 1 if factor(W) == W else 2 * W
    np.testing.assert_allclose(by_x, np.where(LATE, 2 * d * X, 0), rtol=1e-5)


def test_a_branch_that_an_example_does_not_take_gives_it_no_derivative():
    x = np.array([0.0, -1.0, 2.0], np.float32)
    half = lambda x: weft.lax.cond(x > 0, weft.numpy.log, lambda x: 3 * x, x)
    slopes = weft.grad(lambda x: weft.vmap(half)(x).sum())(x)
    np.testing.assert_array_equal(slopes, [3, 3, 0.5])
    third = lambda i, x: weft.lax.switch(i, [weft.numpy.log, weft.numpy.sqrt, lambda x: 3 * x], x)
    slopes = weft.grad(lambda x: weft.vmap(third)(np.array([2, 2, 0]), x).sum())(x)
    np.testing.assert_array_equal(slopes, [3, 3, 0.5])
