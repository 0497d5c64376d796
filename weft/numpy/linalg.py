"""Linear algebra on the last two dimensions, batched over the others: weft.numpy.linalg."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from weft.core import dtypes
from weft.core.namespace import seal
from weft.core.trace import typeof
from weft.numpy import formulas, linear
from weft.numpy import ufuncs as u
from weft.numpy.common import aval_of, axes_of, cast, check_array, inexact, strong, to_array
from weft.numpy.examples import EXAMPLES
from weft.numpy.pseudo_inverse import pinv as pinv
from weft.numpy.reductions import max as max_
from weft.numpy.reductions import min as min_
from weft.numpy.reductions import prod, sum
from weft.numpy.refusals import refuse
from weft.numpy.selection import where
from weft.numpy.shaping import matrix_transpose as matrix_transpose
from weft.ops import elementwise as ew
from weft.ops import shape as ops
from weft.ops.base import canonical_axis
from weft.ops.promote import promote_inexact


class EigResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    Q: Any
    R: Any


class SVDResult(NamedTuple):
    U: Any
    S: Any
    Vh: Any


class SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any


def _matrices(name: str, a: Any, square: builtins.bool = False) -> Any:
    """The operand as float or complex matrices, of a dtype that LAPACK knows."""
    aval = aval_of(f"linalg.{name}", a)
    if aval.ndim < 2 or (square and aval.shape[-1] != aval.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ValueError(f"weft.numpy.linalg.{name}: takes {kind}, got {aval.str_short()}")
    return strong(inexact(to_array(a)))


def _lax() -> Any:
    from weft.lax import linalg

    return linalg


def _adjoint(a: Any) -> Any:
    return u.conjugate(matrix_transpose(a))


# Decompositions -------------------------------------------------------------------------------


def cholesky(
    a: Any, *, upper: builtins.bool = False, symmetrize_input: builtins.bool = True
) -> Any:
    """The lower triangular L with a = L L^H, or the upper triangular R with a = R^H R.

    NaN where a is not positive definite. Source: numpy.linalg.cholesky.

    >>> import weft
    >>> weft.numpy.linalg.cholesky(weft.numpy.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    a = _matrices("cholesky", a, True)
    if upper:
        a = _adjoint(a)
    low = _lax().cholesky(a, symmetrize_input=symmetrize_input)
    return _adjoint(low) if upper else low


def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthonormal Q and upper triangular R with a = Q R.

    mode: 'reduced', 'complete' (square Q), 'r' (R alone), 'raw' (Householder form).
    Source: numpy.linalg.qr.
    """
    a = _matrices("qr", a)
    if mode == "raw":
        packed, taus = _lax().geqrf(a)
        return QRResult(matrix_transpose(packed), taus)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(
            f"weft.numpy.linalg.qr: mode must be reduced, complete, r or raw, got {mode!r}"
        )
    q, r = _lax().qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def svd(
    a: Any,
    full_matrices: builtins.bool = True,
    compute_uv: builtins.bool = True,
    hermitian: builtins.bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular values S, descending, and unitary U, Vh with a = U S Vh.

    compute_uv=False gives S alone. Source: numpy.linalg.svd.
    """
    a = _matrices("svd", a)
    if hermitian:
        from weft.numpy.selection import take_along_axis
        from weft.numpy.sorting import argsort

        w, v = eigh(a)
        size = u.absolute(w)
        order = argsort(u.negative(size), axis=-1)
        s = take_along_axis(size, order, -1)
        if not compute_uv:
            return s
        signs = cast(where(u.less(take_along_axis(w, order, -1), 0), -1, 1), typeof(v).dtype)
        v = take_along_axis(v, order[..., None, :], -1)
        return SVDResult(v, s, _adjoint(u.multiply(v, signs[..., None, :])))
    out = _lax().svd(
        a,
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        **({} if subset_by_index is None else {"subset_by_index": subset_by_index}),
    )
    if not compute_uv:
        return out[0] if isinstance(out, list | tuple) else out
    return SVDResult(*out)


def svdvals(x: Any, /) -> Any:
    """Singular values, descending (array API standard)."""
    return svd(x, compute_uv=False)


def _triangle(name: str, UPLO: str | None) -> builtins.bool:
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"weft.numpy.linalg.{name}: UPLO must be None, 'L' or 'U', got {UPLO!r}")
    return UPLO != "U"


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: builtins.bool = True) -> EighResult:
    """Ascending eigenvalues and orthonormal eigenvectors (columns) of Hermitian matrices.

    UPLO: the triangle that is read, 'L' or 'U'. Source: numpy.linalg.eigh.
    """
    lower = _triangle("eigh", UPLO)
    a = _matrices("eigh", a, True)
    v, w = _lax().eigh(a, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: builtins.bool = True) -> Any:
    """Ascending eigenvalues of Hermitian matrices."""
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: Any) -> EigResult:
    """Eigenvalues and eigenvectors (columns) of square matrices, complex. Runs on the CPU only."""
    a = _matrices("eig", a, True)
    w, v = _lax().eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: Any) -> Any:
    """Eigenvalues of square matrices, complex. Runs on the CPU only."""
    a = _matrices("eigvals", a, True)
    return _lax().eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


