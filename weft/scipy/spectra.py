# Tests: tests/scipy/test_signal.py
"""Trends of signals and their spectra by windowed Fourier transforms, as in jax.scipy.signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.core.errors import ArgumentError
from weft.numpy.common import canonical_axes
from weft.scipy.linalg.factorizations import _choice
from weft.scipy.special.factorials import as_float, float_array

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: object = 0,
    overwrite_data: object = None,
) -> Any:
    """Subtract the data's mean ('constant') or least-squares line ('linear') along an axis.

    bp: where the line may break, indices. Source: scipy.signal.detrend.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> abs(signal.detrend(wnp.array([1.0, 2.0, 3.0]))).max() < 1e-6
    Array(True, dtype=bool)
    """
    _choice("detrend", "type", type, ("linear", "constant", "l", "c"))
    x = float_array(data)
    if type[0] == "c":
        return x - wnp.mean(x, axis, keepdims=True)
    (axis,) = canonical_axes(axis, x.ndim, "axis")
    x = wnp.moveaxis(x, axis, 0)
    n = x.shape[0]
    breaks = np.unique(np.concatenate([[0, n], np.atleast_1d(np.asarray(bp))])).astype(int)
    if breaks[0] < 0 or breaks[-1] > n:
        raise ArgumentError(f"detrend: bp {bp} must lie between 0 and the length {n}")
    flat, parts = x.reshape(n, -1), []
    for first, last in zip(breaks[:-1], breaks[1:], strict=True):
        steps = np.arange(1, last - first + 1) / (last - first)
        # An orthonormal basis of lines, on the host: the fit is a projection.
        basis, _ = np.linalg.qr(np.stack([steps, np.ones_like(steps)], 1))
        basis = basis.astype(x.real.dtype)
        part = flat[first:last]
        parts.append(part - basis @ (basis.T @ part))
    return wnp.moveaxis(wnp.concatenate(parts).reshape(x.shape), 0, axis)


_COSINES = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hanning": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}


def _window(name: str, window: str | np.ndarray, nperseg: int) -> Any:
    """Return the window's values: periodic sums of cosines by name, or an array of its own."""
    if isinstance(window, tuple) and len(window) == 1:
        (window,) = window
    if isinstance(window, str):
        if window not in _COSINES:
            raise ArgumentError(
                f"{name}: window must be an array or one of {', '.join(_COSINES)}; got {window!r}"
            )
        phase = 2 * np.pi * np.arange(nperseg) / nperseg
        terms = enumerate(_COSINES[window])
        return np.sum([(-1) ** k * a * np.cos(k * phase) for k, a in terms], axis=0)
    values = wnp.asarray(window)
    if values.ndim != 1:
        raise ArgumentError(f"{name}: window must be a name or a vector, got shape {values.shape}")
    return values


def _segment_sizes(
    name: str,
    window: str | np.ndarray,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    length: int | None,
) -> tuple[Any, int, int, int]:
    """Return the window, and the sizes of segments, overlaps and transforms."""
    named = isinstance(window, str | tuple)
    if nperseg is None:
        nperseg = 256 if named else np.shape(window)[0]
    nperseg = int(nperseg)
    if nperseg < 1:
        raise ArgumentError(f"{name}: nperseg must be 1 or more, got {nperseg}")
    if length is not None and nperseg > length:
        nperseg = length
    values = _window(name, window, nperseg)
    if values.shape[0] != nperseg:
        raise ArgumentError(f"{name}: window has {values.shape[0]} elements, nperseg is {nperseg}")
    overlap = nperseg // 2 if noverlap is None else int(noverlap)
    if overlap >= nperseg:
        raise ArgumentError(f"{name}: noverlap {overlap} must be less than nperseg {nperseg}")
    size = nperseg if nfft is None else int(nfft)
    if size < nperseg:
        raise ArgumentError(f"{name}: nfft {size} must be at least nperseg {nperseg}")
    return values, nperseg, overlap, size


