"""Operations that move the elements of BCOO arrays about, and sums over axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax
from weft.core import dtypes
from weft.sparse.arrays import BCOO
from weft.sparse.bcoo import (
    bcoo_sum_duplicates,
    bcoo_update_layout,
    expect,
    flat_index,
    in_bounds,
    split_shape,
    with_nse,
    without_padding,
)


def _spread_batches(mat: BCOO, dims: Sequence[int]) -> BCOO:
    """Return the same array; its data and indices have full size in these batch dimensions."""
    full = lambda x: wnp.broadcast_to(
        x, [mat.shape[d] if d in dims else s for d, s in enumerate(x.shape)]
    )
    return BCOO.tree_unflatten(mat._info, [full(x) for x in mat._bufs])


def _limited(mat: BCOO) -> BCOO:
    """Return the same array, storing no more elements than there are places."""
    most = math.prod(split_shape(mat)[1])
    return bcoo_sum_duplicates(mat, nse=most) if mat.nse > most else mat


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: object = None
) -> BCOO:
    """Return the array with new dimensions; `weft.lax.broadcast_in_dim` of a BCOO.

    New dimensions before the sparse ones are batches, behind them dense if the array has dense
    dimensions. Sparse dimensions that grow store each element as often.

    Raises ValueError for dimensions that do not fit.
    """
    expect("bcoo_broadcast_in_dim", mat)
    shape, to = tuple(shape), tuple(broadcast_dimensions)
    fits = len(to) == mat.ndim and all(
        0 <= d < len(shape) and s in (1, shape[d]) for d, s in zip(to, mat.shape, strict=True)
    )
    if not fits or list(to) != sorted(set(to)):
        raise ValueError(
            f"bcoo_broadcast_in_dim: broadcast_dimensions {to} must place each dimension of shape "
            f"{mat.shape} in shape {shape}, in order"
        )
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    n_batch = min(to[n:], default=len(shape))
    n_dense = len(shape) - min(to[end:]) if mat.n_dense else 0
    sparse = shape[n_batch : len(shape) - n_dense]
    old = split_shape(mat)[1]
    dense = [1 + d - len(sparse) for d in to[end:]]
    # New batch dimensions are not stored: all batches are alike.
    size_of = lambda x: [x.shape[to.index(d)] if d in to else 1 for d in range(n_batch)]
    data = lax.broadcast_in_dim(
        mat.data,
        (*size_of(mat.data), mat.nse, *shape[len(shape) - n_dense :]),
        (*to[:n], n_batch, *dense),
    )
    rows = lax.broadcast_in_dim(
        mat.indices,
        (*size_of(mat.indices), mat.nse, mat.n_sparse),
        (*to[:n], n_batch, n_batch + 1),
    )
    places = [d - n_batch for d in to[n:end]]
    zeros = wnp.zeros((*rows.shape[:-1], len(sparse)), rows.dtype)
    indices = zeros.at[..., np.array(places, int)].set(rows) if places else zeros
    if math.prod(sparse) != math.prod(old):
        # Dimensions that grow have each element at every index.
        old_size = {p: s for p, s in zip(places, old, strict=True)}
        grown = [s if old_size.get(i, 1) == 1 else 1 for i, s in enumerate(sparse)]
        grid = np.indices(grown).reshape(len(grown), -1).T.astype(rows.dtype)
        inside = in_bounds(rows, old)[..., None, None]
        spread = wnp.where(inside, indices[..., None, :] + grid, np.array(sparse, rows.dtype))
        indices = spread.reshape(*rows.shape[:-2], -1, len(sparse)).astype(rows.dtype)
        data = wnp.repeat(data, len(grid), n_batch)
    return BCOO((data, indices), shape=shape, unique_indices=mat.unique_indices)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Join BCOO arrays along a batch or sparse dimension.

    Raises TypeError for what are no BCOO, ValueError for shapes or layouts that differ.
    """
    operands = list(operands)
    if not operands:
        raise ValueError("bcoo_concatenate: operands must have at least one array")
    for i, op in enumerate(operands):
        expect("bcoo_concatenate", op, argument=f"operands[{i}]")
    first, dimension = operands[0], operator.index(dimension)
    structs = [weft.ShapeDtypeStruct(op.shape, op.dtype) for op in operands]
    shape = weft.eval_shape(lambda *xs: lax.concatenate(xs, dimension), *structs).shape
    if len({op.n_dense for op in operands}) > 1:
        raise ValueError("bcoo_concatenate: operands must have one n_dense; update_layout first")
    if len({op.n_batch for op in operands}) > 1:
        # Batches of one example, as of x[None], become what the others have.
        least = min(op.n_batch for op in operands)
        most = max(op.n_batch for op in operands)
        single = all(op.shape[least:most] == (1,) * (most - least) for op in operands)
        wanted = most if single and dimension < most else least
        if not single and dimension < most:
            raise ValueError(
                "bcoo_concatenate: operands must have one n_batch; update_layout first"
            )
        operands = [bcoo_update_layout(op, n_batch=wanted) for op in operands]
        first = operands[0]
    n = first.n_batch
    if dimension >= n + first.n_sparse:
        raise NotImplementedError(
            f"bcoo_concatenate: dimension {dimension} is dense; update_layout with fewer n_dense"
        )
    if dimension < n:
        nse = max(op.nse for op in operands)
        operands = [_spread_batches(with_nse(op, nse), range(n)) for op in operands]
        pairs = zip(*(op._bufs for op in operands), strict=True)
        return BCOO([wnp.concatenate(p, dimension) for p in pairs], shape=shape)  # type: ignore
    operands = [_spread_batches(without_padding(op), range(n)) for op in operands]
    # Indices along the dimension move on by what is in front; padding stays out of bounds.
    data = wnp.concatenate([op.data for op in operands], n)
    moved, offset = [], 0
    for op in operands:
        limits = np.array(split_shape(op)[1])
        valid = in_bounds(op.indices, limits)[..., None]
        step = np.zeros(op.n_sparse, op.indices.dtype)
        step[dimension - n] = offset
        fill = np.array(shape[n : n + op.n_sparse], op.indices.dtype)
        moved.append(wnp.where(valid, op.indices + step, fill))
        offset += op.shape[dimension]
    return BCOO((data, wnp.concatenate(moved, n)), shape=shape)


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """Return a part of the array; `weft.lax.slice` of a BCOO.

    Raises TypeError or ValueError for indices that do not fit the shape.
    """
    expect("bcoo_slice", mat)
    start, limit = map(tuple, (start_indices, limit_indices))
    step = (1,) * mat.ndim if strides is None else tuple(strides)
    struct = weft.ShapeDtypeStruct(mat.shape, mat.dtype)
    shape = weft.eval_shape(lambda x: lax.slice(x, start, limit, step), struct).shape
    mat = without_padding(mat)
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse

    def part(x: Any, dense: bool) -> Any:
        cuts = [
            slice(None) if x.shape[d] == 1 != mat.shape[d] else slice(start[d], limit[d], step[d])
            for d in range(n)
        ]
        if dense:
            cuts.append(slice(None))
            cuts += [slice(start[d], limit[d], step[d]) for d in range(end, mat.ndim)]
        return x[tuple(cuts)]

    data, indices = part(mat.data, True), part(mat.indices, False)
    size = lambda values: np.array(values[n:end], indices.dtype)
    at = indices - size(start)
    on_grid = (at >= 0) & (indices < size(limit)) & (at % size(step) == 0)
    return _kept(mat, data, at // size(step), on_grid.all(-1), shape)


def _kept(mat: BCOO, data: Any, indices: Any, valid: Any, shape: tuple[int, ...]) -> BCOO:
    """Return elements that are valid, the others as padding."""
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    if not mat.n_sparse:
        return BCOO((data, indices), shape=shape)
    indices = wnp.where(valid[..., None], indices, np.array(shape[n:end], indices.dtype))
    mask = valid.reshape(*valid.shape, *(1,) * mat.n_dense)
    data = wnp.where(mask, data, np.zeros((), data.dtype))
    flags = {"unique_indices": mat.unique_indices}
    return _limited(BCOO((data, indices.astype(mat.indices.dtype)), shape=shape, **flags))


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """Return a part of the array from indices that may be traced; they are clamped.

    Raises TypeError or ValueError for sizes that do not fit the shape.
    """
    expect("bcoo_dynamic_slice", mat)
    sizes = tuple(operator.index(s) for s in slice_sizes)
    starts = [wnp.asarray(s) for s in start_indices]
    if len(starts) != mat.ndim or len(sizes) != mat.ndim:
        raise TypeError(
            f"bcoo_dynamic_slice: start_indices and slice_sizes must have {mat.ndim} entries, got "
            f"{len(starts)} and {len(sizes)}"
        )
    if any(not 0 <= size <= s for size, s in zip(sizes, mat.shape, strict=True)):
        raise TypeError(f"bcoo_dynamic_slice: slice_sizes {sizes} must be within shape {mat.shape}")
    wrap = lambda i, s: wnp.where(i < 0, i + s, i)
    starts = [
        wnp.clip(wrap(i, s), 0, s - size)
        for i, s, size in zip(starts, mat.shape, sizes, strict=True)
    ]
    mat = without_padding(mat)
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse

    def part(x: Any, dense: bool) -> Any:
        for d in range(n):
            if x.shape[d] == mat.shape[d]:
                x = lax.dynamic_slice_in_dim(x, starts[d], sizes[d], axis=d)
        for d in range(end, mat.ndim) if dense else ():
            axis = d - mat.n_sparse + 1
            x = lax.dynamic_slice_in_dim(x, starts[d], sizes[d], axis=axis)
        return x

    data, indices = part(mat.data, True), part(mat.indices, False)
    if mat.n_sparse:
        at = indices - wnp.stack([s.astype(indices.dtype) for s in starts[n:end]])
    else:
        at = indices
    inside = (at >= 0) & (at < np.array(sizes[n:end], at.dtype))
    return _kept(mat, data, at, inside.all(-1), sizes)


def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: object = None,
) -> BCOO:
    """Return the elements in another shape; `weft.lax.reshape` of a BCOO.

    Batch and dense dimensions that the new shape mixes with others become sparse ones.

    Raises TypeError for another number of elements.
    """
    expect("bcoo_reshape", mat)
    sizes = tuple(operator.index(s) for s in new_sizes)
    if math.prod(sizes) != mat.size:
        raise TypeError(
            f"bcoo_reshape: new_sizes {sizes} must have as many elements as shape {mat.shape}"
        )
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        return bcoo_reshape(mat.transpose(tuple(dimensions)), new_sizes=sizes)
    batch, sparse, dense = split_shape(mat)
    last = len(sizes) - mat.n_dense
    # Where the new shape divides as the old one does, batch and sparse parts are reshaped alone.
    ends = [
        i
        for i in range(last + 1 if batch else 1)
        if math.prod(sizes[:i]) == math.prod(batch)
        and math.prod(sizes[i:last]) == math.prod(sparse)
    ]
    n_batch = min(ends, key=lambda i: abs(i - mat.n_batch), default=-1)
    if n_batch < 0 or sizes[last:] != dense:
        # All dimensions that a new one mixes become sparse, which stores no more elements.
        n_batch = 0 if sizes[last:] == dense else mat.n_batch
        n_dense = mat.n_dense if sizes[last:] == dense else 0
        mat = bcoo_update_layout(mat, n_batch=n_batch, n_dense=n_dense)
        return bcoo_reshape(mat, new_sizes=sizes)
    new = sizes[n_batch:last]
    if sizes[:n_batch] != batch:
        mat = _spread_batches(mat, range(mat.n_batch))
    lead = lambda x: x.shape[: mat.n_batch] if sizes[:n_batch] == batch else sizes[:n_batch]
    data = mat.data.reshape(*lead(mat.data), *mat.data.shape[mat.n_batch :])
    indices = mat.indices.reshape(*lead(mat.indices), *mat.indices.shape[mat.n_batch :])
    if new != sparse:
        if math.prod(sparse) > dtypes.iinfo(indices.dtype).max:
            raise ValueError(
                f"bcoo_reshape: the sparse dimensions {sparse} have more elements than indices of "
                f"type {indices.dtype} count; make them int64"
            )
        valid = in_bounds(indices, sparse)[..., None]
        key = flat_index(indices, sparse)
        # The element's number in the old shape, written in the digits of the new one.
        columns = []
        for size in new[::-1]:
            columns.append(key % size if size else key)
            key = key // size if size else key
        stacked = wnp.stack(columns[::-1], -1) if new else indices[..., :0]
        indices = wnp.where(valid, stacked, np.array(new, indices.dtype)).astype(indices.dtype)
    out = BCOO((data, indices), shape=sizes, unique_indices=mat.unique_indices)
    return out if new else bcoo_sum_duplicates(out, nse=1)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """Remove dimensions of size 1.

    Raises ValueError for dimensions of another size.
    """
    expect("bcoo_squeeze", arr, argument="arr")
    gone = sorted({operator.index(d) % max(arr.ndim, 1) for d in dimensions})
    if any(arr.shape[d] != 1 for d in gone):
        raise ValueError(
            f"bcoo_squeeze: dimensions {tuple(dimensions)} of shape {arr.shape} must have size 1"
        )
    arr, n, end = without_padding(arr), arr.n_batch, arr.n_batch + arr.n_sparse
    batches = [d for d in gone if d < n]
    denses = [d - arr.n_sparse + 1 for d in gone if d >= end]
    kept = np.array([d - n for d in range(n, end) if d not in gone], int)
    data = lax.squeeze(arr.data, [*batches, *denses])
    indices = lax.squeeze(arr.indices[..., kept], batches)
    shape = tuple(s for d, s in enumerate(arr.shape) if d not in gone)
    return BCOO((data, indices), shape=shape, unique_indices=arr.unique_indices)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """Reverse the elements along dimensions."""
    expect("bcoo_rev", operand, argument="operand")
    n, end = operand.n_batch, operand.n_batch + operand.n_sparse
    dims = {operator.index(d) for d in dimensions}
    if any(not 0 <= d < operand.ndim for d in dims):
        raise ValueError(f"bcoo_rev: dimensions {tuple(dims)} are out of bounds of {operand.shape}")
    batches = [d for d in dims if d < n]
    denses = [d - operand.n_sparse + 1 for d in dims if d >= end]
    sparse = np.array(split_shape(operand)[1], operand.indices.dtype)
    turned = np.array([n + i in dims for i in range(operand.n_sparse)], bool)
    indices = operand.indices
    flip = turned & in_bounds(indices, sparse)[..., None]
    indices = wnp.where(flip, sparse - 1 - indices, indices).astype(indices.dtype)
    bufs = (lax.rev(operand.data, [*batches, *denses]), lax.rev(indices, batches))
    return BCOO(bufs, shape=operand.shape, unique_indices=operand.unique_indices)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Sum over axes of any kind; elements that meet are stored beside each other.

    Raises ValueError for axes that the array has not.
    """
    expect("bcoo_reduce_sum", mat)
    gone = sorted({operator.index(a) for a in axes})
    if any(not 0 <= a < mat.ndim for a in gone):
        raise ValueError(f"bcoo_reduce_sum: axes {tuple(axes)} are out of bounds of {mat.shape}")
    mat, n, end = without_padding(mat), mat.n_batch, mat.n_batch + mat.n_sparse
    batches = [d for d in gone if d < n]
    mat = _spread_batches(mat, batches)
    denses = tuple(d - mat.n_sparse + 1 for d in gone if d >= end)
    kept = np.array([d - n for d in range(n, end) if d not in gone], int)
    data, indices = mat.data.sum(denses, dtype=mat.dtype), mat.indices[..., kept]
    # The elements of batches that are added up stand one behind the other.
    order = [*(d for d in range(n) if d not in batches), *batches]
    left = n - len(batches)
    nse = math.prod([mat.shape[d] for d in batches]) * mat.nse
    join = lambda x: x.transpose(*order, *range(n, x.ndim)).reshape(
        *(x.shape[d] for d in order[:left]), nse, *x.shape[n + 1 :]
    )
    shape = tuple(s for d, s in enumerate(mat.shape) if d not in gone)
    out = BCOO((join(data), join(indices)), shape=shape)
    return out if len(kept) else bcoo_sum_duplicates(out, nse=1)


def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: object = None,
) -> BCOO:
    """Return one slice of the array; `weft.lax.gather` of a BCOO with one index vector.

    Raises NotImplementedError for several index vectors, and for modes that fill.
    """
    expect("bcoo_gather", operand, argument="operand")
    start_indices = wnp.asarray(start_indices)
    if start_indices.ndim != 1:
        raise NotImplementedError(
            f"bcoo_gather: start_indices must be one index vector, got shape "
            f"{start_indices.shape}; slices of a BCOO are taken one by one, or of its dense form"
        )
    parsed = lax.GatherScatterMode.from_any(mode)
    if parsed is lax.GatherScatterMode.FILL_OR_DROP and fill_value is not None:
        raise NotImplementedError("bcoo_gather: mode must not fill; use 'clip'")
    d = dimension_numbers
    starts: list = [0] * operand.ndim
    for i, axis in enumerate(d.start_index_map):
        starts[axis] = start_indices[i]
    part = bcoo_dynamic_slice(operand, starts, slice_sizes)
    return bcoo_squeeze(part, dimensions=d.collapsed_slice_dims)


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: object = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: object = None,
    preferred_element_type: object = None,
    out_sharding: object = None,
) -> BCOO:
    """Convolve one BCOO with another in one dimension: shapes [1, 1, n], no strides or dilation.

    Raises NotImplementedError for other convolutions.
    """
    ndim = getattr(lhs, "ndim", 0)
    ones = (1,) * max(ndim - 2, 0)
    plain = all(v is None or tuple(v) == ones for v in (lhs_dilation, rhs_dilation, window_strides))
    single = ndim == 3 and tuple(lhs.shape[:2]) == tuple(rhs.shape[:2]) == (1, 1)
    if not (plain and single and feature_group_count == batch_group_count == 1):
        raise NotImplementedError(
            "bcoo_conv_general_dilated: lhs and rhs must have shape [1, 1, n], without strides, "
            f"dilations and groups, got {getattr(lhs, 'shape', lhs)} and "
            f"{getattr(rhs, 'shape', rhs)}; convolve the dense arrays"
        )
    # Both operands as sparse vectors of one dimension.
    line = lambda m: bcoo_squeeze(
        bcoo_update_layout(m, n_batch=0, n_dense=0)
        if isinstance(m, BCOO)
        else BCOO(
            (
                wnp.ravel(m),
                wnp.arange(m.shape[2], dtype=np.int32)[:, None] * np.array([0, 0, 1], np.int32),
            ),
            shape=m.shape,
        ),
        dimensions=(0, 1),
    )
    a, b = without_padding(line(lhs)), without_padding(line(rhs))
    if isinstance(padding, str):
        total = b.shape[0] - 1 if padding.upper().startswith("SAME") else 0
        low = total // 2 if padding.upper() != "SAME_LOWER" else total - total // 2
        padding = [(low, total - low)]
    ((low, high),) = padding
    size = max(0, a.shape[0] + low + high - b.shape[0] + 1)
    data = (a.data[:, None] * b.data[None]).reshape(-1)
    at = a.indices[:, None, 0] + np.array(low, a.indices.dtype) - b.indices[None, :, 0]
    at = at.reshape(-1)
    valid = (at >= 0) & (at < size)
    out = BCOO(
        (wnp.where(valid, data, 0).astype(data.dtype), wnp.where(valid, at, size)[:, None]),
        shape=(size,),
    )
    bufs = (out.data[None, None], out.indices[None, None])
    return BCOO(bufs, shape=(1, 1, size))
