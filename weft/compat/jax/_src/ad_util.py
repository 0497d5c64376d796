# Tests: tests/compat/test_as_jax.py, tests/compat/test_private_names.py
"""jax._src.ad_util, for lineax and others that differentiate primitives of their own."""

from weft.autodiff.zeros import stop_gradient_p
from weft.compat.jax.interpreters.ad import add_jaxvals, zeros_like_aval
from weft.compat.primitive import Zero
from weft.compat.primitive import instantiate_zeros as instantiate
from weft.custom_derivatives import SymbolicZero

__all__ = [
    "SymbolicZero",
    "Zero",
    "add_jaxvals",
    "instantiate",
    "stop_gradient_p",
    "zeros_like_aval",
]
