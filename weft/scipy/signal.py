"""Convolution, under the names and with the semantics of jax.scipy.signal; spectra.py has more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft import lax
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.numpy.common import canonical_axes
from weft.scipy.linalg.factorizations import _choice
from weft.scipy.special.factorials import as_float
from weft.scipy.spectra import csd, detrend, istft, stft, welch

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve",
    "istft", "stft", "welch",
]  # fmt: skip


def fftconvolve(
    in1: object, in2: object, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Any:
    """Return the convolution of two arrays of one rank along axes, by Fourier transforms.

    mode: 'full', 'same' (of in1's shape), 'valid'. axes: all by default; the others broadcast.
    Source: scipy.signal.fftconvolve.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> out = signal.fftconvolve(wnp.array([1.0, 2.0]), wnp.array([1.0, 1.0]))
    >>> [round(float(v), 3) for v in out]
    [1.0, 3.0, 2.0]
    """
    _choice("fftconvolve", "mode", mode, ("full", "same", "valid"))
    x, y = as_float(in1), as_float(in2)
    if x.ndim != y.ndim:
        raise ArgumentError(f"fftconvolve: in1 {x.shape} and in2 {y.shape} must have one rank")
    if not x.ndim:
        return x * y
    chosen = canonical_axes(range(x.ndim) if axes is None else axes, x.ndim, "axes")
    for d in set(range(x.ndim)) - set(chosen):
        if x.shape[d] != y.shape[d] and 1 not in (x.shape[d], y.shape[d]):
            raise ArgumentError(f"fftconvolve: dimension {d} of {x.shape} and {y.shape} must agree")
    if mode == "valid":
        x, y = _larger_first("fftconvolve", x, y, chosen)
    full = [x.shape[d] + y.shape[d] - 1 for d in chosen]
    if any(s <= 0 for s in full):
        raise ArgumentError(f"fftconvolve: in1 {x.shape} and in2 {y.shape} must not be empty")
    if wnp.iscomplexobj(x) or wnp.iscomplexobj(y):
        product = wnp.fft.fftn(x, full, chosen) * wnp.fft.fftn(y, full, chosen)
        out = wnp.fft.ifftn(product, full, chosen)
    else:
        product = wnp.fft.rfftn(x, full, chosen) * wnp.fft.rfftn(y, full, chosen)
        out = wnp.fft.irfftn(product, full, chosen)
    index = [slice(None)] * out.ndim
    for d, size in zip(chosen, full, strict=True):
        wanted = {"full": size, "same": x.shape[d], "valid": x.shape[d] - y.shape[d] + 1}[mode]
        start = (size - wanted) // 2
        index[d] = slice(start, start + wanted)
    return out[tuple(index)]


def _larger_first(name: str, x: Array, y: Array, axes: Sequence[int]) -> tuple:
    """Order two operands so that the second fits inside the first along all axes."""
    if all(x.shape[d] >= y.shape[d] for d in axes):
        return x, y
    if all(x.shape[d] <= y.shape[d] for d in axes):
        return y, x
    raise ArgumentError(
        f"{name}: for mode='valid' one of {x.shape}, {y.shape} must be at least as large as the "
        "other in every dimension"
    )


def _direct(name: str, x: Array, y: Array, mode: str, precision: object) -> Any:
    """Return the convolution by lax's, which slides the second operand over the first."""
    x, y = wnp.asarray(x), wnp.asarray(y)
    if x.ndim != y.ndim:
        raise ArgumentError(f"{name}: in1 {x.shape} and in2 {y.shape} must have one rank")
    if not x.ndim:
        return x * y
    dtype = wnp.result_type(x, y)
    if not wnp.issubdtype(dtype, wnp.inexact):
        dtype = as_float(wnp.zeros((), dtype)).dtype
    x, y = x.astype(dtype), y.astype(dtype)
    if 0 in x.shape + y.shape:
        raise ArgumentError(f"{name}: in1 {x.shape} and in2 {y.shape} must not be empty")
    if mode == "valid":
        x, y = _larger_first(name, x, y, range(x.ndim))
    pads = {
        "full": [(s - 1, s - 1) for s in y.shape],
        "same": [(s // 2, s - s // 2 - 1) for s in y.shape],
        "valid": [(0, 0)] * x.ndim,
    }[mode]
    out = lax.conv_general_dilated(
        x[None, None], wnp.flip(y)[None, None], (1,) * x.ndim, pads, precision=precision
    )
    return out[0, 0]


def convolve(
    in1: object, in2: object, mode: str = "full", method: str = "auto", precision: object = None
) -> Any:
    """Return the convolution of two arrays of one rank.

    mode: 'full', 'same' (of in1's shape), 'valid'. method: 'direct', 'fft' or 'auto', which is
    'direct'. precision: of 'direct'. Source: scipy.signal.convolve.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> signal.convolve(wnp.array([1.0, 2.0]), wnp.array([1.0, 1.0]))
    Array([1., 3., 2.], dtype=float32)
    """
    _choice("convolve", "mode", mode, ("full", "same", "valid"))
    _choice("convolve", "method", method, ("auto", "direct", "fft"))
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    return _direct("convolve", in1, in2, mode, precision)


def correlate(
    in1: object, in2: object, mode: str = "full", method: str = "auto", precision: object = None
) -> Any:
    """Correlate two arrays of one rank: a convolution with in2 reversed, conjugate.

    mode, method, precision: as `convolve` has them. Source: scipy.signal.correlate.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> signal.correlate(wnp.array([1.0, 2.0]), wnp.array([0.0, 1.0]))
    Array([1., 2., 0.], dtype=float32)
    """
    _choice("correlate", "mode", mode, ("full", "same", "valid"))
    _choice("correlate", "method", method, ("auto", "direct", "fft"))
    x, y = wnp.asarray(in1), wnp.asarray(in2)
    if x.ndim != y.ndim:
        raise ArgumentError(f"correlate: in1 {x.shape} and in2 {y.shape} must have one rank")
    swapped = mode == "valid" and any(a < b for a, b in zip(x.shape, y.shape, strict=True))
    if swapped:
        # The smaller slides over the larger; lags then count the other way.
        y, x = _larger_first("correlate", x, y, range(x.ndim))[1], wnp.asarray(in2)
        y = wnp.asarray(in1)
        out = convolve(x, wnp.conj(wnp.flip(y)), mode, method, precision)
        return wnp.conj(wnp.flip(out))
    if mode == "same":
        # The middle of the full result, of in1's shape.
        full = convolve(x, wnp.conj(wnp.flip(y)), "full", method, precision)
        starts = [(f - s) // 2 for f, s in zip(full.shape, x.shape, strict=True)]
        return full[tuple(slice(a, a + s) for a, s in zip(starts, x.shape, strict=True))]
    return convolve(x, wnp.conj(wnp.flip(y)), mode, method, precision)


_BOUNDARIES = {"wrap": "wrap", "symm": "symmetric"}


def _two_dimensional(
    name: str, x: ArrayLike, y: ArrayLike, boundary: str, fillvalue: int, mode: str
) -> tuple:
    """Return the operands, the first padded as the boundary asks, and the mode that is left."""
    _choice(name, "mode", mode, ("full", "same", "valid"))
    _choice(name, "boundary", boundary, ("fill", "wrap", "symm"))
    x, y = wnp.asarray(x), wnp.asarray(y)
    if x.ndim != 2 or y.ndim != 2:
        raise ArgumentError(f"{name}: takes arrays of two dimensions, got {x.shape} and {y.shape}")
    flipped = name == "correlate2d" and mode == "same"  # not centred as `correlate` is
    around = boundary != "fill" or np.ndim(fillvalue) or np.any(fillvalue)
    if mode == "valid" or not (around or flipped):
        return x, y, mode
    pads = [(s - 1, s - 1) if mode == "full" else (s // 2, s - s // 2 - 1) for s in y.shape]
    if flipped:
        pads = [(b, a) for a, b in pads]
    if boundary == "fill":
        return wnp.pad(x, pads, constant_values=fillvalue), y, "inner"
    return wnp.pad(x, pads, mode=_BOUNDARIES[boundary]), y, "inner"


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    precision: object = None,
) -> Any:
    """Return the convolution of two matrices.

    mode: 'full', 'same' (of in1's shape), 'valid'. boundary: what lies around in1: 'fill' (the
    fillvalue), 'wrap' or 'symm'. Source: scipy.signal.convolve2d.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> signal.convolve2d(wnp.ones((2, 2)), wnp.ones((2, 2)), mode='same')
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    x, y, left = _two_dimensional("convolve2d", in1, in2, boundary, fillvalue, mode)
    return _direct("convolve2d", x, y, "valid" if left == "inner" else left, precision)


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    precision: object = None,
) -> Any:
    """Return the cross-correlation of two matrices.

    Arguments are those of `convolve2d`. Source: scipy.signal.correlate2d.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import signal
    >>> signal.correlate2d(wnp.ones((2, 2)), wnp.ones((2, 2)), mode='valid')
    Array([[4.]], dtype=float32)
    """
    x, y, left = _two_dimensional("correlate2d", in1, in2, boundary, fillvalue, mode)
    if left == "inner":
        return _direct("correlate2d", x, wnp.conj(wnp.flip(y)), "valid", precision)
    return correlate(x, y, left, "direct", precision)


seal(globals())
