# Tests: tests/scipy/test_linalg.py
"""Decompositions of matrices, and linear systems solved by them, on the last two dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft.numpy as wnp
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.trace import typeof
from weft.lax import linalg as lax_linalg
from weft.numpy import decompositions
from weft.numpy.decompositions import adjoint
from weft.numpy.eager import as_one_program
from weft.scipy.special.factorials import floats

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _choice(name: str, argument: str, value: int | str | None, allowed: tuple) -> None:
    if value not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise UnsupportedArgumentError(f"{name}: {argument} must be one of {listed}; got {value!r}")


def as_matrices(name: str, a: ArrayLike, square: bool = False) -> Any:
    """Return the operand, perhaps nested sequences as in SciPy, as inexact matrices."""
    return decompositions.as_matrices(name, wnp.asarray(a), square)


def _pair(a: ArrayLike, b: ArrayLike) -> tuple:
    """Return two operands in their common float dtype, not broadcast."""
    a, b = wnp.asarray(a), wnp.asarray(b)
    dtype = wnp.result_type(*floats(wnp.zeros((), typeof(a).dtype), wnp.zeros((), typeof(b).dtype)))
    return a.astype(dtype), b.astype(dtype)


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Return the upper triangular u with a = u^H u, or the lower triangular l with a = l l^H.

    a: Hermitian positive definite (..., n, n); the result is NaN where it is not.
    Source: scipy.linalg.cholesky.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.cholesky(wnp.array([[4.0, 2.0], [2.0, 5.0]]), lower=True).round(3)
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return _factor(a, lower=lower)


def _factor(a: ArrayLike, *, lower: bool) -> Any:
    factor = lax_linalg.cholesky(as_matrices("cholesky", a, True))
    return factor if lower else adjoint(factor)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """Return the Cholesky factor of a (..., n, n) and `lower`, as `cho_solve` takes them.

    Source: scipy.linalg.cho_factor.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> c, lower = linalg.cho_factor(wnp.array([[4.0, 2.0], [2.0, 5.0]]), lower=True)
    >>> c.round(3)
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return as_one_program(_factor, a, lower=lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return x with a x = b, from what `cho_factor(a)` gave; b is (..., n) or (..., n, k).

    Source: scipy.linalg.cho_solve.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> factor = linalg.cho_factor(wnp.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> linalg.cho_solve(factor, wnp.array([6.0, 7.0])).round(3)
    Array([1., 1.], dtype=float32)
    """
    c, lower = c_and_lower
    return as_one_program(_cho_solve, c, b, lower=lower)


def _cho_solve(c: ArrayLike, b: ArrayLike, *, lower: bool) -> Any:
    inner = solve_triangular(c, b, 0 if lower else 2, lower)
    return solve_triangular(c, inner, 2 if lower else 0, lower)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: object = None,
    check_finite: bool = True,
) -> Any:
    """Return x with op(a) x = b for triangular a (..., n, n) and b (..., n) or (..., n, k).

    trans: 0 or 'N' for a, 1 or 'T' for its transpose, 2 or 'C' for its adjoint.
    Source: scipy.linalg.solve_triangular.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> a = wnp.array([[2.0, 0.0], [1.0, 1.0]])
    >>> linalg.solve_triangular(a, wnp.array([2.0, 3.0]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    _choice("solve_triangular", "trans", trans, (0, 1, 2, "N", "T", "C"))
    kind = "NTC".index(trans) if isinstance(trans, str) else trans
    a, b = _pair(a, b)
    return lax_linalg.triangular_solve(
        *_batched(a, b),
        left_side=True,
        lower=lower,
        transpose_a=kind > 0,
        conjugate_a=kind == 2,
        unit_diagonal=unit_diagonal,
    )


def _batched(a: Array, b: Array) -> tuple:
    """Return operands whose leading dimensions agree."""
    core = 1 if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]) else 2
    batch = wnp.broadcast_shapes(a.shape[:-2], b.shape[: b.ndim - core])
    return (
        wnp.broadcast_to(a, (*batch, *a.shape[-2:])),
        wnp.broadcast_to(b, (*batch, *b.shape[b.ndim - core :])),
    )


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """Return x with a x = b for a (..., n, n) and b (..., n) or (..., n, k).

    assume_a: 'gen'; 'sym' or 'her', which are solved alike; 'pos' uses Cholesky's decomposition of
    the triangle that `lower` names. Source: scipy.linalg.solve.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.solve(wnp.diag(wnp.array([2.0, 4.0])), wnp.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    _choice("solve", "assume_a", assume_a, ("gen", "sym", "her", "pos"))
    a, b = _pair(a, b)
    if assume_a == "pos":
        half = wnp.tril(a) if lower else wnp.triu(a)
        full = half + adjoint(half) - half * wnp.eye(a.shape[-1], dtype=a.dtype)
        a, b = _batched(full, b)
        factor = lax_linalg.cholesky(a, symmetrize_input=False)
        return cho_solve((factor, True), b)
    if b.ndim == 1:
        return wnp.linalg.solve(a, b[:, None])[..., 0]
    return wnp.linalg.solve(*_batched(a, b))


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the inverse of a (..., n, n).

    Source: scipy.linalg.inv.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.inv(wnp.diag(wnp.array([2.0, 4.0])))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return wnp.linalg.inv(a)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the determinant of a (..., n, n).

    Source: scipy.linalg.det.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> round(float(linalg.det(wnp.array([[4.0, 2.0], [2.0, 5.0]]))), 3)
    16.0
    """
    return wnp.linalg.det(a)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """U, s, Vh with a = U diag(s) Vh, or s alone.

    Source: scipy.linalg.svd.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> u, s, vh = linalg.svd(wnp.diag(wnp.array([3.0, 4.0])))
    >>> [round(float(x), 3) for x in s]
    [4.0, 3.0]
    """
    out = wnp.linalg.svd(wnp.asarray(a), full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(out) if compute_uv else out


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple:
    """p, l, u with a = p l u for a (..., m, n), or p l and u.

    Source: scipy.linalg.lu.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> p, l, u = linalg.lu(wnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> u
    Array([[2., 3.],
           [0., 1.]], dtype=float32)
    """
    a = as_matrices("lu", a)
    packed, _, permutation = lax_linalg.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    left = wnp.tril(packed[..., :k], -1) + wnp.eye(m, k, dtype=a.dtype)
    upper = wnp.triu(packed[..., :k, :])
    p = wnp.swapaxes(wnp.eye(m, dtype=a.real.dtype)[permutation], -1, -2)
    return (p.astype(a.dtype) @ left, upper) if permute_l else (p, left, upper)


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any]:
    """Packed factors of a (..., n, n) and pivots, as `lu_solve` takes them.

    Source: scipy.linalg.lu_factor.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> packed, pivots = linalg.lu_factor(wnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> pivots
    Array([1, 1], dtype=int32)
    """
    packed, pivots, _ = lax_linalg.lu(as_matrices("lu_factor", a))
    return packed, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return x with op(a) x = b, from what `lu_factor(a)` gave; b is (..., n) or (..., n, k).

    trans: 0 for a, 1 for its transpose, 2 for its adjoint. Source: scipy.linalg.lu_solve.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> factors = linalg.lu_factor(wnp.array([[0.0, 1.0], [2.0, 2.0]]))
    >>> linalg.lu_solve(factors, wnp.array([1.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    _choice("lu_solve", "trans", trans, (0, 1, 2))
    packed, pivots = lu_and_piv
    packed, b = _batched(*_pair(packed, b))
    vector = b.ndim == packed.ndim - 1
    x = b[..., None] if vector else b
    n = packed.shape[-1]
    order = lax_linalg.lu_pivots_to_permutation(pivots, n)
    order = wnp.broadcast_to(order, (*packed.shape[:-2], n))
    if trans == 0:
        x = wnp.take_along_axis(x, order[..., None], -2)
        x = solve_triangular(packed, x, 0, lower=True, unit_diagonal=True)
        x = solve_triangular(packed, x)
    else:
        x = solve_triangular(packed, x, trans)
        x = solve_triangular(packed, x, trans, lower=True, unit_diagonal=True)
        x = wnp.take_along_axis(x, wnp.argsort(order, axis=-1)[..., None], -2)
    return x[..., 0] if vector else x


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: object = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple:
    """q, r with a = q r for a (..., m, n); with pivoting q, r, p with a[..., p] = q r.

    mode: 'full' (square q), 'economic', 'r' (without q). Source: scipy.linalg.qr.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> q, r = linalg.qr(wnp.ones((3, 1)))
    >>> abs(r[0]).round(3).tolist()[0] > 1.73
    True
    """
    _choice("qr", "mode", mode, ("full", "r", "economic"))
    full = mode != "economic"
    out = lax_linalg.qr(as_matrices("qr", a), pivoting=pivoting, full_matrices=full)
    return out[1:] if mode == "r" else out


def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple:
    """Return the product of c with q, and r (and p): `c q` for mode 'right', `q c` for 'left'.

    q is that of the economic decomposition where c fits it. Source: scipy.linalg.qr_multiply.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> product, r = linalg.qr_multiply(wnp.eye(2), wnp.array([1.0, 2.0]))
    >>> abs(product)
    Array([1., 2.], dtype=float32)
    """
    _choice("qr_multiply", "mode", mode, ("right", "left"))
    a, c = _pair(a, c)
    m, n = a.shape[-2:]
    vector = c.ndim == 1
    if vector:
        c = c[None] if mode == "right" else c[:, None]
    inner = c.shape[-1] if mode == "right" else c.shape[-2]
    k = min(m, n)
    if inner not in ((m,) if mode == "right" else (m, k)):
        raise ArgumentError(
            f"qr_multiply: c {c.shape} does not fit q of a, which is {m} x {k} or {m} x {m}"
        )
    q, r, *p = qr(
        a, mode="full" if mode == "left" and inner == m != k else "economic", pivoting=pivoting
    )
    q = wnp.conj(q) if conjugate else q
    out = c @ q if mode == "right" else q @ c
    return (out.reshape(-1) if vector else out, r, *p)


def eigh(
    a: Any,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: tuple[int, int] | None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Ascending eigenvalues and eigenvectors of Hermitian a (..., n, n).

    b: positive definite; for a v = w b v (type 1), a b v = w v (2), b a v = w v (3).
    eigvals: first and last index of those that are wanted. Source: scipy.linalg.eigh.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> w, v = linalg.eigh(wnp.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> [round(float(x), 3) for x in w]
    [2.438, 6.562]
    """
    _choice("eigh", "type", type, (1, 2, 3))
    a = as_matrices("eigh", a, True)
    factor = None
    if b is not None:
        a, b = _pair(a, as_matrices("eigh", b, True))
        half = wnp.tril(a, -1) if lower else wnp.triu(a, 1)
        a = half + adjoint(half) + wnp.eye(a.shape[-1]) * a.real
        half = wnp.tril(b) if lower else adjoint(wnp.triu(b))
        factor = lax_linalg.cholesky(half, symmetrize_input=False)
        if type == 1:
            a = solve_triangular(
                factor, adjoint(solve_triangular(factor, a, lower=True)), lower=True
            )
        else:
            a = adjoint(factor) @ a @ factor
    v, w = lax_linalg.eigh(a, lower=lower or b is not None, symmetrize_input=b is not None)
    if factor is not None and not eigvals_only:
        v = factor @ v if type == 3 else solve_triangular(factor, v, 2, lower=True)
    if eigvals is not None:
        first, last = eigvals
        w, v = w[..., first : last + 1], v[..., first : last + 1]
    return w if eigvals_only else (w, v)


def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """h, zero below its first subdiagonal, with a = q h q^H; with calc_q also unitary q.

    Source: scipy.linalg.hessenberg.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> linalg.hessenberg(wnp.eye(3)).shape
    (3, 3)
    """
    a = as_matrices("hessenberg", a, True)
    n = a.shape[-1]
    if n < 2:
        return (a, wnp.ones_like(a)) if calc_q else a
    packed, taus = lax_linalg.hessenberg(a)
    h = wnp.triu(packed, -1)
    if not calc_q:
        return h
    inner = lax_linalg.householder_product(packed[..., 1:, :-1], taus)
    pad = [(0, 0)] * (a.ndim - 2)
    q = wnp.pad(inner, [*pad, (1, 0), (1, 0)])
    return h, q.at[..., 0, 0].set(1)


def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """t, z with a = z t z^H: unitary z, upper triangular t.

    output: 'real' lets real a have blocks of 2 x 2 for pairs of complex eigenvalues; 'complex'.
    CPU only. Source: scipy.linalg.schur.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> t, z = linalg.schur(wnp.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> abs(t)
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    _choice("schur", "output", output, ("real", "complex", "r", "c"))
    a = as_matrices("schur", a, True)
    if output[0] == "c":
        a = a.astype(wnp.result_type(a.dtype, wnp.complex64))
    return lax_linalg.schur(a)


def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Any, Any]:
    """Orthonormal u and Hermitian positive semidefinite p with a = u p ('right') or p u ('left').

    method: 'qdwh', or 'svd' for any shape and rank. eps, max_iterations: of 'qdwh'.
    Source: Nakatsukasa, Bai and Gygi, 2010; scipy.linalg.polar.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import linalg
    >>> u, p = linalg.polar(2 * wnp.eye(2))
    >>> p.round(3)
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    _choice("polar", "side", side, ("right", "left"))
    _choice("polar", "method", method, ("qdwh", "svd"))
    a = as_matrices("polar", a)
    m, n = a.shape[-2:]
    if method == "svd":
        u, s, vh = wnp.linalg.svd(a, full_matrices=False)
        unitary = u @ vh
        basis = adjoint(vh) if side == "right" else u
        return unitary, (basis * s[..., None, :]) @ adjoint(basis)
    if (m < n) if side == "right" else (m > n):
        raise NotImplementedError(
            f"polar: side={side!r} with method='qdwh' needs a with no more "
            f"{'columns than rows' if side == 'right' else 'rows than columns'}, got shape "
            f"{a.shape}; use method='svd'"
        )
    if side == "right":
        u, h, _, _ = lax_linalg.qdwh(a, eps=eps, max_iterations=max_iterations)
        return u, h
    u, h, _, _ = lax_linalg.qdwh(adjoint(a), eps=eps, max_iterations=max_iterations)
    return adjoint(u), adjoint(h)
