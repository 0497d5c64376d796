"""Integers of less than 8 bits, which XLA:CPU's collectives do not take."""

import ml_dtypes
import numpy as np
import pytest

import weft
from tests import spmd_reference as ref
from tests.collectives.harness import COMPILER_OPTIONS, Context, program
from tests.spmd_reference import Machine
from weft import lax

MACHINE = Machine(x=8)
SHIFT = [(i, (i + 3) % 8) for i in range(8)]
PAIRS = [[0, 7], [2, 3], [4, 5], [6, 1]]
CASES = {
    "psum": (lambda v: lax.psum(v, "x"), lambda v: ref.psum(MACHINE, v, "x")),
    "pmax": (lambda v: lax.pmax(v, "x"), lambda v: ref.pmax(MACHINE, v, "x")),
    "pmin in pairs": (
        lambda v: lax.pmin(v, "x", axis_index_groups=PAIRS),
        lambda v: ref.pmin(MACHINE, v, "x", PAIRS),
    ),
    "all_gather": (lambda v: lax.all_gather(v, "x"), lambda v: ref.all_gather(MACHINE, v, "x")),
    "psum_scatter": (
        lambda v: lax.psum_scatter(v, "x"),
        lambda v: ref.psum_scatter(MACHINE, v, "x"),
    ),
    "all_to_all": (
        lambda v: lax.all_to_all(v, "x", 0, 1),
        lambda v: ref.all_to_all(MACHINE, v, "x", 0, 1),
    ),
    "ppermute": (
        lambda v: lax.ppermute(v, "x", SHIFT),
        lambda v: ref.ppermute(MACHINE, v, "x", SHIFT),
    ),
    "psend and precv": (
        lambda v: lax.precv(lax.psend(v, "x", SHIFT), v, "x", SHIFT),
        lambda v: ref.ppermute(MACHINE, v, "x", SHIFT),
    ),
    "pbroadcast": (
        lambda v: lax.pbroadcast(v, "x", 3),
        lambda v: ref.pbroadcast(MACHINE, v, "x", 3),
    ),
    "all_gather_start": (
        lambda v: lax.all_gather_start(v, "x").done(),
        lambda v: ref.all_gather(MACHINE, v, "x"),
    ),
    "all_to_all_start": (
        lambda v: lax.all_to_all_start(v, "x", 0, 1).done(),
        lambda v: ref.all_to_all(MACHINE, v, "x", 0, 1),
    ),
}


@pytest.mark.parametrize("context", [Context(("x",)), Context()], ids=["devices", "examples"])
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_they_communicate_as_other_integers_do(dtype, context, rng):
    dtype = np.dtype(getattr(ml_dtypes, dtype))
    low, high = int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
    wide = MACHINE.unstack(rng.integers(low, high, (8, 8, 64), endpoint=True))
    x = {d: v.astype(dtype) for d, v in wide.items()}
    functions = {name: program(MACHINE, fun, context) for name, (fun, _) in CASES.items()}

    def everything(x):
        return {name: fun(x) for name, fun in functions.items()}

    found = weft.jit(everything, compiler_options=COMPILER_OPTIONS)(MACHINE.stack(x))
    for name, (_, meaning) in CASES.items():
        want = MACHINE.stack(meaning(wide)).astype(dtype)
        assert found[name].dtype == dtype
        np.testing.assert_array_equal(found[name], want, err_msg=name)