# Solving --------------------------------------------------------------------------------------


def solve(a: Any, b: Any) -> Any:
    """x with a x = b; b is a vector, or matrices. Source: numpy.linalg.solve.

    >>> import weft
    >>> a = weft.numpy.array([[2.0, 0.0], [0.0, 4.0]])
    >>> weft.numpy.linalg.solve(a, weft.numpy.array([2.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    check_array("linalg.solve", a, b)
    a, b = promote_inexact(a, b)
    a, b = _matrices("solve", a, True), strong(to_array(b))
    x, y = typeof(a), typeof(b)
    if y.ndim == 0 or y.shape[-2 if y.ndim > 1 else -1] != x.shape[-1]:
        raise ValueError(
            f"weft.numpy.linalg.solve: b {y.str_short()} must be a vector or matrices of "
            f"{x.shape[-1]} rows for a {x.str_short()}"
        )
    vector = y.ndim == 1
    b = b[:, None] if vector else b
    lead = ops.broadcast_shapes(x.shape[:-2], typeof(b).shape[:-2])
    from weft.ops.promote import broadcast_to

    a = broadcast_to(a, (*lead, *x.shape[-2:]))
    b = broadcast_to(b, (*lead, *typeof(b).shape[-2:]))
    out = _lax().solve(a, b)
    return out[..., 0] if vector else out


def inv(a: Any) -> Any:
    """The inverse matrix; NaN or infinite where there is none. Source: numpy.linalg.inv."""
    a = _matrices("inv", a, True)
    from weft.numpy.matrices import eye

    return solve(a, eye(typeof(a).shape[-1], dtype=typeof(a).dtype))


def lstsq(
    a: Any, b: Any, rcond: Any = None, *, numpy_resid: builtins.bool = False
) -> tuple[Any, Any, Any, Any]:
    """x that minimizes |a x - b|, residuals, rank of a, singular values of a.

    numpy_resid: give no residuals where NumPy gives none (rank below the number of columns).
    Source: numpy.linalg.lstsq.
    """
    from weft.numpy.creation import array

    check_array("linalg.lstsq", a, b)
    a, b = promote_inexact(a, b)
    a, b = strong(to_array(a)), strong(to_array(b))
    x, y = typeof(a), typeof(b)
    if x.ndim != 2 or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise ValueError(
            "weft.numpy.linalg.lstsq: a must be a matrix and b a vector or matrix of as many rows, "
            f"got {x.str_short()} and {y.str_short()}"
        )
    m, n = x.shape
    real = ew._real_dtype(x.dtype)
    if rcond is None:
        rcond = float(dtypes.finfo(real).eps) * max(m, n)
    columns = b[:, None] if y.ndim == 1 else b
    left, s, right = svd(a, full_matrices=False)
    kept = u.greater(s, u.multiply(cast(rcond, real), s[0]))
    rank = sum(kept)
    inverse = where(kept, u.true_divide(1, where(kept, s, 1)), cast(0, real))
    rotated = linear.matmul(_adjoint(left), columns, precision="highest")
    scaled = u.multiply(rotated, cast(inverse, x.dtype)[:, None])
    out = linear.matmul(_adjoint(right), scaled, precision="highest")
    rest = u.subtract(columns, linear.matmul(a, out, precision="highest"))
    residuals = sum(u.real(u.multiply(rest, u.conjugate(rest))), axis=0)
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = array(np.zeros((0,)), real)
    return (out[:, 0] if y.ndim == 1 else out), residuals, rank, s


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b. Source: numpy.linalg.tensorsolve."""
    from weft.numpy.shaping import moveaxis

    a, b = to_array(a), to_array(b)
    if axes is not None:
        rank = typeof(a).ndim
        a = moveaxis(a, tuple(axes), tuple(range(rank - len(axes), rank)))
    shape = typeof(a).shape[typeof(b).ndim :]
    n = math.prod(shape)
    if math.prod(typeof(a).shape) != n * n or typeof(b).size != n:
        raise ValueError(
            f"weft.numpy.linalg.tensorsolve: a {typeof(a).str_short()} is not square over b "
            f"{typeof(b).str_short()}"
        )
    return ops.reshape(solve(ops.reshape(a, (n, n)), ops.reshape(b, (n,))), shape)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse under tensordot(., ., ind). Source: numpy.linalg.tensorinv."""
    ind = operator.index(ind)
    a = to_array(a)
    shape = typeof(a).shape
    if ind <= 0:
        raise ValueError(f"weft.numpy.linalg.tensorinv: ind must be positive, got {ind}")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise ValueError(
            f"weft.numpy.linalg.tensorinv: a {typeof(a).str_short()} is not square when split "
            f"at {ind}"
        )
    return ops.reshape(inv(ops.reshape(a, (rows, columns))), shape[ind:] + shape[:ind])


def matrix_power(a: Any, n: int) -> Any:
    """The n-th power of square matrices; negative n powers the inverse."""
    from weft.numpy.matrices import eye

    a = _matrices("matrix_power", a, True) if n < 0 else to_array(a)
    aval = typeof(a)
    if aval.ndim < 2 or aval.shape[-1] != aval.shape[-2]:
        raise ValueError(
            f"weft.numpy.linalg.matrix_power: takes square matrices, got {aval.str_short()}"
        )
    n = operator.index(n)
    if n == 0:
        from weft.numpy.shaping import broadcast_to

        return broadcast_to(eye(aval.shape[-1], dtype=aval.dtype), aval.shape)
    if n < 0:
        a, n = inv(a), -n
    out = None
    while True:
        if n & 1:
            out = a if out is None else linear.matmul(out, a)
        n >>= 1
        if not n:
            return out
        a = linear.matmul(a, a)


def matrix_rank(
    M: Any, rtol: Any = None, *, hermitian: builtins.bool = False, tol: Any = None
) -> Any:
    """The number of singular values above rtol times the largest (or above tol)."""
    a = inexact(to_array(M))
    if typeof(a).ndim < 2:
        from weft.numpy.reductions import any

        return cast(any(u.not_equal(a, 0)), dtypes.canonicalize_dtype(int))
    s = svd(a, hermitian=hermitian, compute_uv=False)
    if tol is None:
        if rtol is None:
            rtol = max(typeof(a).shape[-2:]) * float(dtypes.finfo(typeof(s).dtype).eps)
        tol = u.multiply(max_(s, axis=-1), rtol)
    return sum(u.greater(s, to_array(tol)[..., None]), axis=-1)


# Determinants ---------------------------------------------------------------------------------


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """The sign and the logarithm of the magnitude of the determinant.

    method: 'lu' or 'qr'. Source: numpy.linalg.slogdet.
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"weft.numpy.linalg.slogdet: method must be None, 'lu' or 'qr', got {method!r}"
        )
    a = _matrices("slogdet", a, True)
    if method == "qr":
        return SlogdetResult(*_slogdet_by_qr()(a))
    return SlogdetResult(*_slogdet_of(a, *_lu_diagonal(a)))


