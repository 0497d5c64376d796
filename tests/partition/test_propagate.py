# ruff: noqa: E501 - lines of MLIR text read better whole
"""Propagation through Shardy: priorities, groups, barriers, constraints, and clear refusals."""

import pytest

from tests.partition.test_localize import module, sharding
from tests.processes import python
from weft._xla import mlir
from weft.partition import Unsupported, partition
from weft.partition.propagate import make_explicit, propagate


def line_of(text: str, needle: str, *, explicit: bool = False) -> str:
    parsed = propagate(mlir.parse(text))
    if explicit:
        make_explicit(parsed)
    return next(line for line in str(parsed).splitlines() if needle in line)


def binary(left: str, right: str, after: str = "") -> str:
    return module(f"""
  func.func public @main(%a: tensor<8x8xf32> {left}, %b: tensor<8x8xf32> {right}) -> tensor<8x8xf32> {{
    %0 = stablehlo.add %a, %b : tensor<8x8xf32>
    {after}
    return %0 : tensor<8x8xf32>
  }}""")


def test_a_sharding_flows_from_arguments_to_results():
    text = binary(sharding('{"x"}', "{}"), sharding("{}", '{"y"}'))
    assert '[{"x", ?}, {"y", ?}]' in line_of(text, "stablehlo.add")


def test_the_user_priority_decides_between_conflicting_shardings():
    first = binary(sharding('{"x"}p0', "{}"), sharding('{"y"}p1', "{}"))
    second = binary(sharding('{"x"}p1', "{}"), sharding('{"y"}p0', "{}"))
    assert '[{"x", ?}' in line_of(first, "stablehlo.add")
    assert '[{"y", ?}' in line_of(second, "stablehlo.add")


GROUPED = """
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.negate %a : tensor<8x8xf32>
    %1 = stablehlo.abs %b : tensor<8x8xf32>
    sdy.sharding_group %0 group_id=3 : tensor<8x8xf32>
    sdy.sharding_group %1 group_id=3 : tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }"""


def test_values_of_one_group_share_a_sharding():
    assert '[{"x", ?}' in line_of(module(GROUPED), "stablehlo.abs")


def test_groups_that_share_a_value_are_one():
    text = module(GROUPED).replace(
        "    return %0",
        "    %2 = stablehlo.exponential %b : tensor<8x8xf32>\n"
        "    sdy.sharding_group %1 group_id=4 : tensor<8x8xf32>\n"
        "    sdy.sharding_group %2 group_id=4 : tensor<8x8xf32>\n    return %0",
    )
    assert '[{"x", ?}' in line_of(text, "stablehlo.exponential")


def test_several_different_meshes_are_refused_before_shardy_sees_them():
    text = module("""
  sdy.mesh @other = <["w"=8]>
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{"x"}]> : tensor<8xf32>
    %1 = sdy.sharding_constraint %0 <@other, [{"w"}]> : tensor<8xf32>
    return %1 : tensor<8xf32>
  }""")
    with pytest.raises(Unsupported, match=r"several different meshes: \['mesh', 'other'\]"):
        partition(mlir.parse(text))


def test_equal_constants_may_stand_in_several_groups():
    text = module("""
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.constant dense<1.0> : tensor<8xf32>
    %1 = stablehlo.constant dense<1.0> : tensor<8xf32>
    sdy.sharding_group %0 group_id=0 : tensor<8xf32>
    sdy.sharding_group %1 group_id=1 : tensor<8xf32>
    %2 = stablehlo.add %0, %1 : tensor<8xf32>
    %3 = stablehlo.add %a, %2 : tensor<8xf32>
    return %3 : tensor<8xf32>
  }""")
    assert "stablehlo.add" in line_of(text, "stablehlo.add")


