# Tests: tests/compat/test_as_jax.py
"""jax.interpreters.mlir: primitives in compiled programs."""

from weft._xla.mlir import bytecode as module_to_bytecode
from weft._xla.mlir import ir
from weft._xla.mlir import text as module_to_string
from weft.compat.lowering import (
    LoweringRuleContext,
    ModuleContext,
    aval_to_ir_type,
    aval_to_ir_types,
    dense_int_array,
    dense_int_elements,
    dtype_to_ir_type,
    flatten_ir_values,
    i32_attr,
    i64_attr,
    ir_attribute,
    ir_constant,
    ir_constants,
    lower_fun,
    register_lowering,
)

Value = ir.Value
flatten_ir_types = flatten_ir_values

__all__ = [
    "LoweringRuleContext",
    "ModuleContext",
    "Value",
    "aval_to_ir_type",
    "aval_to_ir_types",
    "dense_int_array",
    "dense_int_elements",
    "dtype_to_ir_type",
    "flatten_ir_types",
    "flatten_ir_values",
    "i32_attr",
    "i64_attr",
    "ir",
    "ir_attribute",
    "ir_constant",
    "ir_constants",
    "lower_fun",
    "module_to_bytecode",
    "module_to_string",
    "register_lowering",
]
