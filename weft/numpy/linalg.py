# Tests: tests/numpy/test_functions.py
"""Linear algebra on the last two dimensions, batched over the others: weft.numpy.linalg."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.linear as linear
import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axis
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.core.trace import typeof
from weft.numpy.common import aval_of, cast, check_array, inexact, strong, to_array
from weft.numpy.creation import array
from weft.numpy.decompositions import (  # noqa: F401  (its public names are these, too)
    adjoint,
    as_matrices,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    qr,
    solve,
    svd,
    svdvals,
)
from weft.numpy.determinants import det, slogdet  # noqa: F401
from weft.numpy.eager import eager_programs
from weft.numpy.einsums import einsum
from weft.numpy.examples import EXAMPLES
from weft.numpy.matrices import eye
from weft.numpy.norms import cond, matrix_norm, norm, vector_norm  # noqa: F401
from weft.numpy.pseudo_inverse import pinv  # noqa: F401
from weft.numpy.reductions import max as max_
from weft.numpy.reductions import sum
from weft.numpy.refusals import refuse
from weft.numpy.selection import where
from weft.numpy.shaping import (
    broadcast_to,
    matrix_transpose,  # noqa: F401
    moveaxis,
)
from weft.ops import elementwise_api as ew
from weft.ops.promote import promote_inexact

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    rcond: object = None,
    *,
    numpy_resid: builtins.bool = False,
) -> tuple[Any, Any, Any, Any]:
    """Return x that minimizes |a x - b|, residuals, rank of a, singular values of a.

    numpy_resid: give no residuals where NumPy gives none (rank below the number of columns).
    Source: numpy.linalg.lstsq.

    >>> import weft.numpy as wnp
    >>> x, residuals, rank, s = wnp.linalg.lstsq(wnp.ones((3, 1)), wnp.array([1.0, 2.0, 6.0]))
    >>> x.round(4)
    Array([3.], dtype=float32)
    """
    check_array("linalg.lstsq", a, b)
    a, b = promote_inexact(a, b)
    a, b = strong(to_array(a)), strong(to_array(b))
    x, y = typeof(a), typeof(b)
    if x.ndim != 2 or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise ArgumentError(
            "weft.numpy.linalg.lstsq: a must be a matrix and b a vector or matrix of as many rows, "
            f"got {x.str_short()} and {y.str_short()}"
        )
    m, n = x.shape
    real = ew.real_dtype(x.dtype)
    if rcond is None:
        rcond = float(dtypes.finfo(real).eps) * max(m, n)
    columns = b[:, None] if y.ndim == 1 else b
    left, s, right = svd(a, full_matrices=False)
    kept = u.greater(s, u.multiply(cast(rcond, real), s[:1]))
    rank = sum(kept)
    inverse = where(kept, u.true_divide(1, where(kept, s, 1)), cast(0, real))
    rotated = linear.matmul(adjoint(left), columns, precision="highest")
    scaled = u.multiply(rotated, cast(inverse, x.dtype)[:, None])
    out = linear.matmul(adjoint(right), scaled, precision="highest")
    rest = u.subtract(columns, linear.matmul(a, out, precision="highest"))
    residuals = sum(u.real(u.multiply(rest, u.conjugate(rest))), axis=0)
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = array(np.zeros((0,)), real)
    return (out[:, 0] if y.ndim == 1 else out), residuals, rank, s


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Any:
    """Return x with tensordot(a, x, x.ndim) = b. Source: numpy.linalg.tensorsolve.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.tensorsolve(2 * wnp.eye(4).reshape(2, 2, 4), wnp.ones((2, 2)))
    Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    a, b = to_array(a), to_array(b)
    if axes is not None:
        rank = typeof(a).ndim
        a = moveaxis(a, tuple(axes), tuple(range(rank - len(axes), rank)))
    shape = typeof(a).shape[typeof(b).ndim :]
    n = math.prod(shape)
    if math.prod(typeof(a).shape) != n * n or typeof(b).size != n:
        raise ArgumentError(
            f"weft.numpy.linalg.tensorsolve: a {typeof(a).str_short()} is not square over b "
            f"{typeof(b).str_short()}"
        )
    return ops.reshape(solve(ops.reshape(a, (n, n)), ops.reshape(b, (n,))), shape)


def tensorinv(a: ArrayLike, ind: int = 2) -> Any:
    """Return the inverse under tensordot(., ., ind). Source: numpy.linalg.tensorinv.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.tensorinv(2 * wnp.eye(4).reshape(2, 2, 4), ind=2).shape
    (4, 2, 2)
    """
    ind = operator.index(ind)
    a = to_array(a)
    shape = typeof(a).shape
    if ind <= 0:
        raise ArgumentError(f"weft.numpy.linalg.tensorinv: ind must be positive, got {ind}")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise ArgumentError(
            f"weft.numpy.linalg.tensorinv: a {typeof(a).str_short()} is not square when split "
            f"at {ind}"
        )
    return ops.reshape(inv(ops.reshape(a, (rows, columns))), shape[ind:] + shape[:ind])


