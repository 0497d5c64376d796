"""A shard_map over another mesh of the same devices than its arguments."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.sharding import Mesh, NamedSharding
from weft.sharding import PartitionSpec as P

DEVICES = np.array(weft.devices()[:8])
LINE = Mesh(DEVICES, ("x",))
X = np.arange(16, dtype=np.float32)
SHARDS = X.reshape(8, 2)
# Meshes that cut the same devices otherwise, and how the argument lies over them.
PLACES = {
    "two by four": NamedSharding(Mesh(DEVICES.reshape(2, 4), ("a", "b")), P("a")),
    "all of two by four": NamedSharding(Mesh(DEVICES.reshape(2, 4), ("a", "b")), P(("a", "b"))),
    "the minor axis": NamedSharding(Mesh(DEVICES.reshape(4, 2), ("c", "d")), P("d")),
    "a cube": NamedSharding(Mesh(DEVICES.reshape(2, 2, 2), ("p", "q", "r")), P(("p", "q"))),
}
RING = [(k, (k + 3) % 8) for k in range(8)]


def looped(v):
    return lax.fori_loop(0, 3, lambda _, u: 2 * u + lax.axis_index("x"), v)


def decided(v):
    more = lax.psum(v.sum(), "x") > 3
    return lax.cond(more, lambda u: u + lax.pmax(u.max(), "x"), lambda u: u, v)


def multiplied(v):
    return weft.checkpoint(lambda u: u * lax.psum(u.sum(), "x"))(v)


# Name: the body over the eight devices in a line, and what all of them give.
BODIES = {
    "psum": (lambda v: v + lax.psum(v.sum(), "x"), X + X.sum()),
    "groups": (
        lambda v: (
            lax.all_gather(v, "x", tiled=True, axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]).sum()
            + 0 * v
        ),
        np.repeat([X[:8].sum(), X[8:].sum()], 8),
    ),
    "ppermute": (lambda v: lax.ppermute(v, "x", RING), np.roll(SHARDS, 3, 0).ravel()),
    "psum_scatter": (
        lambda v: lax.psum_scatter(lax.all_gather(v, "x", tiled=True), "x", tiled=True),
        8 * X,
    ),
    "all_to_all": (
        lambda v: lax.all_to_all(jnp.tile(v[:1], 8), "x", 0, 0, tiled=True).sum() + 0 * v,
        np.full(16, SHARDS[:, 0].sum()),
    ),
    "loop": (looped, 8 * X + 7 * np.repeat(np.arange(8), 2)),
    "branches": (decided, X + 15),
    "checkpoint": (multiplied, X * X.sum()),
}


def over_line(body):
    return weft.shard_map(body, mesh=LINE, in_specs=P("x"), out_specs=P("x"))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", BODIES)
def test_the_body_runs_over_its_own_mesh(name, place):
    body, expected = BODIES[name]
    x = weft.device_put(X, PLACES[place])
    for run in (over_line(body), weft.jit(over_line(body))):
        np.testing.assert_allclose(run(x), expected, rtol=1e-6)


@pytest.mark.parametrize("place", PLACES)
def test_bodies_over_several_meshes_are_one_program(place):
    sharding = PLACES[place]
    other = weft.shard_map(
        lambda v: v + 1, mesh=sharding.mesh, in_specs=sharding.spec, out_specs=sharding.spec
    )
    program = weft.jit(lambda x: other(over_line(BODIES["psum"][0])(other(x))))
    expected = X + 1 + (X + 1).sum() + 1
    np.testing.assert_allclose(program(weft.device_put(X, sharding)), expected, rtol=1e-6)


@pytest.mark.parametrize("place", PLACES)
def test_derivatives_and_batches_pass_it(place):
    x = weft.device_put(X, PLACES[place])
    energy = weft.jit(weft.grad(lambda x: over_line(multiplied)(x).sum()))
    np.testing.assert_allclose(energy(x), np.full(16, 2 * X.sum()), rtol=1e-6)
    rows = weft.jit(weft.vmap(over_line(multiplied)))(jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(rows, [X * X.sum(), 4 * X * X.sum()], rtol=1e-6)


def test_an_axis_may_be_left_to_the_partitioner():
    cube = PLACES["a cube"].mesh
    part = weft.shard_map(
        lambda v: v + lax.psum(v, "q").sum() + lax.axis_index("q"),
        mesh=cube,
        in_specs=P("q"),
        out_specs=P("q"),
        axis_names={"q"},
    )
    x = weft.device_put(X, PLACES["two by four"])
    np.testing.assert_allclose(weft.jit(part)(x), X + X.sum() + np.repeat([0, 1], 8))


def test_meshes_whose_axes_overlap_in_part_are_refused():
    six = DEVICES[:6]
    x = weft.device_put(np.ones(6), NamedSharding(Mesh(six.reshape(2, 3), ("a", "b")), P("b")))
    over = weft.shard_map(
        lambda v: v, mesh=Mesh(six.reshape(3, 2), ("c", "d")), in_specs=P("c"), out_specs=P("c")
    )
    with pytest.raises(
        ValueError, match=r"axes are products.*one program has one mesh.*device_put"
    ):
        weft.jit(over)(x)
