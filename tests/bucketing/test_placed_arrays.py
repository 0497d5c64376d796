"""Bucketed functions of arrays over meshes and processes: tests of weft/bucketing/call.py."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests import processes
from weft import AxisType, NamedSharding, P

KINDS = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
BUCKETS = {"n": weft.powers_of_two, "m": (128, 512)}


def attend(q, k):
    return weft.nn.softmax(q @ k.T) @ k


def attended(q, k):
    weights = np.exp(q @ k.T)
    return weights / weights.sum(1, keepdims=True) @ k


def numbered(x):
    return 2 * x + wnp.arange(x.shape[0])[:, None]


def mesh_of(kind):
    return weft.make_mesh((8,), ("x",), axis_types=(kind,))


@KINDS
@pytest.mark.parametrize("spec", [P(), P(None, "x")])
def test_padded_keys_over_a_mesh_count_for_nothing(kind, spec, rng):
    mesh = mesh_of(kind)
    call = weft.jit(attend, bucket=BUCKETS, bucket_shapes=("n _", "m _"))
    for n, m in ((3, 104), (5, 17)):
        q, k = (rng.normal(size=(s, 8)).astype(np.float32) for s in (n, m))
        placed = weft.device_put(q, NamedSharding(mesh, P())), NamedSharding(mesh, spec)
        out = call(placed[0], weft.device_put(k, placed[1]))
        np.testing.assert_allclose(out, attended(q, k), rtol=1e-4, atol=1e-5)


@KINDS
def test_a_bucketed_dimension_may_be_split(kind):
    rows = NamedSharding(mesh_of(kind), P("x"))
    call = weft.jit(numbered, bucket=BUCKETS, bucket_shapes=("n _",))
    total = weft.jit(lambda x: x.sum(0), bucket=BUCKETS, bucket_shapes=("n _",))
    for n in (8, 32, 24, 40):
        x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
        placed = weft.device_put(x, rows)
        np.testing.assert_array_equal(call(placed), 2 * x + np.arange(n)[:, None])
        np.testing.assert_array_equal(total(placed), x.sum(0))


def test_what_the_plain_function_refuses_the_bucketed_one_refuses():
    keys = weft.device_put(np.ones((104, 8)), NamedSharding(mesh_of(AxisType.Explicit), P("x")))
    call = weft.jit(attend, bucket=BUCKETS, bucket_shapes=("_ _", "m _"))
    with pytest.raises(weft.errors.ShardingTypeError, match="give out_sharding=P"):
        call(wnp.ones((3, 8)), keys)


PROCESS = """
import sys
import numpy as np
import weft, weft.numpy as wnp
from weft import AxisType, NamedSharding, P

weft.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
for kind in (AxisType.Auto, AxisType.Explicit):
    rows = NamedSharding(weft.make_mesh((4,), ("x",), axis_types=(kind,)), P("x"))
    words = dict(bucket={"n": weft.powers_of_two}, bucket_shapes=("n _",))
    number = weft.jit(lambda x: 2 * x + wnp.arange(x.shape[0])[:, None], **words)
    total = weft.jit(lambda x: x.sum(0), **words)
    for n in (12, 20):
        x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
        placed = weft.make_array_from_callback(x.shape, rows, lambda index: x[index])
        want = 2 * x + np.arange(n)[:, None]
        for shard in number(placed).addressable_shards:
            np.testing.assert_array_equal(shard.data, want[shard.index])
        np.testing.assert_array_equal(total(placed).addressable_shards[0].data, x.sum(0))
print("done")
"""


def test_arrays_over_several_processes_are_padded_and_cut():
    with processes.free_address() as address:
        runs = [processes.start(PROCESS, address, i, WEFT_NUM_CPU_DEVICES="2") for i in range(2)]
        said = processes.end(*runs)
    assert [run.returncode for run in runs] == [0, 0], said
    assert all(out.endswith("done\n") for out, _ in said)
