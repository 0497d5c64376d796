# ruff: noqa: E501 - lines of MLIR text read better whole
"""Contractions choose layouts that send least, loops counted."""

import numpy as np

from tests.partition import harness
from tests.partition.test_localize import module, sharding
from weft._xla import mlir
from weft.partition import partition
from weft.partition.collect import collect


def collectives(text: str) -> list[tuple[str, int, int]]:
    stages = partition(mlir.parse(text))
    return [(c.kind, c.bytes, c.trips) for c in collect(stages.local, stages.mesh)]


def test_a_matrix_that_a_loop_does_not_change_is_gathered_in_front_of_it(rng):
    text = module(f"""
  func.func public @main(%a: tensor<16x16xf32> {sharding('{"x"}', "{}")}, %b: tensor<16x8xf32> {sharding("{}", '{"x"}')})
      -> (tensor<16x8xf32> {sharding("{}", '{"x"}')}) {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<40> : tensor<i32>
    %l:2 = stablehlo.while(%i = %zero, %z = %b) : tensor<i32>, tensor<16x8xf32>
    cond {{
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %c = sdy.sharding_constraint %z <@mesh, [{{}}, {{"x"}}]> : tensor<16x8xf32>
      %d = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
      %e = sdy.sharding_constraint %d <@mesh, [{{"x"}}, {{}}]> : tensor<16x8xf32>
      %y = sdy.sharding_constraint %e <@mesh, [{{}}, {{"x"}}]> : tensor<16x8xf32>
      stablehlo.return %j, %y : tensor<i32>, tensor<16x8xf32>
    }}
    return %l#1 : tensor<16x8xf32>
  }}""")
    assert collectives(text) == [("all_gather", 3 * 4 * 16 * 4, 1)]
    a = rng.permutation(np.eye(16, dtype=np.float32))
    b = rng.integers(-4, 5, (16, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, a, b)[0], np.linalg.matrix_power(a, 40) @ b)


def test_a_result_is_computed_where_it_is_wanted_if_operands_are_smaller(rng):
    text = module(f"""
  func.func public @main(%a: tensor<64x2xf32> {sharding('{"x"}', "{}")}, %b: tensor<2x64xf32> {sharding("{}", "{}")})
      -> (tensor<64x64xf32> {sharding("{}", '{"x"}')}) {{
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x2xf32>, tensor<2x64xf32>) -> tensor<64x64xf32>
    %e = sdy.sharding_constraint %d <@mesh, [{{"x"}}, {{}}]> : tensor<64x64xf32>
    %y = sdy.sharding_constraint %e <@mesh, [{{}}, {{"x"}}]> : tensor<64x64xf32>
    return %y : tensor<64x64xf32>
  }}""")
    assert collectives(text) == [("all_gather", 3 * 16 * 2 * 4, 1)]
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((64, 2), (2, 64)))
    np.testing.assert_array_equal(harness.run(text, a, b)[0], a @ b)


def test_operands_that_send_more_than_the_result_stay():
    text = module(f"""
  func.func public @main(%a: tensor<8x64xf32> {sharding('{"x"}', "{}")}, %b: tensor<64x8xf32> {sharding("{}", "{}")})
      -> (tensor<8x8xf32> {sharding("{}", '{"x"}')}) {{
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
    %e = sdy.sharding_constraint %d <@mesh, [{{"x"}}, {{}}]> : tensor<8x8xf32>
    %y = sdy.sharding_constraint %e <@mesh, [{{}}, {{"x"}}]> : tensor<8x8xf32>
    return %y : tensor<8x8xf32>
  }}""")
    assert [kind for kind, _, _ in collectives(text)] == ["all_to_all"]


def test_a_free_dimension_stays_split_where_the_sum_takes_fewer_axes_for_it(rng):
    text = module(f"""
  func.func public @main(%a: tensor<16x64xf32> {sharding("{}", '{"x", "y"}')}, %b: tensor<64x32xf32> {sharding('{"x"}', '{"y"}')})
      -> (tensor<16x32xf32> {sharding("{}", '{"y"}')}) {{
    %c = sdy.sharding_constraint %b <@mesh, [{{"x", "y"}}, {{}}]> : tensor<64x32xf32>
    %d = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %e = sdy.sharding_constraint %d <@mesh, [{{}}, {{}}]> : tensor<16x32xf32>
    %y = sdy.sharding_constraint %e <@mesh, [{{}}, {{"y"}}]> : tensor<16x32xf32>
    return %y : tensor<16x32xf32>
  }}""")
    gathered, summed = 16 * 8 * 4, 2 * 16 * 16 * 4 * 3 // 4
    assert collectives(text) == [("all_gather", gathered, 1), ("all_reduce", summed, 1)]
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((16, 64), (64, 32)))
    np.testing.assert_array_equal(harness.run(text, a, b)[0], a @ b)


