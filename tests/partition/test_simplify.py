# ruff: noqa: E501 - lines of MLIR text read better whole
"""Slices move past what made their operand where that spares an exchange."""

import numpy as np
import pytest

import weft
from tests.partition import harness
from tests.partition.test_localize import module, sharding
from weft import P
from weft._xla import mlir
from weft.partition import partition
from weft.partition.collect import collect
from weft.partition.simplify import simplify


def program(body: str, result: str) -> str:
    return module(f"""
  func.func public @main(%a: tensor<16x4xf32> {sharding('{"x"}', "{}")}) -> {result} {{
    %c = stablehlo.constant dense<7.0> : tensor<f32>
    {body}
  }}""")


PADDED = """%p = stablehlo.pad %a, %c, low = [1, 0], high = [2, 0], interior = [0, 0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<19x4xf32>
    %s = stablehlo.slice %p [2:18, 0:4] : (tensor<19x4xf32>) -> tensor<16x4xf32>
    return %s : tensor<16x4xf32>"""
TWICE = """%p = stablehlo.slice %a [2:14, 1:4] : (tensor<16x4xf32>) -> tensor<12x3xf32>
    %s = stablehlo.slice %p [1:12:3, 0:3:2] : (tensor<12x3xf32>) -> tensor<4x2xf32>
    return %s : tensor<4x2xf32>"""
JOINED = """%n = stablehlo.negate %a : tensor<16x4xf32>
    %p = stablehlo.concatenate %a, %n, dim = 0 : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
    %s = stablehlo.slice %p [18:30, 0:4] : (tensor<32x4xf32>) -> tensor<12x4xf32>
    return %s : tensor<12x4xf32>"""


def simplified(text: str) -> str:
    parsed = mlir.parse(text)
    with parsed.context, mlir.unknown_location():
        simplify(parsed)
    parsed.operation.verify()
    return str(parsed)


def test_a_slice_of_a_pad_is_one_pad():
    text = simplified(program(PADDED, "tensor<16x4xf32>"))
    assert "stablehlo.slice" not in text and "low = [-1, 0], high = [1, 0]" in text


def test_a_pad_that_is_needed_whole_stays():
    body = PADDED.replace(
        "return %s : tensor<16x4xf32>", "return %s, %p : tensor<16x4xf32>, tensor<19x4xf32>"
    )
    text = simplified(program(body, "(tensor<16x4xf32>, tensor<19x4xf32>)"))
    assert "stablehlo.slice" in text


def test_a_slice_of_a_slice_is_one():
    text = simplified(program(TWICE, "tensor<4x2xf32>"))
    assert text.count("stablehlo.slice") == 1 and "[3:14:3, 1:4:2]" in text


def test_a_slice_of_one_part_of_a_concatenation_reads_the_part():
    text = simplified(program(JOINED, "tensor<12x4xf32>"))
    assert "concatenate" not in text and "slice %0 [2:14, 0:4]" in text


@pytest.mark.parametrize(
    "body, result, want",
    [
        (
            PADDED,
            "tensor<16x4xf32>",
            lambda a: np.pad(a, ((1, 2), (0, 0)), constant_values=7)[2:18],
        ),
        (TWICE, "tensor<4x2xf32>", lambda a: a[2:14, 1:4][1:12:3, ::2]),
        (JOINED, "tensor<12x4xf32>", lambda a: np.concatenate([a, -a])[18:30]),
    ],
)
def test_results_equal_numpy(body, result, want, rng):
    a = rng.normal(size=(16, 4)).astype(np.float32)
    np.testing.assert_array_equal(harness.run(program(body, result), a)[0], want(a))


def test_a_shifted_array_costs_one_row():
    rows = sharding('{"x"}', "{}")
    text = program(PADDED, f"(tensor<16x4xf32> {rows})")
    stages = partition(mlir.parse(text))
    assert [c.bytes for c in collect(stages.local, stages.mesh)] == [4 * 4]


@pytest.mark.parametrize("element", ["f32", "bf16", "i1", "ui4", "complex<f32>"])
def test_pieces_of_equal_elements_are_known(element):
    one = {"f32": "1.5", "bf16": "1.5", "i1": "true", "complex<f32>": "(1.0, 2.0)"}.get(
        element, "3"
    )
    text = simplified(
        module(f"""
  func.func public @main() -> tensor<16x4x{element}> {{
    %c = stablehlo.constant dense<{one}> : tensor<16x4x{element}>
    %s = stablehlo.slice %c [15:16, 0:4] : (tensor<16x4x{element}>) -> tensor<1x4x{element}>
    %t = stablehlo.slice %c [0:15, 0:4] : (tensor<16x4x{element}>) -> tensor<15x4x{element}>
    %r = stablehlo.concatenate %s, %t, dim = 0 : (tensor<1x4x{element}>, tensor<15x4x{element}>) -> tensor<16x4x{element}>
    return %r : tensor<16x4x{element}>
  }}""")
    )
    assert ("concatenate" in text) == (element == "complex<f32>")


