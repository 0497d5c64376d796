# Tests: tests/ops/test_linalg.py, tests/numpy/test_pseudo_inverse.py
"""Decompositions of matrices in the last two dimensions, and what is solved by them."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, NamedTuple

import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.lax import linalg
from weft.numpy.common import aval_of, cast, check_array, inexact, strong, to_array
from weft.numpy.matrices import eye
from weft.numpy.selection import take_along_axis, where
from weft.numpy.shaping import matrix_transpose
from weft.numpy.sorting import argsort
from weft.ops.promote import broadcast_to, promote_inexact

if TYPE_CHECKING:
    from weft.typing import Array, ArrayLike


class EigResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    Q: Array
    R: Array


class SVDResult(NamedTuple):
    U: Array
    S: Array
    Vh: Array


def as_matrices(name: str, a: ArrayLike, square: builtins.bool = False) -> Any:
    """Return the operand as float or complex matrices, of a dtype that LAPACK knows."""
    aval = aval_of(f"linalg.{name}", a)
    if aval.ndim < 2 or (square and aval.shape[-1] != aval.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ArgumentError(f"weft.numpy.linalg.{name}: takes {kind}, got {aval.str_short()}")
    return strong(inexact(to_array(a)))


def lax_linalg() -> Any:
    return linalg


def adjoint(a: ArrayLike) -> Any:
    return u.conjugate(matrix_transpose(a))


def cholesky(
    a: ArrayLike, *, upper: builtins.bool = False, symmetrize_input: builtins.bool = True
) -> Any:
    """Return the lower triangular L with a = L L^H, or the upper triangular R with a = R^H R.

    NaN where a is not positive definite. Source: numpy.linalg.cholesky.

    >>> import weft
    >>> weft.numpy.linalg.cholesky(weft.numpy.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    a = as_matrices("cholesky", a, True)
    if upper:
        a = adjoint(a)
    low = lax_linalg().cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(low) if upper else low


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Orthonormal Q and upper triangular R with a = Q R.

    mode: 'reduced', 'complete' (square Q), 'r' (R alone), 'raw' (Householder form).
    Source: numpy.linalg.qr.

    >>> import weft.numpy as wnp
    >>> q, r = wnp.linalg.qr(wnp.ones((4, 2)))
    >>> q.shape, r.shape
    ((4, 2), (2, 2))
    """
    a = as_matrices("qr", a)
    if mode == "raw":
        packed, taus = lax_linalg().geqrf(a)
        return QRResult(matrix_transpose(packed), taus)
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(
            f"weft.numpy.linalg.qr: mode must be reduced, complete, r or raw, got {mode!r}"
        )
    q, r = lax_linalg().qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def svd(
    a: ArrayLike,
    full_matrices: builtins.bool = True,
    compute_uv: builtins.bool = True,
    hermitian: builtins.bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular values S, descending, and unitary U, Vh with a = U S Vh.

    compute_uv=False gives S alone. Source: numpy.linalg.svd.

    >>> import weft.numpy as wnp
    >>> u, s, vh = wnp.linalg.svd(wnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> s.round(4)
    Array([3., 2.], dtype=float32)
    """
    a = as_matrices("svd", a)
    if hermitian:
        w, v = eigh(a)
        size = u.absolute(w)
        order = argsort(u.negative(size), axis=-1)
        s = take_along_axis(size, order, -1)
        if not compute_uv:
            return s
        signs = cast(where(u.less(take_along_axis(w, order, -1), 0), -1, 1), typeof(v).dtype)
        v = take_along_axis(v, order[..., None, :], -1)
        return SVDResult(v, s, adjoint(u.multiply(v, signs[..., None, :])))
    out = lax_linalg().svd(
        a,
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        **({} if subset_by_index is None else {"subset_by_index": subset_by_index}),
    )
    if not compute_uv:
        return out[0] if isinstance(out, list | tuple) else out
    return SVDResult(*out)


def svdvals(x: ArrayLike, /) -> Any:
    """Singular values, descending (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.linalg.svdvals(wnp.array([[0.0, 2.0], [3.0, 0.0]])).round(4)
    Array([3., 2.], dtype=float32)
    """
    return svd(x, compute_uv=False)


def _triangle(name: str, UPLO: str | None) -> builtins.bool:
    if UPLO not in (None, "L", "U"):
        raise ArgumentError(
            f"weft.numpy.linalg.{name}: UPLO must be None, 'L' or 'U', got {UPLO!r}"
        )
    return UPLO != "U"


def eigh(
    a: ArrayLike, UPLO: str | None = None, symmetrize_input: builtins.bool = True
) -> EighResult:
    """Ascending eigenvalues and orthonormal eigenvectors (columns) of Hermitian matrices.

    UPLO: the triangle that is read, 'L' or 'U'. Source: numpy.linalg.eigh.

    >>> import weft.numpy as wnp
    >>> values, vectors = wnp.linalg.eigh(wnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values.round(4)
    Array([1., 3.], dtype=float32)
    """
    lower = _triangle("eigh", UPLO)
    a = as_matrices("eigh", a, True)
    v, w = lax_linalg().eigh(a, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(
    a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: builtins.bool = True
) -> Any:
    """Ascending eigenvalues of Hermitian matrices.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.eigvalsh(wnp.array([[2.0, 1.0], [1.0, 2.0]])).round(4)
    Array([1., 3.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: ArrayLike) -> EigResult:
    """Compute complex eigenvalues and eigenvectors (columns) of square matrices, on the CPU only.

    >>> import weft.numpy as wnp
    >>> values, vectors = wnp.linalg.eig(wnp.array([[0.0, 1.0], [-1.0, 0.0]]))
    >>> wnp.sort_complex(values)
    Array([0.-1.j, 0.+1.j], dtype=complex64)
    """
    a = as_matrices("eig", a, True)
    w, v = lax_linalg().eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: ArrayLike) -> Any:
    """Compute complex eigenvalues of square matrices, on the CPU only.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.eigvals(wnp.array([[1.0, 5.0], [0.0, 2.0]]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    a = as_matrices("eigvals", a, True)
    return lax_linalg().eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def solve(a: ArrayLike, b: Any) -> Any:
    """Return x with a x = b; b is a vector, or matrices. Source: numpy.linalg.solve.

    >>> import weft
    >>> a = weft.numpy.array([[2.0, 0.0], [0.0, 4.0]])
    >>> weft.numpy.linalg.solve(a, weft.numpy.array([2.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    check_array("linalg.solve", a, b)
    a, b = promote_inexact(a, b)
    a, b = as_matrices("solve", a, True), strong(to_array(b))
    x, y = typeof(a), typeof(b)
    if y.ndim == 0 or y.shape[-2 if y.ndim > 1 else -1] != x.shape[-1]:
        raise ArgumentError(
            f"weft.numpy.linalg.solve: b {y.str_short()} must be a vector or matrices of "
            f"{x.shape[-1]} rows for a {x.str_short()}"
        )
    vector = y.ndim == 1
    b = b[:, None] if vector else b
    lead = ops.broadcast_shapes(x.shape[:-2], typeof(b).shape[:-2])

    a = broadcast_to(a, (*lead, *x.shape[-2:]))
    b = broadcast_to(b, (*lead, *typeof(b).shape[-2:]))
    out = lax_linalg().solve(a, b)
    return out[..., 0] if vector else out


def inv(a: ArrayLike) -> Any:
    """Return the inverse matrix; NaN or infinite where there is none. Source: numpy.linalg.inv.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.inv(wnp.array([[1.0, 2.0], [0.0, 4.0]]))
    Array([[ 1.  , -0.5 ],
           [ 0.  ,  0.25]], dtype=float32)
    """
    a = as_matrices("inv", a, True)

    return solve(a, eye(typeof(a).shape[-1], dtype=typeof(a).dtype))
