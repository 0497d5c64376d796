"""Types of weft.scipy.signal, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike

def convolve(in1: Any, in2: Any, mode: str = ..., method: str = ..., precision: Any = ...) -> Array:
    """Return the convolution of two arrays of one rank."""

def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = ...,
    boundary: str = ...,
    fillvalue: Any = ...,
    precision: Any = ...,
) -> Array:
    """Return the convolution of two matrices."""

def correlate(
    in1: Any, in2: Any, mode: str = ..., method: str = ..., precision: Any = ...
) -> Array:
    """Correlate two arrays of one rank: a convolution with in2 reversed, conjugate."""

def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = ...,
    boundary: str = ...,
    fillvalue: Any = ...,
    precision: Any = ...,
) -> Array:
    """Return the cross-correlation of two matrices."""

def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: Any = ...,
    window: Any = ...,
    nperseg: int | None = ...,
    noverlap: int | None = ...,
    nfft: int | None = ...,
    detrend: Any = ...,
    return_onesided: bool = ...,
    scaling: str = ...,
    axis: int = ...,
    average: str = ...,
) -> tuple[Array, Array]:
    """Return frequencies and the cross power spectral density of x and y, by Welch's …"""

def detrend(
    data: ArrayLike, axis: int = ..., type: str = ..., bp: Any = ..., overwrite_data: Any = ...
) -> Array:
    """Subtract the data's mean ('constant') or least-squares line ('linear') along an …"""

def fftconvolve(
    in1: Any, in2: Any, mode: str = ..., axes: int | Sequence[int] | None = ...
) -> Array:
    """Return the convolution of two arrays of one rank along axes, by Fourier transforms."""

def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = ...,
    window: Any = ...,
    nperseg: int | None = ...,
    noverlap: int | None = ...,
    nfft: int | None = ...,
    input_onesided: bool = ...,
    boundary: bool = ...,
    time_axis: int = ...,
    freq_axis: int = ...,
) -> tuple[Array, Array]:
    """Return times and the signal that has the short-time transform Zxx, by overlapping …"""

def stft(
    x: ArrayLike,
    fs: Any = ...,
    window: Any = ...,
    nperseg: int = ...,
    noverlap: int | None = ...,
    nfft: int | None = ...,
    detrend: Any = ...,
    return_onesided: bool = ...,
    boundary: str | None = ...,
    padded: bool = ...,
    axis: int = ...,
) -> tuple[Array, Array, Array]:
    """Frequencies, times, and the Fourier transforms of windowed segments along an axis."""

def welch(
    x: ArrayLike,
    fs: Any = ...,
    window: Any = ...,
    nperseg: int | None = ...,
    noverlap: int | None = ...,
    nfft: int | None = ...,
    detrend: Any = ...,
    return_onesided: bool = ...,
    scaling: str = ...,
    axis: int = ...,
    average: str = ...,
) -> tuple[Array, Array]:
    """Return frequencies and the power spectral density, averaged over segments."""
