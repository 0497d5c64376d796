"""Random lives of arrays: moved, split, joined, shared, donated and deleted in any order.

Whatever came before, a use gives the right values or says that the array has been deleted; jaxlib
ends the process in some of these states.
"""

import random

import numpy as np
import pytest

import weft
from weft import P
from weft.sharding import AxisType, SingleDeviceSharding

AUTO = (AxisType.Auto,) * 2
DEVICES = weft.devices()
FORWARD = weft.make_mesh((4, 2), ("x", "y"), AUTO)
BACKWARD = weft.make_mesh((2, 4), ("a", "b"), AUTO, devices=DEVICES[::-1])
HALF = weft.make_mesh((2, 2), ("x", "y"), AUTO, devices=DEVICES[4:])
PLACES = [
    *(weft.NamedSharding(FORWARD, s) for s in (P("x"), P("x", "y"), P())),
    *(weft.NamedSharding(BACKWARD, s) for s in (P("a"), P())),
    weft.NamedSharding(HALF, P("x", "y")),
    weft.NamedSharding(FORWARD, P("x"), memory_kind="pinned_host"),
    *(SingleDeviceSharding(d) for d in DEVICES[:2]),
]

add_one = weft.jit(lambda v: v + 1)
give = weft.jit(lambda v: v + 1, donate_argnums=0)
add = weft.jit(lambda a, b: a + b, donate_argnums=0)

# What may be said of an array in a program or a transfer: it is gone, or lies elsewhere.
SAID = ("has been deleted", "can be given up once", "is on devices", "is committed to")


class Lives:
    """Arrays with the values they must have, and views that others hold of their memory."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.arrays = []
        self.views = []

    def add(self, array, value):
        self.arrays.append((array, value))
        del self.arrays[:-25]

    def view(self, seen, value):
        np.testing.assert_array_equal(seen, value)
        self.views.append((seen, value))
        for held, expected in self.views[:-10]:
            np.testing.assert_array_equal(held, expected)
        del self.views[:-10]

    def step(self):
        choose = self.random.choice
        if not self.arrays or self.random.random() < 0.15:
            value = np.float32(self.random.randrange(100)) + np.arange(64, dtype=np.float32)
            value = value.reshape(8, 8)
            return self.add(weft.device_put(value, choose(PLACES)), value)
        x, value = choose(self.arrays)
        alone = len(x.sharding.device_set) == 1
        other, its_value = choose(self.arrays)
        kind = choose(
            ("move", "move", "give away", "part", "join", "read", "share", "delete")
            + ("run", "donate", "donate", "add", "copy", "wait")
        )
        if kind in ("move", "give away") and value.shape == (8, 8):
            copy = choose((None, None, False))
            put = weft.device_put(x, choose(PLACES), donate=kind == "give away", may_alias=copy)
            self.add(put, value)
        elif kind == "part":
            shard = choose(x.addressable_shards)
            self.add(shard.data, value[shard.index])
        elif kind == "join":
            parts = [s.data for s in x.addressable_shards]
            joined = weft.make_array_from_single_device_arrays(value.shape, x.sharding, parts)
            self.add(joined, value)
        elif kind == "read":
            self.view(np.asarray(x), value)
        elif kind == "share" and alone:
            self.view(np.from_dlpack(x), value)
        elif kind == "delete":
            x.delete()
        elif kind == "run":
            self.add(add_one(x), value + 1)
        elif kind == "donate":
            self.add(give(x), value + 1)
        elif kind == "add" and value.shape == its_value.shape:
            self.add(add(x, other), value + its_value)
        elif kind == "copy":
            self.add(x.copy(), value)
        else:
            x.block_until_ready()
        return None


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_moves_donations_and_deletions_gives_values_or_an_error(seed):
    lives = Lives(seed)
    for _ in range(250):
        try:
            lives.step()
        except (RuntimeError, ValueError) as error:
            assert any(words in str(error) for words in SAID), error
    for array, value in lives.arrays:
        if not array.is_deleted():
            np.testing.assert_array_equal(array, value)