def test_a_barrier_stops_propagation():
    text = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")}) -> tensor<8x8xf32> {{
    %0 = sdy.propagation_barrier %a allowed_direction=NONE : tensor<8x8xf32>
    %1 = stablehlo.abs %0 : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }}""")
    assert '"x"' not in line_of(text, "stablehlo.abs")


def test_a_custom_rule_takes_shardings_through_a_custom_call():
    text = module(f"""
  func.func public @main(%a: tensor<8x4xf32> {sharding('{"x"}', "{}")}) -> tensor<4x8xf32> {{
    %0 = stablehlo.custom_call @t(%a) {{sdy.sharding_rule =
      #sdy.op_sharding_rule<([i, j])->([j, i]) {{i=8, j=4}}, custom>}} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }}""")
    assert '[{?}, {"x", ?}]' in line_of(text, "custom_call")


def test_disagreement_becomes_a_collective():
    text = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")})
      -> (tensor<8x8xf32> {sharding("{}", '{"x"}')}) {{
    return %a : tensor<8x8xf32>
  }}""")
    assert 'sdy.all_to_all [{"x"}: 0->1]' in line_of(text, "all_to_all", explicit=True)


@pytest.mark.parametrize(
    "left, words",
    [
        (sharding('{"nope"}', "{}"), "nope"),
        (sharding('{"x"}', '{"x"}'), "duplicate"),
        (sharding('{"x"}'), "rank"),
        ("{sdy.sharding = #sdy.sharding<@other, [{}, {}]>}", "mesh"),
        (sharding('{"x":(1)3}', "{}"), "size"),
    ],
)
def test_shardings_that_cannot_hold_are_refused(left, words):
    with pytest.raises((ValueError, mlir.ir.MLIRError), match=words):
        propagate(mlir.parse(binary(left, "")))


def test_a_group_of_different_shapes_names_both():
    text = module(GROUPED.replace("%b: tensor<8x8xf32>", "%b: tensor<4xf32>"))
    text = text.replace("abs %b : tensor<8x8xf32>", "abs %b : tensor<4xf32>")
    text = text.replace(
        "group %1 group_id=3 : tensor<8x8xf32>", "group %1 group_id=3 : tensor<4xf32>"
    )
    text = text.replace("(tensor<8x8xf32>, tensor<8x8xf32>)", "(tensor<8x8xf32>, tensor<4xf32>)")
    text = text.replace(": tensor<8x8xf32>, tensor<8x8xf32>", ": tensor<8x8xf32>, tensor<4xf32>")
    with pytest.raises(ValueError, match=r"sharding group 3 .*\[8, 8\] and \[4\]"):
        propagate(mlir.parse(text))


def test_a_group_with_two_given_shardings_says_so():
    text = module(GROUPED.replace("%b: tensor", "%b: tensor")).replace(
        "    sdy.sharding_group %0",
        "    %2 = sdy.sharding_constraint %0 <@mesh, [{}, {}]> : tensor<8x8xf32>\n"
        '    %3 = sdy.sharding_constraint %1 <@mesh, [{"y"}, {}]> : tensor<8x8xf32>\n'
        "    sdy.sharding_group %2 group_id=4 : tensor<8x8xf32>\n"
        "    sdy.sharding_group %3 group_id=4 : tensor<8x8xf32>\n"
        "    sdy.sharding_group %0",
    )
    with pytest.raises(ValueError, match="sharding group 4 .*conflicting"):
        propagate(mlir.parse(text))


SURVIVE = """
import collections, sys
import numpy as np
from tests.partition import mutate, programs
from weft._xla import mlir
from weft.partition import Unsupported, partition

seen = collections.Counter()
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    rng = np.random.default_rng(seed)
    text = mutate.mutate(rng, programs.random_program(rng, 4)[0])
    try:
        partition(mlir.parse(text)).local.operation.verify()
        seen["partitioned"] += 1
    except (ValueError, mlir.ir.MLIRError, Unsupported):
        seen["refused"] += 1
print(dict(seen))
"""


def test_the_process_survives_spoiled_modules():
    seen = eval(python(SURVIVE, 2000, 2400))
    assert seen["partitioned"] > 20 and seen["refused"] > 20