@cache
def _slogdet_by_qr() -> Callable:
    """slogdet through reflections, which have no derivative: the one of log det stands for them."""
    from weft import custom_jvp

    @custom_jvp
    def run(a: Any) -> tuple:
        return _slogdet_of(a, *_qr_determinant(a))

    @run.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        sign, log = run(*primals)
        change = trace(solve(*primals, *tangents))
        if dtypes.is_complex(typeof(sign).dtype):
            turn = u.multiply(sign, u.multiply(cast(1j, typeof(sign).dtype), u.imag(change)))
            return (sign, log), (turn, u.real(change))
        return (sign, log), (u.multiply(sign, 0), change)

    return run


def _slogdet_of(a: Any, sign: Any, d: Any) -> tuple[Any, Any]:
    """From the sign of the factors and the diagonal of the triangular one."""
    magnitude = u.absolute(d)
    singular = u.equal(magnitude, 0)
    if dtypes.is_complex(typeof(a).dtype):
        unit = u.true_divide(d, cast(where(singular, 1, magnitude), typeof(d).dtype))
    else:
        unit = u.sign(d)
    sign = u.multiply(sign, prod(where(singular, cast(0, typeof(d).dtype), unit), axis=-1))
    return sign, sum(u.log(magnitude), axis=-1)


