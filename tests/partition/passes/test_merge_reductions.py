"""Reductions that are only added to each other become one; values stay."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.partition.passes.test_optimize import before_and_after
from tests.partition.test_localize import module, sharding
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P


def mesh():
    return weft.make_mesh((4, 2), ("data", "model"), axis_types=(weft.AxisType.Auto,) * 2)


def place(*spec):
    return NamedSharding(mesh(), P(*spec))


A, B, C = (np.random.default_rng(i).integers(-4, 5, (8, 16)).astype(np.float32) for i in range(3))
V, W = (np.random.default_rng(i).integers(-3, 4, (16, 6)).astype(np.float32) for i in (3, 4))
U = np.arange(48, dtype=np.float32).reshape(8, 6)

# function of rows a, b that are split over the summed dimension; how many all_reduces are left
CASES = {
    "two products": (lambda a, b, v, w, u: a @ v + b @ w, 1),
    "a difference": (lambda a, b, v, w, u: a @ v - b @ w, 1),
    "three products": (lambda a, b, v, w, u: a @ v + b @ w + (a * b) @ v, 1),
    "in between": (lambda a, b, v, w, u: a @ v + u + b @ w, 1),
    "at the end": (lambda a, b, v, w, u: u + a @ v + b @ w, 1),
    "moved first": (lambda a, b, v, w, u: (a @ v).T - (b @ w).T.reshape(6, 8), 1),
    "negated": (lambda a, b, v, w, u: -(a @ v) + b @ w, 1),
    "needed itself": (lambda a, b, v, w, u: (a @ v + b @ w) * (a @ v), 2),
    "a product of sums": (lambda a, b, v, w, u: (a @ v) * (b @ w), 2),
    "largest": (lambda a, b, v, w, u: a.max(1) + b.max(1), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_of_sums_are_reduced_once(name):
    run, left = CASES[name]
    rows, columns = place(None, "model"), place("model")
    jitted = weft.jit(
        run,
        in_shardings=(rows, rows, columns, columns, place()),
        out_shardings=place(),
        partitioner="weft",
    )
    args = (A, B, V, W, U)
    found = weft.comm(jitted, *args).collectives
    assert {c.kind for c in found} == {"all_reduce"}
    assert sum(c.operand_bytes for c in found) == left * 4 * (8 if name == "largest" else 48)
    np.testing.assert_array_equal(np.asarray(jitted(*args)), run(*args))


def test_the_gradient_of_what_three_projections_read_is_reduced_once():
    """The rows are split over data, the weights' columns over model, as in attention."""

    def run(x, q, k, v):
        return weft.grad(lambda x: sum((wnp.tanh(x @ w) ** 2).sum() for w in (q, k, v)))(x)

    weights = [np.random.default_rng(i).normal(size=(16, 8)).astype(np.float32) for i in range(3)]
    columns = place(None, "model")
    jitted = weft.jit(run, in_shardings=(place("data"), columns, columns, columns))
    x = A / 4
    weft.testing.assert_comm(jitted, (x, *weights), all_reduce=1, max_bytes=2 * 16 * 4)
    want = 0
    for w in weights:
        t = np.tanh(x @ w)
        want = want + (2 * t * (1 - t * t)) @ w.T
    np.testing.assert_allclose(np.asarray(jitted(x, *weights)), want, rtol=1e-4, atol=1e-4)


def test_scattered_sums_are_scattered_once():
    rows, columns = place(None, "model"), place("model")
    jitted = weft.jit(
        lambda a, b, v, w: a @ v + b @ w,
        in_shardings=(rows, rows, columns, columns),
        out_shardings=rows.update(spec=P("model")),
        partitioner="weft",
    )
    weft.testing.assert_comm(jitted, (A, B, V, W), reduce_scatter=1)
    np.testing.assert_array_equal(np.asarray(jitted(A, B, V, W)), A @ V + B @ W)


def test_maxima_of_maxima_are_reduced_once():
    jitted = weft.jit(
        lambda a, b: wnp.maximum(a.max(0), b.max(0)),
        in_shardings=(place("data"), place("data")),
        out_shardings=place(),
    )
    weft.testing.assert_comm(jitted, (A, B), all_reduce=1, max_bytes=16 * 4 * 2)
    np.testing.assert_array_equal(np.asarray(jitted(A, B)), np.maximum(A.max(0), B.max(0)))


def test_sums_over_other_devices_are_reduced_by_themselves():
    text = module(f"""
  func.func public @main(%a: tensor<8x8xf32> {sharding('{"x"}', "{}")}, %b: tensor<8x8xf32> {sharding('{"y"}', "{}")}) -> tensor<8xf32> {{
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.reduce(%b init: %c) applies stablehlo.add across dimensions = [0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.add %0, %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }}""")  # noqa: E501
    before, after = before_and_after(text)
    assert before == after and before[0] == 2


def test_sums_that_users_wrote_stay_two():
    @weft.jit
    @weft.shard_map(
        mesh=mesh(), in_specs=(P("data"), P("data")), out_specs=P(), axis_names={"data"}
    )
    def run(a, b):
        return weft.lax.psum(a.sum(0), "data") + weft.lax.psum(b.sum(0), "data")

    [joined] = weft.comm(run, A, B).collectives  # sent together, but each for itself
    assert joined.operand_bytes == 2 * 16 * 4
    np.testing.assert_array_equal(np.asarray(run(A, B)), A.sum(0) + B.sum(0))
