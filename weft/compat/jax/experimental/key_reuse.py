# Tests: tests/compat/test_other_modules.py
"""jax.experimental.key_reuse: a namespace without public names, as in JAX."""

from weft.errors import KeyReuseError as KeyReuseError

__all__: list[str] = []
