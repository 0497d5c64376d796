"""pmax, pmin, pargmax, pargmin: ties, positional axes, derivatives."""

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

TIED = np.array([[3, 1], [3, 2], [0, 3], [3, 3]], np.float32)  # the maximum five times


def on_devices(x, body, check_vma=True):
    """Rows over devices, columns over examples of a vmap inside."""
    mesh = mesh_of(Machine(i=4), ("i",))
    mapped = weft.shard_map(
        lambda v: weft.vmap(body, 1, 1, axis_name="j")(v),
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P("i"),
        check_vma=check_vma,
    )
    return mapped(x)


def on_examples(x, body):
    return weft.vmap(weft.vmap(body, axis_name="j"), axis_name="i")(x)


def positional(x, body):
    """The second axis is an array dimension of the operand."""
    return weft.vmap(lambda v: lax.broadcast_in_dim(body(v), (2,), ()), axis_name="i")(x)


@pytest.mark.parametrize("run", [on_devices, on_examples])
@pytest.mark.parametrize("axes", [("i", "j"), ("j", "i")])
def test_the_derivative_is_shared_equally_among_all_that_attain_the_extremum(run, axes):
    gradient = weft.grad(lambda x: run(x, lambda v: lax.pmax(v, axes)).sum())(TIED)
    want = np.where(TIED == 3, 8 / 5, 0)  # eight results, five sources
    np.testing.assert_allclose(gradient, want, rtol=1e-6)
    _, tangent = weft.jvp(lambda x: run(x, lambda v: lax.pmax(v, axes)), (TIED,), (TIED + 1,))
    np.testing.assert_allclose(tangent, np.full((4, 2), 4.0), rtol=1e-6)


def test_positional_axes_share_the_derivative_too():
    def f(x):
        return positional(x, lambda v: lax.pmax(v, ("i", 0))).sum()

    np.testing.assert_allclose(weft.grad(f)(TIED), np.where(TIED == 3, 8 / 5, 0), rtol=1e-6)


def test_untracked_axes_have_the_same_derivative():
    gradient = weft.grad(
        lambda x: on_devices(x, lambda v: lax.pmin(-v, ("i", "j")), check_vma=False).sum()
    )(TIED)
    np.testing.assert_allclose(gradient, np.where(TIED == 3, -8 / 5, 0), rtol=1e-6)


def test_the_second_derivative_is_zero():
    f = lambda x: on_examples(x, lambda v: lax.pmax(v, ("i", "j"))).sum()
    assert not np.any(weft.hessian(f)(TIED))


@pytest.mark.parametrize("run", [on_devices, on_examples])
def test_of_equal_values_the_lowest_index_counts(run):
    rows = run(TIED, lambda v: lax.pargmax(v, "i"))
    assert rows.dtype == np.int32
    np.testing.assert_array_equal(rows, [[0, 2]] * 4)
    np.testing.assert_array_equal(
        run(TIED, lambda v: lax.pargmin(v, "j")), TIED.argmin(1)[:, None] * [[1, 1]]
    )


@pytest.mark.parametrize("run", [on_devices, on_examples])
def test_over_several_axes_the_index_counts_the_first_as_major(run):
    for function, numpys in ((lax.pargmax, np.argmax), (lax.pargmin, np.argmin)):
        for axes, rows in ((("i", "j"), TIED), (("j", "i"), TIED.T)):
            found = run(TIED, lambda v, f=function, axes=axes: f(v, axes))
            np.testing.assert_array_equal(found, np.full(TIED.shape, numpys(rows)))


@pytest.mark.parametrize("run", [on_devices, on_examples])
def test_nans_come_before_numbers(run):
    x = np.where(TIED == 2, np.nan, TIED)
    for function, numpys in ((lax.pargmax, np.argmax), (lax.pargmin, np.argmin)):
        found = run(x, lambda v, f=function: f(v, "i"))
        np.testing.assert_array_equal(found, [numpys(x, axis=0)] * 4)


@pytest.mark.parametrize("run", [on_devices, on_examples])
def test_the_derivative_of_an_index_is_zero(run):
    f = lambda x: run(x, lambda v: v * lax.pargmax(v, "i").astype(v.dtype)).sum()
    np.testing.assert_allclose(weft.grad(f)(TIED), [[0, 2]] * 4)


@pytest.mark.parametrize("run", [on_devices, on_examples])
def test_booleans_have_an_order(run):
    np.testing.assert_array_equal(run(TIED > 2, lambda v: lax.pmax(v, "j")), [[True, True]] * 4)
    np.testing.assert_array_equal(run(TIED > 2, lambda v: lax.pmin(v, "i")), [[False, False]] * 4)


def test_in_groups_each_has_its_own_extremum_and_ties():
    groups = [[0, 1, 2], [3]]
    body = lambda v: lax.pmax(v, "i", axis_index_groups=groups)
    x = TIED[:, 0]
    np.testing.assert_array_equal(weft.vmap(body, axis_name="i")(x), [3, 3, 3, 3])
    gradient = weft.grad(lambda x: weft.vmap(body, axis_name="i")(x).sum())(x)
    np.testing.assert_allclose(gradient, [1.5, 1.5, 0, 1])


def test_a_constant_is_its_own_extremum():
    jaxpr = weft.make_jaxpr(weft.vmap(lambda v: v + lax.pmax(2.0, "i"), axis_name="i"))(np.ones(3))
    assert "pmax" not in str(jaxpr) and "reduce_max" not in str(jaxpr)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("extremum", "reference"), [(lax.pmax, np.max), (lax.pmin, np.min)])
def test_nans_win_wherever_they_are(extremum, reference, dtype):
    """As in reductions of an array; XLA:CPU's own all_reduce loses them."""
    mesh = mesh_of(Machine(i=8), ("i",))
    f = weft.shard_map(lambda v: extremum(v, "i"), mesh=mesh, in_specs=P(None, "i"), out_specs=P())
    rows = np.array([[-1, -0.0, 0, np.inf, -np.inf, 3, -3, 1e-7]] * 9, np.float32)
    for i in range(8):
        rows[i, i] = np.nan
    x = weft.numpy.asarray(rows).astype(dtype)
    want = reference(np.asarray(x).astype(np.float32), 1)
    np.testing.assert_array_equal(np.asarray(f(x)).astype(np.float32)[:, 0], want)
    over_examples = weft.vmap(lambda v: extremum(v, "i"), 1, None, axis_name="i")
    np.testing.assert_array_equal(np.asarray(over_examples(x)).astype(np.float32), want)
