# ruff: noqa: E501 - lines of MLIR text read better whole
"""Operations run in the layout that the moves behind them want, where that sends less."""

import numpy as np

from tests.partition import harness
from tests.partition.test_contractions import collectives
from tests.partition.test_localize import module, sharding


def whole(name: str, value: str, type: str) -> str:
    return f"%{name} = sdy.sharding_constraint %{value} <@mesh, [{{}}, {{}}]> : {type}"


def rows(name: str, value: str, type: str) -> str:
    return f'%{name} = sdy.sharding_constraint %{value} <@mesh, [{{"x"}}, {{}}]> : {type}'


def test_pieces_that_are_wanted_whole_come_from_one_gather_of_their_source(rng):
    text = module(f"""
  func.func public @main(%a: tensor<16x8xf32> {sharding('{"x"}', "{}")})
      -> (tensor<9x8xf32> {sharding("{}", "{}")}, tensor<16x8xf32> {sharding("{}", "{}")}, tensor<18x8xf32> {sharding("{}", "{}")}) {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %b = stablehlo.slice %a [2:11, 0:8] : (tensor<16x8xf32>) -> tensor<9x8xf32>
    {rows("b1", "b", "tensor<9x8xf32>")}
    {whole("b2", "b1", "tensor<9x8xf32>")}
    %c = stablehlo.reverse %a, dims = [0] : tensor<16x8xf32>
    {rows("c1", "c", "tensor<16x8xf32>")}
    {whole("c2", "c1", "tensor<16x8xf32>")}
    %d = stablehlo.pad %a, %zero, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<18x8xf32>
    {rows("d1", "d", "tensor<18x8xf32>")}
    {whole("d2", "d1", "tensor<18x8xf32>")}
    return %b2, %c2, %d2 : tensor<9x8xf32>, tensor<16x8xf32>, tensor<18x8xf32>
  }}""")
    assert collectives(text) == [("all_gather", 3 * 4 * 8 * 4, 1)]
    a = rng.normal(size=(16, 8)).astype(np.float32)
    b, c, d = harness.run(text, a)
    np.testing.assert_array_equal(b, a[2:11])
    np.testing.assert_array_equal(c, a[::-1])
    np.testing.assert_array_equal(d, np.pad(a, ((1, 1), (0, 0))))


def test_a_short_piece_of_a_long_array_is_gathered_and_not_the_array(rng):
    text = module(f"""
  func.func public @main(%a: tensor<64x8xf32> {sharding('{"x"}', "{}")}) -> (tensor<4x8xf32> {sharding("{}", "{}")}) {{
    %b = stablehlo.slice %a [0:64:16, 0:8] : (tensor<64x8xf32>) -> tensor<4x8xf32>
    {rows("c", "b", "tensor<4x8xf32>")}
    {whole("d", "c", "tensor<4x8xf32>")}
    return %d : tensor<4x8xf32>
  }}""")
    assert sum(sent for _, sent, _ in collectives(text)) == 3 * 8 * 4
    a = rng.normal(size=(64, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, a)[0], a[::16])


def test_functions_of_what_every_device_has_send_nothing(rng):
    text = module(f"""
  func.func public @main(%a: tensor<16x8xf32> {sharding("{}", "{}")}) -> (tensor<16x8xf32> {sharding("{}", '{"x"}')}) {{
    {rows("b", "a", "tensor<16x8xf32>")}
    %c = stablehlo.abs %b : tensor<16x8xf32>
    {rows("d", "c", "tensor<16x8xf32>")}
    %y = sdy.sharding_constraint %d <@mesh, [{{}}, {{"x"}}]> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }}""")
    assert collectives(text) == []
    a = rng.normal(size=(16, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, a)[0], np.abs(a))


def test_a_reshape_whose_result_is_wanted_whole_is_gathered_once(rng):
    text = module(f"""
  func.func public @main(%a: tensor<6x8xf32> {sharding('{"x"}', "{}")}) -> (tensor<12x4xf32> {sharding("{}", "{}")}) {{
    %b = stablehlo.reshape %a : (tensor<6x8xf32>) -> tensor<12x4xf32>
    {rows("c", "b", "tensor<12x4xf32>")}
    {whole("d", "c", "tensor<12x4xf32>")}
    return %d : tensor<12x4xf32>
  }}""")
    assert [kind for kind, _, _ in collectives(text)] == ["all_gather"]
    a = rng.normal(size=(6, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, a)[0], a.reshape(12, 4))


