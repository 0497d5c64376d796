# Tests: tests/scipy/test_linalg.py
"""Matrices with a name: Toeplitz, Hankel, companion, Hilbert, Pascal, Hadamard and others."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.driver.jit import jit
from weft.numpy.common import static_int
from weft.scipy.linalg.factorizations import _choice
from weft.scipy.special.factorials import as_float

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def _size(name: str, n: int, least: int = 0) -> int:
    if n.__class__ is not int:
        n = static_int(n, f"{name}: n")
    if n < least:
        raise ArgumentError(f"{name}: n must be {least} or more, got {n}")
    return n


def _vectors(name: str, x: ArrayLike, least: int = 1) -> Any:
    x = wnp.asarray(x)
    if x.ndim < 1 or x.shape[-1] < least:
        raise ArgumentError(
            f"{name}: takes vectors of {least} or more elements, got shape {x.shape}"
        )
    return x


def _array(make: Callable[..., np.ndarray], sizes: tuple, dtype: object) -> Any:
    return wnp.asarray(make(*sizes), dtype=dtypes.canonicalize_dtype(dtype))


_small = jit(_array, static_argnums=(0, 1, 2))


def _host(make: Callable[..., np.ndarray], n: int, *options: object, dtype: object = float) -> Any:
    """make(n, *options) as an array; where it is small, a program keeps it."""
    if dtype.__class__ is not type:
        dtype = dtypes.canonicalize_dtype(dtype)
    return (_small if n <= 64 else _array)(make, (n, *options), dtype)


def block_diag(*arrs: Any) -> Any:
    """Return the matrix with the arguments, matrices, vectors or numbers, on its diagonal.

    Source: scipy.linalg.block_diag.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.block_diag(wnp.array([[1, 2]]), 3)
    Array([[1, 2, 0],
           [0, 0, 3]], dtype=int32)
    """
    blocks = [wnp.atleast_2d(a) for a in arrs] or [wnp.zeros((1, 0))]
    for i, b in enumerate(blocks):
        if b.ndim != 2:
            raise ArgumentError(f"block_diag: argument {i} has {b.ndim} dimensions, more than 2")
    width, left, rows = sum(b.shape[1] for b in blocks), 0, []
    dtype = wnp.result_type(*blocks)
    for b in blocks:
        rows.append(wnp.pad(b.astype(dtype), ((0, 0), (left, width - left - b.shape[1]))))
        left += b.shape[1]
    return wnp.concatenate(rows)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Any:
    """Return the matrices (..., m, n) with first columns c (..., m) and first rows r (..., n).

    r: c's conjugate by default; its first element is not read. Source: scipy.linalg.toeplitz.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.toeplitz(wnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 1, 2],
           [3, 2, 1]], dtype=int32)
    """
    columns = wnp.atleast_1d(c)
    rows = wnp.conj(columns) if r is None else wnp.atleast_1d(r)
    batch = wnp.broadcast_shapes(columns.shape[:-1], rows.shape[:-1])
    m, n = columns.shape[-1], rows.shape[-1]
    columns, rows = (wnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (columns, rows))
    values = wnp.concatenate([wnp.flip(rows[..., 1:], -1), columns], -1)
    return values[..., np.arange(m)[:, None] - np.arange(n)[None] + max(n - 1, 0)]


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Any:
    """Return the matrices (..., m, n) with first columns c (..., m) and last rows r (..., n).

    r: zeros by default; its first element is not read. Source: scipy.linalg.hankel.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.hankel(wnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]], dtype=int32)
    """
    columns = wnp.atleast_1d(c)
    rows = wnp.zeros_like(columns) if r is None else wnp.atleast_1d(r)
    batch = wnp.broadcast_shapes(columns.shape[:-1], rows.shape[:-1])
    m, n = columns.shape[-1], rows.shape[-1]
    columns, rows = (wnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (columns, rows))
    values = wnp.concatenate([columns, rows[..., 1:]], -1)
    return values[..., np.arange(m)[:, None] + np.arange(n)[None]]


def circulant(c: ArrayLike) -> Any:
    """Return the matrices (..., n, n) whose columns are the rotations of c (..., n).

    Source: scipy.linalg.circulant.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.circulant(wnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    c = wnp.atleast_1d(c)
    n = c.shape[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)[None]) % max(n, 1)]