def _lu_diagonal(a: Any) -> tuple[Any, Any]:
    """The sign of the row exchanges, and the diagonal of U."""
    from weft.numpy.creation import arange
    from weft.numpy.selection import diagonal

    factors, pivots, _ = _lax().lu(a)
    n = typeof(a).shape[-1]
    moved = sum(u.not_equal(pivots, arange(n, dtype=typeof(pivots).dtype)), axis=-1)
    parity = cast(u.subtract(1, u.multiply(2, formulas.remainder(moved, 2))), typeof(a).dtype)
    return parity, diagonal(factors, 0, -2, -1)


def _qr_determinant(a: Any) -> tuple[Any, Any]:
    """Each Householder reflection turns the sign, or its phase for complex matrices."""
    from weft.numpy.selection import diagonal

    packed, taus = _lax().geqrf(a)
    n = typeof(a).shape[-1]
    vectors = where(np.tri(n, n, -1, dtype=bool), packed, cast(0, typeof(a).dtype))
    size = u.add(1, sum(u.real(u.multiply(vectors, u.conjugate(vectors))), axis=-2))
    phase = u.subtract(1, u.multiply(taus, cast(size, typeof(a).dtype)))
    return prod(phase, axis=-1), diagonal(packed, 0, -2, -1)


def det(a: Any) -> Any:
    """The determinant of square matrices. Source: numpy.linalg.det.

    >>> import weft
    >>> weft.numpy.linalg.det(weft.numpy.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    a = _matrices("det", a, True)
    n = typeof(a).shape[-1]
    if n == 0:
        return sum(a, axis=(-2, -1)) + 1
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if n == 3:
        x, y, z = a[..., 0, :], a[..., 1, :], a[..., 2, :]
        return sum(u.multiply(x, linear.cross(y, z)), axis=-1)
    sign, d = _lu_diagonal(a)
    return u.multiply(sign, prod(d, axis=-1))


# Norms ----------------------------------------------------------------------------------------


def _magnitudes(x: Any) -> Any:
    """Squares of absolute values."""
    return u.real(u.multiply(x, u.conjugate(x)))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """The norm of a vector or matrix: over one axis, two, or all.

    ord: for vectors any number, inf, -inf; for matrices 'fro', 'nuc', 1, -1, 2, -2, inf, -inf;
    by default the root of the sum of squares. Source: numpy.linalg.norm.

    >>> import weft
    >>> weft.numpy.linalg.norm(weft.numpy.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    check_array("linalg.norm", x)
    x = strong(inexact(x))
    aval = typeof(x)
    if axis is None and ord is None:
        return u.sqrt(sum(_magnitudes(x), keepdims=keepdims))
    axes = axes_of(tuple(axis) if isinstance(axis, Sequence) else axis, aval.ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(
        f"weft.numpy.linalg.norm: a norm runs over one axis or two, got axes {axes} of "
        f"{aval.str_short()}"
    )


def _vector_norm(x: Any, ord: Any, axes: tuple, keepdims: builtins.bool) -> Any:
    if ord is None or ord == 2:
        return u.sqrt(sum(_magnitudes(x), axis=axes, keepdims=keepdims))
    if isinstance(ord, str):
        raise ValueError(f"weft.numpy.linalg.norm: ord {ord!r} is for matrices, give two axes")
    size = u.absolute(x)
    if ord == np.inf:
        return max_(size, axis=axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return min_(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return cast(sum(u.not_equal(x, 0), axis=axes, keepdims=keepdims), typeof(size).dtype)
    if ord == 1:
        return sum(size, axis=axes, keepdims=keepdims)
    return formulas.power(sum(formulas.power(size, ord), axis=axes, keepdims=keepdims), 1 / ord)


def _matrix_norm(x: Any, ord: Any, axes: tuple, keepdims: builtins.bool) -> Any:
    from weft.numpy.shaping import expand_dims, moveaxis

    rows, columns = axes
    if ord is None or ord == "fro":
        return u.sqrt(sum(_magnitudes(x), axis=axes, keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        along, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
        totals = sum(u.absolute(x), axis=along, keepdims=True)
        extremum = max_ if ord > 0 else min_
        out = extremum(totals, axis=over, keepdims=True)
        return out if keepdims else ops.squeeze(out, axes)
    if ord in ("nuc", 2, -2):
        s = svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
        out = sum(s, axis=-1) if ord == "nuc" else (max_ if ord == 2 else min_)(s, axis=-1)
        return expand_dims(out, tuple(sorted(axes))) if keepdims else out
    raise ValueError(
        "weft.numpy.linalg.norm: ord of a matrix must be fro, nuc, 1, -1, 2, -2, inf or -inf, got "
        f"{ord!r}"
    )


def matrix_norm(x: Any, /, *, keepdims: builtins.bool = False, ord: Any = "fro") -> Any:
    """The norm of matrices in the last two dimensions (array API standard)."""
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))


def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False, ord: Any = 2
) -> Any:
    """The norm of vectors along axes, of all elements by default (array API standard)."""
    check_array("linalg.vector_norm", x)
    x = strong(inexact(x))
    axes = axes_of(tuple(axis) if isinstance(axis, Sequence) else axis, typeof(x).ndim)
    return _vector_norm(x, ord, axes, keepdims)


def cond(x: Any, p: Any = None) -> Any:
    """The condition number: the ratio of singular values, or norm(x, p) norm(inv(x), p)."""
    a = _matrices("cond", x)
    if p in (None, 2, -2):
        s = svd(a, compute_uv=False)
        return (
            u.true_divide(s[..., 0], s[..., -1])
            if p != -2
            else u.true_divide(s[..., -1], s[..., 0])
        )
    out = u.multiply(norm(a, ord=p, axis=(-2, -1)), norm(inv(a), ord=p, axis=(-2, -1)))
    known = u.logical_not(u.isnan(sum(a, axis=(-2, -1))))
    return where(u.logical_and(u.isnan(out), known), cast(np.inf, typeof(out).dtype), out)


# Products -------------------------------------------------------------------------------------


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """The product of several matrices in the cheapest order; the ends may be vectors."""
    from weft.numpy.einsums import einsum

    arrays = list(arrays)
    if len(arrays) < 2:
        raise ValueError("weft.numpy.linalg.multi_dot: needs at least two arrays")
    check_array("linalg.multi_dot", *arrays)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    terms, ends = [], ["", ""]
    for i, a in enumerate(arrays):
        rank = typeof(a).ndim
        if rank == 1 and i == 0:
            terms.append(letters[1])
        elif rank == 1 and i == len(arrays) - 1:
            terms.append(letters[i])
        elif rank == 2:
            terms.append(letters[i] + letters[i + 1])
            if i == 0:
                ends[0] = letters[0]
            if i == len(arrays) - 1:
                ends[1] = letters[i + 1]
        else:
            raise ValueError(
                f"weft.numpy.linalg.multi_dot: array {i} must be a matrix (a vector only at the "
                f"ends), got {typeof(a).str_short()}"
            )
    return einsum(
        ",".join(terms) + "->" + "".join(ends), *arrays, optimize="optimal", precision=precision
    )


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three components (array API standard)."""
    for x in (x1, x2):
        aval = aval_of("linalg.cross", x)
        if aval.shape[canonical_axis(axis, aval.ndim)] != 3:
            raise ValueError(
                f"weft.numpy.linalg.cross: vectors have 3 components, got {typeof(x).str_short()}"
            )
    return linear.cross(x1, x2, axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices in the last two dimensions (array API standard)."""
    from weft.numpy.selection import diagonal

    return diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of diagonals of matrices in the last two dimensions (array API standard)."""
    from weft.numpy.running import trace

    return trace(x, offset, -2, -1, dtype)


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of all pairs of elements of two vectors (array API standard)."""
    for x in (x1, x2):
        if aval_of("linalg.outer", x).ndim != 1:
            raise ValueError(f"weft.numpy.linalg.outer: takes vectors, got {typeof(x).str_short()}")
    return linear.outer(x1, x2)


def matmul(
    x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The matrix product; see `weft.numpy.matmul`."""
    return linear.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum over pairs of axes; see `weft.numpy.tensordot`."""
    return linear.tensordot(
        x1,
        x2,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product of vectors along an axis; see `weft.numpy.vecdot`."""
    return linear.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


_NAMES = """
    cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm
    matrix_power matrix_rank matrix_transpose multi_dot norm outer pinv qr slogdet solve svd
    svdvals tensordot tensorinv tensorsolve trace vecdot vector_norm
"""
__all__ = _NAMES.split()  # noqa: PLE0605
seal(globals(), refuse=refuse, examples=EXAMPLES, prefix="linalg.")
