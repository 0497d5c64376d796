# Tests: tests/sparse/test_matrices.py
"""Sparse arrays made of nothing: empty, eye, random ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import random
from weft.core import dtypes
from weft.sparse.arrays import BCOO, BCSR, JAXSparse
from weft.sparse.matrices import COO, CSC, CSR

_FORMATS: dict[str, type] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _in_format(api: str, mat: BCOO, sparse_format: str) -> Any:
    if sparse_format not in _FORMATS:
        raise ValueError(
            f"{api}: sparse_format must be one of {', '.join(_FORMATS)}, got {sparse_format!r}"
        )
    kind: Any = _FORMATS[sparse_format]
    return mat if kind is BCOO else kind.from_bcoo(mat)


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    *,
    n_batch: int = 0,
    n_dense: int = 0,
    nse: int = 0,
) -> JAXSparse:
    """Return a sparse array of zeros, which stores `nse` elements as padding.

    sparse_format: 'bcoo', 'bcsr', 'coo', 'csr' or 'csc'.

    Raises ValueError for another format, or dimensions that the shape has not.

    >>> from weft import sparse
    >>> sparse.empty((2, 3))
    BCOO(float32[2, 3], nse=0)
    """
    shape = tuple(operator.index(s) for s in shape)
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse, nse) < 0:
        raise ValueError(
            f"empty: n_batch={n_batch}, n_dense={n_dense} and nse={nse} must not be negative and "
            f"fit shape {shape}"
        )
    batch, sparse = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
    data = wnp.zeros((*batch, nse, *shape[n_batch + n_sparse :]), dtype)
    fill = np.array(sparse, index_dtype)
    indices = wnp.broadcast_to(wnp.asarray(fill), (*batch, nse, n_sparse))
    mat = BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)
    return _in_format("empty", mat, sparse_format)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    *,
    n_batch: int = 0,
    n_dense: int = 0,
) -> JAXSparse:
    """Return a sparse matrix of shape (N, M) with ones on its diagonal k.

    Raises ValueError for a format that does not exist.

    >>> from weft import sparse
    >>> sparse.eye(3, k=1).indices.tolist()
    [[0, 1], [1, 2]]
    """
    N = operator.index(N)
    M, k = N if M is None else operator.index(M), operator.index(k)
    size = max(0, min(N, M - k) if k > 0 else min(N + k, M))
    at = np.arange(size, dtype=index_dtype)
    indices = np.stack([at + max(-k, 0), at + max(k, 0)], 1).astype(index_dtype)
    flags = {"indices_sorted": True, "unique_indices": True}
    mat = BCOO((wnp.ones(size, dtype), indices), shape=(N, M), **flags)
    if n_batch or n_dense:
        mat = mat.update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
        if n_batch == 1 and not n_dense:
            mat = mat.sum_duplicates(nse=1)  # a row has one element
    return _in_format("eye", mat, sparse_format)


def random_bcoo(
    key: object,
    shape: Sequence[int],
    *,
    dtype: Any = float,
    indices_dtype: Any = None,
    nse: float | int = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable = random.uniform,
    **kwds: object,
) -> BCOO:
    """Return a BCOO of random elements at random places.

    key: of weft.random. nse: how many elements are stored of each batch, or, below 1, which share
    of the places. generator: draws the elements from (key, shape, dtype, **kwds).

    Raises ValueError for dimensions that the shape has not, and for nse out of bounds.

    >>> import weft
    >>> from weft import sparse
    >>> sparse.random_bcoo(weft.random.key(0), (4, 5), nse=0.5)
    BCOO(float32[4, 5], nse=10)
    """
    shape = tuple(operator.index(s) for s in shape)
    if min(n_batch, n_dense) < 0 or n_batch + n_dense > len(shape):
        raise ValueError(
            f"random_bcoo: n_batch={n_batch} and n_dense={n_dense} must fit shape {shape}"
        )
    end = len(shape) - n_dense
    batch, sparse = shape[:n_batch], shape[n_batch:end]
    places = math.prod(sparse)
    if not 0 <= nse <= places:
        raise ValueError(f"random_bcoo: nse must be between 0 and {places}, got {nse}")
    count = math.ceil(nse * places) if 0 < nse < 1 else int(nse)
    index_dtype = np.dtype(indices_dtype or wnp.asarray(0).dtype)
    if places > dtypes.iinfo(index_dtype).max:
        raise ValueError(
            f"random_bcoo: indices_dtype {index_dtype} cannot count {places} places; use int64"
        )
    data_key, *keys = random.split(key, math.prod(batch) + 1)
    data = generator(data_key, shape=(*batch, count, *shape[end:]), dtype=dtype, **kwds)

    def draw(key: object) -> Any:
        if not sparse:
            return wnp.zeros((count, 0), index_dtype)
        flat = random.choice(key, places, shape=(count,), replace=not unique_indices)
        return wnp.stack(wnp.unravel_index(flat, sparse), 1).astype(index_dtype)

    rows = weft.vmap(draw)(wnp.stack(keys)) if keys else wnp.zeros((0, count, len(sparse)))
    indices = rows.reshape(*batch, count, len(sparse)).astype(index_dtype)
    mat = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return mat.sort_indices() if sorted_indices else mat