def companion(a: Any) -> Any:
    """Make companion matrices (..., n - 1, n - 1) of polynomials with coefficients a (..., n).

    Source: scipy.linalg.companion.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.companion(wnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = as_float(_vectors("companion", a, 2))
    n = a.shape[-1] - 1
    row = -a[..., 1:] / a[..., :1]
    below = wnp.broadcast_to(wnp.eye(n - 1, n, dtype=a.dtype), (*a.shape[:-1], n - 1, n))
    return wnp.concatenate([row[..., None, :], below], -2)


def fiedler(a: ArrayLike) -> Any:
    """Return the symmetric matrices (..., n, n) of |a[i] - a[j]|.

    Source: scipy.linalg.fiedler.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.fiedler(wnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    a = wnp.atleast_1d(a)
    return wnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a: Any) -> Any:
    """Return the pentadiagonal companion matrices of polynomials with coefficients a (..., n).

    Source: Fiedler, A note on companion matrices, 2003; scipy.linalg.fiedler_companion.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.fiedler_companion(wnp.array([1.0, 2.0, 3.0]))
    Array([[-2., -3.],
           [ 1.,  0.]], dtype=float32)
    """
    a = as_float(wnp.atleast_1d(a))
    n = a.shape[-1] - 1
    if n < 1:
        return wnp.zeros((*a.shape[:-1], 0, 0), a.dtype)
    a = a / a[..., :1]
    if n == 1:
        return -a[..., 1:, None]
    c = wnp.zeros((*a.shape[:-1], n, n), a.dtype)
    odd, even = np.arange(3, n, 2), np.arange(0, n - 2, 2)
    c = c.at[..., odd, odd - 2].set(1).at[..., even, even + 2].set(1)
    rows = np.arange(2, n, 2)
    c = c.at[..., rows, rows - 1].set(-a[..., 3::2])
    rows = np.arange(0, n - 1, 2)
    c = c.at[..., rows, rows + 1].set(-a[..., 2::2])
    return c.at[..., 0, 0].set(-a[..., 1]).at[..., 1, 0].set(1)


