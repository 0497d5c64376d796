"""Collectives of integers of 2 and 4 bits: right values, sent as packed bytes where they move."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

RANGES = {"int4": (-8, 8), "uint4": (0, 16), "int2": (-2, 2), "uint2": (0, 4)}


def sharding(*spec):
    mesh = weft.make_mesh((4, 2), ("a", "b"), axis_types=(weft.AxisType.Auto,) * 2)
    return NamedSharding(mesh, P(*spec))


def same(x):
    return x


def total(x):
    return weft.lax.reduce(x, x.dtype.type(0), weft.lax.add, (0,))


# function, sharding before and after, NumPy's result, the kinds of collectives
CASES = {
    "gather": (same, ("a",), (), same, {"all_gather"}),
    "gather both": (same, ("a", "b"), (), same, {"all_gather"}),
    "exchange": (same, ("a",), (None, "a"), same, {"all_to_all"}),
    "permute": (same, (("a", "b"),), (("b", "a"),), same, {"collective_permute"}),
    "shift": (lambda x: wnp.roll(x, 1, 0), ("a",), ("a",), lambda x: np.roll(x, 1, 0), None),
    "odd edges": (lambda x: x[3:14, 1:8], ("a", "b"), (), lambda x: x[3:14, 1:8], None),
    "joined": (
        lambda x: wnp.concatenate([x, x[:3]]),
        ("a",),
        (),
        lambda x: np.concatenate([x, x[:3]]),
        None,
    ),
    "sum": (total, ("a",), (), lambda x: x.sum(0), {"all_reduce"}),
    "scattered sum": (total, ("a",), ("a",), lambda x: x.sum(0), {"reduce_scatter"}),
    "largest": (lambda x: x.max(0), ("a",), (), lambda x: x.max(0), {"all_reduce"}),
}


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("name", CASES)
def test_narrow_integers_arrive_whole(name, dtype, rng):
    run, before, after, on_host, kinds = CASES[name]
    low, high = RANGES[dtype]
    x = rng.integers(low, high, (16, 16))
    narrow = wnp.asarray(x.astype(np.int8)).astype(dtype)
    jitted = weft.jit(
        run, in_shardings=sharding(*before), out_shardings=sharding(*after), partitioner="weft"
    )
    found = weft.comm(jitted, narrow).collectives
    assert kinds is None or {c.kind for c in found} == kinds
    assert found and all("i8" in c.shape for c in found)
    want = (on_host(x) - low) % (high - low) + low
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(jitted(narrow)).astype(int), want)


@pytest.mark.parametrize("dtype, per_byte", [("int4", 2), ("uint2", 4)])
def test_what_moves_is_packed(dtype, per_byte):
    x = wnp.zeros((16, 16), dtype)
    jitted = weft.jit(same, in_shardings=sharding("a"), out_shardings=sharding())
    [gather] = weft.comm(jitted, x).collectives
    assert gather.bytes == 4 * 16 * 3 // per_byte


def test_shards_that_fill_no_bytes_are_widened(rng):
    x = rng.integers(-8, 8, (4, 5))
    narrow = wnp.asarray(x.astype(np.int8)).astype("int4")
    jitted = weft.jit(same, in_shardings=sharding("a"), out_shardings=sharding())
    [gather] = weft.comm(jitted, narrow).collectives
    assert gather.shape == "1x5xi8"
    np.testing.assert_array_equal(np.asarray(jitted(narrow)).astype(int), x)
