"""Types of weft.flatten_util, written by `make stubs` from the definitions."""

from collections.abc import Callable
from typing import Any

from weft.typing import Array as Array

def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Join all arrays of a pytree into one vector; also return the inverse function."""
