"""weft.multihost_utils: two processes exchange values and parts of arrays; one has its own."""

import numpy as np
import pytest

import weft
from tests.processes import run_pair
from weft import multihost_utils as mhu

PROGRAM = """
import sys
import numpy as np
import weft
from weft import P
from weft import multihost_utils as mhu
from weft.sharding import NamedSharding

rank = int(sys.argv[1])
weft.distributed.initialize(sys.argv[2], 2, rank)
mine = {"x": np.array([-0.0, np.nan, rank], np.float32), "flag": rank == 0, "n": np.int64(rank)}
for source in (0, 1):
    got = mhu.broadcast_one_to_all(mine, is_source=rank == source)
    np.testing.assert_array_equal(got["x"], [-0.0, np.nan, source])
    assert np.signbit(got["x"][0]) and got["x"].dtype == np.float32
    assert bool(got["flag"]) == (source == 0) and got["n"] == source and got["n"].dtype == np.int64

rows = mhu.process_allgather(np.full(3, rank, np.int16))
assert rows.dtype == np.int16
np.testing.assert_array_equal(rows, [[0] * 3, [1] * 3])
np.testing.assert_array_equal(mhu.process_allgather(np.full(2, rank), tiled=True), [0, 0, 1, 1])

mesh = weft.make_mesh((4,), ("x",))
local = np.arange(4 * rank, 4 * rank + 4, dtype=np.float32)
tree = mhu.host_local_array_to_global_array({"a": local, "b": local}, mesh, P("x"))
assert tree["a"].shape == (8,) and tree["b"].sharding == NamedSharding(mesh, P("x"))
np.testing.assert_array_equal(mhu.process_allgather(tree["a"]), np.arange(8))
back = mhu.global_array_to_host_local_array(tree["a"] * 2, mesh, P("x"))
np.testing.assert_array_equal(back, local * 2)

mhu.sync_global_devices("here")
try:
    mhu.assert_equal({"step": rank}, "steps")
except AssertionError as error:
    assert "steps: processes [1] have other values" in str(error)
    assert f"process {rank} has {{'step': {rank}}}" in str(error)
else:
    raise AssertionError("the values differ")
print("done", rank)
"""


def test_two_processes_exchange_values_and_parts_of_arrays():
    for rank, (status, out) in enumerate(run_pair(PROGRAM, devices=2)):
        assert status == 0 and f"done {rank}" in out, out[-3000:]


def test_one_process_has_its_own_values():
    tree = {"a": np.arange(3, dtype=np.int8), "b": 2.0}
    got = mhu.broadcast_one_to_all(tree)
    np.testing.assert_array_equal(got["a"], tree["a"])
    assert mhu.process_allgather(tree)["a"].shape == (1, 3)
    assert mhu.process_allgather(tree["a"], tiled=True).shape == (3,)
    mhu.sync_global_devices("here")
    mhu.assert_equal(tree)


def test_parts_and_wholes_of_one_process_are_the_same():
    mesh = weft.make_mesh((4, 2), ("x", "y"))
    values = np.arange(32, dtype=np.float32).reshape(8, 4)
    specs = {"a": weft.P("x", "y"), "b": weft.P(None, ("x",))}
    whole = mhu.host_local_array_to_global_array({"a": values, "b": values}, mesh, specs)
    assert whole["a"].sharding.spec == specs["a"]
    back = mhu.global_array_to_host_local_array(whole, mesh, specs)
    for x in back.values():
        np.testing.assert_array_equal(x, values)


def test_scalars_cannot_be_tiled():
    with pytest.raises(ValueError, match="scalar cannot be tiled"):
        mhu.process_allgather(3.0, tiled=True)
