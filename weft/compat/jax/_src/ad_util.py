# Tests: tests/compat/test_as_jax.py, tests/compat/test_private_names.py
"""jax._src.ad_util, for lineax and others that differentiate primitives of their own."""

from typing import Any

from weft import numpy as wnp
from weft.autodiff.zeros import stop_gradient_p
from weft.compat.primitive import Zero
from weft.compat.primitive import instantiate_zeros as instantiate
from weft.core.aval import ShapedArray
from weft.custom_derivatives import SymbolicZero


def zeros_like_aval(aval: ShapedArray) -> Any:
    return wnp.zeros(aval.shape, aval.dtype)


def add_jaxvals(x: Any, y: Any) -> Any:
    return x + y


__all__ = [
    "SymbolicZero",
    "Zero",
    "add_jaxvals",
    "instantiate",
    "stop_gradient_p",
    "zeros_like_aval",
]
