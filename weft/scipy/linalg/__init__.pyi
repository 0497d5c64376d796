"""Types of weft.scipy.linalg, written by `make stubs` from the definitions."""

from collections.abc import Callable
from typing import Any, Literal, overload

from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

def block_diag(*arrs: Any) -> Array:
    """Return the matrix with the arguments, matrices, vectors or numbers, on its diagonal."""

def cho_factor(
    a: ArrayLike, lower: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> tuple[Array, bool]:
    """Return the Cholesky factor of a (..., n, n) and `lower`, as `cho_solve` takes them."""

def cho_solve(
    c_and_lower: tuple[Any, bool], b: ArrayLike, overwrite_b: bool = ..., check_finite: bool = ...
) -> Array:
    """Return x with a x = b, from what `cho_factor(a)` gave; b is (..., n) or (..., n, k)."""

def cholesky(
    a: ArrayLike, lower: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> Array:
    """Return the upper triangular u with a = u^H u, or the lower triangular l with a = l …"""

def circulant(c: ArrayLike) -> Array:
    """Return the matrices (..., n, n) whose columns are the rotations of c (..., n)."""

def companion(a: ArrayLike) -> Array:
    """Make companion matrices (..., n - 1, n - 1) of polynomials with coefficients a …"""

def convolution_matrix(a: ArrayLike, n: int, mode: str = ...) -> Array:
    """Return the matrices by which vectors of length n are convolved with a (..., m)."""

def det(a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...) -> Array:
    """Return the determinant of a (..., n, n)."""

def dft(n: int, scale: str | None = ..., *, dtype: DTypeLike | None = ...) -> Array:
    """Return the n x n matrix of the discrete Fourier transform."""

@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = ...,
    lower: bool = ...,
    eigvals_only: Literal[False] = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    turbo: bool = ...,
    eigvals: tuple[int, int] | None = ...,
    type: int = ...,
    check_finite: bool = ...,
) -> tuple[Array, Array]:
    """Ascending eigenvalues and eigenvectors of Hermitian a (..., n, n)."""

@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = ...,
    lower: bool = ...,
    *,
    eigvals_only: Literal[True],
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    turbo: bool = ...,
    eigvals: tuple[int, int] | None = ...,
    type: int = ...,
    check_finite: bool = ...,
) -> Array:
    """Ascending eigenvalues and eigenvectors of Hermitian a (..., n, n)."""

@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = ...,
    lower: bool = ...,
    eigvals_only: bool = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    turbo: bool = ...,
    eigvals: tuple[int, int] | None = ...,
    type: int = ...,
    check_finite: bool = ...,
) -> Any:
    """Ascending eigenvalues and eigenvectors of Hermitian a (..., n, n)."""

def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = ...,
    select: str = ...,
    select_range: tuple[Any, ...] | None = ...,
    tol: float | None = ...,
    key: Any = ...,
) -> Array:
    """Compute eigenvalues (and -vectors) of the symmetric tridiagonal matrix of …"""

def expm(A: Any, *, upper_triangular: bool = ..., max_squarings: int = ...) -> Array:
    """Return the exponential of A (..., n, n), by Pade approximation with scaling and …"""

def expm_frechet(A: Any, E: Any, *, method: str | None = ..., compute_expm: bool = ...) -> Any:
    """Return the exponential of A, and its derivative at A along E, or that alone."""

def fiedler(a: ArrayLike) -> Array:
    """Return the symmetric matrices (..., n, n) of |a[i] - a[j]|."""

def fiedler_companion(a: ArrayLike) -> Array:
    """Return the pentadiagonal companion matrices of polynomials with coefficients a …"""

def funm(A: Any, func: Callable[..., Any], disp: bool = ...) -> Array:
    """Apply a function of numbers to a square matrix, by Schur's form and Parlett's …"""

def hadamard(n: int, dtype: DTypeLike | None = ...) -> Array:
    """Sylvester's Hadamard matrix: n x n of 1 and -1 with orthogonal rows; n is a power …"""

def hankel(c: ArrayLike, r: ArrayLike | None = ...) -> Array:
    """Return the matrices (..., m, n) with first columns c (..., m) and last rows r …"""

def helmert(n: int, full: bool = ...) -> Array:
    """Make the orthonormal Helmert matrix (n - 1, n); full: with the row of equal …"""

