# Tests: tests/compat/test_as_jax.py
"""jax._src.state.types, for flax."""

from weft.core.ref import AbstractRef as AbstractRef
