# Tests: tests/compat/test_as_jax.py
"""jax._src.dispatch, for equinox."""

from weft import effects_barrier as wait_for_tokens
from weft.compat.primitive import apply_primitive

__all__ = ["apply_primitive", "wait_for_tokens"]
