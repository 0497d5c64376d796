"""The table of operations holds facts about real operations."""

import numpy as np
import pytest

from weft._xla import mlir, passes
from weft._xla.mlir import ir
from weft.partition.ops import OPS, facts, linear_operands, named, neutral


def test_every_row_is_an_operation_of_its_dialect():
    context = mlir.context()
    unknown = [name for name in OPS if not context.is_registered_operation(name)]
    assert unknown == []


def test_an_operation_without_a_row_may_have_effects():
    with mlir.context():
        made = ir.Operation.parse('"stablehlo.custom_call"() {call_target_name = "f"} : () -> ()')
    assert facts(made).effects and not facts(made).pure


COMBINE = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
DTYPES = {"i8": np.int8, "ui8": np.uint8, "i64": np.int64, "f16": np.float16, "f32": np.float32}


def scalar(text: str, element: str) -> np.ndarray:
    """The scalar that MLIR reads in the text."""
    with mlir.context():
        value = ir.Attribute.parse(f"dense<{text}> : tensor<{element}>")
        return np.array(value)[()]


COMBINED = [
    (name, element)
    for name in sorted(named(lambda row: row.neutral))
    for element in DTYPES
    if "f" not in element or name not in ("stablehlo.and", "stablehlo.or")
]


@pytest.mark.parametrize("name, element", COMBINED)
def test_neutral_elements_change_nothing(name, element):
    short = name.removeprefix("stablehlo.")
    with mlir.context():
        text = neutral(name, ir.Type.parse(element))
    dtype = DTYPES[element]
    if element.startswith("f"):
        values = np.array([-np.inf, -3.5, 0, 2, np.inf], dtype)
    else:
        values = np.array([np.iinfo(dtype).min, 0, 1, 77, np.iinfo(dtype).max], dtype)
    one = np.asarray(scalar(text, element)).astype(dtype)
    np.testing.assert_array_equal(COMBINE[short](values, one), values)
    if OPS[name].idempotent:
        np.testing.assert_array_equal(COMBINE[short](values, values), values)


def test_the_neutral_element_of_truth_values():
    with mlir.context():
        bit = ir.Type.parse("i1")
    found = {name: neutral(f"stablehlo.{name}", bit) for name in ("and", "or", "add", "maximum")}
    assert found == {"and": "true", "or": "false", "add": None, "maximum": None}


# One operation of each arity, as Shardy's registry sees it: one factor for each dimension.
ONE = "tensor<4x6xf32>"
OTHER_TYPES = {
    "complex": ("f32", "complex<f32>"),
    "real": ("complex<f32>", "f32"),
    "imag": ("complex<f32>", "f32"),
    "is_finite": ("f32", "i1"),
    **dict.fromkeys(
        (
            *("and", "or", "xor", "not", "popcnt", "count_leading_zeros", "shift_left"),
            *("shift_right_arithmetic", "shift_right_logical"),
        ),
        ("i32", "i32"),
    ),
}
ATTRIBUTES = {
    "compare": "{comparison_direction = #stablehlo<comparison_direction LT>}",
    "reduce_precision": "{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}",
}
OPERANDS = {
    **dict.fromkeys(
        (
            *("add", "and", "atan2", "compare", "complex", "divide", "maximum", "minimum"),
            *("multiply", "or", "power", "remainder", "shift_left", "shift_right_arithmetic"),
            *("shift_right_logical", "subtract", "xor"),
        ),
        2,
    ),
    "clamp": 3,
    "select": 3,
}


@pytest.mark.parametrize(
    "name", sorted(n for n in named(lambda row: row.pointwise) if n.startswith("stablehlo."))
)
def test_shardys_registry_agrees_on_what_is_pointwise(name):
    short = name.removeprefix("stablehlo.")
    given, made = OTHER_TYPES.get(short, ("f32", "i1" if short == "compare" else "f32"))
    types = [f"tensor<4x6x{given}>"] * OPERANDS.get(short, 1)
    if short == "select":
        types[0] = "tensor<4x6xi1>"
    names = [f"%a{i}" for i in range(len(types))]
    signature = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    module = mlir.parse(f"""
        func.func @main({signature}) -> tensor<4x6x{made}> {{
          %r = "{name}"({", ".join(names)}) {ATTRIBUTES.get(short, "")}
            : ({", ".join(types)}) -> tensor<4x6x{made}>
          return %r : tensor<4x6x{made}>
        }}""")
    passes.run(module, "func.func(sdy-populate-op-sharding-rules)")
    [op, _] = module.body.operations[0].regions[0].blocks[0].operations
    dims = ", ".join(["[i, j]"] * len(types))
    assert f"({dims})->([i, j]) {{i=4, j=6}}>" in str(op.operation.attributes["sdy.sharding_rule"])


def test_linear_operands_of_a_concatenation_are_all():
    module = mlir.parse("""
        func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<12xf32> {
          %r = stablehlo.concatenate %a, %b, %a, dim = 0
            : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<12xf32>
          return %r : tensor<12xf32>
        }""")
    [op, _] = module.body.operations[0].regions[0].blocks[0].operations
    assert linear_operands(op.operation) == (0, 1, 2)
