"""Types of weft.image, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

from weft.typing import Array as Array

class ResizeMethod(Enum):
    """How values between pixels are made."""

    NEAREST = ...
    LINEAR = ...
    LANCZOS3 = ...
    LANCZOS5 = ...
    CUBIC = ...
    CUBIC_PYTORCH = ...

def resize(
    image: Any, shape: Sequence[int], method: Any, antialias: bool = ..., precision: Any = ...
) -> Array:
    """Resample the image to a shape of the same rank; dimensions of equal size stay."""

def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: Any,
    antialias: bool = ...,
    precision: Any = ...,
) -> Array:
    """Return the image, scaled and then moved along some dimensions, seen in a window of …"""
