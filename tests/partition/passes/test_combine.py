# ruff: noqa: E501 - lines of MLIR text read better whole
"""Small collectives that do not wait for each other become one; what they give stays."""

import numpy as np
import pytest

import weft
from tests.collectives.harness import COMPILER_OPTIONS, mesh_of
from tests.partition import harness
from tests.partition.passes.test_optimize import before_and_after
from tests.partition.test_localize import module, sharding
from tests.spmd_reference import Machine
from weft import P, lax

N = 4
RING = [(i, (i + 1) % N) for i in range(N)]

SUMS = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")}) -> (tensor<8xf32>, tensor<8xf32>) {{
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.abs %a : tensor<8x8xf32>
    %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    return %0, %2 : tensor<8xf32>, tensor<8xf32>
  }}""")


def test_small_independent_all_reduces_become_one(rng):
    (calls, sent), (fewer, same) = before_and_after(SUMS)
    assert (calls, fewer) == (2, 1) and sent == same
    x = rng.integers(-4, 5, (8, 8)).astype(np.float32)
    got = harness.run(SUMS, x)
    np.testing.assert_array_equal(got[0], x.sum(0))
    np.testing.assert_array_equal(got[1], np.abs(x).sum(0))


USED_BETWEEN = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")}) -> (tensor<8x1xf32>, tensor<8xf32>, tensor<8xf32>) {{
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.negate %0 : tensor<8xf32>
    %2 = stablehlo.reshape %1 : (tensor<8xf32>) -> tensor<8x1xf32>
    %3 = stablehlo.abs %a : tensor<8x8xf32>
    %4 = stablehlo.reduce(%3 init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %5 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
    %6 = stablehlo.multiply %a, %5 : tensor<8x8xf32>
    %7 = stablehlo.reduce(%6 init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    return %2, %4, %7 : tensor<8x1xf32>, tensor<8xf32>, tensor<8xf32>
  }}""")


def test_all_reduces_become_one_though_results_are_used_between_them(rng):
    """The third sum needs the first, so two are left."""
    (calls, sent), (fewer, same) = before_and_after(USED_BETWEEN)
    assert (calls, fewer) == (3, 2) and sent == same
    x = rng.integers(-4, 5, (8, 8)).astype(np.float32)
    got = harness.run(USED_BETWEEN, x)
    np.testing.assert_array_equal(got[0], -x.sum(0)[:, None])
    np.testing.assert_array_equal(got[1], np.abs(x).sum(0))
    np.testing.assert_array_equal(got[2], (x * -x.sum(0)).sum(0))


def on_devices(body, count: int):
    """A function of two arrays, each split along its first dimension; results stand in a row."""
    mesh = mesh_of(Machine(x=N), ("x",))
    options = {"mesh": mesh, "in_specs": (P("x"), P("x")), "out_specs": (P("x"),) * count}
    mapped = weft.shard_map(body, **options, check_vma=False)
    return weft.jit(mapped, compiler_options=COMPILER_OPTIONS)


def _gathered(parts, axis):
    return [np.concatenate(parts, axis)] * N


def _scattered(parts, axis):
    return np.split(np.sum(parts, 0), N, axis)


def _exchanged(parts, split, concat):
    cut = [np.split(p, N, split) for p in parts]
    return [np.concatenate([c[i] for c in cut], concat) for i in range(N)]


def _turned(parts):
    return [parts[-1], *parts[:-1]]


# name: (what is sent of the first and the second array, and the same on the host)
KINDS = {
    "all_gather": (
        lambda v, w: (
            lax.all_gather(v, "x", axis=1, tiled=True),
            lax.all_gather(w, "x", axis=0, tiled=True),
        ),
        lambda v, w: (_gathered(v, 1), _gathered(w, 0)),
    ),
    "reduce_scatter": (
        lambda v, w: (
            lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True),
            lax.psum_scatter(w, "x", scatter_dimension=2, tiled=True),
        ),
        lambda v, w: (_scattered(v, 1), _scattered(w, 2)),
    ),
    "all_to_all": (
        lambda v, w: (
            lax.all_to_all(v, "x", split_axis=1, concat_axis=0, tiled=True),
            lax.all_to_all(w, "x", split_axis=2, concat_axis=1, tiled=True),
        ),
        lambda v, w: (_exchanged(v, 1, 0), _exchanged(w, 2, 1)),
    ),
    "collective_permute": (
        lambda v, w: (lax.ppermute(v, "x", RING), lax.ppermute(w, "x", RING)),
        lambda v, w: (_turned(v), _turned(w)),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_two_small_collectives_of_a_kind_become_one(kind, rng):
    body, on_host = KINDS[kind]
    a = rng.integers(-9, 9, (8, 8)).astype(np.float32)
    b = rng.integers(-9, 9, (4, 3, 4)).astype(np.float32)
    f = on_devices(body, 2)
    report = weft.comm(f, a, b)
    assert report.counts() == {kind: 1}
    parts = on_host(np.split(a, N), np.split(b, N))
    for got, part in zip(f(a, b), parts, strict=True):
        np.testing.assert_array_equal(got, np.concatenate(part))


def test_collectives_that_wait_for_each_other_stay_apart(rng):
    """Two gathers and two sums, each in front of one of the other kind: one pair is left apart."""

    def body(v, w):
        rows = lax.all_gather(v, "x", tiled=True)
        total = lax.psum(w, "x")
        more = lax.all_gather(total * w, "x", tiled=True)
        return rows, more, lax.psum(rows[:2] * v, "x")

    a = rng.integers(-4, 4, (8, 3)).astype(np.float32)
    b = rng.integers(-4, 4, (4, 2)).astype(np.float32)
    f = on_devices(body, 3)
    assert sum(weft.comm(f, a, b).counts().values()) == 3
    rows, more, total = f(a, b)
    np.testing.assert_array_equal(rows, np.tile(a, (N, 1)))
    np.testing.assert_array_equal(more, np.tile(b.sum(0) * b, (N, 1)))
    once = sum(a[:2] * part for part in np.split(a, N))
    np.testing.assert_array_equal(total, np.tile(once, (N, 1)))


def test_large_collectives_and_other_element_types_stay_apart():
    def body(v, w):
        gather = lambda x: lax.all_gather(x, "x", tiled=True)
        return gather(v), gather(v * 2), gather(w), gather(w.astype(np.int32))

    large = weft.ShapeDtypeStruct((N, 8192), "float32")
    small = weft.ShapeDtypeStruct((N, 8), "float32")
    assert weft.comm(on_devices(body, 4), large, small).counts() == {"all_gather": 4}
