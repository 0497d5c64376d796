# ruff: noqa: E501 - lines of MLIR text read better whole
"""Small stacks are gathered once, in front of the loop that reads them slice by slice."""

import numpy as np
import pytest

import weft
from tests.partition import harness
from tests.partition.test_localize import module, sharding
from weft._xla import mlir
from weft.partition import loop_stacks as stacks_module
from weft.partition import partition
from weft.partition.collect import collect


def stacked(trips: int) -> str:
    """A loop that reads slice i of a stack split along the scanned dimension, and needs it whole."""
    return module(f"""
  func.func public @main(%w: tensor<4x8x8xf32> {sharding('{"x"}', "{}", "{}")}, %h: tensor<8x8xf32> {sharding("{}", "{}")}) -> tensor<8x8xf32> {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<{trips}> : tensor<i32>
    %r:3 = stablehlo.while(%i = %zero, %c = %h, %s = %w) : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
    cond {{
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    }} do {{
      %k = stablehlo.dynamic_slice %s, %i, %zero, %zero, sizes = [1, 8, 8]
        : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %v = sdy.sharding_constraint %k <@mesh, [{{}}, {{"x"}}, {{}}]> : tensor<1x8x8xf32>
      %u = sdy.sharding_constraint %v <@mesh, [{{}}, {{}}, {{}}]> : tensor<1x8x8xf32>
      %m = stablehlo.reshape %u : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %d = stablehlo.dot_general %c, %m, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %d, %s : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
    }}
    return %r#1 : tensor<8x8xf32>
  }}""")


def kinds(text: str) -> list[tuple[str, int]]:
    stages = partition(mlir.parse(text))
    return [(c.kind, c.trips) for c in collect(stages.local, stages.mesh)]


def test_a_stack_that_is_read_whole_is_gathered_once():
    assert kinds(stacked(4)) == [("all_gather", 1)]


def test_a_loop_that_reads_little_of_it_gathers_slices():
    assert ("all_gather", 2) in kinds(stacked(2))


def test_slices_that_move_to_another_dimension_move_as_one_stack(rng):
    text = stacked(4).replace(
        "constraint %v <@mesh, [{}, {}, {}]>", 'constraint %v <@mesh, [{}, {}, {"x"}]>'
    )
    kind, trips = kinds(text)[0]
    assert (kind, trips) == ("all_to_all", 1)
    assert not any(k == "all_to_all" for k, _ in kinds(text)[1:])
    w = rng.integers(-2, 3, (4, 8, 8)).astype(np.float32)
    h = rng.integers(-2, 3, (8, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, w, h)[0], h @ w[0] @ w[1] @ w[2] @ w[3])


def test_a_large_stack_stays_split(monkeypatch):
    monkeypatch.setattr(stacks_module, "LARGEST", 1000)
    assert ("all_gather", 4) in kinds(stacked(4))


@pytest.mark.parametrize("trips", [2, 4])
def test_results_equal_numpy(trips, rng):
    w = rng.integers(-2, 3, (4, 8, 8)).astype(np.float32)
    want = h = rng.integers(-2, 3, (8, 8)).astype(np.float32)
    for i in range(trips):
        want = want @ w[i]
    np.testing.assert_array_equal(harness.run(stacked(trips), w, h)[0], want)


@pytest.mark.parametrize("limit", [stacks_module.LARGEST, 0])
def test_a_stack_of_results_is_moved_once_behind_its_loop(limit, rng, monkeypatch):
    monkeypatch.setattr(stacks_module, "LARGEST", limit)
    mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    place = lambda *spec: weft.NamedSharding(mesh, weft.P(*spec))

    def run(xs):
        step = lambda h, x: (weft.numpy.maximum(h, x),) * 2
        return weft.lax.scan(step, xs[0], xs)[1]

    run = weft.jit(run, in_shardings=place(None, "x"), out_shardings=place("x"))
    xs = rng.normal(size=(8, 4, 6)).astype(np.float32)
    weft.testing.assert_comm(run, (xs,), all_to_all=1)
    np.testing.assert_array_equal(np.asarray(run(xs)), np.maximum.accumulate(xs))