def test_halves_that_are_joined_and_wanted_elsewhere_move_before(rng):
    text = module(f"""
  func.func public @main(%a: tensor<4x8xf32> {sharding("{}", "{}")}, %b: tensor<12x8xf32> {sharding('{"x"}', "{}")})
      -> (tensor<16x8xf32> {sharding("{}", '{"x"}')}) {{
    %c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<4x8xf32>, tensor<12x8xf32>) -> tensor<16x8xf32>
    {rows("d", "c", "tensor<16x8xf32>")}
    %y = sdy.sharding_constraint %d <@mesh, [{{}}, {{"x"}}]> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }}""")
    assert collectives(text) == [("all_to_all", 3 * 8 * 3 * 4 * 4 // 16, 1)]
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((4, 8), (12, 8)))
    np.testing.assert_array_equal(harness.run(text, a, b)[0], np.concatenate([a, b]))


def test_short_sums_along_a_split_dimension_are_computed_whole_where_wanted_whole(rng):
    text = module(f"""
  func.func public @main(%a: tensor<8x4xf32> {sharding('{"x"}', "{}")}) -> (tensor<8x4xf32> {sharding("{}", "{}")}) {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %b = "stablehlo.reduce_window"(%a, %zero) <{{padding = dense<[[7, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 8, 1>}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    {rows("c", "b", "tensor<8x4xf32>")}
    {whole("d", "c", "tensor<8x4xf32>")}
    return %d : tensor<8x4xf32>
  }}""")
    assert collectives(text) == [("all_gather", 3 * 2 * 4 * 4, 1)]
    a = rng.integers(-9, 9, (8, 4)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, a)[0], np.cumsum(a, 0))


def test_indices_stay_split_along_axes_that_their_table_is_not_split_by(rng):
    text = module(f"""
  func.func public @main(%a: tensor<64x4xf32> {sharding('{"x"}', "{}")}, %i: tensor<16x1xi32> {sharding('{"x", "y"}', "{}")})
      -> (tensor<16x4xf32> {sharding('{"x", "y"}', "{}")}) {{
    %b = "stablehlo.gather"(%a, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}}> : (tensor<64x4xf32>, tensor<16x1xi32>) -> tensor<16x4xf32>
    return %b : tensor<16x4xf32>
  }}""")
    # 16 / 8 indices pass a permute and a gather, 8 rows of partial sums a scatter, 2 a permute.
    assert sum(sent for _, sent, _ in collectives(text)) == 8 + 3 * 8 + 3 * 8 * 16 // 4 + 2 * 16
    a = rng.normal(size=(64, 4)).astype(np.float32)
    i = rng.integers(0, 64, (16, 1)).astype(np.int32)
    np.testing.assert_array_equal(harness.run(text, a, i)[0], a[i[:, 0]])


def test_results_smaller_than_their_operands_are_gathered_in_their_place(rng):
    text = module(f"""
  func.func public @main(%a: tensor<16x8xf32> {sharding('{"x"}', "{}")}, %b: tensor<16x8xf32> {sharding('{"x"}', "{}")})
      -> (tensor<16x8xi1> {sharding("{}", "{}")}) {{
    {whole("c", "a", "tensor<16x8xf32>")}
    {whole("d", "b", "tensor<16x8xf32>")}
    %e = stablehlo.compare LT, %c, %d : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xi1>
    return %e : tensor<16x8xi1>
  }}""")
    assert collectives(text) == [("all_gather", 3 * 4 * 8, 1)]
    a, b = rng.normal(size=(2, 16, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, a, b)[0], a < b)


def test_operands_that_others_want_whole_too_are_gathered_once(rng):
    text = module(f"""
  func.func public @main(%a: tensor<16x8xf32> {sharding('{"x"}', "{}")})
      -> (tensor<16x8xi1> {sharding("{}", "{}")}, tensor<16x8xf32> {sharding("{}", "{}")}) {{
    {whole("c", "a", "tensor<16x8xf32>")}
    %e = stablehlo.compare LT, %c, %c : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xi1>
    return %e, %c : tensor<16x8xi1>, tensor<16x8xf32>
  }}""")
    assert collectives(text) == [("all_gather", 3 * 4 * 8 * 4, 1)]
    a = rng.normal(size=(16, 8)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, a)[1], a)


def test_a_copy_gathered_for_one_operation_serves_another(rng):
    """Scaling the whole copy sends nothing more; gathering the scaled value would send it again."""
    text = module(f"""
  func.func public @main(%a: tensor<16x4xf32> {sharding('{"x"}', "{}")}, %w: tensor<4x8xf32> {sharding("{}", '{"x"}')})
      -> (tensor<16x8xf32> {sharding('{"x"}', "{}")}, tensor<16x8xf32> {sharding('{"x"}', "{}")}) {{
    %two = stablehlo.constant dense<2.0> : tensor<4x8xf32>
    %v = stablehlo.multiply %two, %w : tensor<4x8xf32>
    %b = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %c = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    return %b, %c : tensor<16x8xf32>, tensor<16x8xf32>
  }}""")
    assert sum(sent for _, sent, _ in collectives(text)) == 3 * 4 * 2 * 4
    a = rng.normal(size=(16, 4)).astype(np.float32)
    w = rng.normal(size=(4, 8)).astype(np.float32)
    b, c = harness.run(text, a, w)
    np.testing.assert_allclose(b, a @ (2 * w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(c, a @ w, rtol=1e-5, atol=1e-5)
