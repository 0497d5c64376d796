# ruff: noqa: E501 - lines of MLIR text read better whole
"""Every axis of a propagated sharding knows which of the user's shardings it came from."""

import re

import numpy as np

import weft
from tests.partition.test_localize import module, sharding
from weft import NamedSharding, P
from weft import numpy as wnp
from weft._xla import mlir
from weft.partition.propagate import propagate


def origins(text: str) -> dict[str, str]:
    """Operation → the origins of its first result, as text."""
    done = mlir.text(propagate(mlir.parse(text), origins=True))
    found = re.findall(r"= \"?([a-z.]+\.[a-z_]+).*sdy.sharding_origins = \[\{([^}]*)\}", done)
    return {name: row.replace('"', "") for name, row in found}


def test_products_take_their_axes_from_the_operands_that_have_them():
    text = module(f"""
  func.func public @main(%a: tensor<8x16xf32> {sharding('{"x"}', "{}")}, %b: tensor<16x4xf32> {sharding("{}", '{"y"}')}) -> tensor<8x4xf32> {{
    %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    return %c : tensor<8x4xf32>
  }}""")
    assert origins(text)["stablehlo.dot_general"] == "x = input: 0, y = input: 1"


def test_constraints_and_results_are_origins_too():
    text = module(f"""
  func.func public @main(%a: tensor<8x16xf32>, %b: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32> {sharding("{}", '{"y"}')}) {{
    %c = stablehlo.tanh %a : tensor<8x16xf32>
    %d = sdy.sharding_constraint %c <@mesh, [{{"x"}}, {{}}]> : tensor<8x16xf32>
    %e = stablehlo.abs %b : tensor<8x16xf32>
    return %d, %e : tensor<8x16xf32>, tensor<8x16xf32>
  }}""")
    found = origins(text)
    assert found["stablehlo.tanh"] == "x = constraint_0"
    assert found["stablehlo.abs"] == "y = output: 1"


def test_axes_are_followed_into_loops():
    text = module(f"""
  func.func public @main(%a: tensor<8x16xf32> {sharding('{"x"}', "{}")}) -> tensor<8x16xf32> {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8x16xf32>
    cond {{
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    }} do {{
      %d = stablehlo.tanh %c : tensor<8x16xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %d : tensor<i32>, tensor<8x16xf32>
    }}
    return %r#1 : tensor<8x16xf32>
  }}""")
    assert origins(text)["stablehlo.tanh"] == "x = input: 0"


def test_a_report_on_the_gradient_of_attention_does_not_end_the_process(rng):
    """Shardy's own record of origins reads freed memory on this program (jaxlib 0.10.2)."""
    mesh = weft.make_mesh((4, 2), ("x", "y"), (weft.AxisType.Auto,) * 2)

    def loss(x, projections, out):
        q, k, v = wnp.moveaxis((x @ projections).reshape(3, 16, 3, 2, 3), 2, 0)
        scores = wnp.einsum("bqhd,bkhd->bhqk", q, k)
        scores = wnp.where(wnp.tril(wnp.ones((16, 16), bool)), scores, -1e9)
        mixed = wnp.einsum("bhqk,bkhd->bqhd", weft.nn.softmax(scores, -1), v)
        return ((x + mixed.reshape(3, 16, 6) @ out) ** 2).mean()

    specs = (P(None, "x"), P(("y",)), P(None, "y"))
    step = weft.jit(
        weft.value_and_grad(loss, (0, 1, 2)),
        in_shardings=tuple(NamedSharding(mesh, s) for s in specs),
    )
    shapes = ((3, 16, 6), (6, 18), (6, 6))
    args = [rng.normal(size=s).astype(np.float32) for s in shapes]
    report = weft.comm(step, *args)
    assert any("from argument" in c.why for c in report.collectives)
