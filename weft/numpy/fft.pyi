"""Types of weft.numpy.fft, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

def fft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """Return the Fourier transform along an axis."""

def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the Fourier transform over two axes. s: sizes along the axes. Source: …"""

def fftfreq(n: int, d: Any = ..., *, dtype: DTypeLike | None = ..., device: Any = ...) -> Array:
    """Return the frequencies of `fft` for n samples d apart."""

def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the Fourier transform over several axes. s: sizes along the axes. Source: …"""

def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = ...) -> Array:
    """Frequency 0 moved to the middle."""

def hfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """Return the real spectrum of a signal with Hermitian symmetry. Source: …"""

def ifft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """Return the inverse Fourier transform along an axis."""

def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the inverse Fourier transform over two axes. s: sizes along the axes. …"""

def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the inverse Fourier transform over several axes. s: sizes along the axes. …"""

def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = ...) -> Array:
    """Return the inverse of `fftshift`."""

def ihfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """Return the inverse of `hfft`. Source: numpy.fft.ihfft."""

def irfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """Return the real signal whose `rfft` is given; n is its size."""

def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the real signal whose `rfft2` is given. s: sizes along the axes. Source: …"""

def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the real signal whose `rfftn` is given. s: sizes along the axes. Source: …"""

def rfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """Return frequencies 0 … n // 2 of a real signal."""

def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the transform of a real signal over two axes. s: sizes along the axes. …"""

def rfftfreq(n: int, d: Any = ..., *, dtype: DTypeLike | None = ..., device: Any = ...) -> Array:
    """Return the frequencies of `rfft` for n samples d apart."""

def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """Return the transform of a real signal over several axes. s: sizes along the axes. …"""