def test_features_are_gathered_where_the_sums_of_a_large_result_would_send_more(rng):
    kernel, numbers = "4x3x4x6", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
    text = module(f"""
  func.func public @main(%a: tensor<2x7x9x4xf32> {sharding("{}", "{}", "{}", '{"x"}')}, %k: tensor<{kernel}xf32> {sharding("{}", "{}", "{}", "{}")})
      -> (tensor<2x4x7x6xf32> {sharding("{}", "{}", "{}", "{}")}) {{
    %c = stablehlo.convolution(%a, %k) dim_numbers = {numbers}, window = {{stride = [1, 1], pad = [[0, 0], [0, 0]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
      : (tensor<2x7x9x4xf32>, tensor<{kernel}xf32>) -> tensor<2x4x7x6xf32>
    return %c : tensor<2x4x7x6xf32>
  }}""")
    assert collectives(text) == [("all_gather", 3 * 2 * 7 * 9 * 4, 1)]
    a = rng.integers(-3, 4, (2, 7, 9, 4)).astype(np.float32)
    k = rng.integers(-3, 4, (4, 3, 4, 6)).astype(np.float32)
    want = sum(
        np.einsum("bhwi,io->bhwo", a[:, y : y + 4, x : x + 7], k[y, x])
        for y in range(4)
        for x in range(3)
    )
    np.testing.assert_array_equal(harness.run(text, a, k)[0], want)


def test_a_product_is_made_where_an_operand_leads_if_its_result_moves_for_less(rng):
    text = module(f"""
  func.func public @main(%a: tensor<8x64xf32> {sharding('{"x"}', "{}")}, %b: tensor<64x64xf32> {sharding("{}", '{"x"}')})
      -> (tensor<8x64xf32> {sharding('{"x"}', "{}")}) {{
    %c = sdy.sharding_constraint %b <@mesh, [{{}}, {{}}]> : tensor<64x64xf32>
    %d = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    return %d : tensor<8x64xf32>
  }}""")
    rows = 2 * 64 * 4  # of a, and of the result
    assert collectives(text) == [("all_gather", 3 * rows, 1), ("all_to_all", 3 * rows // 4, 1)]
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((8, 64), (64, 64)))
    np.testing.assert_array_equal(harness.run(text, a, b)[0], a @ b)


def test_partial_sums_are_scattered_where_the_result_is_wanted_split(rng):
    """A weight's gradient: one operand is split along the sum, the other along the result."""
    text = module(f"""
  func.func public @main(%a: tensor<64x16xf32> {sharding('{"x"}', "{}")}, %b: tensor<64x8xf32> {sharding("{}", '{"x"}')})
      -> (tensor<16x8xf32> {sharding("{}", '{"x"}')}) {{
    %c = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<64x16xf32>, tensor<64x8xf32>) -> tensor<16x8xf32>
    return %c : tensor<16x8xf32>
  }}""")
    sent = [("all_to_all", 3 * 64 * 2 * 4 // 4, 1), ("reduce_scatter", 3 * 16 * 8 * 4 // 4, 1)]
    assert collectives(text) == sent
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((64, 16), (64, 8)))
    np.testing.assert_array_equal(harness.run(text, a, b)[0], a.T @ b)


def test_sums_over_two_axes_are_scattered_along_the_one_that_splits_the_result(rng):
    text = module(f"""
  func.func public @main(%a: tensor<64x16xf32> {sharding('{"x", "y"}', "{}")}, %b: tensor<64x8xf32> {sharding('{"x", "y"}', "{}")})
      -> (tensor<16x8xf32> {sharding("{}", '{"x"}')}) {{
    %c = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<64x16xf32>, tensor<64x8xf32>) -> tensor<16x8xf32>
    return %c : tensor<16x8xf32>
  }}""")
    assert collectives(text) == [("reduce_scatter", 3 * 128, 1), ("all_reduce", 128, 1)]
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((64, 16), (64, 8)))
    np.testing.assert_array_equal(harness.run(text, a, b)[0], a.T @ b)


def test_a_copy_that_the_first_operation_did_without_is_paid_by_the_second(rng):
    """Both want all rows of one operand, which costs more than moving what is small."""
    text = module(f"""
  func.func public @main(%a: tensor<64x16xf32> {sharding('{"x"}', "{}")}, %w: tensor<16x8xf32> {sharding("{}", '{"x"}')})
      -> (tensor<64x8xf32> {sharding("{}", '{"x"}')}, tensor<16x8xf32> {sharding("{}", '{"x"}')}) {{
    %y = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x8xf32>) -> tensor<64x8xf32>
    %e = stablehlo.tanh %y : tensor<64x8xf32>
    %z = stablehlo.dot_general %a, %e, contracting_dims = [0] x [0] : (tensor<64x16xf32>, tensor<64x8xf32>) -> tensor<16x8xf32>
    return %e, %z : tensor<64x8xf32>, tensor<16x8xf32>
  }}""")
    assert sum(sent for _, sent, _ in collectives(text)) <= 4 * 3 * 128
    a, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((64, 16), (16, 8)))
    e, z = harness.run(text, a, w)
    np.testing.assert_allclose(e, np.tanh(a @ w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(z, a.T @ np.tanh(a @ w), rtol=1e-5, atol=1e-4)