def leslie(f: Any, s: Any) -> Any:
    """Make Leslie matrices (..., n, n) of fecundities f (..., n), survival rates s (..., n - 1).

    Source: scipy.linalg.leslie.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.leslie(wnp.array([0.5, 2.0]), wnp.array([0.25]))
    Array([[0.5 , 2.  ],
           [0.25, 0.  ]], dtype=float32)
    """
    f, s = _vectors("leslie", f, 2), _vectors("leslie", s, 1)
    if f.shape[-1] != s.shape[-1] + 1:
        raise ArgumentError(f"leslie: f {f.shape} must have one element more than s {s.shape}")
    dtype = wnp.result_type(f, s)
    below = s[..., :, None] * wnp.eye(s.shape[-1], f.shape[-1], dtype=dtype)
    f = wnp.broadcast_to(f, (*s.shape[:-1], f.shape[-1])).astype(dtype)
    return wnp.concatenate([f[..., None, :], below], -2)


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """Return the matrices by which vectors of length n are convolved with a (..., m).

    mode: 'full', 'same' or 'valid', as numpy.convolve has them.
    Source: scipy.linalg.convolution_matrix.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.convolution_matrix(wnp.array([1, 2]), 3)
    Array([[1, 0, 0],
           [2, 1, 0],
           [0, 2, 1],
           [0, 0, 2]], dtype=int32)
    """
    _choice("convolution_matrix", "mode", mode, ("full", "same", "valid"))
    a, n = _vectors("convolution_matrix", a), _size("convolution_matrix", n, 1)
    m = a.shape[-1]
    rows, offset = {
        "full": (m + n - 1, 0),
        "same": (max(m, n), (min(m, n) - 1) // 2),
        "valid": (max(m, n) - min(m, n) + 1, min(m, n) - 1),
    }[mode]
    position = np.arange(rows)[:, None] + offset - np.arange(n)[None]
    return wnp.where((position >= 0) & (position < m), a[..., np.clip(position, 0, m - 1)], 0)


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Any:
    """Return the n x n matrix of the discrete Fourier transform.

    scale: None, 'sqrtn' or 'n', what it is divided by. dtype: complex. Source: scipy.linalg.dft.

    >>> from weft.scipy import linalg
    >>> linalg.dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    _choice("dft", "scale", scale, (None, "sqrtn", "n"))
    return _host(_dft, _size("dft", n), scale, dtype=complex if dtype is None else dtype)


def _dft(n: int, scale: str | None) -> np.ndarray:
    k = np.arange(n)
    matrix = np.exp(-2j * np.pi * (np.outer(k, k) % max(n, 1)) / max(n, 1))
    return matrix / {None: 1, "sqrtn": np.sqrt(n), "n": n}[scale]


def hadamard(n: int, dtype: DTypeLike | None = int) -> Any:
    """Sylvester's Hadamard matrix: n x n of 1 and -1 with orthogonal rows; n is a power of 2.

    Source: scipy.linalg.hadamard.

    >>> from weft.scipy import linalg
    >>> linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = _size("hadamard", n, 1)
    if n & (n - 1):
        raise ArgumentError(f"hadamard: n must be a power of 2, got {n}")
    return _host(_hadamard, n, dtype=dtype)


def _hadamard(n: int) -> np.ndarray:
    shared = np.arange(n)[:, None] & np.arange(n)[None]
    return 1 - 2 * (np.bitwise_count(shared) % 2).astype(int)


def helmert(n: int, full: bool = False) -> Any:
    """Make the orthonormal Helmert matrix (n - 1, n); full: with the row of equal elements, first.

    Source: scipy.linalg.helmert.

    >>> from weft.scipy import linalg
    >>> linalg.helmert(2).shape
    (1, 2)
    """
    return _host(_helmert, _size("helmert", n, 1), bool(full))


def _helmert(n: int, full: bool) -> np.ndarray:
    rows = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    rows[0] = 1
    norms = np.sqrt(np.arange(n) * np.arange(1, n + 1))
    norms[0] = np.sqrt(n)
    return (rows / norms[:, None])[0 if full else 1 :]


def hilbert(n: int) -> Any:
    """Return the n x n Hilbert matrix of 1 / (i + j + 1).

    Source: scipy.linalg.hilbert.

    >>> from weft.scipy import linalg
    >>> linalg.hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    return _host(_hilbert, _size("hilbert", n))


def _hilbert(n: int) -> np.ndarray:
    k = np.arange(n)
    return 1 / (k[:, None] + k[None] + 1)


def invhilbert(n: int) -> Any:
    """Return the inverse of the n x n Hilbert matrix, of whole numbers.

    Source: scipy.linalg.invhilbert.

    >>> from weft.scipy import linalg
    >>> linalg.invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    return _host(_invhilbert, _size("invhilbert", n))


def _invhilbert(n: int) -> np.ndarray:
    entry = lambda i, j: (
        (-1) ** (i + j) * (i + j + 1) * comb(n + i, n - j - 1) * comb(n + j, n - i - 1)
        * comb(i + j, i) ** 2
    )  # fmt: skip
    return np.array([float(entry(i, j)) for i in range(n) for j in range(n)]).reshape(n, n)


def _pascal(n: int, kind: str, inverted: bool) -> np.ndarray:
    lower = np.array([float(comb(i, j)) for i in range(n) for j in range(n)]).reshape(n, n)
    if kind == "symmetric":
        upper = _pascal(n, "upper", inverted)
        return upper @ upper.T if inverted else upper.T @ upper
    if inverted:
        k = np.arange(n)
        lower *= (-1.0) ** (k[:, None] + k[None])
    return lower if kind == "lower" else lower.T


def _kind(name: str, kind: str | None) -> str:
    kind = "symmetric" if kind is None else kind
    _choice(name, "kind", kind, ("symmetric", "lower", "upper"))
    return kind


def pascal(n: int, kind: str | None = None) -> Any:
    """Make the n x n Pascal matrix of binomial coefficients: 'symmetric', 'lower' or 'upper'.

    Source: scipy.linalg.pascal.

    >>> from weft.scipy import linalg
    >>> linalg.pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    kind = _kind("pascal", kind)
    return _host(_pascal, _size("pascal", n), kind, False)


def invpascal(n: int, kind: str | None = None) -> Any:
    """Return the inverse of the n x n Pascal matrix: 'symmetric' (default), 'lower', 'upper'.

    Source: scipy.linalg.invpascal.

    >>> from weft.scipy import linalg
    >>> linalg.invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    kind = _kind("invpascal", kind)
    return _host(_pascal, _size("invpascal", n), kind, True)
