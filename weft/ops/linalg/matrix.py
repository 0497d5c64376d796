# Tests: tests/ops/test_linalg.py
"""Short forms for batches of matrices, used by the rules of decompositions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import broadcast_in_dim, reshape
from weft.autodiff.shape import transpose as permute
from weft.core import dtypes
from weft.core.trace import typeof
from weft.ops.dot import dot_general
from weft.ops.elementwise_api import conjugated, convert, mul, real, select
from weft.ops.precision import Precision
from weft.ops.reduce import reduce_sum

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def transpose(x: ArrayLike) -> Any:
    """Return the last two dimensions exchanged."""
    rank = typeof(x).ndim
    return permute(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: ArrayLike) -> Any:
    """Return the conjugate transpose."""
    return conjugated(transpose(x))


def matmul(x: ArrayLike, y: ArrayLike) -> Any:
    """Multiply batches of matrices, in full precision."""
    rank = typeof(x).ndim
    lead = tuple(range(rank - 2))
    return dot_general(x, y, (((rank - 1,), (rank - 2,)), (lead, lead)), Precision.HIGHEST)


def eye(like: object, n: int) -> Any:
    """Identity matrices with the batch dimensions and dtype of `like`."""
    aval = typeof(like)
    shape = (*aval.shape[:-2], n, n)
    return broadcast_in_dim(
        np.eye(n, dtype=np.float32).astype(aval.dtype), shape, (len(shape) - 2, len(shape) - 1)
    )


def _masked(x: ArrayLike, mask: np.ndarray) -> Any:
    aval = typeof(x)
    rank = aval.ndim
    keep = broadcast_in_dim(mask, aval.shape, (rank - 2, rank - 1))
    return select(keep, x, broadcast_in_dim(aval.dtype.type(0), aval.shape, ()))


def _below(x: object, k: int) -> np.ndarray:
    rows, columns = typeof(x).shape[-2:]
    return np.tri(rows, columns, k, dtype=bool)


def tril(x: ArrayLike, k: int = 0) -> Any:
    """Return the part on and below diagonal k."""
    return _masked(x, _below(x, k))


def triu(x: ArrayLike, k: int = 0) -> Any:
    """Return the part on and above diagonal k."""
    return _masked(x, ~_below(x, k - 1))


def diagonal(x: ArrayLike) -> Any:
    """Return the diagonals of square matrices."""
    aval = typeof(x)
    return reduce_sum(_masked(x, np.eye(*aval.shape[-2:], dtype=np.bool_)), (aval.ndim - 1,))


def of_diagonal(d: ArrayLike) -> Any:
    """Square matrices with these diagonals."""
    aval = typeof(d)
    n = aval.shape[-1]
    rank = aval.ndim + 1
    spread = broadcast_in_dim(d, (*aval.shape, n), tuple(range(rank - 1)))
    return _masked(spread, np.eye(n, dtype=np.bool_))


def row(v: ArrayLike) -> Any:
    """Return vectors (..., n) as (..., 1, n)."""
    shape = typeof(v).shape
    return reshape(v, (*shape[:-1], 1, shape[-1]))


def column(v: ArrayLike) -> Any:
    """Return vectors (..., n) as (..., n, 1)."""
    return reshape(v, (*typeof(v).shape, 1))


def spread(v: ArrayLike, like: object) -> Any:
    """Broadcast a (..., 1, n), (..., n, 1) or scalar array to the shape of `like`, in its dtype."""
    aval, target = typeof(v), typeof(like)
    kept = tuple(i for i in range(aval.ndim) if aval.shape[i] == target.shape[i])
    v = reshape(v, tuple(aval.shape[i] for i in kept))
    return convert(broadcast_in_dim(v, target.shape, kept), target.dtype)


def scale_columns(x: ArrayLike, d: ArrayLike) -> Any:
    """Return x times the diagonal matrix of d, on the right."""
    return mul(x, spread(row(d), x))


def scale_rows(x: object, d: Any) -> Any:
    """Return the diagonal matrix of d times x."""
    return mul(x, spread(column(d), x))


def real_part(x: ArrayLike) -> Any:
    """Return the real part, x itself if it is real."""
    return real(x) if dtypes.is_complex(typeof(x).dtype) else x


def as_dtype(x: ArrayLike, like: object) -> Any:
    """Return a real array in the dtype of `like`, complex or not."""
    return convert(x, typeof(like).dtype)
