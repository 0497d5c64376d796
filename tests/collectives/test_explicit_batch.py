"""Collectives over vmapped axes whose batch is split over explicit mesh axes."""

import numpy as np
import pytest

import weft
from tests.collectives.cases import CASES, MACHINE, SHAPE
from tests.collectives.harness import COMPILER_OPTIONS, Context, draw, mesh_of, program
from weft import NamedSharding, P
from weft.sharding.mesh import AxisType


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_split_batch_communicates_as_a_whole_one_does(case, rng):
    mesh = mesh_of(MACHINE, MACHINE.names, axis_type=AxisType.Explicit)
    x, t = (draw(rng, MACHINE, SHAPE, np.float32) for _ in range(2))
    want = MACHINE.stack(case.meaning(x))
    want_t = MACHINE.stack(case.push(x, t) if case.push else case.meaning(t))
    ct = rng.integers(-4, 4, want.shape).astype(np.float32)
    f = program(MACHINE, case.fun, Context())

    def value_and_cotangent(x, ct):
        y, back = weft.vjp(f, x)
        return y, back(ct)[0]

    placed = [weft.device_put(a, NamedSharding(mesh, P("x", "v"))) for a in (MACHINE.stack(x), ct)]
    y, found = weft.jit(value_and_cotangent, compiler_options=COMPILER_OPTIONS)(*placed)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        np.sum(np.asarray(found) * MACHINE.stack(t)), np.sum(ct * want_t), rtol=1e-4, atol=1e-2
    )


@pytest.mark.parametrize("name", ["ppermute", "all_to_all", "psum in groups"])
def test_a_result_is_split_as_the_batch_was(name):
    case = next(c for c in CASES if c.name == name)
    mesh = mesh_of(MACHINE, MACHINE.names, axis_type=AxisType.Explicit)
    x = weft.device_put(np.ones((2, 4, *SHAPE), np.float32), NamedSharding(mesh, P("x", "v")))
    out = weft.eval_shape(program(MACHINE, case.fun, Context()), x)
    assert out.sharding.spec.partitions[:2] == ("x", "v")
