"""jax._src.checkify, for flax."""

from weft.compat.jax.experimental.checkify import (
    Error,
    ErrorCategory,
    JaxException,
    JaxRuntimeError,
    Out,
    all_checks,
    check,
    check_error,
    checkify,
    user_checks,
)

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
