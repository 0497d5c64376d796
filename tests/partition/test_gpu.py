"""Programs over eight H100s: what XLA's compiler takes there, and no more bytes than its own."""

import re

import numpy as np
import pytest

import weft
from benchmarks.hlo_bytes import count_bytes
from tests.gpu_machine import mesh_of, placed
from weft import P, lax
from weft._xla import mlir
from weft.partition.gpu import for_gpu
from weft.runtime.compile import CompileError

pytestmark = pytest.mark.accelerators

TEXT = """module @sums attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32} {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %n = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %n, %x = %a, %y = %b)
        : tensor<i32>, tensor<4xf32>, tensor<2xf32>
    cond {
      %c = stablehlo.constant dense<5> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1:2 = "stablehlo.all_reduce"(%x, %y) ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %m = stablehlo.maximum %l, %r : tensor<f32>
        stablehlo.return %m : tensor<f32>
      }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}
          : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
      %one = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %2, %1#0, %1#1 : tensor<i32>, tensor<4xf32>, tensor<2xf32>
    }
    return %0#1, %0#2 : tensor<4xf32>, tensor<2xf32>
  }
}"""


def test_in_loops_each_operand_of_an_all_reduce_gets_its_own():
    with mlir.context(), mlir.unknown_location():
        module = mlir.parse(TEXT)
        made = for_gpu(module)
        made.operation.verify()
        text = str(made)
    assert text.count('"stablehlo.all_reduce"') == text.count("stablehlo.maximum") == 2
    assert str(module).count('"stablehlo.all_reduce"') == 1  # the given one stays
    with mlir.context():
        assert for_gpu(made) is made


def joined(lowered):
    return str(lowered.stages.local).replace("\n", " ")


def test_sums_that_are_joined_in_a_loop_compile():
    """XLA's pass that moves sums out of loops ends the process at joined ones."""

    def body(x):
        def step(carry, _):
            a, b = carry
            sums = lax.psum(a, "x") * 0.1, lax.pmean(b, "x") + 1
            return weft.tree.map(lambda v: lax.pcast(v, "x", to="varying"), sums), None

        a, b = lax.scan(step, (x.sum(0), x[0, :4]), None, length=4)[0]
        return a[None], b[None]

    mesh = mesh_of()
    mapped = weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    lowered = weft.jit(mapped).lower(placed(((8, 16), np.float32), mesh, "x"))
    assert re.search(r"all_reduce.*tensor<16xf32>, tensor<4xf32>", joined(lowered))
    assert "all-reduce-start" in lowered.compile().as_text()


def layers(mesh):
    """A gradient step of a stack of layers, split over data × model, its weights over both."""

    def loss(weights, x):
        def layer(x, w):
            up, down = w
            return x + weft.numpy.tanh(x @ up) @ down, None

        return weft.numpy.mean(lax.scan(layer, x, weights)[0] ** 2)

    up = placed(((4, 64, 128), np.float32), mesh, None, None, "model")
    down = placed(((4, 128, 64), np.float32), mesh, None, "model", None)
    places = (up.sharding, down.sharding)
    return (
        lambda partitioner: weft.jit(
            weft.value_and_grad(loss), out_shardings=(None, places), partitioner=partitioner
        ),
        ((up, down), placed(((64, 64), np.float32), mesh, "data")),
    )


def test_a_step_sends_no_more_than_by_xlas_partitioner():
    step, types = layers(mesh_of(data=4, model=2))
    ours, theirs = (count_bytes(step(p).lower(*types).compile().as_text()) for p in ("weft", "xla"))
    assert 0 < sum(ours.values()) <= sum(theirs.values())


def test_a_program_that_xla_refuses_is_named():
    with pytest.raises(CompileError, match="XLA cannot compile"):
        weft.jit(lambda x: x + 1).lower(placed(((8,), np.float32), mesh_of("h100:1"))).compile(
            {"xla_gpu_no_such_option": True}
        )
