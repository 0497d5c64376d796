"""Sparse linear algebra: a direct solver on the host, and largest eigenvalues."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.sparse.arrays import BCSR

if TYPE_CHECKING:
    from weft.runtime.array import Array

__all__ = ["lobpcg_standard", "spsolve"]


def _host_solve(
    transposed: bool, data: object, indices: object, indptr: object, b: object
) -> np.ndarray:
    """Solve on the host, with SciPy's sparse LU decomposition where SciPy is installed."""
    data, indices, indptr, b = (np.asarray(x) for x in (data, indices, indptr, b))
    n = b.shape[0]
    try:
        sparse = importlib.import_module("scipy.sparse")
        solve = importlib.import_module("scipy.sparse.linalg").spsolve
    except ImportError:
        dense = np.zeros((n, n), data.dtype)
        np.add.at(dense, (np.repeat(np.arange(n), np.diff(indptr)), indices), data)
        return np.linalg.solve(dense.T if transposed else dense, b).astype(b.dtype)
    kind = sparse.csc_matrix if transposed else sparse.csr_matrix
    return np.asarray(solve(kind((data, indices, indptr), shape=(n, n)), b), b.dtype)


def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Array:
    """Return x with A x = b, for a square matrix A in compressed row format and a vector b.

    data, indices, indptr: of A, as a BCSR has them; all floats have one dtype. The host solves it,
    with SciPy where it is installed, else as a dense system. Differentiable in data and b.
    tol, reorder: for solvers of GPUs, which weft does not call.

    Raises ArgumentError, a TypeError and a ValueError, for shapes and dtypes that do not fit.

    Source: Davis, Direct methods for sparse linear systems, 2006.

    >>> import weft.numpy as wnp
    >>> from weft import sparse
    >>> m = sparse.BCSR.fromdense(wnp.array([[2.0, 0.0], [1.0, 4.0]]))
    >>> sparse.linalg.spsolve(m.data, m.indices, m.indptr, wnp.array([2.0, 9.0]))
    Array([1., 2.], dtype=float32)
    """
    data, indices, indptr, b = map(wnp.asarray, (data, indices, indptr, b))
    n = b.shape[0] if b.ndim == 1 else -1
    if data.ndim != 1 or indices.shape != data.shape or indptr.shape != (n + 1,):
        raise ArgumentError(
            "spsolve: data and indices must be vectors of one length, b a vector, and indptr have "
            f"one entry more than b, got shapes {data.shape}, {indices.shape}, {indptr.shape} and "
            f"{b.shape}"
        )
    if data.dtype != b.dtype or not wnp.issubdtype(b.dtype, wnp.inexact):
        raise ArgumentError(
            f"spsolve: data and b must have one dtype of floats, got {data.dtype} and {b.dtype}"
        )
    struct = weft.ShapeDtypeStruct(b.shape, b.dtype)

    def solver(transposed: bool) -> Callable:
        on_host = lambda *args: _host_solve(transposed, *args)
        return lambda _, b: weft.pure_callback(
            on_host, struct, data, indices, indptr, b, vmap_method="sequential"
        )

    matrix = BCSR((data, indices, indptr), shape=(n, n)).to_bcoo()
    return lax.custom_linear_solve(lambda x: matrix @ x, b, solver(False), solver(True))


def lobpcg_standard(A: object, X: Any, m: int = 100, tol: Any = None) -> tuple[Array, Array, Array]:
    """Return the k largest eigenvalues of a symmetric matrix, their vectors, and the iterations.

    A: a matrix of shape (n, n), dense or sparse, or the function that multiplies by it. X: of shape
    (n, k), where the search begins, with 5 k < n. m: the most iterations. tol: a pair has converged
    when its residual is below tol * 10 * n * (eigenvalue + |A v|); the dtype's epsilon by default.

    Raises ArgumentError, a TypeError and a ValueError, for shapes and dtypes that do not fit.

    Source: Knyazev, Toward the optimal preconditioned eigensolver, 2001.

    >>> import weft.numpy as wnp
    >>> from weft import sparse
    >>> a = wnp.diag(wnp.arange(1.0, 11.0))
    >>> theta, _, _ = sparse.linalg.lobpcg_standard(a, wnp.eye(10, 1) + 0.1)
    >>> round(float(theta[0]), 3)
    10.0
    """
    X, m = wnp.asarray(X), operator.index(m)
    if X.ndim != 2 or not 0 < 5 * X.shape[1] < X.shape[0]:
        raise ArgumentError(
            f"lobpcg_standard: X must have shape (n, k) with 0 < 5 k < n, got {X.shape}"
        )
    n, k = X.shape
    apply = A if callable(A) else lambda x: A @ x
    image = weft.eval_shape(apply, X)
    if image.shape != X.shape or image.dtype != X.dtype:
        raise ArgumentError(
            f"lobpcg_standard: A must map {X.dtype}{X.shape} to the same type, but gives "
            f"{image.dtype}{image.shape}"
        )
    tol = float(wnp.finfo(X.dtype).eps) if tol is None else tol

    def ritz(basis: Any) -> tuple:
        """Return the best k vectors of the space of an orthonormal basis."""
        image = apply(basis)
        # The matrix in that basis is small and symmetric but for rounding.
        small = basis.T.conj() @ image
        values, vectors = wnp.linalg.eigh((small + small.T.conj()) / 2)
        best = vectors[:, ::-1][:, :k]
        return values[::-1][:k], best, image @ best

    def state(values: Any, x: Any, image: Any, p: object) -> tuple:
        residual = image - x * values
        size = wnp.linalg.norm(residual, axis=0)
        bound = tol * 10 * n * (wnp.abs(values) + wnp.linalg.norm(image, axis=0))
        return x, p, residual, values, (size < bound).all()

    def go_on(carry: tuple) -> Any:
        (*_, done), i = carry
        return ~done & (i < m)

    def step(carry: tuple) -> tuple:
        (x, p, residual, _, _), i = carry
        # The columns of Q are an orthonormal basis even where those given depend on each other.
        basis = wnp.linalg.qr(wnp.concatenate([x, residual, p], 1))[0]
        # The next search direction: the step without its part along the present vectors.
        values, best, image = ritz(basis)
        return state(values, basis @ best, image, basis[:, k:] @ best[k:]), i + 1

    start = wnp.linalg.qr(X)[0]
    values, best, image = ritz(start)
    first = state(values, start @ best, image, wnp.zeros_like(start))
    (x, _, _, values, _), i = lax.while_loop(go_on, step, (first, np.int32(0)))
    return values, x, i


seal(globals())
