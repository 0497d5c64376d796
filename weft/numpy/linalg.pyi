"""Types of weft.numpy.linalg, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from weft.numpy.decompositions import EighResult, EigResult, SVDResult
from weft.numpy.determinants import SlogdetResult
from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

def cholesky(a: ArrayLike, *, upper: bool = ..., symmetrize_input: bool = ...) -> Array:
    """Return the lower triangular L with a = L L^H, or the upper triangular R with a = …"""

def cond(x: ArrayLike, p: ArrayLike | None = ...) -> Array:
    """Return the condition number: the ratio of singular values, or norm(x, p) …"""

def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = ...) -> Array:
    """Return the cross product of vectors of three components (array API standard)."""

def det(a: ArrayLike) -> Array:
    """Return the determinant of square matrices. Source: numpy.linalg.det."""

def diagonal(x: ArrayLike, /, *, offset: int = ...) -> Array:
    """Return the diagonals of matrices in the last two dimensions (array API standard)."""

def eig(a: ArrayLike) -> EigResult:
    """Compute complex eigenvalues and eigenvectors (columns) of square matrices, on the …"""

def eigh(a: ArrayLike, UPLO: str | None = ..., symmetrize_input: bool = ...) -> EighResult:
    """Ascending eigenvalues and orthonormal eigenvectors (columns) of Hermitian matrices."""

def eigvals(a: ArrayLike) -> Array:
    """Compute complex eigenvalues of square matrices, on the CPU only."""

def eigvalsh(a: ArrayLike, UPLO: str | None = ..., *, symmetrize_input: bool = ...) -> Array:
    """Ascending eigenvalues of Hermitian matrices."""

def inv(a: ArrayLike) -> Array:
    """Return the inverse matrix; NaN or infinite where there is none. Source: …"""

def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: Any = ..., *, numpy_resid: bool = ...
) -> tuple[Array, Array, Array, Array]:
    """Return x that minimizes |a x - b|, residuals, rank of a, singular values of a."""

def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Return the matrix product; see `weft.numpy.matmul`."""

def matrix_norm(x: ArrayLike, /, *, keepdims: bool = ..., ord: Any = ...) -> Array:
    """Return the norm of matrices in the last two dimensions (array API standard)."""

def matrix_power(a: ArrayLike, n: int) -> Array:
    """Return the n-th power of square matrices; negative n powers the inverse."""

def matrix_rank(M: Any, rtol: Any = ..., *, hermitian: bool = ..., tol: Any = ...) -> Array:
    """Return the number of singular values above rtol times the largest, or above tol."""

def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return the last two dimensions exchanged."""

def multi_dot(arrays: Sequence[Any], *, precision: Any = ...) -> Array:
    """Return the product of several matrices in the cheapest order; the ends may be …"""

def norm(
    x: ArrayLike, ord: Any = ..., axis: int | Sequence[int] | None = ..., keepdims: bool = ...
) -> Array:
    """Return the norm of a vector or matrix: over one axis, two, or all."""

def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the products of all pairs of elements of two vectors (array API standard)."""

def pinv(a: ArrayLike, rtol: Any = ..., hermitian: bool = ..., *, rcond: Any = ...) -> Array:
    """Return the Moore-Penrose inverse; singular values below rtol times the largest …"""

def qr(a: ArrayLike, mode: str = ...) -> Any:
    """Orthonormal Q and upper triangular R with a = Q R."""

def slogdet(a: ArrayLike, *, method: str | None = ...) -> SlogdetResult:
    """Return the sign and the logarithm of the magnitude of the determinant."""

def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Return x with a x = b; b is a vector, or matrices. Source: numpy.linalg.solve."""

@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> SVDResult:
    """Singular values S, descending, and unitary U, Vh with a = U S Vh."""

@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    *,
    compute_uv: Literal[False],
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> Array:
    """Singular values S, descending, and unitary U, Vh with a = U S Vh."""

@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: bool = ...,
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> Any:
    """Singular values S, descending, and unitary U, Vh with a = U S Vh."""

def svdvals(x: ArrayLike, /) -> Array:
    """Singular values, descending (array API standard)."""

def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: int | Sequence[int] | None = ...,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return the sum over pairs of axes; see `weft.numpy.tensordot`."""

def tensorinv(a: ArrayLike, ind: int = ...) -> Array:
    """Return the inverse under tensordot(., ., ind). Source: numpy.linalg.tensorinv."""

def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = ...) -> Array:
    """Return x with tensordot(a, x, x.ndim) = b. Source: numpy.linalg.tensorsolve."""

def trace(x: ArrayLike, /, *, offset: int = ..., dtype: DTypeLike | None = ...) -> Array:
    """Return the sums of diagonals of matrices in the last two dimensions (array API …"""

def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = ...,
    precision: Any = ...,
    preferred_element_type: DTypeLike | None = ...,
) -> Array:
    """Return the product of vectors along an axis; see `weft.numpy.vecdot`."""

def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: int | str | Sequence[int | str] | None = ...,
    keepdims: bool = ...,
    ord: Any = ...,
) -> Array:
    """Return the norm of vectors along axes, of all elements by default (array API …"""
