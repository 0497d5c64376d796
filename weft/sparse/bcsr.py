# Tests: tests/sparse/test_matrices.py
"""BCSR arrays: what they do is done by the BCOO of the same elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
import weft.sparse.bcoo as bcoo
import weft.sparse.products as products
import weft.sparse.shapes as shapes
from weft.sparse.arrays import BCOO, BCSR
from weft.sparse.bcoo import expect, over_batches

if TYPE_CHECKING:
    from weft.runtime.array import Array


def rows_of(indices: Any, indptr: Any) -> Any:
    """Return the row of each element of one batch; that of padding is out of bounds."""
    return wnp.cumsum(wnp.zeros_like(indices).at[indptr].add(1, mode="drop")) - 1


def pointers_of(rows: Any, count: int) -> Any:
    """Return where each row of one batch begins, of sorted rows; padding belongs to none."""
    sizes = wnp.zeros(count + 1, rows.dtype).at[rows + 1].add(1, mode="drop")
    return wnp.cumsum(sizes, dtype=rows.dtype)


def to_bcoo(mat: BCSR) -> BCOO:
    """Return the BCOO of the same elements."""
    expect("BCSR.to_bcoo", mat, BCSR)

    def both(indices: Any, indptr: Any) -> Any:
        return wnp.stack([rows_of(indices, indptr).astype(indices.dtype), indices], -1)

    indices = over_batches(both, mat.n_batch, mat.indices, mat.indptr)
    return BCOO.tree_unflatten(mat._info, (mat.data, indices))


def from_bcoo(arr: BCOO) -> BCSR:
    """Return the BCSR of the same elements, sorted by rows."""
    expect("BCSR.from_bcoo", arr, argument="arr")
    if arr.n_sparse != 2:
        raise NotImplementedError(
            f"BCSR.from_bcoo: arr must have two sparse dimensions, got {arr!r}; update_layout first"
        )
    arr = bcoo.without_padding(arr)  # which is sorted behind all rows
    arr = arr if arr.indices_sorted else arr.sort_indices()
    rows = arr.shape[arr.n_batch]
    indptr = over_batches(lambda i: pointers_of(i[:, 0], rows), arr.n_batch, arr.indices)
    return BCSR.tree_unflatten(arr._info, (arr.data, arr.indices[..., 1], indptr))


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: object = np.int32,
) -> BCSR:
    """Return the BCSR of a dense array's elements that are not zero; see `bcoo_fromdense`."""
    mat = wnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError(
            f"bcsr_fromdense: an array of rank {mat.ndim} with n_batch={n_batch} and "
            f"n_dense={n_dense} must leave two sparse dimensions"
        )
    return BCSR.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcsr_todense(mat: BCSR) -> Array:
    """Return the dense array."""
    expect("bcsr_todense", mat, BCSR)
    return mat.todense()


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Array:
    """Return the values of a dense array at the places of a BCSR: its data.

    Raises ValueError where indices and indptr do not fit the array.
    """
    indices, indptr, mat = map(wnp.asarray, (indices, indptr, mat))
    n = indices.ndim - 1
    if indptr.ndim != n + 1 or mat.ndim < n + 2 or indptr.shape[-1] != mat.shape[n] + 1:
        raise ValueError(
            f"bcsr_extract: indices and indptr of shapes {indices.shape} and {indptr.shape} do not "
            f"fit an array of shape {mat.shape}: they must be [*batch, nse], [*batch, rows + 1]"
        )
    data = wnp.zeros((*indices.shape, *mat.shape[n + 2 :]), mat.dtype)
    form = to_bcoo(BCSR((data, indices, indptr), shape=mat.shape))
    return bcoo.bcoo_extract(form, mat, assume_unique=True).data


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Return the same array with unique, sorted indices; see `bcoo_sum_duplicates`."""
    expect("bcsr_sum_duplicates", mat, BCSR)
    return from_bcoo(bcoo.bcoo_sum_duplicates(to_bcoo(mat), nse=nse))


def bcsr_dot_general(
    lhs: object,
    rhs: object,
    *,
    dimension_numbers: object,
    precision: object = None,
    preferred_element_type: object = None,
    out_sharding: object = None,
) -> Array:
    """Contract a BCSR or dense array with a dense one; see `bcoo_dot_general`."""
    return products.bcoo_dot_general(
        to_bcoo(lhs) if isinstance(lhs, BCSR) else lhs,
        to_bcoo(rhs) if isinstance(rhs, BCSR) else rhs,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: object = None
) -> BCSR:
    """Return the array with new batch or dense dimensions; see `bcoo_broadcast_in_dim`."""
    expect("bcsr_broadcast_in_dim", mat, BCSR)
    wide = shapes.bcoo_broadcast_in_dim(
        to_bcoo(mat), shape=shape, broadcast_dimensions=broadcast_dimensions
    )
    return from_bcoo(wide)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Join BCSR arrays along a batch or sparse dimension; see `bcoo_concatenate`."""
    for i, op in enumerate(operands):
        expect("bcsr_concatenate", op, BCSR, f"operands[{i}]")
    return from_bcoo(shapes.bcoo_concatenate([to_bcoo(op) for op in operands], dimension=dimension))