@pytest.mark.parametrize(
    "before, after, dims, direct",
    [
        ((16, 4), (64,), (0,), "dimensions = [0, 1]"),
        ((16, 4), (4, 4, 4), (0, 1), "dimensions = [0]"),
        ((16, 4, 2), (16, 8), (1,), "dimensions = [1, 2]"),
        ((16, 4, 2), (64, 2), (1,), "dimensions = [2]"),
        ((16, 1, 4), (64,), (0,), "dimensions = [0, 1, 2]"),
        ((16, 4), (1, 64), (1,), "dimensions = [0, 1]"),
        ((16, 4), (4, 16), (1,), None),
        ((16, 4), (4, 4, 4), (1,), None),
    ],
)
def test_what_is_reduced_is_not_reshaped_before(before, after, dims, direct):
    shaped = [n for d, n in enumerate(after) if d not in dims]
    types = ["x".join([*map(str, shape), "f32"]) for shape in (before, after, shaped)]
    source, whole, small = (f"tensor<{t}>" for t in types)
    places = ", ".join(['{"x"}', *["{}"] * (len(before) - 1)])
    text = module(f"""
  func.func public @main(%a: {source} {{sdy.sharding = #sdy.sharding<@mesh, [{places}]>}}) -> {small} {{
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %p = stablehlo.reshape %a : ({source}) -> {whole}
    %s = stablehlo.reduce(%p init: %c) applies stablehlo.add across dimensions = {list(dims)} : ({whole}, tensor<f32>) -> {small}
    return %s : {small}
  }}""")
    made = simplified(text)
    assert (direct or f"across dimensions = {list(dims)}") in made
    if direct:
        assert "stablehlo.reshape" not in made[: made.index("stablehlo.reduce")]
    a = np.random.default_rng(0).normal(size=before).astype(np.float32)
    with mlir.context(), mlir.unknown_location():
        [got] = harness.execute(partition(mlir.parse(text)), a)
    np.testing.assert_allclose(got, a.reshape(after).sum(dims), rtol=1e-5)


def rows_of_a_cache(keys, rows, at):
    """Each sequence's row is read at its position, and another written there."""
    read = lambda c, p: weft.lax.dynamic_slice(c, (p, 0), (1, 4))[0]
    write = lambda c, row, p: weft.lax.dynamic_update_slice(c, row[None], (p, 0))
    old = weft.vmap(read)(keys, at)
    return old, weft.vmap(write)(keys, rows + old, at)


@pytest.mark.parametrize("spec", [P(None, "x"), P("y", "x"), P(None, ("x", "y"))])
def test_rows_are_read_and_written_where_they_are(rng, spec):
    mesh = weft.make_mesh((4, 2), ("x", "y"), (weft.AxisType.Auto,) * 2)
    specs = (spec, P(spec[0]), P(spec[0]))
    shardings = tuple(weft.NamedSharding(mesh, s) for s in specs)
    function = weft.jit(rows_of_a_cache, in_shardings=shardings, partitioner="weft")
    keys, rows = (rng.normal(size=s).astype(np.float32) for s in ((4, 16, 4), (4, 4)))
    at = np.array([0, 5, 15, 40], np.int32)
    old, new = function(keys, rows, at)
    clipped = np.minimum(at, 15)
    want = keys.copy()
    want[np.arange(4), clipped] += rows
    np.testing.assert_array_equal(old, keys[np.arange(4), clipped])
    np.testing.assert_allclose(new, want, rtol=1e-6)
    kinds = weft.comm(function, keys, rows, at).counts()
    assert set(kinds) <= {"all_reduce"}  # of the rows that are read; the cache stays split


TWO_PRODUCTS = """%w = stablehlo.slice %a [0:4, 0:4] : (tensor<16x4xf32>) -> tensor<4x4xf32>
    %v = stablehlo.slice %a [0:4, 0:4] : (tensor<16x4xf32>) -> tensor<4x4xf32>
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %e = stablehlo.dot_general %a, %v, contracting_dims = [1] x [OTHER] : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %f = stablehlo.add %d, %e : tensor<16x4xf32>
    return %f : tensor<16x4xf32>"""


@pytest.mark.parametrize(("other", "products"), [("0", 1), ("1", 2)])
def test_a_product_of_equal_operands_is_computed_once(rng, other, products):
    text = program(TWO_PRODUCTS.replace("OTHER", other), "tensor<16x4xf32>")
    assert simplified(text).count("stablehlo.dot_general") == products
    a = rng.normal(size=(16, 4)).astype(np.float32)
    w = a[:4]
    [got] = harness.run(text, a)
    np.testing.assert_allclose(got, a @ w + a @ (w if other == "0" else w.T), rtol=1e-5, atol=1e-5)
