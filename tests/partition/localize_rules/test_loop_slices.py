"""Stacks arrive in front of a loop in the layout in which the results of their slices leave."""

import numpy as np
import pytest

import weft
from weft import NamedSharding, P
from weft import numpy as wnp

MESH = weft.make_mesh((4, 2), ("x", "y"), (weft.AxisType.Auto,) * 2)


def filtered(start, steps, weights):
    """A carry split over y, products split over x, and a stack split over y."""

    def step(carry, row):
        summed = wnp.max(carry[:, None] + weights, axis=0)
        return wnp.tanh(summed + row), None

    return weft.lax.scan(step, start, steps)[0]


def on_host(start, steps, weights):
    for row in steps:
        start = np.tanh((start[:, None] + weights).max(0) + row)
    return start


def jitted(rows: P):
    specs = (P("y"), rows, P("y", "x"))
    return weft.jit(filtered, in_shardings=tuple(NamedSharding(MESH, s) for s in specs))


@pytest.fixture
def arguments(rng):
    shapes = ((8,), (16, 8), (8, 8))
    return tuple(rng.normal(size=s).astype(np.float32) for s in shapes)


def moves_of_the_stack(function, arguments) -> list[tuple[str, int]]:
    report = weft.comm(function, *arguments)
    return [(c.kind, c.bytes) for c in report.collectives if c.trips == 1]


def test_a_stack_that_comes_as_the_carry_leaves_is_not_moved(arguments):
    assert moves_of_the_stack(jitted(P(None, "y")), arguments) == []


def test_a_stack_split_over_steps_is_gathered_in_the_carrys_layout(arguments):
    assert moves_of_the_stack(jitted(P("x", "y")), arguments) == [("all_gather", 3 * 4 * 4 * 4)]


@pytest.mark.parametrize("rows", [P(None, "y"), P("x", "y"), P("x", None), P("y", "x"), P()])
def test_results_equal_numpy(rows, arguments):
    got = jitted(rows)(*arguments)
    np.testing.assert_allclose(got, on_host(*arguments), rtol=1e-5, atol=1e-6)
