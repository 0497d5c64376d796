# Tests: tests/numpy/test_functions.py
"""Diagonals, triangles, grids and arrays of indices."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_in_dim_p, check_shape, iota_p, reshape
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError, kind_of
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, typeof
from weft.driver.staging import ensure_compile_time_eval
from weft.numpy.common import (
    aval_of,
    canonical,
    cast,
    convert,
    created,
    place,
    static_int,
    to_array,
)
from weft.numpy.creation import ON_HOST, arange, asarray
from weft.numpy.filled import ones, zeros
from weft.numpy.formulas import power
from weft.numpy.joining import stack
from weft.numpy.nonzero_positions import nonzero
from weft.numpy.operands import filled_like
from weft.numpy.selection import diagonal
from weft.numpy.shaping import ravel
from weft.ops.elementwise_api import add_p, eq_p, ge_p, select
from weft.ops.joining import pad
from weft.ops.promote import broadcast_to as _broadcast_to

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike

# Diagonals and triangles ----------------------------------------------------------------------


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
) -> Any:
    """Return ones on the k-th diagonal of an N by M matrix, zeros elsewhere.

    >>> import weft
    >>> weft.numpy.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    n = static_int(N, "eye: N")
    m = n if M is None else static_int(M, "eye: M")
    check_shape((n, m))
    dtype = dtypes.canonicalize_dtype(float) if dtype is None else canonical(dtype, "eye")
    if not isinstance(k, Tracer):
        k = static_int(k, "eye: k")
        if state.trace is EVAL and n * m <= ON_HOST:
            return place(created(np.eye(n, m, k).astype(dtype)), device)

    rows, cols = _grid(n, m, k)
    return place(convert(eq_p.bind(rows, cols), dtype), device)


def _grid(n: int, m: int, k: Any) -> tuple[Any, Any]:
    """Row numbers plus k, and column numbers, of an n by m matrix."""
    rows = iota_p.bind(dtype=dtypes.int32, shape=(n, m), dimension=0)
    if isinstance(k, Tracer) or k != 0:
        rows = add_p.bind(rows, cast(k, dtypes.int32) if isinstance(k, Tracer) else np.int32(k))
    return rows, iota_p.bind(dtype=dtypes.int32, shape=(n, m), dimension=1)


def identity(n: int, dtype: DTypeLike | None = None) -> Any:
    """Return the n by n identity matrix.

    >>> import weft
    >>> weft.numpy.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def _lower_mask(n: int, m: int, k: ArrayLike) -> Any:
    """Return where column <= row + k."""
    rows, cols = _grid(n, m, k)
    return ge_p.bind(rows, cols)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Return ones at and below the k-th diagonal of an N by M matrix.

    >>> import weft
    >>> weft.numpy.tri(3)
    Array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 1., 1.]], dtype=float32)
    """
    n = static_int(N, "eye: N")
    m = n if M is None else static_int(M, "eye: M")
    check_shape((n, m))
    k = _diagonal_of("tri", k)
    dtype = dtypes.float32 if dtype is None else canonical(dtype, "tri")
    if state.trace is EVAL and n * m <= ON_HOST and not isinstance(k, Tracer):
        return created(np.tri(n, m, int(k)).astype(dtype))
    return convert(_lower_mask(n, m, k), dtype)


def _diagonal_of(name: str, k: ArrayLike) -> Any:
    """Return a diagonal's number, which may be traced."""
    aval = aval_of(name, k)
    if not (dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype)) or aval.ndim:
        raise ArgumentError(f"weft.numpy.{name}: k must be an integer, got {kind_of(k)}: {k!r:.60}")
    return k


def _triangle(name: str, m: ArrayLike, k: Any, lower: builtins.bool) -> Any:
    aval, k = aval_of(name, m), _diagonal_of(name, k)
    if aval.ndim < 2:
        raise ArgumentError(
            f"weft.numpy.{name}: m must have at least two dimensions, got {aval.str_short()}"
        )
    rows, columns = aval.shape[-2:]
    mask = _lower_mask(rows, columns, k if lower else k - 1)
    if aval.ndim > 2:
        mask = _broadcast_to(mask, aval.shape)
    zeros = filled_like(m, 0)
    return select(mask, m, zeros) if lower else select(mask, zeros, m)


