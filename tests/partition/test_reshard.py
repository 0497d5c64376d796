"""Moves between layouts: what they send at most, and that they deliver."""

import numpy as np
import pytest

from tests.partition import harness, programs
from weft._xla import mlir
from weft.partition import partition
from weft.partition.axis_layout import AxisLayout, DeviceMesh
from weft.partition.check import check
from weft.partition.collect import collect
from weft.partition.relayout_search import cheapest


def move(rng: np.random.Generator, mesh: dict[str, int], shape: tuple[int, ...], hops: int) -> str:
    """An argument constrained to random shardings, one after the other."""
    p = programs.Program(rng, mesh)
    p.argument(shape)
    x = p.values[0]
    for _ in range(hops):
        text = p.sharding(shape)
        x = p.emit(f"sdy.sharding_constraint {x[0]} {text} : {programs.kind(x[1])}", x[1])
    return p.text()


def sent(text: str) -> tuple[int, int]:
    stages = partition(mlir.parse(text))
    check(stages)
    return sum(c.bytes for c in collect(stages.local, stages.mesh)), stages.mesh.size


@pytest.mark.parametrize("shape", [(8, 16), (5, 7), (13, 3), (2, 1, 6)])
def test_a_move_sends_at_most_what_gathering_the_whole_would(shape):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        text = move(rng, {"x": 4, "y": 2}, shape, hops=1)
        total, n = sent(text)
        # Shards of a dimension that its axes do not divide are rounded up, here by 8 at most.
        padded = np.prod([-(-s // n) * n for s in shape]) * 4
        assert total <= 2 * padded * (n - 1) // n, text


@pytest.mark.parametrize("shape", [(8, 16), (5, 7), (13, 3)])
def test_moves_deliver(shape):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        text = move(rng, {"x": 2, "y": 2, "z": 2}, shape, hops=3)
        value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(harness.run(text, value)[0], value, err_msg=text)


def chain(*shardings: str) -> str:
    lines, name = [], "%a"
    for i, s in enumerate(shardings[1:]):
        lines.append(f"%{i} = sdy.sharding_constraint {name} <@mesh, {s}> : tensor<16x16xf32>")
        name = f"%{i}"
    body = "\n    ".join(lines)
    first, last = (f"{{sdy.sharding = #sdy.sharding<@mesh, {shardings[i]}>}}" for i in (0, -1))
    return f"""module {{
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<16x16xf32> {first}) -> (tensor<16x16xf32> {last}) {{
    {body}
    return {name} : tensor<16x16xf32>
  }}
}}"""


def test_a_detour_that_ends_where_it_began_is_free():
    there, and_back = '[{"x"}, {}]', '[{}, {"x"}]'
    assert sent(chain(there, and_back, there))[0] == 0


def test_a_detour_through_a_copy_everywhere_is_one_exchange():
    total, _ = sent(chain('[{"x"}, {}]', "[{}, {}]", '[{}, {"x"}]'))
    assert total == 4 * 16 * 4 * 3 // 4  # an all_to_all of 4 rows among 4


def test_finer_shards_of_a_padded_dimension_are_cut_locally():
    text = chain('[{"x"}, {}]', '[{"x", "y"}, {}]').replace("16x16", "5x16")
    assert sent(text)[0] == 0


# (mesh, sharding before and after, elements of a 16 x 16 array that each device sends)
WAYS = [
    ("x=2,y=2,z=2", '[{"z"}, {"x"}]', '[{"z", "y", "x"}, {}]', 16),  # cut, then exchange
    ("x=2,y=2,z=2", "[{}, {}]", '[{"x", "y"}, {"z"}]', 0),
    ("x=2,y=2,z=2", '[{"z"}, {}]', '[{"x", "z"}, {}]', 64),  # cut, then permute
    ("x=2,y=2,z=2", '[{"y", "x"}, {"z"}]', '[{"x"}, {"z"}]', 32 + 32),  # permute, then gather
    ("x=2,y=2,z=2", '[{"y"}, {"z"}]', '[{"z"}, {"x", "y"}]', 32),  # cut and permute at once
    ("x=4,y=2", '[{"y"}, {"x"}]', '[{"x", "y"}, {}]', 16 + 28),  # two exchanges
    ("x=4,y=2", '[{"x"}, {}]', '[{}, {"y", "x"}]', 24),
]


@pytest.mark.parametrize("mesh, before, after, elements", WAYS)
def test_the_way_that_sends_least_is_found(mesh, before, after, elements):
    axes = ", ".join(f'"{name}"={size}' for name, size in (a.split("=") for a in mesh.split(",")))
    text = chain(before, after).replace('"x"=4, "y"=2', axes)
    assert sent(text)[0] == 4 * elements
    value = np.arange(256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(harness.run(text, value)[0], value)


def test_a_step_more_is_taken_where_it_saves_more_than_its_latency():
    """A permute and a gather send 64 elements, one gather, of which a part is kept, 96."""
    mesh = DeviceMesh({"x": 2, "y": 2, "z": 2}, [])
    x, y, z = (mesh.atoms_of(name) for name in "xyz")
    now, target = AxisLayout(mesh, (16, 16), (y + x, z)), AxisLayout(mesh, (16, 16), (x, z))
    for step, rows in ((1, x + y), (31, x + y), (33, ())):
        assert cheapest(now, target, 96 + step + 1, step)[0].dims == (rows, z)


def test_a_value_that_is_whole_for_one_user_is_cut_from_there_for_another(rng):
    text = """module {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
          tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %w = sdy.sharding_constraint %a <@mesh, [{}, {}]> : tensor<16x16xf32>
    %l = stablehlo.cholesky %w, lower = true : tensor<16x16xf32>
    %c = sdy.sharding_constraint %a <@mesh, [{}, {"x"}]> : tensor<16x16xf32>
    return %l, %c : tensor<16x16xf32>, tensor<16x16xf32>
  }
}"""
    assert sent(text)[0] == 4 * 16 * 4 * 3  # the gather alone
    half = rng.normal(size=(16, 16)).astype(np.float32)
    value = half @ half.T + 16 * np.eye(16, dtype=np.float32)
    lower, same = harness.run(text, value)
    np.testing.assert_allclose(np.tril(lower), np.linalg.cholesky(value), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(same, value)


def test_nothing_moves_again_where_the_copy_is_of_a_region_alone(rng):
    """Each turn of a loop gathers anew; behind it, no value of the loop is used."""
    text = """module {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %r:2 = stablehlo.while(%j = %i, %b = %a) : tensor<i32>, tensor<16x16xf32>
    cond {
      %q = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %w = sdy.sharding_constraint %a <@mesh, [{}, {}]> : tensor<16x16xf32>
      %l = stablehlo.cholesky %w, lower = true : tensor<16x16xf32>
      %s = stablehlo.add %b, %l : tensor<16x16xf32>
      %k = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %k, %s : tensor<i32>, tensor<16x16xf32>
    }
    %m = sdy.sharding_constraint %a <@mesh, [{}, {}]> : tensor<16x16xf32>
    %l = stablehlo.cholesky %m, lower = true : tensor<16x16xf32>
    %s = stablehlo.add %r#1, %l : tensor<16x16xf32>
    return %s : tensor<16x16xf32>
  }
}"""
    half = rng.normal(size=(16, 16)).astype(np.float32)
    value = half @ half.T + 16 * np.eye(16, dtype=np.float32)
    [got] = harness.run(text, value)
    expected = value + 4 * np.linalg.cholesky(value)
    np.testing.assert_allclose(np.tril(got), np.tril(expected), rtol=1e-4, atol=1e-4)
