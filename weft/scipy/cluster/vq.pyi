"""Types of weft.scipy.cluster.vq, written by `make stubs` from the definitions."""

from typing import Any

from weft.typing import Array as Array

def vq(obs: Any, code_book: Any, check_finite: bool = ...) -> tuple[Array, Array]:
    """Return the nearest row of the code book to each observation, and its distance."""
