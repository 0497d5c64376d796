# Tests: tests/compat/test_as_jax.py
"""jax._src.checkify, for flax."""

from typing import Any

from weft.checkify import (
    Error,
    ErrorCategory,
    JaxException,
    JaxRuntimeError,
    all_checks,
    check,
    check_error,
    checkify,
    user_checks,
)

Out = Any

__all__ = [
    "Error",
    "ErrorCategory",
    "JaxException",
    "JaxRuntimeError",
    "Out",
    "all_checks",
    "check",
    "check_error",
    "checkify",
    "user_checks",
]
