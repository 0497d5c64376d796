# Tests: tests/native/test_formulas.py
"""Operations that weft/native replaces by formulas where the CPU runs them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from weft.lowering.limits import SCALAR_CALLS, SMALLEST, VECTORS, WIDE_CALLS, WIDE_VECTORS

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext

_NARROW = ("bfloat16", "float16", "float32")
_CALLS = dict.fromkeys((*_NARROW, "float64"), SCALAR_CALLS)
_LOOPS = dict.fromkeys(_NARROW, VECTORS) | {"float64": WIDE_VECTORS}
_DOUBLES = {"float64": WIDE_CALLS}
_EXPANDED = dict.fromkeys((*_NARROW, "float64"), SMALLEST)
"""Of those for which XLA has a formula as long, but less accurate."""

FORMULAS = {
    "chlo.acos": ("acos", _CALLS),
    "chlo.acosh": ("acosh", _EXPANDED),
    "chlo.asin": ("asin", _CALLS),
    "chlo.asinh": ("asinh", _EXPANDED),
    "chlo.atan": ("atan", _CALLS),
    "chlo.atanh": ("atanh", _EXPANDED),
    "chlo.cosh": ("cosh", _EXPANDED),
    "chlo.digamma": ("digamma", _EXPANDED),
    "chlo.erf": ("erf", _DOUBLES),
    "chlo.erf_inv": ("erf_inv", _EXPANDED),
    "chlo.erfc": ("erfc", _EXPANDED),
    "chlo.lgamma": ("lgamma", _EXPANDED),
    "chlo.sinh": ("sinh", _EXPANDED),
    "stablehlo.atan2": ("atan2", _CALLS),
    "stablehlo.cbrt": ("cbrt", _CALLS),
    "stablehlo.exponential": ("exp", _DOUBLES),
    "stablehlo.exponential_minus_one": ("expm1", _LOOPS),
    "stablehlo.log": ("log", _LOOPS | _DOUBLES),
    "stablehlo.log_plus_one": ("log1p", _LOOPS | _DOUBLES),
    "stablehlo.power": ("pow", _DOUBLES),
}
"""Operation → its formula's name in weft/formulas, and from how many elements it serves."""


def mark_formula(ctx: RuleContext, operation: ir.Operation) -> None:
    """Mark an operation that becomes a formula, if it is of enough elements."""
    aval = ctx.avals_out[0]
    if aval.size >= FORMULAS[operation.name][1].get(aval.dtype.name, inf):
        ctx.mark(operation, "formula")
