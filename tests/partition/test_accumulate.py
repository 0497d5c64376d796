# ruff: noqa: E501 - lines of MLIR text read better whole
"""What a loop adds up is reduced once, behind the loop."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.partition import harness
from tests.partition.test_localize import module, sharding
from tests.partition.test_optimize import before_and_after
from weft._xla import mlir
from weft.partition import partition
from weft.partition.check import check
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

STEPS = 6
TERM = """
      %o = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 8, 4] : (tensor<6x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4xf32>
      %r = stablehlo.reshape %o : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
      %d = stablehlo.reduce(%r init: %init) applies stablehlo.{combiner} across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
      %e = sdy.sharding_constraint %d <@mesh, [{{}}]> : tensor<4xf32>"""


def loop(body: str, combiner: str = "add", init: str = "0.0", carry: str = "tensor<4xf32>") -> str:
    """A loop over the 6 blocks of an argument, whose rows are split over `x`."""
    term = TERM.format(combiner=combiner)
    return module(f"""
  func.func public @main(%x: tensor<6x8x4xf32> {sharding("{}", '{"x"}', "{}")}, %s: {carry}) -> {carry} {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<{STEPS}> : tensor<i32>
    %init = stablehlo.constant dense<{init}> : tensor<f32>
    %two = stablehlo.constant dense<2.0> : {carry}
    %l:2 = stablehlo.while(%i = %zero, %z = %s) : tensor<i32>, {carry}
    cond {{
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>{term}
      {body}
      stablehlo.return %j, %y : tensor<i32>, {carry}
    }}
    return %l#1 : {carry}
  }}""")


def arguments(rng, shape=(4,)) -> tuple[np.ndarray, np.ndarray]:
    draw = lambda shape: rng.integers(-4, 5, shape).astype(np.float32)
    return draw((STEPS, 8, 4)), draw(shape)


def run(text: str, *args: np.ndarray) -> np.ndarray:
    stages = partition(mlir.parse(text))
    check(stages)
    return harness.execute(stages, *args)[0]


@pytest.mark.parametrize(
    "combiner, init, reduce",
    [
        ("add", "0.0", np.add),
        ("maximum", "0xFF800000", np.maximum),
        ("minimum", "0x7F800000", np.minimum),
    ],
)
def test_what_a_loop_combines_is_reduced_once(combiner, init, reduce, rng):
    text = loop(f"%y = stablehlo.{combiner} %e, %z : tensor<4xf32>", combiner, init)
    (calls, sent), (fewer, less), counts = before_and_after(text)
    assert counts["accumulate"] == 1 and fewer == 1
    assert calls == STEPS * fewer and sent == STEPS * less
    x, s = arguments(rng)
    np.testing.assert_array_equal(run(text, x, s), reduce(s, reduce.reduce(x, axis=(0, 1))))


def test_terms_may_be_moved_scaled_and_added_up_first(rng):
    text = loop(
        """%f = stablehlo.multiply %e, %two2 : tensor<4xf32>
      %g = stablehlo.negate %e : tensor<4xf32>
      %h = stablehlo.reduce(%r init: %init) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
      %k = sdy.sharding_constraint %h <@mesh, [{}]> : tensor<4xf32>
      %m = stablehlo.abs %r : tensor<8x4xf32>
      %p = stablehlo.reduce(%m init: %init) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
      %t = sdy.sharding_constraint %p <@mesh, [{}]> : tensor<4xf32>
      %u = stablehlo.multiply %k, %two2 : tensor<4xf32>
      %v = stablehlo.add %u, %t : tensor<4xf32>
      %w = stablehlo.reshape %v : (tensor<4xf32>) -> tensor<2x2xf32>
      %y = stablehlo.add %z, %w : tensor<2x2xf32>""",
        carry="tensor<2x2xf32>",
    ).replace("    %l:2 =", "    %two2 = stablehlo.constant dense<2.0> : tensor<4xf32>\n    %l:2 =")
    (calls, _), (fewer, _), counts = before_and_after(text)
    assert counts["accumulate"] == 2 and fewer == 1 and calls >= 2 * STEPS
    x, s = arguments(rng, (2, 2))
    want = s + (2 * x.sum((0, 1)) + np.abs(x).sum((0, 1))).reshape(2, 2)
    np.testing.assert_array_equal(run(text, x, s), want)


@pytest.mark.parametrize(
    "body",
    [
        # What was summed so far is read, or changed otherwise.
        "%u = stablehlo.multiply %e, %z : tensor<4xf32>\n      %y = stablehlo.add %z, %u : tensor<4xf32>",
        "%u = stablehlo.add %z, %e : tensor<4xf32>\n      %y = stablehlo.multiply %u, %two : tensor<4xf32>",
        "%u = stablehlo.abs %e : tensor<4xf32>\n      %y = stablehlo.add %z, %u : tensor<4xf32>",
        "%y = stablehlo.maximum %z, %e : tensor<4xf32>",
        "%y = stablehlo.subtract %z, %e : tensor<4xf32>",
    ],
)
def test_all_reduces_that_steps_need_stay_in_the_loop(body, rng):
    text = loop(body)
    _, (calls, _), counts = before_and_after(text)
    assert counts["accumulate"] == 0 and calls == STEPS
    x, s = arguments(rng)
    want = s
    for e in x.sum(1):
        if "multiply %e" in body:
            want = want + e * want
        elif "multiply %u" in body:
            want = (want + e) * 2
        elif "abs" in body:
            want = want + np.abs(e)
        else:
            want = np.maximum(want, e) if "maximum" in body else want - e
    np.testing.assert_allclose(run(text, x, s), want, rtol=1e-6)


def mesh() -> weft.Mesh:
    return weft.make_mesh((4, 2), ("data", "model"), axis_types=(weft.AxisType.Auto,) * 2)


def test_the_gradient_of_weights_that_all_steps_share_is_reduced_once(rng):
    weights = rng.normal(size=(8, 4)).astype(np.float32)
    rows = rng.normal(size=(3, STEPS, 16, 8)).astype(np.float32)

    def loss(weights, rows):
        def step(total, x):
            return total + weft.numpy.sum(weft.numpy.tanh(x @ weights) ** 2), None

        def steps(total, x):
            return weft.lax.scan(step, total, x)[0], None

        return weft.lax.scan(steps, np.float32(0), rows)[0]

    place = lambda *spec: NamedSharding(mesh(), P(*spec))
    gradient = weft.jit(
        weft.grad(loss),
        in_shardings=(place(), place(None, None, "data")),
        out_shardings=place(),
        partitioner="weft",
    )
    weft.testing.assert_comm(gradient, (weights, rows), all_reduce=1, max_bytes="192 B")
    t = np.tanh(rows @ weights)
    want = np.einsum("asbi,asbo->io", rows, 2 * t * (1 - t * t))
    np.testing.assert_allclose(np.asarray(gradient(weights, rows)), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["max", "min", "sum"])
def test_devices_may_start_from_values_of_their_own(name, rng):
    combine, reduce, on_host = {
        "max": (wnp.maximum, weft.lax.pmax, np.maximum),
        "min": (wnp.minimum, weft.lax.pmin, np.minimum),
        "sum": (wnp.add, weft.lax.psum, np.add),
    }[name]
    mesh = weft.make_mesh((8,), ("d",), axis_types=(weft.AxisType.Auto,))
    start = rng.integers(-40, 40, (8, 1), dtype=np.int32)
    steps = rng.integers(-20, 20, (5, 8, 1), dtype=np.int32)

    @weft.jit
    @weft.shard_map(mesh=mesh, in_specs=(P("d"), P(None, "d")), out_specs=P("d"))
    def run(start, steps):
        return weft.lax.scan(lambda c, y: (combine(c, reduce(y, "d")), None), start, steps)[0]

    want = start
    for step in steps:
        want = on_host(want, getattr(step, name)())
    np.testing.assert_array_equal(run(start, steps), want)
