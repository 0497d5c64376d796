# Tests: tests/ops/test_fft.py, tests/numpy/test_functions.py
"""Discrete Fourier transforms: weft.numpy.fft."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axes, canonical_axis
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.core.trace import typeof
from weft.numpy.common import (
    aval_of,
    canonical,
    created,
    inexact,
    place,
    strong,
    to_array,
)
from weft.numpy.eager import eager_programs
from weft.numpy.examples import EXAMPLES
from weft.numpy.refusals import refuse
from weft.numpy.shaping import roll
from weft.numpy.ufuncs import conjugate, true_divide
from weft.ops import elementwise_api as ew
from weft.ops import fft as fft_ops
from weft.ops import joining
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike

_FORWARD = ("FFT", "RFFT")


def _lengths(
    name: str, s: Sequence[int] | None, axes: Sequence[int] | None, rank: int
) -> tuple[Any, tuple[int, ...]]:
    """Return sizes (or None) and axes in the form of the multi-dimensional functions."""
    if s is not None:
        s = tuple(operator.index(n) for n in s)
    if axes is None:
        axes = tuple(range(rank)) if s is None else tuple(range(rank - len(s), rank))
    axes = tuple(axes)
    if s is not None and len(s) != len(axes):
        raise ArgumentError(
            f"weft.numpy.fft.{name}: {len(s)} sizes s={tuple(s)} for the "
            f"{len(axes)} axes {axes}; give one size for each axis"
        )
    return s, canonical_axes(axes, rank, "axes")


def _resized(x: Array, axis: int, n: int) -> Any:
    """Cut or filled with zeros at the end to size n."""
    have = typeof(x).shape[axis]
    if have == n:
        return x
    if have > n:
        return slice_in_dim(x, 0, n, axis=axis)
    config = tuple((0, n - have if d == axis else 0, 0) for d in range(typeof(x).ndim))
    return joining.pad_p.bind(x, typeof(x).dtype.type(0), padding_config=config)


def _transform(
    name: str,
    kind: str,
    a: ArrayLike,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: str | None,
) -> Any:
    aval = aval_of(f"fft.{name}", a)
    x = strong(inexact(to_array(a)))
    if norm not in (None, "backward", "ortho", "forward"):
        raise ArgumentError(
            f"weft.numpy.fft.{name}: norm must be None, 'backward', 'ortho' or 'forward', got "
            f"{norm!r}"
        )
    s, axes = _lengths(name, s, axes, aval.ndim)
    if kind == "RFFT" and dtypes.is_complex(typeof(x).dtype):
        raise ArgumentError(f"weft.numpy.fft.{name}: takes real numbers, got {aval.str_short()}")
    if kind != "RFFT" and not dtypes.is_complex(typeof(x).dtype):
        wide = typeof(x).dtype == dtypes.float64
        x = ew.convert(x, dtypes.complex128 if wide else dtypes.complex64)
    if not axes:
        return x
    # XLA transforms no narrower floats.
    if kind == "RFFT" and typeof(x).dtype.itemsize < 4:
        x = ew.convert(x, dtypes.float32)
    shape = typeof(x).shape
    if s is None:
        s = tuple(shape[i] for i in axes)
        if kind == "IRFFT":
            s = (*s[:-1], max(2 * (s[-1] - 1), 0))
    elif any(n < 1 for n in s):
        raise ArgumentError(f"weft.numpy.fft.{name}: sizes must be positive, got {s}")
    for i, n in zip(axes, s, strict=True):
        # Real results come from one half of the spectrum.
        half = kind == "IRFFT" and i == axes[-1]
        x = _resized(x, i, (n // 2 + 1 if n else 0) if half else n)
    # The op works on up to three last dimensions: the transformed ones are moved there.
    rank = len(shape)
    order = (*(d for d in range(rank) if d not in axes), *axes)
    moved = order != tuple(range(rank))
    if moved:
        x = ops.transpose(x, order)
    x = _staged(x, kind, s)
    if moved:
        back = tuple(order.index(d) for d in range(rank))
        x = ops.transpose(x, back)
    total = math.prod(s) or 1
    factor = 1.0
    if norm == "ortho":
        factor = 1 / math.sqrt(total) if kind in _FORWARD else math.sqrt(total)
    elif norm == "forward":
        factor = 1 / total if kind in _FORWARD else float(total)
    return x if factor == 1.0 else ew.mul_p.bind(x, typeof(x).dtype.type(factor))


def _staged(x: Array, kind: str, s: Sequence[int]) -> Any:
    """More than three dimensions are transformed in steps, the half spectrum with the last ones."""
    s = tuple(s)
    if len(s) <= 3:
        return fft_ops.fft(x, kind, s)
    complex_kind = "FFT" if kind in _FORWARD else "IFFT"

    def leading(x: Array) -> Any:
        rank = typeof(x).ndim
        first = rank - len(s)
        done = len(s) - 3
        order = (*range(first), *range(first + done, rank), *range(first, first + done))
        x = _staged(ops.transpose(x, order), complex_kind, s[:done])
        return ops.transpose(x, tuple(order.index(d) for d in range(rank)))

    if kind == "IRFFT":
        return fft_ops.fft(leading(x), kind, s[-3:])
    return leading(fft_ops.fft(x, kind, s[-3:]))


def _one(name: str, kind: str, doc: str) -> Callable:
    def function(
        a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
    ) -> Any:
        axis = operator.index(axis)
        return _transform(name, kind, a, None if n is None else (n,), (axis,), norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    n: the size along the axis: the input is cut or filled with zeros. norm: 'backward' (default)
    divides by n in the inverse, 'forward' in the forward transform, 'ortho' both by its root.
    Source: numpy.fft.{name}."""
    return function


