# Tests: tests/compat/test_other_modules.py
"""jax._src.lib.xla_client, for dynamiqs, which catches the runtime's errors."""

from weft.errors import JaxRuntimeError as XlaRuntimeError

__all__ = ["XlaRuntimeError"]
