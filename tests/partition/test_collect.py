# ruff: noqa: E501 - lines of MLIR text read better whole
"""Collectives of a local program: kinds, axes, bytes, trips, source lines, reasons."""

import numpy as np
import pytest

from benchmarks.hlo_bytes import count_bytes
from tests.partition import harness
from tests.partition.test_localize import module, sharding
from weft._xla import mlir
from weft.partition import partition
from weft.partition.collect import bytes_sent, collect


def collectives(text: str, **options):
    stages = partition(mlir.parse(text), **options)
    return collect(stages.local, stages.mesh)


DOT = module(f"""
  func.func public @main(%a: tensor<8x16xf32> {sharding('{"x"}', '{"y"}')},
      %b: tensor<16x4xf32> {sharding('{"y"}', "{}")}) -> tensor<8x4xf32> {{
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32> loc("model.py":12:3)
    return %0 : tensor<8x4xf32>
  }}""")


def test_a_split_contraction_is_one_all_reduce_with_its_bytes():
    [c] = [c for c in collectives(DOT) if c.kind == "all_reduce"]
    assert c.axes == ("y",) and c.group_size == 2 and c.trips == 1
    assert c.operand_bytes == 2 * 4 * 4  # 8/4 rows, 4 columns, f32
    assert c.bytes == 2 * 32 * 1 // 2
    assert c.source.endswith("model.py:12")


def test_reasons_name_producer_and_where_its_sharding_came_from():
    found = collectives(DOT, explain=True)
    why = {c.kind: c.why for c in found}
    assert "dot_general (model.py:12) splits what it sums over y" in why["all_reduce"]
    assert "y from argument 0" in why["all_reduce"]


def test_reasons_name_both_sides_of_a_move():
    text = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")})
      -> (tensor<8x8xf32> {sharding("{}", '{"x"}')}) {{
    %0 = stablehlo.negate %a : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }}""")
    [c] = collectives(text, explain=True)
    assert c.kind == "all_to_all"
    assert "(–, x)" in c.why and "(x, –)" in c.why


def test_a_collective_of_an_argument_has_its_consumers_line():
    text = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")}) -> tensor<8x8xf32> {{
    %0 = "stablehlo.sort"(%a) <{{dimension = 0 : i64}}> ({{
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %l = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %l : tensor<i1>
    }}) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("model.py":7:3)
    return %0 : tensor<8x8xf32>
  }}""")
    assert {c.source for c in collectives(text, explain=True)} == {"model.py:7"}


