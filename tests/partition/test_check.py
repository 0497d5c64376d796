# ruff: noqa: E501 - lines of MLIR text read better whole
"""The check of local programs: what it accepts, and the two faults it must find."""

import numpy as np
import pytest

from tests.partition import programs
from tests.partition.test_localize import module, sharding
from weft._xla import mlir
from weft.partition import partition
from weft.partition.axis_layout import AxisLayout, DeviceMesh
from weft.partition.check import check
from weft.partition.classes import join, tile_classes, varying


def test_classes_of_a_layout_are_its_shards():
    mesh = DeviceMesh({"x": 2, "y": 2})
    classes = tile_classes(AxisLayout(mesh, (4, 4), ((1,), ())))
    assert classes.tolist() == [0, 1, 0, 1] and varying(classes, mesh) == ("y",)


def test_a_join_separates_what_either_part_separates():
    got = join(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert len(set(got.tolist())) == 4


def test_devices_in_another_order_have_their_own_shards():
    mesh = DeviceMesh({"x": 2, "y": 2}, [3, 2, 1, 0])
    assert tile_classes(AxisLayout(mesh, (4,), ((0,),))).tolist() == [1, 1, 0, 0]


SUM = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', '{"y"}')}) -> (tensor<8xf32> {sharding('{"y"}')}) {{
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}""")


def test_results_have_the_axes_of_their_layout():
    assert check(partition(mlir.parse(SUM))) == [("y",)]


def test_a_missing_sum_is_found():
    stages = partition(mlir.parse(SUM))
    for view in list(stages.local.body.operations)[0].regions[0].blocks[0].operations:
        op = view.operation
        if op.name == "stablehlo.all_reduce":
            op.results[0].replace_all_uses_with(op.operands[0])
    with pytest.raises(TypeError, match="result 0 must be equal along x, .* but varies over x"):
        check(stages)


WAITS = """module attributes {mhlo.num_replicas = 8 : i32} {
  func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %id = stablehlo.replica_id : tensor<ui32>
    %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %n = stablehlo.constant dense<DIVISOR> : tensor<i32>
    %b = stablehlo.divide %i, %n : tensor<i32>
    %r = "stablehlo.case"(%b) ({
      %s = "stablehlo.all_reduce"(%a) ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %t = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %t : tensor<f32>
      }) {replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>
      stablehlo.return %s : tensor<2xf32>
    }, {
      stablehlo.return %a : tensor<2xf32>
    }) : (tensor<i32>) -> tensor<2xf32>
    return %r : tensor<2xf32>
  }
}"""


def waiting(divisor: int):
    mesh = DeviceMesh({"x": 2, "y": 4})
    stages = partition(mlir.parse(SUM))
    layout = AxisLayout(mesh, (16,), ((0, 1),))
    stages.local, stages.mesh = mlir.parse(WAITS.replace("DIVISOR", str(divisor))), mesh
    stages.arguments, stages.results = [layout], [layout]
    return stages


def test_a_group_that_takes_different_branches_is_found():
    with pytest.raises(TypeError, match="all_reduce .*condition that varies over"):
        check(waiting(2))


def test_groups_may_differ_from_each_other():
    assert check(waiting(4)) == [("x", "y")]


def test_random_programs_pass():
    """Passes where nothing raises."""
    for seed in range(300):
        text, _, _ = programs.random_program(np.random.default_rng(seed), steps=8)
        check(partition(mlir.parse(text), keep_stages=False))


STARTED = module("""
  func.func public @main(%a: tensor<8xf32>) -> tensor<4xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"y"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"x", "y"} (%b: tensor<4xf32>) {
      %1 = "stablehlo.async_start"(%b) ({
        ^bb0(%c: tensor<4xf32>):
          %3 = "stablehlo.all_reduce"(%c) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<GROUPS> : tensor<4x2xi64>, use_global_device_ids}> ({
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              %4 = stablehlo.add %p, %q : tensor<f32>
              stablehlo.return %4 : tensor<f32>
          }) : (tensor<4xf32>) -> tensor<4xf32>
          stablehlo.return %3 : tensor<4xf32>
      }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
      %2 = "stablehlo.async_done"(%1) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
      sdy.return %2 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }""")


def test_a_started_sum_is_equal_where_it_was_summed():
    over_y, over_x = "[[0, 1], [2, 3], [4, 5], [6, 7]]", "[[0, 2], [1, 3], [4, 6], [5, 7]]"
    assert check(partition(mlir.parse(STARTED.replace("GROUPS", over_y)))) == [()]
    with pytest.raises(TypeError, match="varies over y"):
        check(partition(mlir.parse(STARTED.replace("GROUPS", over_x))))