def hessenberg(
    a: ArrayLike, *, calc_q: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> Array:
    """h, zero below its first subdiagonal, with a = q h q^H; with calc_q also unitary q."""

def hilbert(n: int) -> Array:
    """Return the n x n Hilbert matrix of 1 / (i + j + 1)."""

def inv(a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...) -> Array:
    """Return the inverse of a (..., n, n)."""

def invhilbert(n: int) -> Array:
    """Return the inverse of the n x n Hilbert matrix, of whole numbers."""

def invpascal(n: int, kind: str | None = ...) -> Array:
    """Return the inverse of the n x n Pascal matrix: 'symmetric' (default), 'lower', …"""

def leslie(f: Any, s: Any) -> Array:
    """Make Leslie matrices (..., n, n) of fecundities f (..., n), survival rates s (..., …"""

def lu(
    a: ArrayLike, permute_l: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> tuple[Array, ...]:
    """p, l, u with a = p l u for a (..., m, n), or p l and u."""

def lu_factor(
    a: ArrayLike, overwrite_a: bool = ..., check_finite: bool = ...
) -> tuple[Array, Array]:
    """Packed factors of a (..., n, n) and pivots, as `lu_solve` takes them."""

def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: ArrayLike,
    trans: int = ...,
    overwrite_b: bool = ...,
    check_finite: bool = ...,
) -> Array:
    """Return x with op(a) x = b, from what `lu_factor(a)` gave; b is (..., n) or (..., …"""

def pascal(n: int, kind: str | None = ...) -> Array:
    """Make the n x n Pascal matrix of binomial coefficients: 'symmetric', 'lower' or …"""

def polar(
    a: ArrayLike,
    side: str = ...,
    *,
    method: str = ...,
    eps: float | None = ...,
    max_iterations: int | None = ...,
) -> tuple[Array, Array]:
    """Orthonormal u and Hermitian positive semidefinite p with a = u p ('right') or p u …"""

def qr(
    a: ArrayLike,
    overwrite_a: bool = ...,
    lwork: Any = ...,
    mode: str = ...,
    pivoting: bool = ...,
    check_finite: bool = ...,
) -> tuple[Array, ...]:
    """q, r with a = q r for a (..., m, n); with pivoting q, r, p with a[..., p] = q r."""

def qr_multiply(
    a: ArrayLike,
    c: Any,
    mode: str = ...,
    pivoting: bool = ...,
    conjugate: bool = ...,
    overwrite_a: bool = ...,
    overwrite_c: bool = ...,
) -> tuple[Array, ...]:
    """Return the product of c with q, and r (and p): `c q` for mode 'right', `q c` for …"""

def rsf2csf(T: Any, Z: Any, check_finite: bool = ...) -> tuple[Array, Array]:
    """Return the complex Schur form of the real one `T, Z` of a matrix."""

def schur(a: ArrayLike, output: str = ...) -> tuple[Array, Array]:
    """t, z with a = z t z^H: unitary z, upper triangular t."""

def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    debug: bool = ...,
    check_finite: bool = ...,
    assume_a: str = ...,
) -> Array:
    """Return x with a x = b for a (..., n, n) and b (..., n) or (..., n, k)."""

def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = ..., tol: float = ...) -> Array:
    """X with A X + X B = C, for A (m, m), B (n, n), C (m, n)."""

def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = ...,
    lower: bool = ...,
    unit_diagonal: bool = ...,
    overwrite_b: bool = ...,
    debug: Any = ...,
    check_finite: bool = ...,
) -> Array:
    """Return x with op(a) x = b for triangular a (..., n, n) and b (..., n) or (..., n, …"""

def sqrtm(A: Any, blocksize: int = ...) -> Array:
    """Return the principal square root of A (..., n, n), complex."""

@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    overwrite_a: bool = ...,
    check_finite: bool = ...,
    lapack_driver: str = ...,
) -> tuple[Array, Array, Array]:
    """U, s, Vh with a = U diag(s) Vh, or s alone."""

@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    *,
    compute_uv: Literal[False],
    overwrite_a: bool = ...,
    check_finite: bool = ...,
    lapack_driver: str = ...,
) -> Array:
    """U, s, Vh with a = U diag(s) Vh, or s alone."""

@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: bool = ...,
    overwrite_a: bool = ...,
    check_finite: bool = ...,
    lapack_driver: str = ...,
) -> Any:
    """U, s, Vh with a = U diag(s) Vh, or s alone."""

def toeplitz(c: ArrayLike, r: ArrayLike | None = ...) -> Array:
    """Return the matrices (..., m, n) with first columns c (..., m) and first rows r …"""
