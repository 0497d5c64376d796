"""Products of BCOO arrays: dot_general, sampled products, products element by element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.errors import ArgumentError
from weft.sparse.arrays import BCOO
from weft.sparse.bcoo import (
    bcoo_sum_duplicates,
    bcoo_todense,
    bcoo_update_layout,
    duplicates,
    expect,
    over_batches,
    split_shape,
    without_padding,
)

if TYPE_CHECKING:
    from weft.runtime.array import Array

Dims = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def _normal(dimension_numbers: Any) -> Dims:
    as_tuple = lambda d: (int(d),) if isinstance(d, int) else tuple(map(int, d))
    (lc, rc), (lb, rb) = dimension_numbers
    return (as_tuple(lc), as_tuple(rc)), (as_tuple(lb), as_tuple(rb))


def _result(lhs: object, rhs: object, dims: Dims, preferred: Any) -> Any:
    """Return the type of the dense product; raises where the shapes do not fit."""
    struct = lambda x: weft.ShapeDtypeStruct(x.shape, x.dtype)
    dot = functools.partial(
        lax.dot_general, dimension_numbers=dims, preferred_element_type=preferred
    )
    return weft.eval_shape(dot, struct(lhs), struct(rhs))


def _rest(ndim: int, *taken: Sequence[int]) -> list[int]:
    gone = {d for dims in taken for d in dims}
    return [d for d in range(ndim) if d not in gone]


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: object = None,
) -> Any:
    """Contract two arrays of which at least one is a BCOO; see `weft.lax.dot_general`.

    The result is dense if one of them is, else a BCOO. Batch dimensions of the product must be
    batch dimensions of a sparse operand.

    Raises TypeError for shapes and dtypes that do not fit, NotImplementedError for a product that
    sparse operands do not have.
    """
    dims = _normal(dimension_numbers)
    options = {"dims": dims, "preferred": preferred_element_type}
    sparse = isinstance(lhs, BCOO), isinstance(rhs, BCOO)
    if not sparse[0]:
        lhs = wnp.asarray(lhs)
    if not sparse[1]:
        rhs = wnp.asarray(rhs)
    if not any(sparse):
        return lax.dot_general(
            lhs, rhs, dims, precision=precision, preferred_element_type=preferred_element_type
        )
    out = _result(lhs, rhs, dims, preferred_element_type)
    for side, x, contracting, batch in zip(sparse, (lhs, rhs), *dims, strict=True):
        if side and any(d >= x.n_batch for d in batch):
            raise NotImplementedError(
                f"bcoo_dot_general: batch dimensions {batch} must be among the {x.n_batch} batch "
                "dimensions of the sparse operand; bcoo_update_layout makes more of them"
            )
        if all(sparse) and (x.n_dense or any(d < x.n_batch for d in contracting)):
            raise NotImplementedError(
                "bcoo_dot_general: two sparse operands are contracted over sparse dimensions and "
                "have no dense ones; bcoo_update_layout changes them"
            )
    if all(sparse):
        return _sparse_sparse(lhs, rhs, dims=dims, shape=out.shape, dtype=out.dtype)
    if sparse[0]:
        return _sparse_dense(lhs, rhs, **options)
    swapped = {**options, "dims": tuple(d[::-1] for d in dims)}
    product = _sparse_dense(rhs, lhs, **swapped)
    n, rhs_start = len(dims[1][0]), rhs.ndim - len(dims[0][0])
    return product.transpose(*range(n), *range(rhs_start, product.ndim), *range(n, rhs_start))


@functools.partial(weft.jit, static_argnames=("dims", "preferred"))
def _sparse_dense(lhs: BCOO, rhs: Any, *, dims: Dims, preferred: Any) -> Any:
    """Multiply each stored element by the rows of rhs that it meets, and add up the results."""
    out = _result(lhs, rhs, dims, preferred)
    (lc, rc), (lb, rb) = dims
    n, n_sparse = lhs.n_batch, lhs.n_sparse
    _, sparse, _ = split_shape(lhs)
    pair = dict(zip(lc, rc, strict=True))
    summed = [d for d in sorted(lc) if d < n]
    met = [d for d in sorted(lc) if n <= d < n + n_sparse]
    inner = [d for d in sorted(lc) if d >= n + n_sparse]
    free = _rest(n, lb, summed)
    lead = [*lb, *free, *summed]
    data = lhs.data.transpose(*lead, *range(n, lhs.data.ndim))
    indices = lhs.indices.transpose(*lead, n, n + 1)
    kept = [d for d in range(n_sparse) if d + n not in met]
    order = [*rb, *(pair[d] for d in (*summed, *met, *inner)), *_rest(rhs.ndim, rb, rc)]
    rhs = wnp.expand_dims(rhs.transpose(*order), tuple(range(len(lb), len(lb) + len(free))))
    contracted = [d - n - n_sparse for d in inner]

    def multiply(data: Any, indices: Any, rhs: Any) -> Any:
        columns = [indices[:, i] for i in range(n_sparse)]
        if met:
            rhs = rhs.at[tuple(columns[d - n] for d in met)].get(mode="fill", fill_value=0)
        same = ((0,), (0,)) if met else ((), ())  # the stored elements
        over = [1 + d for d in contracted], [len(same[0]) + i for i in range(len(contracted))]
        dot = functools.partial(lax.dot_general, preferred_element_type=preferred)
        if met and not kept:  # the sum over the elements is part of the contraction
            return dot(data, rhs, (([0, *over[0]], [0, *over[1]]), ((), ())))
        product = dot(data, rhs, (over, same))
        if not kept:
            return product.sum(0, dtype=product.dtype)
        zeros = wnp.zeros((*(sparse[d] for d in kept), *product.shape[1:]), product.dtype)
        return zeros.at[tuple(columns[d] for d in kept)].add(product, mode="drop")

    product = over_batches(multiply, n, data, indices, rhs)
    if summed:
        product = product.sum(tuple(range(len(lb) + len(free), n)), dtype=product.dtype)
    return product if product.shape == out.shape else wnp.broadcast_to(product, out.shape)


@functools.partial(weft.jit, static_argnames=("dims", "shape", "dtype"))
def _sparse_sparse(lhs: BCOO, rhs: BCOO, *, dims: Dims, shape: tuple, dtype: Any) -> BCOO:
    (lc, rc), (lb, rb) = dims
    nl, nr = lhs.n_batch, rhs.n_batch
    left = [d for d in range(lhs.n_sparse) if d + nl not in lc]
    right = [d for d in range(rhs.n_sparse) if d + nr not in rc]
    lfree, rfree = _rest(nl, lb), _rest(nr, rb)
    if rfree and left:
        raise ArgumentError(
            "bcoo_dot_general: a rhs with batch dimensions of its own meets a lhs with sparse ones "
            "of its own; bcoo_update_layout changes them"
        )
    n_out = nl + nr - len(lb)
    sparse = shape[n_out:]
    nse = (lhs.nse if left else 1) * (rhs.nse if right else 1)
    nse = min(nse, math.prod(sparse))
    lhs, rhs = without_padding(lhs), without_padding(rhs)
    lead = [*lb, *lfree], [*rb, *rfree]
    bufs = [x.transpose(*lead[0], *range(nl, x.ndim)) for x in lhs._bufs]
    bufs += [x.transpose(*lead[1], *range(nr, x.ndim)) for x in rhs._bufs]
    spread = len(lb), len(lb) + len(lfree)
    bufs = [wnp.expand_dims(b, tuple(range(spread[1], n_out))) for b in bufs[:2]] + [
        wnp.expand_dims(b, tuple(range(*spread))) for b in bufs[2:]
    ]
    lhs_dims, rhs_dims = ([d - n for d in c] for c, n in ((lc, nl), (rc, nr)))
    sizes = (split_shape(lhs)[1], split_shape(rhs)[1])

    def multiply(ld: Any, li: Any, rd: Any, ri: Any) -> tuple:
        if math.prod(sizes[1]) <= lhs.nse * rhs.nse and math.prod(sparse) <= nse:
            # Dense is smaller than the list of pairs.
            dense = bcoo_todense(BCOO((rd, ri), shape=sizes[1]))
            inner = BCOO((ld, li), shape=sizes[0])
            numbers = ((tuple(lhs_dims), tuple(rhs_dims)), ((), ()))
            out = _sparse_dense(inner, dense, dims=numbers, preferred=dtype)
            grid = np.indices(sparse).reshape(len(sparse), nse).T
            return out.reshape(nse).astype(dtype), wnp.asarray(grid.astype(li.dtype))
        pairs = (lhs.nse, rhs.nse)
        meet = (li[:, None, np.array(lhs_dims, int)] == ri[None, :, np.array(rhs_dims, int)]).all(
            -1
        )
        data = wnp.where(meet, ld[:, None] * rd[None], 0).astype(dtype)
        columns = [wnp.broadcast_to(li[:, None, d], pairs) for d in left]
        columns += [wnp.broadcast_to(ri[None, :, d], pairs) for d in right]
        # Only pairs that meet have a place, so that no other takes one away from them.
        columns = [
            wnp.where(meet, c, np.array(s, c.dtype)) for c, s in zip(columns, sparse, strict=True)
        ]
        if not columns:
            return data.sum()[None], wnp.zeros((1, 0), li.dtype)
        indices = wnp.stack([c.reshape(-1) for c in columns], 1)
        summed = bcoo_sum_duplicates(BCOO((data.reshape(-1), indices), shape=sparse), nse=nse)
        return summed._bufs

    data, indices = over_batches(multiply, n_out, *bufs)
    return BCOO((data, indices), shape=shape)


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: object) -> Array:
    """Return elements of the dense product of A and B, computing no others.

    indices: [*batch, nse, n_sparse], of the product's dimensions after the batch dimensions; the
    result is the data of a BCOO with these indices, [*batch, nse, *dense].

    Raises TypeError for shapes that do not fit, ValueError for indices that the product has not.
    """
    A, B, indices = wnp.asarray(A), wnp.asarray(B), wnp.asarray(indices)
    dims = _normal(dimension_numbers)
    out = _result(A, B, dims, None)
    n_batch, (nse, n_sparse) = indices.ndim - 2, indices.shape[-2:]
    if n_batch < 0 or n_batch + n_sparse > len(out.shape):
        raise ValueError(
            f"bcoo_dot_general_sampled: indices of shape {indices.shape} do not fit a product of "
            f"shape {out.shape}: they must be [*batch, nse, n_sparse]"
        )
    (ac, bc), (ab, bb) = dims
    # Each dimension of the product is one of A, of B, or of both.
    sources: list = [*zip(ab, bb, strict=True)]
    sources += [(d, None) for d in _rest(A.ndim, ab, ac)]
    sources += [(None, d) for d in _rest(B.ndim, bb, bc)]
    groups = (sources[:n_batch], sources[n_batch : n_batch + n_sparse])
    dense = sources[n_batch + n_sparse :]

    def arranged(x: Any, side: int, contracting: Sequence[int]) -> Any:
        """Batch dimensions first, 1 where x has none, then sparse, then contracted, then dense."""
        of_group = [[s[side] for s in g if s[side] is not None] for g in (*groups, dense)]
        x = x.transpose(*of_group[0], *of_group[1], *contracting, *of_group[2])
        absent = tuple(i for i, s in enumerate(groups[0]) if s[side] is None)
        return wnp.expand_dims(x, absent)

    def sample(a: object, b: Any, indices: Any) -> Any:
        columns = [indices[:, i] for i in range(n_sparse)]
        parts, lead = [a, b], [0, 0]
        for side in (0, 1):
            at = [i for i, s in enumerate(groups[1]) if s[side] is not None]
            if at:
                index = tuple(columns[i] for i in at)
                parts[side] = parts[side].at[index].get(mode="fill", fill_value=0)
                lead[side] = 1
        # Products are of gathered rows, batched over elements where both sides have any.
        n, both = len(ac), [s for s in dense if None not in s]
        of_group = [[s for s in dense if s[side] is not None] for side in (0, 1)]
        shared = [[lead[k] + n + of_group[k].index(s) for s in both] for k in (0, 1)]
        over = [[lead[k] + i for i in range(n)] for k in (0, 1)]
        first = [[0], [0]] if all(lead) else [[], []]
        product = lax.dot_general(
            parts[0],
            parts[1],
            ((over[0], over[1]), ([*first[0], *shared[0]], [*first[1], *shared[1]])),
        )
        if not any(lead):
            return wnp.broadcast_to(product, (nse, *product.shape))
        if all(lead):
            return product
        before = len(both) + (0 if lead[0] else len(of_group[0]) - len(both))
        return wnp.moveaxis(product, before, 0)

    data = over_batches(sample, n_batch, arranged(A, 0, ac), arranged(B, 1, bc), indices)
    shape = (*out.shape[:n_batch], nse, *out.shape[n_batch + n_sparse :])
    return wnp.broadcast_to(data, shape)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> BCOO:
    """Multiply a BCOO by a dense array that broadcasts to its shape, element by element.

    Raises TypeError for what is no BCOO, ValueError for a dense array of a larger shape.
    """
    expect("bcoo_multiply_dense", sp_mat, argument="sp_mat")
    return with_dense(wnp.multiply, sp_mat, wnp.asarray(v))


def with_dense(op: Callable, sp_mat: BCOO, v: Any) -> BCOO:
    """Return a BCOO whose elements are op(its elements, those of a dense array at their places)."""
    shape = sp_mat.shape
    try:
        fits = np.broadcast_shapes(shape, v.shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"a dense array of shape {v.shape} must broadcast to the sparse one's shape, {shape}"
        )
    v = v.reshape((1,) * (len(shape) - v.ndim) + v.shape)
    _, sparse, _ = split_shape(sp_mat)
    n = sp_mat.n_batch
    wide = [i for i, s in enumerate(sparse) if v.shape[n + i] == s != 1]

    def multiply(data: object, indices: Any, v: Any) -> Any:
        v = v.reshape(tuple(v.shape[i] for i in wide) + v.shape[len(sparse) :])
        if wide:
            at = tuple(indices[:, i] for i in wide)
            v = v.at[at].get(mode="fill", fill_value=1)
        return op(data, v)

    data = over_batches(multiply, n, sp_mat.data, sp_mat.indices, v)
    return BCOO.tree_unflatten(sp_mat._info, (data, sp_mat.indices))


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """Multiply two BCOO arrays element by element; one may broadcast to the other's shape.

    Raises TypeError for what is no BCOO, ValueError for shapes that do not fit.
    """
    expect("bcoo_multiply_sparse", lhs, argument="lhs")
    expect("bcoo_multiply_sparse", rhs, argument="rhs")
    if lhs.ndim != rhs.ndim:
        raise NotImplementedError(
            f"bcoo_multiply_sparse: lhs and rhs must have one rank, got shapes {lhs.shape} and "
            f"{rhs.shape}; bcoo_broadcast_in_dim adds dimensions"
        )
    try:
        shape = np.broadcast_shapes(lhs.shape, rhs.shape)
    except ValueError:
        shape = ()
    if shape not in (lhs.shape, rhs.shape):
        raise ValueError(
            f"bcoo_multiply_sparse: one of the shapes {lhs.shape} and {rhs.shape} must broadcast "
            "to the other"
        )
    layout = [min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)]
    lhs, rhs = (bcoo_update_layout(m, n_batch=layout[0], n_dense=layout[1]) for m in (lhs, rhs))
    if lhs.shape != shape or (rhs.shape == shape and rhs.nse < lhs.nse):
        lhs, rhs = rhs, lhs
    lhs, rhs = without_padding(lhs), without_padding(rhs)
    _, sparse, _ = split_shape(rhs)
    once = np.array([s == 1 for s in sparse], bool)

    def multiply(ld: Any, li: Any, rd: Any, ri: Any) -> Any:
        # Elements of equal indices get one number, by which those of rhs are added up.
        dtype = wnp.promote_types(li.dtype, ri.dtype)
        li, ri = li.astype(dtype), ri.astype(dtype)
        both = wnp.concatenate([wnp.where(once, wnp.minimum(li, 0), li), ri])
        position = duplicates(both, sparse)[1]
        sums = wnp.zeros((both.shape[0], *rd.shape[1:]), rd.dtype)
        sums = sums.at[position[li.shape[0] :]].add(rd)
        return ld * sums[position[: li.shape[0]]]

    data = over_batches(multiply, layout[0], *lhs._bufs, *rhs._bufs)
    return BCOO((data, lhs.indices), shape=shape, unique_indices=lhs.unique_indices)
