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
_LONG_DOUBLES = {"float64": SMALLEST}
_ALL = dict.fromkeys((*_NARROW, "float64"), 1)
"""Of those for which XLA has a less accurate formula that takes as long."""
_EXACT = {"float32": 1, "float64": 1}
"""The same of those whose narrower floats XLA computes in float32, which is exact enough."""

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
    "chlo.erf_inv": ("erf_inv", dict.fromkeys(_NARROW, 1) | _LONG_DOUBLES),
    "chlo.erfc": ("erfc", _ALL),
    "chlo.lgamma": ("lgamma", _LONG),
    "chlo.sinh": ("sinh", _ALL),
    "stablehlo.atan2": ("atan2", _CALLS),
    "stablehlo.cbrt": ("cbrt", _ALL),
    "stablehlo.exponential": ("exp", _DOUBLES),
    "stablehlo.exponential_minus_one": ("expm1", _ALL),
    "stablehlo.log": ("log", dict.fromkeys(_NARROW, VECTORS) | _DOUBLES),
    "stablehlo.log_plus_one": ("log1p", _ALL),
    "stablehlo.power": ("pow", _DOUBLES),
    "stablehlo.tanh": ("tanh", _EXACT),
}
"""Operation → its formula's name in weft/formulas, and from how many elements it serves."""


WIDENED = frozenset({"chlo.digamma", "chlo.lgamma"})
"""Operations that XLA computes in float64 instead, of fewer elements of narrower floats."""


REPAIRED = {"chlo.digamma": "digamma_near_root", "chlo.lgamma": "lgamma_near_roots"}
"""Operation → the formula of its values near roots, of fewer elements of float64."""


def mark_formula(ctx: RuleContext, operation: ir.Operation) -> None:
    """Mark an operation that becomes a formula, if it is of enough elements."""
    aval, name = ctx.avals_out[0], operation.name
    if aval.size >= FORMULAS[name][1].get(aval.dtype.name, inf):
        ctx.mark(operation, "formula", least=1)
    elif name in WIDENED and aval.dtype.name in _NARROW:
        ctx.mark(operation, "widened", least=1)
    elif name in REPAIRED and aval.dtype.name == "float64":
        ctx.mark(operation, "repaired", least=1)
