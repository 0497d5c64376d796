# ruff: noqa: E501 - lines of MLIR text read better whole
"""Each optimization of collectives: the result stays, bytes or calls go down."""

import numpy as np
import pytest

from tests.partition import harness
from tests.partition.test_localize import module, sharding
from weft._xla import mlir
from weft.partition import partition
from weft.partition.collect import collect
from weft.partition.localize import localize
from weft.partition.passes.optimize import optimize
from weft.partition.propagate import make_explicit, propagate


def before_and_after(text: str, **options):
    """(calls, bytes) of the local program without and with the optimizations."""
    work = mlir.parse(text)
    info = localize(make_explicit(propagate(work)))
    totals = [collect(work, info.mesh)]
    optimize(work, info.mesh, **options)
    work.operation.verify()
    totals.append(collect(work, info.mesh))
    return [(sum(c.trips for c in t), sum(c.total_bytes for c in t)) for t in totals]


def summed_rows(name: str) -> str:
    return f"""%{name} = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>"""


TWICE = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")}) -> tensor<8xf32> {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    {summed_rows("0")}
    %1 = stablehlo.abs %0 : tensor<8xf32>
    {summed_rows("2")}
    %3 = stablehlo.negate %2 : tensor<8xf32>
    %4 = stablehlo.add %1, %3 : tensor<8xf32>
    return %4 : tensor<8xf32>
  }}""")


def test_equal_collectives_happen_once(rng):
    (calls, sent), (fewer, less) = before_and_after(TWICE)
    assert fewer < calls and less < sent
    x = rng.integers(-4, 5, (8, 8)).astype(np.float32)
    total = x.sum(0)
    np.testing.assert_array_equal(harness.run(TWICE, x)[0], np.abs(total) - total)


INVARIANT = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")},
      %c: tensor<4x8xf32> {sharding("{}", "{}")}) -> tensor<4x8xf32> {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<6> : tensor<i32>
    %r:3 = stablehlo.while(%i = %zero, %w = %a, %z = %c) : tensor<i32>, tensor<8x8xf32>, tensor<4x8xf32>
    cond {{
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %g = sdy.sharding_constraint %w <@mesh, [{{}}, {{}}]> : tensor<8x8xf32>
      %s = stablehlo.slice %g [2:6, 0:8] : (tensor<8x8xf32>) -> tensor<4x8xf32>
      %y = stablehlo.add %z, %s : tensor<4x8xf32>
      stablehlo.return %j, %w, %y : tensor<i32>, tensor<8x8xf32>, tensor<4x8xf32>
    }}
    return %r#2 : tensor<4x8xf32>
  }}""")


def test_gathers_of_loop_invariants_leave_the_loop(rng):
    (calls, sent), (fewer, less) = before_and_after(INVARIANT)
    assert calls == 6 * fewer and sent == 6 * less
    x = rng.integers(-4, 5, (8, 8)).astype(np.float32)
    c = rng.integers(-4, 5, (4, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(INVARIANT, x, c)[0], c + 6 * x[2:6])


def test_collectives_of_what_loop_invariants_make_leave_the_loop(rng):
    product = """%w2 = stablehlo.dot_general %w, %w, contracting_dims = [0] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %g = sdy.sharding_constraint %w2 <@mesh, [{}, {}]> : tensor<8x8xf32>"""
    text = INVARIANT.replace(
        "%g = sdy.sharding_constraint %w <@mesh, [{}, {}]> : tensor<8x8xf32>", product
    )
    assert text != INVARIANT
    (calls, sent), (fewer, less) = before_and_after(text)
    assert calls == 6 * fewer and sent == 6 * less
    x = rng.integers(-4, 5, (8, 8)).astype(np.float32)
    c = rng.integers(-4, 5, (4, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, x, c)[0], c + 6 * (x.T @ x)[2:6])


def gathered_dot(contracted: bool) -> str:
    right = sharding('{"x"}', "{}") if contracted else sharding("{}", "{}")
    left = sharding("{}", "{}") if contracted else sharding('{"x"}', "{}")
    return module(f"""
  func.func public @main(%a: tensor<8x8xf32> {left}, %b: tensor<8x16xf32> {right}) -> tensor<8x16xf32> {{
    %0 = sdy.sharding_constraint %a <@mesh, [{{}}, {{}}]> : tensor<8x8xf32>
    %1 = sdy.sharding_constraint %b <@mesh, [{{}}, {{}}]> : tensor<8x16xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{{}}, {{}}]> : tensor<8x16xf32>
    return %3 : tensor<8x16xf32>
  }}""")


@pytest.mark.parametrize("contracted", [False, True])
def test_a_gathered_dot_can_become_a_ring_that_sends_no_more(contracted, rng):
    text = gathered_dot(contracted)
    (_, sent), (calls, same) = before_and_after(text, overlap=True)
    assert calls == 3 and same == sent
    a = rng.integers(-3, 4, (8, 8)).astype(np.float32)
    b = rng.integers(-3, 4, (8, 16)).astype(np.float32)
    stages = partition(mlir.parse(text), overlap=True)
    assert "all_gather" not in str(stages.local)
    np.testing.assert_array_equal(harness.execute(stages, a, b)[0], a @ b)


def test_a_sum_that_is_split_again_is_a_reduce_scatter(rng):
    text = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding("{}", '{"x"}')},
      %b: tensor<8x4xf32> {sharding('{"x"}', "{}")})
      -> (tensor<8x4xf32> {sharding('{"x"}', "{}")}) {{
    %2 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }}""")
    stages = partition(mlir.parse(text))
    [c] = collect(stages.local, stages.mesh)
    assert c.kind == "reduce_scatter" and c.bytes == 8 * 4 * 4 * 3 // 4
    a = rng.integers(-3, 4, (8, 8)).astype(np.float32)
    b = rng.integers(-3, 4, (8, 4)).astype(np.float32)
    np.testing.assert_array_equal(harness.execute(stages, a, b)[0], a @ b)


def rotation(shift: int, size: int = 16) -> str:
    return module(f"""
  func.func public @main(%a: tensor<{size}x2xf32> {sharding('{"x"}', "{}")}) -> tensor<{size}x2xf32> {{
    %0 = stablehlo.slice %a [{shift}:{size}, 0:2] : (tensor<{size}x2xf32>) -> tensor<{size - shift}x2xf32>
    %1 = stablehlo.slice %a [0:{shift}, 0:2] : (tensor<{size}x2xf32>) -> tensor<{shift}x2xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0
      : (tensor<{size - shift}x2xf32>, tensor<{shift}x2xf32>) -> tensor<{size}x2xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{{"x"}}, {{}}]> : tensor<{size}x2xf32>
    return %3 : tensor<{size}x2xf32>
  }}""")


@pytest.mark.parametrize("shift", [1, 4, 6, 15])
def test_a_rotation_sends_only_the_rows_that_change_devices(shift, rng):
    stages = partition(mlir.parse(rotation(shift)))
    moves = [c for c in collect(stages.local, stages.mesh) if c.kind == "collective_permute"]
    row, held = 2 * 4, 4
    places, within = divmod(shift, held)
    first = 0 if places == 0 else held - within
    second = 0 if places + 1 == 4 else within
    assert sum(c.bytes for c in moves) == row * (first + second)
    x = rng.normal(size=(16, 2)).astype(np.float32)
    np.testing.assert_array_equal(harness.execute(stages, x)[0], np.roll(x, -shift, 0))
