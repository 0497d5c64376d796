# Tests: tests/native/test_formulas.py
"""Operations that weft/native replaces by formulas where the CPU runs them."""

from __future__ import annotations

_ALL = frozenset(("bf16", "f16", "f32", "f64"))
_WIDE = frozenset(("f64",))

FORMULAS = {
    "chlo.acos": ("acos", _ALL),
    "chlo.acosh": ("acosh", _ALL),
    "chlo.asin": ("asin", _ALL),
    "chlo.asinh": ("asinh", _ALL),
    "chlo.atan": ("atan", _ALL),
    "chlo.atanh": ("atanh", _ALL),
    "chlo.cosh": ("cosh", _ALL),
    "chlo.digamma": ("digamma", _ALL),
    "chlo.erf": ("erf", _WIDE),
    "chlo.erf_inv": ("erf_inv", _WIDE),
    "chlo.lgamma": ("lgamma", _WIDE),
    "chlo.sinh": ("sinh", _ALL),
    "stablehlo.atan2": ("atan2", _ALL),
    "stablehlo.cbrt": ("cbrt", _ALL),
    "stablehlo.exponential_minus_one": ("expm1", _ALL),
    "stablehlo.log": ("log", _WIDE),
    "stablehlo.log_plus_one": ("log1p", _ALL),
    "stablehlo.power": ("pow", _WIDE),
}
"""Operation → its formula's name in weft/pallas/formulas, and the element types that it serves."""
