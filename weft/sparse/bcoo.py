"""BCOO arrays: to and from dense ones, their order, duplicates and layout."""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax
from weft.core import dtypes
from weft.core.trace import Tracer
from weft.sparse.arrays import (
    BCOO,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)

if TYPE_CHECKING:
    from weft.runtime.array import Array


def over_batches(fun: Callable, n_batch: int, *arrays: Any) -> Any:
    """Map `fun` over n_batch leading dimensions, of which those of size 1 fit to any other."""
    if n_batch == 0:
        return fun(*arrays)
    size = max((a.shape[0] for a in arrays), key=lambda s: (s != 1, s))
    axes = [0 if a.shape[0] == size else None for a in arrays]
    ins = [a if d == 0 else a[0] for a, d in zip(arrays, axes, strict=True)]
    return weft.vmap(lambda *xs: over_batches(fun, n_batch - 1, *xs), axes)(*ins)


def columns_of(indices: Any) -> tuple:
    """Return the indices of one batch, by dimension."""
    return tuple(indices[:, i] for i in range(indices.shape[1]))


def split_shape(mat: BCOO) -> tuple[tuple, tuple, tuple]:
    """Return the batch, sparse and dense dimensions."""
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    return mat.shape[:n], mat.shape[n:end], mat.shape[end:]


def expect(api: str, mat: object, kind: type = BCOO, argument: str = "mat") -> None:
    """Raise TypeError where an argument is no sparse array of the kind."""
    if not isinstance(mat, kind):
        raise TypeError(
            f"{api}: {argument} must be a {kind.__name__}, got {type(mat).__name__}; "
            f"{kind.__name__}.fromdense makes one of a dense array"
        )


def concrete_nse(api: str, nse: Any) -> int:
    """Return a number of stored elements as an int; ValueError where it is only known later."""
    if isinstance(nse, Tracer):
        raise weft.errors.ConcretizationTypeError(
            nse,
            f"{api}: nse, the number of stored elements, is part of the result's type: give an int "
            "to use it under jit, vmap and other transformations",
        )
    nse = operator.index(nse)
    if nse < 0:
        raise ValueError(f"{api}: nse must not be negative, got {nse}")
    return nse


def in_bounds(indices: Any, shape: Sequence[int] | np.ndarray) -> Any:
    """Return which elements are no padding: all of their indices lie in the sparse dimensions."""
    return (indices < wnp.asarray(np.array(shape, indices.dtype))).all(-1)


def without_padding(mat: BCOO) -> BCOO:
    """Return the same array with padding of value zero, out of bounds in every dimension."""
    _, sparse, _ = split_shape(mat)
    fill = np.array(sparse, mat.indices.dtype)

    def clean(data: Any, indices: Any) -> tuple:
        valid = in_bounds(indices, sparse)
        mask = valid.reshape(-1, *(1,) * (data.ndim - 1))
        return wnp.where(mask, data, 0).astype(data.dtype), wnp.where(valid[:, None], indices, fill)

    if not mat.n_sparse:
        return mat
    bufs = over_batches(clean, mat.n_batch, mat.data, mat.indices)
    return BCOO(
        bufs,
        shape=mat.shape,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


# To and from dense arrays --------------------------------------------------------------------


def bcoo_todense(mat: BCOO) -> Array:
    """Return the dense array; elements of equal indices are added up.

    Raises TypeError for what is no BCOO.
    """
    expect("bcoo_todense", mat)
    return _todense(mat)


@weft.jit
def _todense(mat: BCOO) -> Any:
    _, sparse, dense = split_shape(mat)

    def fill(data: Any, indices: object) -> Any:
        if not sparse:
            return data.sum(0, dtype=data.dtype)
        zeros = wnp.zeros((*sparse, *dense), data.dtype)
        return zeros.at[columns_of(indices)].add(data, mode="drop")

    out = over_batches(fill, mat.n_batch, mat.data, mat.indices)
    return out if out.shape == mat.shape else wnp.broadcast_to(out, mat.shape)


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCOO:
    """Return the BCOO of a dense array's elements that are not zero.

    nse: how many are stored of each batch, needed under transformations; more are padded, of fewer
    the last are left out. n_batch, n_dense: how many leading and trailing dimensions are batches
    and dense. Derivatives are those of the stored elements.

    Raises ValueError for dimensions that the array has not.
    """
    mat = wnp.asarray(mat)
    if min(n_batch, n_dense) < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"bcoo_fromdense: n_batch and n_dense must not be negative and fit an array of rank "
            f"{mat.ndim}, got {n_batch} and {n_dense}"
        )
    if nse is None:
        counts = _stored(mat, n_dense).sum(tuple(range(n_batch, mat.ndim - n_dense)))
        stored: Any = counts if isinstance(counts, Tracer) else int(np.max(counts, initial=0))
    else:
        stored = nse
    count = concrete_nse("bcoo_fromdense", stored)
    dtype = np.dtype(index_dtype)
    return _fromdense(mat, nse=count, n_batch=n_batch, n_dense=n_dense, dtype=dtype)


