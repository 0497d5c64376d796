"""psum_scatter: the documented examples, what it has in common with psum and all_gather."""

import numpy as np

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

X = np.arange(16).reshape(4, 4)


def mapped(body):
    return weft.vmap(body, axis_name="i")


def over_devices(body, x=X):
    mesh = mesh_of(Machine(i=4), ("i",))
    f = weft.shard_map(lambda v: body(v[0])[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return f(x)


def test_every_device_keeps_its_part_of_the_sum():
    np.testing.assert_array_equal(mapped(lambda v: lax.psum_scatter(v, "i"))(X), [24, 28, 32, 36])
    tiled = lambda v: lax.psum_scatter(v, "i", tiled=True)
    for out in (mapped(tiled)(X), over_devices(tiled)):
        np.testing.assert_array_equal(out, [[24], [28], [32], [36]])


def test_parts_go_by_rank_in_the_group():
    groups = [[0, 2], [3, 1]]
    body = lambda v: lax.psum_scatter(v, "i", axis_index_groups=groups, tiled=True)
    for out in (mapped(body)(X), over_devices(body)):
        np.testing.assert_array_equal(out, [[8, 10], [20, 22], [12, 14], [16, 18]])


def test_booleans_are_counted():
    out = over_devices(lambda v: lax.psum_scatter(v > 5, "i", tiled=True))
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, [[2], [2], [3], [3]])


def test_gathered_again_it_is_the_sum():
    def body(v):
        part = lax.psum_scatter(v, "i", tiled=True)
        return lax.all_gather(part, "i", tiled=True) - lax.psum(v, "i")

    assert not np.any(over_devices(body))
