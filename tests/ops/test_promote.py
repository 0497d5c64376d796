"""Operands of equal shape from unequal ones: where the casts stand that shard_map's types need."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax

mesh = weft.make_mesh((8,), ("d",), axis_types=(weft.AxisType.Auto,))
explicit = weft.make_mesh((8,), ("d",))

BODIES = {
    "mul": lambda g, a: a * g,
    "add with a new axis": lambda g, a: a + g[None],
    "where": lambda g, a: wnp.where(a > 0, g, a),
    "broadcast_to": lambda g, a: a * wnp.broadcast_to(g, a.shape),
    "vmap": lambda g, a: weft.vmap(lambda row: row * g)(a),
    "bfloat16": lambda g, a: a.astype(wnp.bfloat16) * g.astype(wnp.bfloat16),
}


def operands_of_psums(jaxpr, found=()):
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "psum":
            found += (eqn.invars[0].aval.size,)
        if eqn.primitive.name == "shard_map":
            found = operands_of_psums(eqn.params["jaxpr"], found)
    return found


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_gradient_of_a_broadcast_operand_is_summed_over_devices_after_its_rows(body):
    def loss(g, a):
        return lax.psum(wnp.sum(body(g, a).astype(wnp.float32) ** 2), "d")

    gradient = weft.grad(weft.shard_map(loss, mesh=mesh, in_specs=(P(), P("d")), out_specs=P()))
    types = weft.ShapeDtypeStruct((3,), np.float32), weft.ShapeDtypeStruct((16, 3), np.float32)
    assert max(operands_of_psums(weft.make_jaxpr(gradient)(*types).jaxpr)) == 3


def test_a_gradient_taken_inside_is_summed_after_its_rows(rng):
    def local(g, a):
        return weft.grad(lambda g: wnp.sum((a * g + g) ** 2))(g)

    f = weft.shard_map(local, mesh=mesh, in_specs=(P(), P("d")), out_specs=P())
    g, a = rng.normal(size=3).astype(np.float32), rng.normal(size=(16, 3)).astype(np.float32)
    np.testing.assert_allclose(f(g, a), (2 * (a * g + g) * (a + 1)).sum(0), rtol=1e-4)
    assert max(operands_of_psums(weft.make_jaxpr(f)(g, a).jaxpr)) == 3


def test_an_operand_broadcast_beside_a_reduced_one_is_cast_before():
    def product(g, a):
        return g * a

    specs = {"in_specs": (P(), P(reduced={"d"})), "out_specs": P(reduced={"d"})}
    program = weft.make_jaxpr(weft.shard_map(product, mesh=explicit, **specs))(
        wnp.ones(3),
        weft.device_put(np.ones((16, 3)), weft.NamedSharding(explicit, P(reduced={"d"}))),
    )
    [body] = [e.params["jaxpr"] for e in program.jaxpr.eqns]
    assert [e.primitive.name for e in body.eqns] == ["pcast", "broadcast_in_dim", "mul"]
    assert body.eqns[0].params["to"] == "reduced"
