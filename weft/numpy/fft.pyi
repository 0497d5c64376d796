"""Types of weft.numpy.fft, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

def fft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The Fourier transform along an axis."""

def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """The Fourier transform over two axes. s: sizes along the axes. Source: …"""

def fftfreq(n: int, d: Any = ..., *, dtype: DTypeLike | None = ..., device: Any = ...) -> Array:
    """The frequencies of `fft` for n samples d apart."""

def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """The Fourier transform over several axes. s: sizes along the axes. Source: …"""

def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = ...) -> Array:
    """Frequency 0 moved to the middle."""

def hfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The real spectrum of a signal with Hermitian symmetry. Source: numpy.fft.hfft."""

def ifft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The inverse Fourier transform along an axis."""

def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """The inverse Fourier transform over two axes. s: sizes along the axes. Source: …"""

def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """The inverse Fourier transform over several axes. s: sizes along the axes. Source: …"""

def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = ...) -> Array:
    """The inverse of `fftshift`."""

def ihfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The inverse of `hfft`. Source: numpy.fft.ihfft."""

def irfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The real signal whose `rfft` is given; n is its size."""

def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """The real signal whose `rfft2` is given. s: sizes along the axes. Source: …"""

def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """The real signal whose `rfftn` is given. s: sizes along the axes. Source: …"""

def rfft(a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array:
    """The first n // 2 + 1 frequencies of a real signal along an axis."""

def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """The transform of a real signal over two axes. s: sizes along the axes. Source: …"""

def rfftfreq(n: int, d: Any = ..., *, dtype: DTypeLike | None = ..., device: Any = ...) -> Array:
    """The frequencies of `rfft` for n samples d apart."""

def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = ...,
    axes: Sequence[int] | None = ...,
    norm: str | None = ...,
) -> Array:
    """The transform of a real signal over several axes. s: sizes along the axes. Source: …"""