def tril(m: ArrayLike, k: int = 0) -> Any:
    """Return the matrix with what is above the k-th diagonal set to zero; batches of them too.

    >>> import weft
    >>> weft.numpy.tril(weft.numpy.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle("tril", m, k, True)


def triu(m: ArrayLike, k: int = 0) -> Any:
    """Return the matrix with what is below the k-th diagonal set to zero; batches of them too.

    >>> import weft
    >>> weft.numpy.triu(weft.numpy.ones((2, 3)))
    Array([[1., 1., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    return _triangle("triu", m, k, False)


def diag(v: ArrayLike, k: int = 0) -> Any:
    """Return a matrix with the vector on its k-th diagonal, or the k-th diagonal of a matrix.

    >>> import weft
    >>> weft.numpy.diag(weft.numpy.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    aval = aval_of("diag", v)
    k = static_int(k, "diag: k")
    if aval.ndim == 2:
        return diagonal(v, k)
    if aval.ndim != 1:
        raise ArgumentError(
            f"weft.numpy.diag: v must be a vector or a matrix, got {aval.str_short()}"
        )
    n = aval.shape[0] + abs(k)
    if k:
        v = pad(v, aval.dtype.type(0), [(max(-k, 0), max(k, 0), 0)])
    rows, cols = _grid(n, n, k)
    spread = broadcast_in_dim_p.bind(v, shape=(n, n), broadcast_dimensions=(0,))
    return select(eq_p.bind(rows, cols), spread, filled_like(spread, 0))


def diagflat(v: ArrayLike, k: int = 0) -> Any:
    """Return a matrix with all elements of v on its k-th diagonal.

    >>> import weft
    >>> weft.numpy.diagflat(weft.numpy.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return diag(ravel(v), k)


def vander(x: ArrayLike, N: int | None = None, increasing: builtins.bool = False) -> Any:
    """Return powers of a vector as columns (a Vandermonde matrix), highest first unless increasing.

    >>> import weft
    >>> weft.numpy.vander(weft.numpy.array([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    aval = aval_of("vander", x)
    if aval.ndim != 1:
        raise ArgumentError(f"weft.numpy.vander: x must be a vector, got {aval.str_short()}")
    n = aval.shape[0] if N is None else static_int(N, "vander: N")
    if n < 0:
        raise ArgumentError(f"weft.numpy.vander: N must not be negative, got {n}")
    powers = np.arange(n, dtype=np.int32)
    powers = (powers if increasing else powers[::-1])[None]

    x = reshape(to_array(x), (aval.shape[0], 1))
    return power(x, powers.astype(aval.dtype) if dtypes.is_integer(aval.dtype) else powers)


# Grids and index arrays -----------------------------------------------------------------------


def meshgrid(
    *xi: Any, copy: builtins.bool = True, sparse: builtins.bool = False, indexing: str = "xy"
) -> list:
    """Coordinate matrices from vectors. Source: numpy.meshgrid.

    >>> import weft
    >>> [g.shape for g in weft.numpy.meshgrid(weft.numpy.arange(3), weft.numpy.arange(2))]
    [(2, 3), (2, 3)]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"weft.numpy.meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    if not copy:
        raise ArgumentError("weft.numpy.meshgrid: copy=False is not possible, arrays have no views")

    rank = len(xi)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[0], order[1] = 1, 0
    sizes = []
    for i, x in enumerate(xi):
        aval = aval_of("meshgrid", x)
        if aval.ndim > 1:
            raise ArgumentError(
                f"weft.numpy.meshgrid: argument {i} must be a vector, got {aval.str_short()}"
            )
        sizes.append(aval.size)
    shape = [0] * rank
    for i, n in enumerate(sizes):
        shape[order[i]] = n
    grids = []
    for i, x in enumerate(xi):
        x = reshape(to_array(x), tuple(sizes[i] if d == order[i] else 1 for d in range(rank)))
        grids.append(x if sparse else to_array(_broadcast_to(x, tuple(shape))))
    return grids


def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: builtins.bool = False
) -> Any:
    """Return the indices of a grid, one array for each dimension (stacked unless sparse).

    >>> import weft
    >>> weft.numpy.indices((2, 2)).shape
    (2, 2, 2)
    """
    shape = check_shape(dimensions)
    dtype = dtypes.canonicalize_dtype(int) if dtype is None else canonical(dtype, "indices")
    if sparse:
        return tuple(
            iota_p.bind(
                dtype=dtype,
                shape=tuple(n if j == i else 1 for j in range(len(shape))),
                dimension=i,
            )
            for i, n in enumerate(shape)
        )
    if not shape:
        return zeros((0,), dtype)
    return stack([iota_p.bind(dtype=dtype, shape=shape, dimension=i) for i in range(len(shape))])


def ix_(*args: Any) -> tuple:
    """Shape vectors so that indexing with them selects the cross product of their elements.

    >>> import weft
    >>> [i.shape for i in weft.numpy.ix_(weft.numpy.arange(3), weft.numpy.arange(2))]
    [(3, 1), (1, 2)]
    """
    out = []
    for i, a in enumerate(args):
        a = to_array(a) if not isinstance(a, list | tuple) else asarray(a)
        aval = typeof(a)
        if aval.ndim != 1:
            raise ArgumentError(
                f"weft.numpy.ix_: argument {i} must be a vector, got {aval.str_short()}"
            )
        if dtypes.is_bool(aval.dtype):
            (a,) = nonzero(a)
        elif aval.shape == (0,):
            a = cast(a, dtypes.canonicalize_dtype(int))  # NumPy's lists without elements are floats
        shape = [1] * len(args)
        shape[i] = -1
        out.append(reshape(a, shape))
    return tuple(out)


def _host_indices(arrays: Sequence[np.ndarray]) -> tuple:
    return tuple(created(a.astype(dtypes.canonicalize_dtype(int))) for a in arrays)


def _of_triangle(
    name: str, n: ArrayLike, k: ArrayLike, m: ArrayLike | None
) -> tuple[int, int, int | None]:
    rows, diagonal = static_int(n, f"{name}: n"), static_int(k, f"{name}: k")
    return rows, diagonal, None if m is None else static_int(m, f"{name}: m")


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple:
    """Row and column indices of the lower triangle of an n by m matrix.

    >>> import weft
    >>> weft.numpy.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _host_indices(np.tril_indices(*_of_triangle("tril_indices", n, k, m)))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple:
    """Row and column indices of the upper triangle of an n by m matrix.

    >>> import weft
    >>> weft.numpy.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return _host_indices(np.triu_indices(*_of_triangle("triu_indices", n, k, m)))


def _matrix_shape(arr: object, name: str) -> ShapedArray:
    aval = aval_of(name, arr)
    if aval.ndim != 2:
        raise ArgumentError(f"weft.numpy.{name}: arr must be a matrix, got {aval.str_short()}")
    return aval


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple:
    """Row and column indices of the lower triangle of a matrix.

    >>> import weft.numpy as wnp
    >>> wnp.ones((3, 3))[wnp.tril_indices_from(wnp.ones((3, 3)))].shape
    (6,)
    """
    shape = _matrix_shape(arr, "tril_indices_from").shape
    return tril_indices(shape[0], k, shape[1])


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple:
    """Row and column indices of the upper triangle of a matrix.

    >>> import weft.numpy as wnp
    >>> wnp.triu_indices_from(wnp.ones((2, 2)))
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    shape = _matrix_shape(arr, "triu_indices_from").shape
    return triu_indices(shape[0], k, shape[1])


def mask_indices(n: int, mask_func: Callable, k: int = 0, *, size: int | None = None) -> tuple:
    """Return indices at which mask_func(ones((n, n)), k) is nonzero.

    >>> import weft.numpy as wnp
    >>> wnp.mask_indices(2, wnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    with ensure_compile_time_eval():
        return nonzero(mask_func(ones((n, n)), k), size=size)


def diag_indices(n: int, ndim: int = 2) -> tuple:
    """Return indices of the main diagonal of an array of ndim dimensions of size n.

    >>> import weft
    >>> weft.numpy.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = static_int(n, "diag_indices: n"), static_int(ndim, "diag_indices: ndim")
    if n < 0 or ndim < 0:
        raise ArgumentError(
            f"weft.numpy.diag_indices: n and ndim must not be negative, got {n}, {ndim}"
        )
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple:
    """Return indices of the main diagonal of an array whose dimensions are equal.

    >>> import weft.numpy as wnp
    >>> wnp.eye(3).at[wnp.diag_indices_from(wnp.eye(3))].add(1.0)
    Array([[2., 0., 0.],
           [0., 2., 0.],
           [0., 0., 2.]], dtype=float32)
    """
    aval = aval_of("diag_indices_from", arr)
    if aval.ndim < 2 or len(set(aval.shape)) != 1:
        raise ArgumentError(
            "weft.numpy.diag_indices_from: arr must have two or more dimensions of equal size, "
            f"got {aval.str_short()}"
        )
    return diag_indices(aval.shape[0], aval.ndim)
