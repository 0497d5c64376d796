"""all_gather and pbroadcast: documented groups, states, exact bits, keys, pytrees."""

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 4


def over_devices(body, out_specs=None, **options):
    mesh = mesh_of(Machine(i=N), ("i",))
    out_specs = P("i") if out_specs is None else out_specs
    return weft.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=out_specs, **options)


def test_groups_gather_in_the_order_in_which_they_list_their_members():
    x = np.arange(4)
    groups = [[0, 2], [3, 1]]
    body = lambda v: lax.all_gather(v, "i", axis_index_groups=groups)
    want = [[0, 2], [3, 1], [0, 2], [3, 1]]
    np.testing.assert_array_equal(weft.vmap(body, axis_name="i")(x), want)
    tiled = lambda v: lax.all_gather(v, "i", axis_index_groups=groups, tiled=True)
    np.testing.assert_array_equal(over_devices(tiled)(x), np.ravel(want))


def test_an_invarying_result_leaves_the_devices_as_one():
    x = np.arange(8.0, dtype=np.float32)
    body = lambda v: lax.all_gather(v, "i", tiled=True, to="invarying")
    np.testing.assert_array_equal(over_devices(body, P())(x), x)
    gradient = weft.grad(lambda x: (over_devices(body, P())(x) ** 2).sum())(x)
    np.testing.assert_array_equal(gradient, 2 * x)


def test_a_reduced_result_has_a_cotangent_that_is_scattered():
    """to='reduced' puts the psum of the transpose into one psum_scatter."""
    x = np.arange(8.0, dtype=np.float32)

    def body(v):
        whole = lax.pcast(lax.all_gather(v, "i", tiled=True, to="reduced"), "i", to="varying")
        return (whole * lax.axis_index("i")).sum()[None]

    f = lambda x: over_devices(body)(x).sum()
    np.testing.assert_array_equal(weft.grad(f)(x), np.full(8, 0 + 1 + 2 + 3))
    text = str(weft.make_jaxpr(weft.grad(f))(x))
    assert text.count("reduce_scatter[") == 1 and "psum[" not in text


def test_numbers_and_pytrees_are_gathered():
    def body(v):
        return lax.all_gather({"v": v, "one": 1.5}, "i")

    out = weft.vmap(body, axis_name="i", out_axes=None)(np.arange(3))
    np.testing.assert_array_equal(out["v"], [0, 1, 2])
    np.testing.assert_array_equal(out["one"], [1.5] * 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_a_broadcast_keeps_every_bit(dtype):
    """Negative zeros and NaNs too, although XLA:CPU has a sum only."""
    x = np.array([1, -0.0, np.nan, 3], dtype)
    out = np.asarray(over_devices(lambda v: lax.pbroadcast(v, "i", 1))(x))
    np.testing.assert_array_equal(out.view(np.uint8), np.full(N, -0.0, dtype).view(np.uint8))
    out = np.asarray(over_devices(lambda v: lax.pbroadcast(v, "i", 2))(x))
    assert np.isnan(out).all()


@pytest.mark.parametrize("name", ["all_gather", "pbroadcast", "ppermute", "all_to_all"])
def test_keys_are_moved_as_arrays_are(name):
    keys = weft.random.split(weft.random.key(0), (N, N))
    data = np.asarray(weft.random.key_data(keys))
    ring = [(i, (i + 1) % N) for i in range(N)]
    every = data.reshape(1, -1, 2)
    body, want = {
        "all_gather": (lambda k: lax.all_gather(k, "i", axis=1, tiled=True), every),
        "pbroadcast": (lambda k: lax.pbroadcast(k, "i", 2), data[2:3]),
        "ppermute": (lambda k: lax.ppermute(k, "i", ring), np.roll(data, 1, 0)),
        "all_to_all": (lambda k: lax.all_to_all(k, "i", 1, 1, tiled=True), data.swapaxes(0, 1)),
    }[name]
    out = weft.random.key_data(over_devices(body)(keys))
    np.testing.assert_array_equal(out, np.broadcast_to(want, out.shape))