LOOP = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")}) -> tensor<8x8xf32> {{
    %zero = stablehlo.constant dense<2> : tensor<i32>
    %one = stablehlo.constant dense<3> : tensor<i32>
    %n = stablehlo.constant dense<17> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %z = %a) : tensor<i32>, tensor<8x8xf32>
    cond {{
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.reverse %z, dims = [0] : tensor<8x8xf32>
      stablehlo.return %j, %y : tensor<i32>, tensor<8x8xf32>
    }}
    return %r#1 : tensor<8x8xf32>
  }}""")


def test_loops_multiply():
    [c] = [c for c in collectives(LOOP) if c.kind == "collective_permute"]
    assert c.trips == len(range(2, 17, 3)) and c.exact_trips
    assert c.total_bytes == c.trips * c.bytes


def test_an_unknown_trip_count_is_marked():
    text = LOOP.replace("compare LT, %i, %n", "compare NE, %i, %n")
    [c] = [c for c in collectives(text) if c.kind == "collective_permute"]
    assert c.trips == 1 and not c.exact_trips


@pytest.mark.parametrize(
    "kind, n, want",
    [
        ("all_reduce", 4, 2 * 3 * 100 // 4),
        ("all_gather", 4, 300),
        ("reduce_scatter", 4, 75),
        ("all_to_all", 4, 75),
        ("collective_permute", 2, 100),
        ("all_reduce", 1, 0),
    ],
)
def test_bytes_sent_by_the_ring_algorithms(kind, n, want):
    assert bytes_sent(kind, 100, n) == want


@pytest.mark.parametrize("text", [DOT, LOOP])
def test_the_optimized_hlo_sends_what_the_local_program_says(text):
    stages = partition(mlir.parse(text))
    mine = sum(c.total_bytes for c in collect(stages.local, stages.mesh))
    hlo = harness.compile_local(stages).hlo_modules()[0].to_string()
    assert sum(count_bytes(hlo).values()) == mine


HLO = """HloModule m
%body.1 (p: f32[8]) -> f32[8] {
  %x = f32[8]{0} all-reduce(%p), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
  ROOT %y = f32[8]{0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}
}
ENTRY %main (a: f32[8]) -> f32[8] {
  %w = (s32[], f32[8]) while(%t), condition=%cond, body=%body.1, backend_config={"known_trip_count":{"n":"5"}}
  %g = f32[32]{0} all-gather(%a), replica_groups=[2,4]<=[8], dimensions={0}
  %h = f32[2]{0} reduce-scatter(%a), replica_groups=mesh['x'=2,'y'=4] {'y'}, dimensions={0}
  ROOT %r = f32[8]{0} all-to-all(%a), replica_groups={{0,1}}, dimensions={0}
}
"""


def test_hlo_text_is_counted_with_every_spelling_of_groups():
    got = count_bytes(HLO)
    assert got["all_reduce"] == 5 * (2 * 32 * 3 // 4)
    assert got["collective_permute"] == 5 * 32
    assert got["all_gather"] == 32 * 3
    assert got["reduce_scatter"] == 32 * 3 // 4
    assert got["all_to_all"] == 16


GROUPS = "replica_groups={{0,1,2,3,4,5,6,7}}"
STARTED = [
    ("all_reduce", "f32[6]{0} all-reduce-start(%a)", 2 * 24 * 7 // 8),
    ("all_reduce", "(f32[6]{0}, f32[2]{0}) all-reduce-start(%a, %b)", 2 * 32 * 7 // 8),
    ("all_reduce", "((f32[6]{0}), f32[6]{0}) all-reduce-start(%a)", 2 * 24 * 7 // 8),
    ("all_gather", "(f32[1,6]{1,0}, f32[8,6]{1,0}) all-gather-start(%a)", 7 * 24),
    ("all_gather", "((f32[1,6]{1,0}), f32[8,6]{1,0}) all-gather-start(%a)", 7 * 24),
    (
        "all_gather",
        "((f32[1]{0}, f32[2]{0}), (f32[8]{0}, f32[16]{0})) all-gather-start(%a, %b)",
        7 * 12,
    ),
    ("reduce_scatter", "((f32[8,6]{1,0}), f32[1,6]{1,0}) reduce-scatter-start(%a)", 7 * 24),
    ("all_to_all", "((f32[1,8]{1,0}), f32[1,8]{1,0:T(8)}, u32[]) all-to-all-start(%a)", 28),
    ("collective_permute", "(f32[6]{0}, f32[6]{0}, u32[], u32[]) collective-permute-start(%a)", 24),
]


@pytest.mark.parametrize("kind, started, bytes", STARTED)
def test_started_collectives_are_counted_once_without_their_operands(kind, started, bytes):
    groups = "source_target_pairs={{0,1},{1,0}}" if "permute" in kind else GROUPS
    done = f"{kind.replace('_', '-')}-done(%s)"
    got = count_bytes(f"""HloModule m
ENTRY %main (a: f32[6]) -> f32[6] {{
  %s = {started}, channel_id=1, {groups}
  ROOT %r = f32[6]{{0}} {done}
}}
""")
    assert got == {kind: bytes}


def test_a_wrapped_collective_is_counted_where_it_starts():
    got = count_bytes(f"""HloModule m
%wrapped (p: f32[6]) -> f32[6] {{
  ROOT %x = f32[6]{{0}} all-reduce(%p), {GROUPS}, to_apply=%add
}}
ENTRY %main (a: f32[6]) -> f32[6] {{
  %s = ((f32[6]), f32[6], u32[]) async-start(%a), calls=%wrapped
  %u = ((f32[6]), f32[6], u32[]) async-update(%s), calls=%wrapped
  ROOT %r = f32[6]{{0}} async-done(%u), calls=%wrapped
}}
""")
    assert got == {"all_reduce": 42}


def test_4096_devices_need_no_devices_and_little_more_time():
    text = DOT.replace('"x"=4, "y"=2', '"x"=64, "y"=64')
    text = (
        text.replace("8x16x", "6400x6400x").replace("16x4x", "6400x4x").replace("8x4x", "6400x4x")
    )
    found = collectives(text)
    [c] = [c for c in found if c.kind == "all_reduce"]
    assert c.group_size == 64 and c.bytes == 2 * (100 * 4 * 4) * 63 // 64
    assert np.all([c.group_size == 64 for c in found])
