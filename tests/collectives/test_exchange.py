"""all_to_all and pswapaxes: involutions, dimensions that move, pytrees."""

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 4


def over_devices(body):
    mesh = mesh_of(Machine(i=N), ("i",))
    return weft.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


def test_the_named_axis_and_a_dimension_are_exchanged():
    x = np.arange(N * 3 * N).reshape(N, 3, N)
    out = weft.vmap(lambda v: lax.pswapaxes(v, "i", 1), axis_name="i")(x)
    np.testing.assert_array_equal(out, x.swapaxes(0, 2))


def test_twice_is_the_identity():
    x = np.arange(N * N * 2.0, dtype=np.float32).reshape(N * N, 2)

    def body(v):
        return lax.all_to_all(lax.all_to_all(v, "i", 0, 0, tiled=True), "i", 0, 0, tiled=True)

    np.testing.assert_array_equal(over_devices(body)(x), x)


@pytest.mark.parametrize(("split", "concat"), [(0, 1), (1, 0), (-1, 0), (0, -1)])
def test_a_sharded_dimension_moves_without_changing_the_array(split, concat):
    """Rows over devices become columns over devices: the global array stays."""
    x = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    mesh = mesh_of(Machine(i=N), ("i",))
    of = {0: P("i"), 1: P(None, "i")}
    before, after = of[concat % 2], of[split % 2]
    f = weft.shard_map(
        lambda v: lax.all_to_all(v, "i", split, concat, tiled=True),
        mesh=mesh,
        in_specs=before,
        out_specs=after,
    )
    np.testing.assert_array_equal(f(x), x)


def test_a_pytree_is_exchanged_leaf_by_leaf():
    x = np.arange(N * N).reshape(N, N)
    out = weft.vmap(lambda v: lax.all_to_all((v, -v), "i", 0, 0), axis_name="i")(x)
    np.testing.assert_array_equal(out[0], x.T)
    np.testing.assert_array_equal(out[1], -x.T)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (lambda v: lax.all_to_all(v, "i", 1, 1, tiled=True), (0, N)),
        (lambda v: lax.all_to_all_start(v, "i", 1, 0, tiled=True).done(), (0, 1)),
        (lambda v: lax.all_gather(v, "i", tiled=True), (0, N)),
        (lambda v: lax.psum_scatter(v, "i", scatter_dimension=1, tiled=True), (0, 1)),
        (lambda v: lax.psum(v, "i") + lax.pmax(v, "i") + v, (0, N)),
        (lambda v: lax.ppermute(v, "i", [(0, 1)]) + lax.pbroadcast(v, "i", 1), (0, N)),
    ],
    ids=["all_to_all", "all_to_all_start", "all_gather", "psum_scatter", "reductions", "moves"],
)
def test_arrays_without_elements_are_communicated_too(body, shape):
    assert over_devices(body)(np.zeros((0, N), np.float32)).shape == shape
