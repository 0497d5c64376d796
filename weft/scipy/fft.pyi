"""Types of weft.scipy.fft, written by `make stubs` from the definitions."""

from collections.abc import Sequence

from weft.typing import Array as Array
from weft.typing import ArrayLike

def dct(
    x: ArrayLike, type: int = ..., n: int | None = ..., axis: int = ..., norm: str | None = ...
) -> Array:
    """Return the discrete cosine transform of real x along an axis."""

def dctn(
    x: ArrayLike,
    type: int = ...,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the discrete cosine transform along several axes, all by default."""

def idct(
    x: ArrayLike, type: int = ..., n: int | None = ..., axis: int = ..., norm: str | None = ...
) -> Array:
    """Return the inverse of dct: what has the transform x."""

def idctn(
    x: ArrayLike,
    type: int = ...,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the inverse of dctn."""
