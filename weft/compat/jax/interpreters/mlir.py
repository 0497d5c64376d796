# Tests: tests/compat/test_as_jax.py
"""jax.interpreters.mlir: primitives in compiled programs."""

from weft._xla.mlir import ir
from weft.compat.lowering import (
    LoweringRuleContext,
    ModuleContext,
    aval_to_ir_type,
    dtype_to_ir_type,
    ir_constant,
    lower_fun,
    register_lowering,
)

Value = ir.Value

__all__ = [
    "LoweringRuleContext",
    "ModuleContext",
    "Value",
    "aval_to_ir_type",
    "dtype_to_ir_type",
    "ir",
    "ir_constant",
    "lower_fun",
    "register_lowering",
]
