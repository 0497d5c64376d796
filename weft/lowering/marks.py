# Tests: tests/native/test_formulas.py
"""Operations that weft/native replaces by formulas where the CPU runs them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from weft.lowering.limits import SCALAR_CALLS, SMALLEST, VECTORS, WIDE_CALLS

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext

_NARROW = ("bfloat16", "float16", "float32")
_CALLS = dict.fromkeys((*_NARROW, "float64"), SCALAR_CALLS)
_DOUBLES = {"float64": WIDE_CALLS}
_LONG = dict.fromkeys((*_NARROW, "float64"), SMALLEST)
"""Of those for which XLA has a less accurate formula that compiles in half the time."""
_ALL = dict.fromkeys((*_NARROW, "float64"), 1)
"""Of those for which XLA has a less accurate formula that takes as long."""
_COMMON = dict.fromkeys(_NARROW, SMALLEST) | {"float64": 1}
"""The same of those in many first programs of a process, for which weft/native would be loaded."""

FORMULAS = {
    "chlo.acos": ("acos", _CALLS),
    "chlo.acosh": ("acosh", _ALL),
    "chlo.asin": ("asin", _CALLS),
    "chlo.asinh": ("asinh", _ALL),
    "chlo.atan": ("atan", _CALLS),
    "chlo.atanh": ("atanh", _ALL),
    "chlo.cosh": ("cosh", _ALL),
    "chlo.digamma": ("digamma", _LONG),
    "chlo.erf": ("erf", _DOUBLES),
    "chlo.erf_inv": ("erf_inv", _LONG),
    "chlo.erfc": ("erfc", _ALL),
    "chlo.lgamma": ("lgamma", _LONG),
    "chlo.sinh": ("sinh", _ALL),
    "stablehlo.atan2": ("atan2", _CALLS),
    "stablehlo.cbrt": ("cbrt", _ALL),
    "stablehlo.exponential": ("exp", _DOUBLES),
    "stablehlo.exponential_minus_one": ("expm1", _COMMON),
    "stablehlo.log": ("log", dict.fromkeys(_NARROW, VECTORS) | _DOUBLES),
    "stablehlo.log_plus_one": ("log1p", _COMMON),
    "stablehlo.power": ("pow", _DOUBLES),
}
"""Operation → its formula's name in weft/formulas, and from how many elements it serves."""


def mark_formula(ctx: RuleContext, operation: ir.Operation) -> None:
    """Mark an operation that becomes a formula, if it is of enough elements."""
    aval = ctx.avals_out[0]
    if aval.size >= FORMULAS[operation.name][1].get(aval.dtype.name, inf):
        ctx.mark(operation, "formula", least=1)
