# Tests: tests/scipy/test_linalg.py
"""Functions of matrices: exponential, square root, Sylvester's equation, tridiagonal spectra."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import TYPE_CHECKING, Any

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.errors import ArgumentError
from weft.lax import linalg as lax_linalg
from weft.numpy.common import static_int
from weft.numpy.decompositions import adjoint
from weft.scipy.linalg.factorizations import _choice, _pair, as_matrices, schur
from weft.scipy.special.factorials import float_array

if TYPE_CHECKING:
    from weft.runtime.array import Array

_MATRIX = "(n,n)->(n,n)"


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """Return the exponential of A (..., n, n), by Pade approximation with scaling and squaring.

    upper_triangular: A is. max_squarings: NaN where more would be needed.
    Source: Higham, The scaling and squaring method for the matrix exponential revisited, 2005.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.expm(wnp.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    A = as_matrices("expm", A, True)
    count = static_int(max_squarings, "expm: max_squarings")
    one = lambda a: _expm(a, upper_triangular, count)
    return wnp.vectorize(one, signature=_MATRIX)(A)


def _expm(a: Array, triangular: bool, max_squarings: int) -> Any:
    # The largest norm for which the approximation of that degree is exact to the dtype.
    degree, limit = (
        (13, 5.371920351148152) if a.real.dtype.itemsize == 8 else (7, 3.925724783138660)
    )
    if not a.size:
        return a
    norm = wnp.max(wnp.sum(wnp.abs(a), axis=0))
    squarings = wnp.maximum(0, wnp.ceil(wnp.log2(norm / limit)))
    squarings = lax.stop_gradient(squarings)
    too_many = squarings > max_squarings
    a = a / (2.0 ** wnp.minimum(squarings, max_squarings)).astype(a.real.dtype)
    c = [factorial(2 * degree - k) * factorial(degree) / factorial(2 * degree)
         / (factorial(k) * factorial(degree - k)) for k in range(degree + 1)]  # fmt: skip
    eye = wnp.eye(a.shape[0], dtype=a.dtype)
    square = a @ a
    odd = even = None
    # Horner's rule in a^2, from the highest coefficients of odd and even powers.
    for k in range(degree // 2, -1, -1):
        odd = c[2 * k + 1] * eye + (0 if odd is None else square @ odd)
        even = c[2 * k] * eye + (0 if even is None else square @ even)
    odd = a @ odd
    if triangular:
        power = lax_linalg.triangular_solve(even - odd, even + odd, left_side=True)
    else:
        power = wnp.linalg.solve(even - odd, even + odd)

    def step(x: Array, i: Array) -> tuple:
        return lax.cond(i < squarings, lambda v: v @ v, lambda v: v, x), None

    power = lax.scan(step, power, wnp.arange(max_squarings))[0]
    return wnp.where(too_many, wnp.nan, power)


def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """Return the exponential of A, and its derivative at A along E, or that alone.

    method: None, 'SPS' or 'blockEnlarge', which are computed alike.
    Source: scipy.linalg.expm_frechet.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> value, slope = linalg.expm_frechet(wnp.zeros((2, 2)), wnp.eye(2))
    >>> slope
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    _choice("expm_frechet", "method", method, (None, "SPS", "blockEnlarge"))
    A, E = _pair(as_matrices("expm_frechet", A, True), as_matrices("expm_frechet", E, True))
    if A.shape != E.shape:
        raise ArgumentError(f"expm_frechet: A {A.shape} and E {E.shape} must have one shape")
    value, derivative = weft.jvp(expm, (A,), (E,))
    return (value, derivative) if compute_expm else derivative


def _by_superdiagonals(start: Array, entry: Callable) -> Any:
    """Return an upper triangular matrix, given its diagonal, one superdiagonal after the other.

    entry(f): what stands on the next superdiagonal of f, where that is still zero.
    """
    n = start.shape[-1]
    offset = wnp.arange(n)[None] - wnp.arange(n)[:, None]

    def step(p: Array, f: Array) -> Any:
        return wnp.where(offset == p, entry(f), f)

    return lax.fori_loop(1, n, step, start)


def _nonzero(x: Array) -> Any:
    return wnp.where(x == 0, 1, x)


def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """Return the principal square root of A (..., n, n), complex.

    blocksize: must be 1, and changes nothing. CPU only.
    Source: Bjorck and Hammarling, A Schur method for the square root of a matrix, 1983.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> root = linalg.sqrtm(wnp.diag(wnp.array([4.0, 9.0])))
    >>> [round(abs(complex(x)), 3) for x in wnp.diagonal(root)]
    [2.0, 3.0]
    """
    if blocksize != 1:
        raise NotImplementedError(f"sqrtm: blocksize must be 1, got {blocksize}")

    def one(a: Array) -> Any:
        t, z = schur(a, "complex")
        roots = wnp.sqrt(wnp.diagonal(t))
        sums = _nonzero(roots[:, None] + roots[None])
        root = _by_superdiagonals(wnp.diag(roots), lambda r: (t - r @ r) / sums)
        return z @ root @ adjoint(z)

    return wnp.vectorize(one, signature=_MATRIX)(as_matrices("sqrtm", A, True))


def funm(A: Any, func: Callable, disp: bool = True) -> Any:
    """Apply a function of numbers to a square matrix, by Schur's form and Parlett's recurrence.

    func: of the array of eigenvalues. disp: False also gives an estimate of the relative error.
    Accurate where eigenvalues are distinct. CPU only.
    Source: Golub and Van Loan, Matrix Computations, 9.1.4.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> round(float(linalg.funm(wnp.eye(2), wnp.exp)[0, 0].real), 3)
    2.718
    """
    a = as_matrices("funm", A, True)
    if a.ndim != 2:
        raise ArgumentError(f"funm: A must be one matrix, got shape {a.shape}; use weft.vmap")
    t, z = schur(a, "complex")
    values = wnp.diagonal(t)
    gaps = values[None] - values[:, None]
    start = wnp.diag(func(values).astype(t.dtype))
    f = _by_superdiagonals(start, lambda f: (t @ f - f @ t) / _nonzero(gaps))
    result = z @ f @ adjoint(z)
    if disp:
        return result
    above = wnp.triu(wnp.ones(t.shape, bool), 1)
    smallest = wnp.min(wnp.where(above, wnp.abs(gaps), wnp.inf), initial=wnp.inf)
    strict = wnp.linalg.norm(wnp.triu(t, 1), 1)
    eps = wnp.finfo(t.dtype).eps
    error = wnp.clip(eps / wnp.maximum(smallest, eps) * strict, eps, 1)
    return result, wnp.where(wnp.all(wnp.isfinite(result)), error, wnp.inf)


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """Return the complex Schur form of the real one `T, Z` of a matrix.

    Source: Golub and Van Loan, Matrix Computations, 7.4.1; scipy.linalg.rsf2csf.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> t, z = linalg.rsf2csf(*linalg.schur(wnp.array([[0.0, 1.0], [-1.0, 0.0]])))
    >>> [round(abs(float(x.imag)), 3) for x in wnp.diagonal(t)]
    [1.0, 1.0]
    """
    T, Z = as_matrices("rsf2csf", T, True), as_matrices("rsf2csf", Z, True)
    if T.shape != Z.shape:
        raise ArgumentError(f"rsf2csf: T {T.shape} and Z {Z.shape} must have one shape")
    dtype = wnp.result_type(T.dtype, Z.dtype, wnp.complex64)
    n = T.shape[-1]
    eps = float(wnp.finfo(dtype).eps)

    def step(i: Array, carry: tuple) -> tuple:
        t, z = carry
        m = n - 1 - i
        block = lax.dynamic_slice(t, (m - 1, m - 1), (2, 2))
        (a, b), (c, d) = block
        # The eigenvalue of the block nearer to its last entry, less that entry.
        half = (a - d) / 2
        root = wnp.sqrt(half * half + b * c)
        shift = half + wnp.where((wnp.conj(half) * root).real > 0, -root, root)
        size = wnp.sqrt(wnp.abs(shift) ** 2 + wnp.abs(c) ** 2)
        rotates = wnp.abs(c) > eps * (wnp.abs(a) + wnp.abs(d))
        size = wnp.where(size == 0, 1, size)
        cos = wnp.where(rotates, shift / size, 1)
        sin = wnp.where(rotates, c / size, 0)
        g = wnp.stack([wnp.stack([wnp.conj(cos), sin]), wnp.stack([-sin, cos])])
        rows = g @ lax.dynamic_slice(t, (m - 1, 0), (2, n))
        t = lax.dynamic_update_slice(t, rows, (m - 1, 0))
        back = adjoint(g)
        for_columns = lambda x: lax.dynamic_update_slice(
            x, lax.dynamic_slice(x, (0, m - 1), (n, 2)) @ back, (0, m - 1)
        )
        return for_columns(t), for_columns(z)

    def one(t: Array, z: Array) -> tuple:
        t, z = lax.fori_loop(0, n - 1, step, (t.astype(dtype), z.astype(dtype)))
        return wnp.triu(t), z

    return wnp.vectorize(one, signature="(n,n),(n,n)->(n,n),(n,n)")(T, Z)


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Any:
    """X with A X + X B = C, for A (m, m), B (n, n), C (m, n).

    method: 'schur', or 'eigen' by eigenvectors. tol: NaN where a sum of eigenvalues of A and B
    is smaller. CPU only.
    Source: Bartels and Stewart, Solution of the matrix equation AX + XB = C, 1972.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.solve_sylvester(wnp.eye(1), wnp.eye(1), wnp.ones((1, 1)))
    Array([[0.5]], dtype=float32)
    """
    _choice("solve_sylvester", "method", method, ("schur", "eigen"))
    A, B = as_matrices("solve_sylvester", A, True), as_matrices("solve_sylvester", B, True)
    C = as_matrices("solve_sylvester", C)
    if C.shape != (A.shape[-1], B.shape[-1]):
        raise ArgumentError(
            f"solve_sylvester: C {C.shape} must have the rows of A {A.shape} and the columns of B "
            f"{B.shape}"
        )
    real = not any(wnp.iscomplexobj(x) for x in (A, B, C))
    if method == "eigen":
        a, u = wnp.linalg.eig(A)
        b, v = wnp.linalg.eig(B)
        sums = a[:, None] + b[None]
        inner = wnp.linalg.solve(u, C.astype(u.dtype) @ v) / sums
        x = wnp.linalg.solve(v.T, (u @ inner).T).T
    else:
        r, u = schur(A, "complex")
        s, v = schur(B, "complex")
        sums = wnp.diagonal(r)[:, None] + wnp.diagonal(s)[None]
        target = adjoint(u) @ C.astype(r.dtype) @ v
        eye = wnp.eye(r.shape[-1], dtype=r.dtype)

        def column(k: Array, y: Array) -> Any:
            rest = target[:, k] - y @ s[:, k]
            solved = lax_linalg.triangular_solve(r + s[k, k] * eye, rest, left_side=True)
            return y.at[:, k].set(solved)

        y = lax.fori_loop(0, s.shape[-1], column, wnp.zeros_like(target))
        x = u @ y @ adjoint(v)
    x = wnp.where(wnp.min(wnp.abs(sums)) < tol, wnp.nan, x)
    return x.real if real else x


def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple | None = None,
    tol: float | None = None,
    key: object = None,
) -> Any:
    """Compute eigenvalues (and -vectors) of the symmetric tridiagonal matrix of diagonals d and e.

    select: 'a' for all; 'i' for those with the indices from select_range[0] to select_range[1],
    counted upwards; 'v' for those in the half-open interval of select_range, outside of jit only.
    tol: the absolute error of eigenvalues that come alone. Eigenvectors are those of the dense
    matrix. Source: bisection by Sturm counts; Barth, Martin and Wilkinson, 1967.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> w = linalg.eigh_tridiagonal(wnp.array([2.0, 2.0]), wnp.array([1.0]), eigvals_only=True)
    >>> [round(float(x), 3) for x in w]
    [1.0, 3.0]
    """
    _choice("eigh_tridiagonal", "select", select, ("a", "i", "v"))
    d, e = float_array(d), float_array(e)
    if d.ndim != 1 or e.shape != (max(d.shape[0] - 1, 0),):
        raise ArgumentError(
            f"eigh_tridiagonal: d is (n,) and e (n - 1,), got {d.shape} and {e.shape}"
        )
    if (select_range is None) != (select == "a"):
        raise ArgumentError(
            f"eigh_tridiagonal: select={select!r} and select_range={select_range} do not fit"
        )
    n = d.shape[0]
    if eigvals_only:
        values, vectors = _tridiagonal_values(d, e, tol), None
    else:
        matrix = wnp.diag(d) + wnp.diag(e, -1) + wnp.diag(wnp.conj(e), 1)
        vectors, values = lax_linalg.eigh(matrix)
    if select_range is None:
        return values if vectors is None else (values, vectors)
    if select == "i":
        first, last = (static_int(v, "eigh_tridiagonal: select_range") for v in select_range)
        if not 0 <= first <= last < n:
            raise ArgumentError(
                f"eigh_tridiagonal: indices {select_range} are not in order below {n}"
            )
        kept: Any = slice(first, last + 1)
    else:
        low, high = select_range
        kept = wnp.nonzero((values > low) & (values <= high))[0]
    return values[kept] if vectors is None else (values[kept], vectors[:, kept])


def _tridiagonal_values(d: Array, e: Array, tol: float | None) -> Any:
    n = d.shape[0]
    d = d.real
    squares = wnp.concatenate([wnp.zeros(1, d.dtype), wnp.abs(e) ** 2])
    reach = wnp.sqrt(squares)
    bound = wnp.max(wnp.abs(d) + reach + wnp.append(reach[1:], 0)) if n else 0
    # A pivot of zero becomes one whose quotient does not overflow.
    tiny = (
        float(wnp.finfo(d.dtype).tiny)
        + wnp.max(squares, initial=0) * float(wnp.finfo(d.dtype).eps) ** 2
    )
    indices = wnp.arange(n)

    def below(x: Array) -> Any:
        """Return how many eigenvalues are less than each x: negative pivots of T - x."""

        def pivot(carry: tuple, row: tuple) -> tuple:
            q, count = carry
            q = row[0] - x - row[1] / q
            q = wnp.where(wnp.abs(q) < tiny, -tiny, q)
            return (q, count + (q < 0)), None

        start = (wnp.ones_like(x), wnp.zeros(x.shape, indices.dtype))
        return lax.scan(pivot, start, (d, squares))[0][1]

    def halve(carry: tuple, _: object) -> tuple:
        low, high = carry
        middle = (low + high) / 2
        left = below(middle) > indices
        return (wnp.where(left, low, middle), wnp.where(left, middle, high)), None

    # All eigenvalues are in Gershgorin's discs; each halving then gains one bit.
    margin = bound * (1 + 4 * float(wnp.finfo(d.dtype).eps)) + tiny
    low, high = wnp.full(n, -margin), wnp.full(n, margin)
    steps = wnp.finfo(d.dtype).nmant + 6
    if tol is not None:
        done = lambda carry: wnp.max(carry[1] - carry[0]) > tol
        once = lambda carry: (*halve(carry[:2], None)[0], carry[2] + 1)
        running = lambda carry: done(carry) & (carry[2] < steps)
        low, high, _ = lax.while_loop(running, once, (low, high, 0))
    else:
        low, high = lax.scan(halve, (low, high), None, length=steps)[0]
    return (low + high) / 2
