"""jax.experimental.checkify: checks outside of traced functions; weft has no checkify itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.trace import Tracer

__all__ = [
    "Error",
    "ErrorCategory",
    "JaxException",
    "JaxRuntimeError",
    "Out",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "nan_checks",
    "user_checks",
]

Out = Any


class JaxException(Exception):
    """The kind of what a check finds."""


class JaxRuntimeError(ValueError):
    """What a failed check raises."""


class FailedCheckError(JaxException):
    """A check of the program's."""


class NaNError(JaxException):
    """A NaN that an op made."""


class DivisionByZeroError(JaxException):
    """A division by zero."""


class OOBError(JaxException):
    """An index out of bounds."""


ErrorCategory = type[JaxException]
user_checks = frozenset((FailedCheckError,))
nan_checks = frozenset((NaNError,))
div_checks = frozenset((DivisionByZeroError,))
index_checks = frozenset((OOBError,))
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class Error:
    """What a function that checkify changed gives beside its result."""

    def __init__(self, message: str | None = None) -> None:
        self._message = message

    def get(self) -> str | None:
        return self._message

    def throw(self) -> None:
        check_error(self)


def check_error(error: Error) -> None:
    """Raises what the error tells of, if anything."""
    if error.get():
        raise JaxRuntimeError(error.get())


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Raises if a value that is known is false."""
    if isinstance(pred, Tracer) and pred.concrete() is None:
        raise ValueError(
            "Cannot abstractly evaluate a checkify.check which was not functionalized: weft has no "
            "checkify. Check with weft.debug.callback, or outside of the traced function"
        )
    if not debug and not bool(pred):
        raise JaxRuntimeError(msg.format(*fmt_args, **fmt_kwargs) + " (`check` failed)")


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """As `check`, but without effect outside of checkify."""


def checkify(f: Callable, errors: Any = user_checks) -> Callable:
    raise NotImplementedError(
        "weft has no checkify: use weft.debug.callback for checks inside traced functions, or the "
        "options debug_nans and debug_infs"
    )
