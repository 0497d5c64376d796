"""Types of weft.scipy.ndimage, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.typing import Array as Array

def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = ..., cval: Any = ...
) -> Array:
    """Return the values of an array at fractional positions."""
