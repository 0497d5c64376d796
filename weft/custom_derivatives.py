# Tests: tests/api/test_custom_jvp.py, tests/api/test_custom_vjp.py
"""weft.custom_derivatives: functions with derivatives of their own."""

from weft.api.custom import CustomVJPPrimal as CustomVJPPrimal
from weft.api.custom import SymbolicZero as SymbolicZero
from weft.api.custom import custom_gradient as custom_gradient
from weft.api.custom import custom_jvp as custom_jvp
from weft.api.custom import custom_vjp as custom_vjp
from weft.api.custom import linear_call as linear_call
from weft.api.custom import zero_from_primal as zero_from_primal
from weft.api.grad import closure_convert as closure_convert
from weft.core.namespace import seal

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "linear_call",
    "zero_from_primal",
]
seal(globals())