def matrix_power(a: ArrayLike, n: int) -> Any:
    """Return the n-th power of square matrices; negative n powers the inverse.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.matrix_power(wnp.array([[1.0, 1.0], [0.0, 1.0]]), -3)
    Array([[ 1., -3.],
           [ 0.,  1.]], dtype=float32)
    """
    a = as_matrices("matrix_power", a, True) if n < 0 else to_array(a)
    aval = typeof(a)
    if aval.ndim < 2 or aval.shape[-1] != aval.shape[-2]:
        raise ArgumentError(
            f"weft.numpy.linalg.matrix_power: takes square matrices, got {aval.str_short()}"
        )
    n = operator.index(n)
    if n == 0:
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
    M: object,
    rtol: object = None,
    *,
    hermitian: builtins.bool = False,
    tol: object = None,
) -> Any:
    """Return the number of singular values above rtol times the largest, or above tol.

    Raises ValueError where both are given.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.matrix_rank(wnp.array([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int32)
    """
    if rtol is not None and tol is not None:
        raise ValueError(
            "weft.numpy.linalg.matrix_rank: rtol, relative to the largest singular value, and tol, "
            "absolute, are both given; give one of them"
        )
    a = inexact(to_array(M))
    if typeof(a).ndim < 2:
        from weft.numpy.reductions import any

        return cast(any(u.not_equal(a, 0)), dtypes.canonicalize_dtype(int))
    s = svd(a, hermitian=hermitian, compute_uv=False)
    if tol is None:
        if rtol is None:
            rtol = max(typeof(a).shape[-2:]) * float(dtypes.finfo(typeof(s).dtype).eps)
        tol = u.multiply(max_(s, axis=-1, initial=0), rtol)
    return sum(u.greater(s, to_array(tol)[..., None]), axis=-1)


# Products -------------------------------------------------------------------------------------


def multi_dot(arrays: Sequence[Any], *, precision: object = None) -> Any:
    """Return the product of several matrices in the cheapest order; the ends may be vectors.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.multi_dot([wnp.ones((2, 100)), wnp.ones((100, 3)), wnp.ones(3)])
    Array([300., 300.], dtype=float32)
    """
    arrays = list(arrays)
    if len(arrays) < 2:
        raise ArgumentError("weft.numpy.linalg.multi_dot: needs at least two arrays")
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
            raise ArgumentError(
                f"weft.numpy.linalg.multi_dot: array {i} must be a matrix (a vector only at the "
                f"ends), got {typeof(a).str_short()}"
            )
    return einsum(
        ",".join(terms) + "->" + "".join(ends), *arrays, optimize="optimal", precision=precision
    )


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Any:
    """Return the cross product of vectors of three components (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.linalg.cross(wnp.array([1, 0, 0]), wnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    for x in (x1, x2):
        aval = aval_of("linalg.cross", x)
        if aval.shape[canonical_axis(axis, aval.ndim)] != 3:
            raise ArgumentError(
                f"weft.numpy.linalg.cross: vectors have 3 components, got {typeof(x).str_short()}"
            )
    return linear.cross(x1, x2, axis=axis)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Any:
    """Return the diagonals of matrices in the last two dimensions (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.linalg.diagonal(wnp.arange(8).reshape(2, 2, 2))
    Array([[0, 3],
           [4, 7]], dtype=int32)
    """
    from weft.numpy.selection import diagonal

    return diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Return the sums of diagonals of matrices in the last two dimensions (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.linalg.trace(wnp.arange(8).reshape(2, 2, 2))
    Array([ 3, 11], dtype=int32)
    """
    from weft.numpy.scans import trace

    return trace(x, offset, -2, -1, dtype)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Return the products of all pairs of elements of two vectors (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.linalg.outer(wnp.array([1, 2]), wnp.array([10, 20, 30]))
    Array([[10, 20, 30],
           [20, 40, 60]], dtype=int32)
    """
    for x in (x1, x2):
        if aval_of("linalg.outer", x).ndim != 1:
            raise ArgumentError(
                f"weft.numpy.linalg.outer: takes vectors, got {typeof(x).str_short()}"
            )
    return linear.outer(x1, x2)


def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the matrix product; see `weft.numpy.matmul`.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.matmul(wnp.ones((5, 2, 3)), wnp.ones((3, 4))).shape
    (5, 2, 4)
    """
    return linear.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: int | Sequence[int] | None = 2,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: object = None,
) -> Any:
    """Return the sum over pairs of axes; see `weft.numpy.tensordot`.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.tensordot(wnp.ones((2, 3, 4)), wnp.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    return linear.tensordot(
        x1,
        x2,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Return the product of vectors along an axis; see `weft.numpy.vecdot`.

    >>> import weft.numpy as wnp
    >>> wnp.linalg.vecdot(wnp.array([[1j, 0], [0, 2]]), wnp.array([1j, 1]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    return linear.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


_NAMES = """
    cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm
    matrix_power matrix_rank matrix_transpose multi_dot norm outer pinv qr slogdet solve svd
    svdvals tensordot tensorinv tensorsolve trace vecdot vector_norm
"""
__all__ = _NAMES.split()  # noqa: PLE0605
_OPTIONS = """
    UPLO compute_uv full_matrices hermitian ind method numpy_resid ord p subset_by_index
    symmetrize_input upper
"""
seal(
    globals(),
    refuse=refuse,
    examples=EXAMPLES,
    prefix="linalg.",
    programs=eager_programs(_NAMES.replace("multi_dot", ""), joining="multi_dot", options=_OPTIONS),
)
