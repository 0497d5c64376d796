# Tests: tests/compat/test_other_modules.py
"""jax.experimental.pjit"""

from weft import jit as pjit
from weft.lax import with_sharding_constraint as with_sharding_constraint

__all__ = ["pjit", "with_sharding_constraint"]