def _stored(mat: Any, n_dense: int) -> Any:
    return (mat != 0).any(tuple(range(mat.ndim - n_dense, mat.ndim)))


@functools.partial(weft.jit, static_argnames=("nse", "n_batch", "n_dense", "dtype"))
def _fromdense(mat: Any, *, nse: int, n_batch: int, n_dense: int, dtype: Any) -> BCOO:
    sparse = mat.shape[n_batch : mat.ndim - n_dense]

    def find(mat: Any, stored: Any) -> tuple:
        positions = wnp.nonzero(stored, size=nse, fill_value=sparse) if sparse else ()
        columns = [f.astype(dtype) for f in positions]
        indices = wnp.stack(columns, 1) if columns else wnp.zeros((nse, 0), dtype)
        data = extract(indices, mat)
        mask = wnp.arange(nse) < stored.sum()
        return wnp.where(mask.reshape(nse, *(1,) * n_dense), data, 0).astype(mat.dtype), indices

    bufs = over_batches(find, n_batch, mat, _stored(mat, n_dense))
    return BCOO(bufs, shape=mat.shape, indices_sorted=True, unique_indices=True)


def extract(indices: Any, mat: Any) -> Any:
    """Return the values of a dense array of one batch at indices; zero out of bounds."""
    if not indices.shape[-1]:
        return wnp.broadcast_to(mat, (indices.shape[0], *mat.shape))
    return mat.at[columns_of(indices)].get(mode="fill", fill_value=0)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """Return a BCOO with the indices of `sparr` and the values of the dense `arr` there.

    assume_unique: if False, of elements with equal indices only the first has the value, the
    others are zero; by default what `sparr` knows of its indices.

    Raises TypeError for what is no BCOO, ValueError for another shape.
    """
    expect("bcoo_extract", sparr, argument="sparr")
    arr = wnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(
            f"bcoo_extract: arr must have the shape of sparr, {sparr.shape}, got {arr.shape}"
        )
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    _, sparse, _ = split_shape(sparr)

    def values(indices: object, arr: object) -> Any:
        data = extract(indices, arr)
        if not unique:
            first = duplicates(indices, sparse)[3]
            data = wnp.where(first.reshape(-1, *(1,) * (data.ndim - 1)), data, 0)
        return data

    data = over_batches(values, sparr.n_batch, sparr.indices, arr)
    return BCOO.tree_unflatten(sparr._info, (data, sparr.indices))


# Order and duplicates ------------------------------------------------------------------------


def lexical_order(indices: Any, shape: Sequence[int]) -> Any:
    """Return the stable order of index vectors of one batch."""
    if math.prod(s + 1 for s in shape) <= dtypes.iinfo(indices.dtype).max:  # one key is faster
        return wnp.argsort(flat_index(indices, [s + 1 for s in shape]), stable=True)
    iota = wnp.arange(indices.shape[0], dtype=indices.dtype)
    keys: Any = (*indices.T, iota)
    return lax.sort(keys, num_keys=len(shape), is_stable=True)[-1]


def flat_index(indices: Any, shape: Sequence[int]) -> Any:
    """Index vectors as numbers, in the order of a dense array's elements."""
    key: Any = wnp.zeros(indices.shape[:-1], indices.dtype)
    for i, size in enumerate(shape):
        key = key * np.array(size, indices.dtype) + indices[..., i]
    return key


def duplicates(indices: Any, shape: Sequence[int]) -> tuple:
    """Merge one batch: the distinct index vectors, sorted and padded; the place of each element's
    among them; how many there are; and which elements are the first of their index."""
    nse, fill = indices.shape[0], np.array(shape, indices.dtype)
    indices = wnp.where(in_bounds(indices, shape)[:, None], indices, fill)
    order = lexical_order(indices, shape)
    ordered = indices[order]
    differs = (ordered[1:] != ordered[:-1]).any(-1)
    first = wnp.concatenate([wnp.ones(min(nse, 1), bool), differs])
    rank = wnp.cumsum(first, dtype=indices.dtype) - 1
    distinct = wnp.broadcast_to(wnp.asarray(fill), indices.shape).at[rank].set(ordered)
    position = wnp.zeros_like(rank).at[order].set(rank)
    count = (first & in_bounds(ordered, shape)).sum()
    return distinct, position, count, wnp.zeros_like(first).at[order].set(first)