def _segments(x: Array, size: int, step: int) -> Any:
    """Overlapping parts of the last axis, (..., count, size)."""
    count = (x.shape[-1] - size) // step + 1
    if size % step == 0 and count > 0:
        # Where steps divide segments, parts of blocks need no gather.
        blocks = x[..., : (count - 1 + size // step) * step]
        blocks = blocks.reshape(*x.shape[:-1], -1, step)
        parts = [blocks[..., i : i + count, :] for i in range(size // step)]
        return wnp.concatenate(parts, -1)
    return x[..., np.arange(count)[:, None] * step + np.arange(size)[None]]


def _detrended(segments: Array, detrend_by: Any) -> Any:
    if detrend_by is False or detrend_by is None:
        return segments
    if callable(detrend_by):
        return detrend_by(segments)
    return detrend(segments, axis=-1, type=detrend_by)


def _spectra(
    name: str,
    x: Array,
    y: Array | None,
    fs: float,
    window: str | np.ndarray,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend_by: bool | str,
    onesided: bool,
    scaling: str,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple:
    """Frequencies, times, and products (or transforms, y None) of segments of the last axis."""
    _choice(name, "scaling", scaling, ("density", "spectrum", "stft"))
    _choice(name, "boundary", boundary, (None, "zeros", "constant", "even", "odd"))
    w, size, overlap, nfft = _segment_sizes(name, window, nperseg, noverlap, nfft, x.shape[-1])
    step = size - overlap
    if boundary is not None:
        pad = [(0, 0)] * (x.ndim - 1) + [(size // 2, size // 2)]
        modes = {
            "zeros": ("constant", {}),
            "constant": ("edge", {}),
            "even": ("reflect", {}),
            "odd": ("reflect", {"reflect_type": "odd"}),
        }
        mode, options = modes[boundary]
        x = wnp.pad(x, pad, mode=mode, **options)
    # The last segment is made full.
    if padded:
        extra = (-(x.shape[-1] - size) % step) % size
        x = wnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, extra)])
    dtype = wnp.result_type(x.real.dtype)
    w = wnp.asarray(w).astype(dtype)
    onesided = onesided and not (wnp.iscomplexobj(x) or (y is not None and wnp.iscomplexobj(y)))

    def transformed(v: Array) -> Any:
        parts = _detrended(_segments(v, size, step), detrend_by) * w
        return (wnp.fft.rfft if onesided else wnp.fft.fft)(parts, nfft)

    spectrum = transformed(x)
    if y is not None:
        spectrum = wnp.conj(spectrum) * (spectrum if y is x else transformed(y))
    # A density is divided by the window's noise bandwidth, a spectrum by its gain.
    scale = 1 / (fs * wnp.sum(w * w)) if scaling == "density" else 1 / wnp.sum(w) ** 2
    if y is None:
        scale = wnp.sqrt(scale) if scaling == "density" else 1 / wnp.sum(w)
    spectrum = spectrum * scale.astype(dtype)
    if onesided and y is not None:
        # Frequencies between the ends stand for their negatives, too.
        last = spectrum.shape[-1] if nfft % 2 else spectrum.shape[-1] - 1
        doubled = np.where(
            (np.arange(spectrum.shape[-1]) > 0) & (np.arange(spectrum.shape[-1]) < last), 2, 1
        )
        spectrum = spectrum * doubled.astype(dtype)
    freqs = (wnp.fft.rfftfreq if onesided else wnp.fft.fftfreq)(nfft, 1 / fs)
    starts = np.arange(size / 2, x.shape[-1] - size / 2 + 1, step) / fs
    times = starts - (size / 2) / fs if boundary is not None else starts
    return freqs.astype(dtype), wnp.asarray(times, dtype=dtype), spectrum


def stft(
    x: ArrayLike,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:
    """Frequencies, times, and the Fourier transforms of windowed segments along an axis.

    The result has the frequencies where the axis was, and times last.
    Source: scipy.signal.stft.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> f, t, z = signal.stft(wnp.ones(64), nperseg=16)
    >>> z.shape
    (9, 9)
    """
    data = as_float(x)
    (axis,) = canonical_axes(axis, data.ndim, "axis")
    freqs, times, z = _spectra(
        "stft",
        wnp.moveaxis(data, axis, -1),
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        "spectrum",
        boundary,
        padded,
    )
    return freqs, times, wnp.moveaxis(z, -1, axis)


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Return frequencies and the cross power spectral density of x and y, by Welch's method.

    y: None for x's own density. average: 'mean' or 'median', over segments.
    Source: Welch, 1967; scipy.signal.csd.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> f, p = signal.csd(wnp.ones(64), wnp.ones(64), nperseg=16)
    >>> p.shape
    (9,)
    """
    _choice("csd", "average", average, ("mean", "median"))
    a = as_float(x)
    (axis,) = canonical_axes(axis, a.ndim, "axis")
    a = wnp.moveaxis(a, axis, -1)
    b = a
    if y is not None and y is not x:
        b = wnp.moveaxis(as_float(y), axis, -1)
        length = max(a.shape[-1], b.shape[-1])
        a, b = (_resized_last(v, length) for v in (a, b))
    if not a.size or not b.size:
        raise ArgumentError(f"csd: x {a.shape} and y {b.shape} must not be empty")
    freqs, _, p = _spectra(
        "csd", a, b, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling
    )
    if average == "median":
        count = p.shape[-2]
        odd = np.arange(2, count, 2)
        bias = 1 + np.sum(1.0 / (odd + 1) - 1.0 / odd)
        middle = wnp.median(p.real, -2)
        p = (middle if b is a else middle + 1j * wnp.median(p.imag, -2)) / bias
    else:
        p = wnp.mean(p, -2)
    return freqs, wnp.moveaxis(p.real if b is a else p, -1, axis)


def _resized_last(x: Array, length: int) -> Any:
    return wnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])])


def welch(
    x: ArrayLike,
    fs: object = 1.0,
    window: object = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: object = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Return frequencies and the power spectral density, averaged over segments.

    Source: Welch, The use of fast Fourier transform for the estimation of power spectra, 1967.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> f, p = signal.welch(wnp.ones(64), nperseg=16)
    >>> p.shape
    (9,)
    """
    return csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )


def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Any, Any]:
    """Return times and the signal that has the short-time transform Zxx, by overlapping addition.

    Source: Griffin and Lim, Signal estimation from modified short-time Fourier transform, 1984.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> f, t, z = signal.stft(wnp.ones(64), nperseg=16)
    >>> signal.istft(z, nperseg=16)[1].shape
    (64,)
    """
    z = as_float(Zxx)
    if z.ndim < 2:
        raise ArgumentError(f"istft: Zxx has frequencies and times, got shape {z.shape}")
    freq_axis, time_axis = canonical_axes((freq_axis, time_axis), z.ndim, "freq_axis, time_axis")
    z = wnp.moveaxis(z, (time_axis, freq_axis), (-2, -1))
    n = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    if nperseg is None:
        nperseg = n
    if nfft is None:
        nfft = n + 1 if input_onesided and nperseg == n + 1 else n
    w, size, overlap, nfft = _segment_sizes("istft", window, nperseg, noverlap, nfft, None)
    step = size - overlap
    parts = (wnp.fft.irfft(z, nfft) if input_onesided else wnp.fft.ifft(z, nfft))[..., :size]
    w = wnp.asarray(w).astype(parts.real.dtype)
    parts = parts * w * wnp.sum(w)
    count = parts.shape[-2]
    length = size + (count - 1) * step
    position = np.arange(count)[:, None] * step + np.arange(size)[None]
    zeros = wnp.zeros((*parts.shape[:-2], length), parts.dtype)
    total = zeros.at[..., position].add(parts)
    norm = wnp.zeros(length, w.dtype).at[position].add(wnp.broadcast_to(w * w, position.shape))
    if boundary:
        middle = slice(size // 2, length - size // 2)
        total, norm = total[..., middle], norm[middle]
    x = total / wnp.where(norm > 1e-10, norm, 1)
    times = wnp.arange(x.shape[-1]).astype(w.dtype) / fs
    return times, wnp.moveaxis(x, -1, min(time_axis, x.ndim - 1)) if x.ndim > 1 else x
