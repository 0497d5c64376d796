"""Types of weft.checkify, written by `make stubs` from the definitions."""

from collections.abc import Callable
from typing import Any

from weft.checkify.errors import DivisionByZeroError as DivisionByZeroError
from weft.checkify.errors import Error as Error
from weft.checkify.errors import FailedCheckError as FailedCheckError
from weft.checkify.errors import JaxException as JaxException
from weft.checkify.errors import JaxRuntimeError as JaxRuntimeError
from weft.checkify.errors import NaNError as NaNError
from weft.checkify.errors import OOBError as OOBError
from weft.checkify.errors import all_checks as all_checks
from weft.checkify.errors import automatic_checks as automatic_checks
from weft.checkify.errors import div_checks as div_checks
from weft.checkify.errors import float_checks as float_checks
from weft.checkify.errors import index_checks as index_checks
from weft.checkify.errors import init_error as init_error
from weft.checkify.errors import nan_checks as nan_checks
from weft.checkify.errors import user_checks as user_checks
from weft.typing import Array as Array
from weft.typing import ArrayLike

ErrorCategory = type[JaxException]

def check(pred: ArrayLike, msg: str, *fmt_args: Any, debug: bool = ..., **fmt_kwargs: Any) -> None:
    """Check that a scalar is true, in a function that `checkify` is applied to."""

def check_error(error: Any) -> None:
    """Raise JaxRuntimeError if the error tells of a failure; in a traced function, as …"""

def checkify(f: Callable[..., Any], errors: Any = ...) -> Callable[..., Any]:
    """Return the function with an `Error` in front of its result: the first check that …"""

def debug_check(pred: ArrayLike, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """Act as `check`, but without effect where `checkify` is not applied."""
