# Tests: tests/compat/test_as_jax.py
"""jax._src.pjit, for quax."""

from weft.compat.jax.extend.core.primitives import jit_p

__all__ = ["jit_p"]