fft = _one("fft", "FFT", "Return the Fourier transform along an axis.")
ifft = _one("ifft", "IFFT", "Return the inverse Fourier transform along an axis.")
rfft = _one("rfft", "RFFT", "Return frequencies 0 … n // 2 of a real signal.")
irfft = _one("irfft", "IRFFT", "Return the real signal whose `rfft` is given; n is its size.")


def _several(name: str, kind: str, doc: str, default: tuple | None) -> Callable:
    def function(
        a: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
    ) -> Any:
        if default is not None and axes is not None and len(axes) != 2:
            raise ArgumentError(f"weft.numpy.fft.{name}: takes two axes, got {axes}")
        return _transform(name, kind, a, s, axes, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} s: sizes along the axes. Source: numpy.fft.{name}."
    return function


fftn = _several("fftn", "FFT", "Return the Fourier transform over several axes.", None)
ifftn = _several("ifftn", "IFFT", "Return the inverse Fourier transform over several axes.", None)
rfftn = _several("rfftn", "RFFT", "Return the transform of a real signal over several axes.", None)
irfftn = _several("irfftn", "IRFFT", "Return the real signal whose `rfftn` is given.", None)
fft2 = _several("fft2", "FFT", "Return the Fourier transform over two axes.", (-2, -1))
ifft2 = _several("ifft2", "IFFT", "Return the inverse Fourier transform over two axes.", (-2, -1))
rfft2 = _several("rfft2", "RFFT", "Return the transform of a real signal over two axes.", (-2, -1))
irfft2 = _several("irfft2", "IRFFT", "Return the real signal whose `rfft2` is given.", (-2, -1))


