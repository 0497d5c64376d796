"""Branches and loops that only some devices take never keep the others waiting."""

import pytest

from tests.processes import python

# A device that waits in a collective can only be stopped with its process.
PROGRAM = """
import numpy as np
import weft
import weft.numpy as wnp
from weft import P, lax

mesh = weft.make_mesh((2, 4), ("m", "a"), (weft.AxisType.Auto,) * 2)
place = lambda *spec: weft.NamedSharding(mesh, P(*spec))
STEPS = {
    "roll": lambda np, w: np.roll(w, 1, 0),
    "flip": lambda np, w: np.flip(w, 0),
    "shift": lambda np, w: np.pad(w, ((3, 0), (0, 0)))[:8],
    "sum": lambda np, w: w - w.sum(0),
}
step = STEPS[NAME]


def branch(w):
    return lax.cond(lax.axis_index("m") > 0, lambda w: step(wnp, w), lambda w: 2 * w, w)


def loop(w):
    return lax.fori_loop(0, 2 * lax.axis_index("m"), lambda _, w: step(wnp, w), w)


w = np.arange(16, dtype=np.float32).reshape(8, 2)
once = step(np, w)
for body, want in ((branch, [2 * w, once]), (loop, [w, step(np, once)])):
    options = {"in_specs": P(), "out_specs": P("m"), "axis_names": {"m"}, "check_vma": False}
    mapped = weft.shard_map(body, mesh=mesh, **options)
    f = weft.jit(mapped, in_shardings=place("a"), out_shardings=place(("m", "a")))
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(w)), np.concatenate(want))
"""


@pytest.mark.parametrize("name", ["roll", "flip", "shift", "sum"])
def test_devices_that_take_a_branch_exchange_along_free_axes(name):
    python(f"NAME = {name!r}\n{PROGRAM}")
