"""Functions with derivatives of their own that communicate over mesh axes and vmapped ones."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.collectives.harness import COMPILER_OPTIONS, Context, program
from tests.spmd_reference import Machine
from weft import lax

MACHINE = Machine(x=2, v=4)
PERM = [(0, 1), (5, 2), (7, 7)]


def sent(v):
    """Along both axes: what vmap makes of it closes over tables of indices."""
    return lax.ppermute(v * v, ("x", "v"), PERM) * (1 + lax.axis_index("v"))


def by_jvp(fun):
    own = weft.custom_jvp(fun)
    own.defjvp(lambda primals, tangents: weft.jvp(fun, primals, tangents))
    return own


def by_vjp(fun):
    own = weft.custom_vjp(fun)
    own.defvjp(lambda v: weft.vjp(fun, v), lambda back, ct: back(ct))
    return own


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("rule", [by_jvp, by_vjp])
@pytest.mark.parametrize("mesh_axes", [(), ("x",), ("x", "v")])
@pytest.mark.parametrize("outside", [False, True])
def test_a_rule_is_applied_where_an_axis_is_mapped(rule, mesh_axes, check_vma, outside, rng):
    context = Context(mesh_axes, check_vma=check_vma, outside=outside and len(mesh_axes) == 1)
    x, ct = rng.normal(size=(2, 2, 4, 3)).astype(np.float32)
    sums = program(MACHINE, rule(sent), context)
    gradient = weft.grad(lambda x: jnp.sum(sums(x) * ct))
    found = weft.jit(gradient, compiler_options=COMPILER_OPTIONS)(x)
    want = np.zeros((8, 3), np.float32)
    for source, target in PERM:
        factor = (1 + target % 4) * ct.reshape(8, 3)[target]
        want[source] += 2 * x.reshape(8, 3)[source] * factor
    np.testing.assert_allclose(found, want.reshape(2, 4, 3), rtol=1e-5)


@pytest.mark.parametrize("mesh_axes", [(), ("x",), ("x", "v")])
def test_a_tangent_is_pushed_by_the_rule(mesh_axes, rng):
    x, t = rng.normal(size=(2, 2, 4, 3)).astype(np.float32)
    f = program(MACHINE, by_jvp(sent), Context(mesh_axes))
    found = weft.jit(lambda x, t: weft.jvp(f, (x,), (t,))[1])(x, t)
    want = np.zeros((8, 3), np.float32)
    for source, target in PERM:
        pushed = 2 * x.reshape(8, 3)[source] * t.reshape(8, 3)[source]
        want[target] = pushed * (1 + target % 4)
    np.testing.assert_allclose(found, want.reshape(2, 4, 3), rtol=1e-5)


def total(by):
    """The sum over v, with a reverse rule for one example's cotangent: the sum of all."""
    fun = weft.custom_vjp(lambda v: lax.psum(v, "v"))
    fun.defvjp(lambda v: (lax.psum(v, "v"), None), lambda _, ct: (lax.psum(ct, "v"),))
    return by(fun)


def pair(by):
    """One result for each example and one that all share."""
    fun = weft.custom_vjp(lambda v, w: (v * w, 2 * w))
    fun.defvjp(
        lambda v, w: ((v * w, 2 * w), (v, w)),
        lambda saved, cts: (cts[0] * saved[1], cts[0] * saved[0] + 2 * cts[1]),
    )
    return by(fun)


@pytest.mark.parametrize(
    "by", [lambda f: f, weft.jit, weft.checkpoint], ids=["as is", "jit", "remat"]
)
def test_a_reverse_rule_is_given_the_cotangent_of_one_example(by):
    """Also where results do not depend on the example: nothing is counted once for each."""
    x = np.array([1.0, 2.0, 4.0, 8.0], np.float32)
    weights = np.array([3.0, 1.0, 1.0, 2.0], np.float32)
    summed = weft.vmap(total(by), axis_name="v")
    gradient = weft.grad(lambda x: (weights * summed(x)).sum())(x)
    np.testing.assert_allclose(gradient, np.full(4, weights.sum()))

    def both(w):
        products, doubled = weft.vmap(pair(by), (0, None))(x, w)
        return (weights * products).sum() + (weights * doubled).sum()

    np.testing.assert_allclose(weft.grad(both)(5.0), weights @ x + 2 * weights.sum())


def test_a_value_that_all_examples_share_is_counted_once_by_a_reverse_rule():
    fun = weft.custom_vjp(lambda v, w: w * w)
    fun.defvjp(lambda v, w: (w * w, (v, w)), lambda saved, ct: (0 * saved[0], 2 * saved[1] * ct))
    x = np.arange(3, dtype=np.float32)
    f = lambda w: weft.vmap(fun, (0, None))(x, w).sum()
    np.testing.assert_allclose(weft.grad(f)(3.0), 3 * 2 * 3.0)