def with_nse(mat: BCOO, nse: int) -> BCOO:
    """Return the same array with more padding, or without its last elements."""
    n, (_, sparse, _) = mat.n_batch, split_shape(mat)
    less, more = min(nse, mat.nse), max(nse - mat.nse, 0)
    data = lax.slice_in_dim(mat.data, 0, less, axis=n)
    indices = lax.slice_in_dim(mat.indices, 0, less, axis=n)
    if more:
        extra = (*data.shape[:n], more, *data.shape[n + 1 :])
        data = wnp.concatenate([data, wnp.zeros(extra, data.dtype)], n)
        fill = wnp.asarray(np.array(sparse, indices.dtype))
        padding = wnp.broadcast_to(fill, (*indices.shape[:n], more, len(sparse)))
        indices = wnp.concatenate([indices, padding], n)
    return BCOO.tree_unflatten(mat._info, (data, indices))


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """Return the same array with its elements in the order of their indices."""
    expect("bcoo_sort_indices", mat)
    return _sort(mat)


@weft.jit
def _sort(mat: BCOO) -> BCOO:
    _, sparse, _ = split_shape(mat)
    info = {**mat._info, "indices_sorted": True}
    if not sparse:
        return BCOO.tree_unflatten(info, mat._bufs)
    n, indices = mat.n_batch, mat.indices
    order = over_batches(lambda i: lexical_order(i, sparse), n, indices)
    indices = over_batches(lambda i, o: i[o], n, indices, order)
    data = over_batches(lambda d, o: d[o], n, mat.data, order)
    return BCOO.tree_unflatten(info, (data, indices))


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Return the same array with unique, sorted indices.

    nse: how many elements are stored, needed under transformations; more are padded, of fewer the
    last are left out.

    Raises ConcretizationTypeError, a TypeError, for no nse under a transformation.
    """
    expect("bcoo_sum_duplicates", mat)
    wanted: Any = nse
    if nse is None:
        wanted = _count(mat) if mat.n_sparse else 1
        wanted = wanted if isinstance(wanted, Tracer) else int(np.max(wanted, initial=0))
    return _sum_duplicates(mat, nse=concrete_nse("bcoo_sum_duplicates", wanted))


@weft.jit
def _count(mat: BCOO) -> Any:
    _, sparse, _ = split_shape(mat)
    return over_batches(lambda i: duplicates(i, sparse)[2], mat.n_batch, mat.indices)


@functools.partial(weft.jit, static_argnames=("nse",))
def _sum_duplicates(mat: BCOO, *, nse: int) -> BCOO:
    _, sparse, _ = split_shape(mat)
    info = {"shape": mat.shape, "indices_sorted": True, "unique_indices": True}
    mat, n = without_padding(mat), mat.n_batch
    if not sparse:
        data = mat.data.sum(n, keepdims=True, dtype=mat.dtype)
        new = with_nse(BCOO((data, mat.indices[..., :1, :]), shape=mat.shape), nse)
        return BCOO.tree_unflatten(info, new._bufs)
    distinct, position, _, _ = over_batches(lambda i: duplicates(i, sparse), n, mat.indices)

    def add(position: object, data: Any) -> Any:
        zeros = wnp.zeros((nse, *data.shape[1:]), data.dtype)
        return zeros.at[position].add(data, mode="drop")

    data = over_batches(add, n, position, mat.data)
    padded = with_nse(BCOO((wnp.zeros_like(mat.data), distinct), shape=mat.shape), nse)
    return BCOO.tree_unflatten(info, (data, padded.indices))


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """Return the same array with unique, sorted indices and no element that is zero."""
    expect("bcoo_eliminate_zeros", mat)
    _, sparse, _ = split_shape(mat)
    summed = bcoo_sum_duplicates(mat, nse=max(mat.nse, 1) if isinstance(mat.data, Tracer) else None)
    n, fill = summed.n_batch, np.array(sparse, mat.indices.dtype)

    def drop(data: Any, indices: Any) -> Any:
        zero = (data == 0).all(tuple(range(1, data.ndim)))
        return wnp.where(zero[:, None], fill, indices)

    indices = over_batches(drop, n, summed.data, summed.indices) if sparse else summed.indices
    return bcoo_sum_duplicates(BCOO((summed.data, indices), shape=mat.shape), nse=nse)


# Layout --------------------------------------------------------------------------------------


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """Permute the axes, those of batches, sparse and dense ones each among themselves.

    Raises TypeError for what is no permutation, NotImplementedError where it mixes kinds of axes.
    """
    expect("bcoo_transpose", mat)
    perm = tuple(operator.index(p) for p in permutation)
    if sorted(perm) != list(range(mat.ndim)):
        raise TypeError(
            f"bcoo_transpose: permutation must be one of {mat.ndim} axes, got {tuple(permutation)}"
        )
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = perm[:n], perm[n:end], perm[end:]
    if sorted(batch) != list(range(n)) or sorted(sparse) != list(range(n, end)):
        raise NotImplementedError(
            f"bcoo_transpose: permutation {perm} mixes batch, sparse and dense axes of a BCOO with "
            f"n_batch={n} and n_dense={mat.n_dense}; update_layout first"
        )
    indices = mat.indices[..., np.array([p - n for p in sparse], int)]
    indices = indices.transpose(*batch, n, n + 1)
    data = mat.data.transpose(*batch, n, *(p - mat.n_sparse + 1 for p in dense))
    return BCOO(
        (data, indices),
        shape=tuple(mat.shape[p] for p in perm),
        indices_sorted=mat.indices_sorted and list(sparse) == sorted(sparse),
        unique_indices=mat.unique_indices,
    )


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """Return the same array with other numbers of batch and dense dimensions.

    More of them store a zero for each element that is not there: on_inefficient, 'error', 'warn'
    or None, says what happens then.

    Raises ValueError for dimensions that the array has not, SparseEfficiencyError, a ValueError,
    for an inefficient layout.
    """
    expect("bcoo_update_layout", mat)
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(
            "bcoo_update_layout: on_inefficient must be 'error', 'warn' or None, got "
            f"{on_inefficient!r}"
        )
    if min(n_batch, n_dense) < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"bcoo_update_layout: n_batch and n_dense must not be negative and fit rank {mat.ndim},"
            f" got {n_batch} and {n_dense}"
        )
    new = [
        *mat.shape[mat.n_batch : n_batch],
        *mat.shape[mat.ndim - n_dense : mat.ndim - mat.n_dense],
    ]
    if any(s > 1 for s in new) and on_inefficient:
        text = (
            f"bcoo_update_layout: n_batch={n_batch} and n_dense={n_dense} store the dimensions "
            f"{new} of shape {mat.shape} with all their zeros; on_inefficient=None allows it"
        )
        if on_inefficient == "error":
            raise SparseEfficiencyError(text)
        warnings.warn(text, SparseEfficiencyWarning, stacklevel=2)
    mat = _fewer(mat, min(n_batch, mat.n_batch), min(n_dense, mat.n_dense))
    return _more(mat, n_batch, n_dense)


def _fewer(mat: BCOO, n_batch: int, n_dense: int) -> BCOO:
    """Turn the last batch dimensions and the first dense ones into sparse ones."""
    batches, denses = mat.n_batch - n_batch, mat.n_dense - n_dense
    if not batches and not denses:
        return mat
    rows = mat.shape[n_batch : mat.n_batch]
    cols = mat.shape[mat.n_batch + mat.n_sparse : mat.ndim - n_dense]
    dtype = mat.indices.dtype
    full = lambda x, lead: wnp.broadcast_to(x, (*lead, *x.shape[batches:]))

    def spread(data: Array, indices: Array) -> tuple:
        data, indices = full(data, rows), full(indices, rows)
        grid = (*rows, mat.nse, *cols)
        iota = lambda d: lax.broadcasted_iota(dtype, grid, d)
        columns = [iota(d) for d in range(batches)]
        ones = (1,) * len(cols)
        for i in range(mat.n_sparse):
            column = indices[..., i].reshape(*rows, mat.nse, *ones)
            columns.append(wnp.broadcast_to(column, grid))
        columns += [iota(batches + 1 + d) for d in range(denses)]
        new = wnp.stack([c.reshape(-1) for c in columns], 1)
        return data.reshape(-1, *data.shape[len(grid) :]), new

    bufs = over_batches(spread, n_batch, mat.data, mat.indices)
    return BCOO(bufs, shape=mat.shape, unique_indices=mat.unique_indices)


def _more(mat: BCOO, n_batch: int, n_dense: int) -> BCOO:
    """Turn the first sparse dimensions into batches and the last ones into dense ones."""
    batches, denses = n_batch - mat.n_batch, n_dense - mat.n_dense
    if not batches and not denses:
        return mat
    kept = mat.n_sparse - batches - denses
    rows = mat.shape[mat.n_batch : n_batch]
    cols = mat.shape[mat.ndim - n_dense : mat.ndim - mat.n_dense]

    def widen(data: Any, indices: Any) -> tuple:
        nse = indices.shape[0]
        at = indices.T
        places = (*at[:batches], wnp.arange(nse), *at[batches + kept :])
        zeros = wnp.zeros((*rows, nse, *cols, *data.shape[1:]), data.dtype)
        new = indices[:, batches : batches + kept]
        return zeros.at[places].set(data, mode="drop"), wnp.broadcast_to(
            new.reshape((1,) * batches + new.shape), (*rows, *new.shape)
        )

    bufs = over_batches(widen, mat.n_batch, mat.data, mat.indices)
    return BCOO(bufs, shape=mat.shape)
