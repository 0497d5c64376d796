# Tests: tests/scipy/test_signal.py
"""Discrete cosine transforms, under the names and with the semantics of jax.scipy.fft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.namespace import seal
from weft.numpy.common import canonical_axes
from weft.scipy.special.factorials import as_float

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

__all__ = ["dct", "dctn", "idct", "idctn"]


def _checked(name: str, x: Array, type: int, norm: str | None) -> Any:
    if type not in (1, 2, 3, 4):
        raise UnsupportedArgumentError(f"{name}: type must be 1, 2, 3 or 4, got {type!r}")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ArgumentError(f"{name}: norm must be None, 'ortho' or 'forward', got {norm!r}")
    x = as_float(x)
    if wnp.iscomplexobj(x):
        raise ArgumentError(
            f"{name}: takes real arrays, got {x.dtype}; transform x.real and x.imag"
        )
    return x


def _resized(x: Array, axis: int, n: int) -> Any:
    """Cut off or padded with zeros to a length along an axis."""
    size = x.shape[axis]
    if n < 1:
        raise ArgumentError(f"dct: the length of an axis must be 1 or more, got {n}")
    if n < size:
        return x[(slice(None),) * axis + (slice(n),)]
    pad = [(0, 0)] * x.ndim
    pad[axis] = (0, n - size)
    return wnp.pad(x, pad)


def _transform(x: Array, kind: int, axis: int, norm: str | None) -> Any:
    """Transform one axis, unnormalized, by a Fourier transform of the even extension."""
    x = wnp.moveaxis(x, axis, -1)
    n = x.shape[-1]
    ends = wnp.ones(n, x.dtype)
    if norm == "ortho" and kind in (1, 3):
        # In the orthonormal form the ends (type 1) or the first element (3) weigh sqrt(2).
        places = np.array([0, n - 1] if kind == 1 else [0])
        x = x * ends.at[places].set(np.sqrt(2))
    k = np.arange(n)
    if kind == 1:
        if n < 2:
            raise ArgumentError("dct: type 1 takes 2 or more elements")
        extended = wnp.concatenate([x, wnp.flip(x[..., 1:-1], -1)], -1)
        y = wnp.fft.rfft(extended).real
        total = 2 * (n - 1)
    elif kind == 2:
        # Makhoul, A fast cosine transform in one and two dimensions, 1980: a transform of length n.
        folded = wnp.concatenate([x[..., ::2], wnp.flip(x[..., 1::2], -1)], -1)
        turn = np.exp(-0.5j * np.pi * k / n)
        y = 2 * (wnp.fft.fft(folded) * turn.astype(wnp.result_type(x.dtype, np.complex64))).real
        total = 2 * n
    elif kind == 3:
        turn = np.exp(0.5j * np.pi * k / n).astype(wnp.result_type(x.dtype, np.complex64))
        weights = np.where(k == 0, 1.0, 2.0).astype(x.dtype)
        y = (wnp.fft.ifft(x * weights * turn) * n).real
        half = (n + 1) // 2
        order = np.empty(n, int)
        order[::2], order[1::2] = np.arange(half), np.arange(n - 1, half - 1, -1)
        y = y[..., order]
        total = 2 * n
    else:
        # The cosines of (2j+1)(2k+1) pi / 4n, from a transform of twice the length.
        turn = np.exp(-0.5j * np.pi * (k + 0.5) / n)
        shift = np.exp(-0.5j * np.pi * k / n)
        dtype = wnp.result_type(x.dtype, np.complex64)
        z = wnp.fft.fft(x * shift.astype(dtype), 2 * n)[..., :n]
        y = 2 * (z * turn.astype(dtype)).real
        total = 2 * n
    if norm == "ortho":
        y = y / np.sqrt(total)
        if kind in (1, 2):
            places = np.array([0, n - 1] if kind == 1 else [0])
            y = y * ends.at[places].set(np.sqrt(0.5))
    elif norm == "forward":
        y = y / total
    return wnp.moveaxis(y, -1, axis)


def _inverse_of(kind: int, norm: str | None) -> tuple[int, str | None]:
    """Return the transform that is the inverse."""
    scaled = {None: "forward", "backward": "forward", "forward": None, "ortho": "ortho"}[norm]
    return {1: 1, 2: 3, 3: 2, 4: 4}[kind], scaled


def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Any:
    """Return the discrete cosine transform of real x along an axis.

    type: 1 to 4. n: the length, cut off or padded with zeros. norm: None, 'ortho' or 'forward'.
    Source: scipy.fft.dct.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import fft
    >>> round(float(fft.dct(wnp.array([1.0, 2.0]))[0]), 3)
    6.0
    """
    x = _checked("dct", x, type, norm)
    (axis,) = canonical_axes(axis, x.ndim, "axis")
    return _transform(_resized(x, axis, x.shape[axis] if n is None else n), type, axis, norm)


def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Any:
    """Return the inverse of dct: what has the transform x.

    Source: scipy.fft.idct.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import fft
    >>> [round(float(v), 3) for v in fft.idct(fft.dct(wnp.array([1.0, 2.0])))]
    [1.0, 2.0]
    """
    x = _checked("idct", x, type, norm)
    return dct(x, *_swap(type, norm, n, axis))


def _swap(type: int, norm: str | None, n: object, axis: object) -> tuple:
    kind, scaled = _inverse_of(type, norm)
    return kind, n, axis, scaled


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    """Return the discrete cosine transform along several axes, all by default.

    s: their lengths. Source: scipy.fft.dctn.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import fft
    >>> round(float(fft.dctn(wnp.ones((2, 2)))[0, 0]), 3)
    16.0
    """
    x = _checked("dctn", x, type, norm)
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = canonical_axes(tuple(axes), x.ndim, "axes")
    sizes = [x.shape[a] for a in axes] if s is None else list(s)
    if len(sizes) != len(axes):
        raise ArgumentError(f"dctn: s {s} and axes {axes} must have one length")
    for axis, size in zip(axes, sizes, strict=True):
        x = _transform(_resized(x, axis, size), type, axis, norm)
    return x


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    """Return the inverse of dctn.

    Source: scipy.fft.idctn.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import fft
    >>> round(float(fft.idctn(fft.dctn(wnp.ones((2, 2))))[0, 0]), 3)
    1.0
    """
    x = _checked("idctn", x, type, norm)
    return dctn(x, *_swap(type, norm, s, axes))


seal(globals())