def _opposite(norm: str | None) -> str | None:
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the real spectrum of a signal with Hermitian symmetry. Source: numpy.fft.hfft.

    >>> import weft.numpy as wnp
    >>> wnp.fft.hfft(wnp.array([4.0, 1.0, 2.0]))
    Array([8., 2., 4., 2.], dtype=float32)
    """
    mirrored = conjugate(inexact(to_array(a)))
    return _transform(
        "hfft", "IRFFT", mirrored, None if n is None else (n,), (axis,), _opposite(norm)
    )


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the inverse of `hfft`. Source: numpy.fft.ihfft.

    >>> import weft.numpy as wnp
    >>> wnp.fft.ihfft(wnp.array([1.0, 1.0, 1.0, 1.0])).real
    Array([1., 0., 0.], dtype=float32)
    """
    s = None if n is None else (n,)
    return ew.conj(_transform("ihfft", "RFFT", a, s, (axis,), _opposite(norm)))


def _frequencies(
    name: str, n: int, d: ArrayLike, dtype: DTypeLike | None, device: object, half: bool
) -> Any:
    n = operator.index(n)
    if n < half:
        least = "positive" if half else "0 or more"
        raise ArgumentError(f"weft.numpy.fft.{name}: n must be {least}, got {n}")
    dtype = dtypes.canonicalize_dtype(float) if dtype is None else canonical(dtype, name)
    steps = np.fft.rfftfreq(n) if half else np.fft.fftfreq(n) if n else np.zeros(0)
    if typeof(d).ndim:
        raise ArgumentError(
            f"weft.numpy.fft.{name}: d must be a number, the distance of "
            f"samples, got {typeof(d).str_short()}"
        )
    if isinstance(d, int | float):
        return place(created((steps / d).astype(dtype)), device)

    return place(ew.convert(true_divide(steps.astype(dtype), d), dtype), device)


def fftfreq(
    n: int, d: object = 1.0, *, dtype: DTypeLike | None = None, device: object = None
) -> Any:
    """Return the frequencies of `fft` for n samples d apart.

    >>> import weft
    >>> weft.numpy.fft.fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _frequencies("fftfreq", n, d, dtype, device, False)


def rfftfreq(
    n: int, d: object = 1.0, *, dtype: DTypeLike | None = None, device: object = None
) -> Any:
    """Return the frequencies of `rfft` for n samples d apart.

    >>> import weft.numpy as wnp
    >>> wnp.fft.rfftfreq(6, d=0.5).round(4)
    Array([0.    , 0.3333, 0.6667, 1.    ], dtype=float32)
    """
    return _frequencies("rfftfreq", n, d, dtype, device, True)


def _shifted(name: str, x: ArrayLike, axes: Any, direction: int) -> Any:
    aval = aval_of(f"fft.{name}", x)
    if axes is None:
        axes = range(aval.ndim)
    elif not isinstance(axes, Sequence):
        axes = np.atleast_1d(axes).tolist()
    dims = [canonical_axis(d, aval.ndim, "axes") for d in axes]  # a dimension may stand twice
    if direction > 0:
        shifts = tuple(aval.shape[d] // 2 for d in dims)
    else:
        shifts = tuple(-(aval.shape[d] // 2) for d in dims)
    return roll(x, shifts, dims)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Any:
    """Frequency 0 moved to the middle.

    >>> import weft.numpy as wnp
    >>> wnp.fft.fftshift(wnp.fft.fftfreq(5, 0.2))
    Array([-2., -1.,  0.,  1.,  2.], dtype=float32)
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Any:
    """Return the inverse of `fftshift`.

    >>> import weft.numpy as wnp
    >>> wnp.fft.ifftshift(wnp.array([-2, -1, 0, 1, 2]))
    Array([ 0,  1,  2, -2, -1], dtype=int32)
    """
    return _shifted("ifftshift", x, axes, -1)


_NAMES = """
    fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn
    rfft rfft2 rfftfreq rfftn
"""
__all__ = _NAMES.split()  # noqa: PLE0605
_PROGRAMS = eager_programs(" ".join(__all__), options="n norm s")
seal(globals(), refuse=refuse, examples=EXAMPLES, prefix="fft.", programs=_PROGRAMS)
