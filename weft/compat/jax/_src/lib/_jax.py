# Tests: tests/compat/test_other_modules.py
"""jax._src.lib._jax, for qwix, which tells jitted functions by their class."""

from weft._xla.dispatch import PjitFunction
from weft.errors import JaxRuntimeError
from weft.runtime.array import Array, ArrayImpl

__all__ = ["Array", "ArrayImpl", "JaxRuntimeError", "PjitFunction"]
