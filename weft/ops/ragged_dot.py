"""Products of groups of rows of different sizes, and products of block-scaled operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import broadcast_in_dim, broadcasted_iota, moveaxis, reshape, transpose
from weft.core import dtypes
from weft.core.trace import typeof
from weft.ops.cumulative import cumsum
from weft.ops.dot import DotDimensionNumbers, dot_general
from weft.ops.dynamic_slicing import dynamic_slice_in_dim
from weft.ops.elementwise_api import bitwise_and, convert, ge, lt, mul, select, sub
from weft.sharding.explicit import placed

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Which dimensions `ragged_dot_general` contracts, batches and groups.

    dot_dimension_numbers: as `dot_general`'s. lhs_ragged_dimensions: the one dimension of lhs that
    groups divide. rhs_group_dimensions: the one that numbers groups in rhs, or none.
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: object,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: object = None,
    out_sharding: object = None,
) -> Any:
    """Multiply each group of rows of lhs by its own matrix of rhs.

    lhs `[m, k]`: rows, those of group 0 first. rhs `[g, k, n]`: a matrix for each group.
    group_sizes: integers `[g]`. Rows after the last group give zeros. group_offset: `[1]`, the
    first group that rhs has a matrix for; rows of the groups before give zeros, too.

    >>> import weft, numpy as np
    >>> x, w = np.ones((3, 2), "float32"), np.stack([np.eye(2), 2 * np.eye(2)]).astype("float32")
    >>> weft.lax.ragged_dot(x, w, np.array([1, 2]))
    Array([[1., 1.],
           [2., 2.],
           [2., 2.]], dtype=float32)
    """
    if typeof(lhs).ndim != 2 or typeof(rhs).ndim != 3:
        raise TypeError(
            f"ragged_dot takes lhs [m, k] and rhs [g, k, n], got {typeof(lhs).str_short()} and "
            f"{typeof(rhs).str_short()}; see ragged_dot_general"
        )
    return ragged_dot_general(
        *(lhs, rhs, group_sizes, ROWS, precision, preferred_element_type),
        group_offset=group_offset,
        out_sharding=out_sharding,
    )


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`dot_general` where groups of sizes known only at run time divide a dimension of lhs.

    The ragged dimension may be one that stays: rhs then has a group dimension, and each group of
    rows meets its own part of rhs. If it is contracted, the result gets a leading dimension, one
    product for each group. If it is a batch dimension, groups change nothing.

    group_sizes: integers `[g]`, or `[..., g]` with a leading dimension for each batch dimension and
    for each dimension of the ragged one's kind before it.

    Each group's part of lhs is masked out and all groups go through one `dot_general`.

    Source: Gale et al., "MegaBlocks" (2023); XLA, `RaggedDot`.

    >>> from weft import lax, numpy as wnp
    >>> lengths = wnp.array([1, 2])
    >>> how = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
    >>> lax.ragged_dot_general(wnp.ones((3, 2)), wnp.ones((2, 2, 4)), lengths, how).shape
    (3, 4)
    """
    if out_sharding is not None:
        rest = (ragged_dot_dimension_numbers, precision, preferred_element_type, group_offset)
        run = lambda x, y, sizes: ragged_dot_general(x, y, sizes, *rest)
        return placed(run, out_sharding, lhs, rhs, group_sizes)
    ((lc, rc), (lb, rb)), ragged, group = _numbers(ragged_dot_dimension_numbers, lhs, rhs)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    if ragged in lb:
        return dot_general(lhs, rhs, ((lc, rc), (lb, rb)), **options)
    a = typeof(lhs)
    alike = lc if ragged in lc else [d for d in range(a.ndim) if d not in (*lc, *lb)]
    outer = [*lb, *(d for d in alike if d < ragged)]
    count = None if group is None else typeof(rhs).shape[group]
    mask = _mask(lhs, group_sizes, ragged, outer, count, group_offset)
    shape = (typeof(mask).shape[0], *a.shape)
    spread = lambda x: broadcast_in_dim(x, shape, tuple(range(1, 1 + a.ndim)))
    masked = select(mask, spread(lhs), broadcast_in_dim(a.dtype.type(0), shape, ()))
    lc, lb = (tuple(d + 1 for d in dims) for dims in (lc, lb))
    if group is None:
        out = dot_general(masked, rhs, ((lc, rc), (lb, rb)), **options)
        return moveaxis(out, len(lb), 0)
    return dot_general(masked, rhs, (((0, *lc), (group, *rc)), (lb, rb)), **options)


def _numbers(numbers: RaggedDotDimensionNumbers, lhs: ArrayLike, rhs: ArrayLike) -> tuple:
    """Return the dimension numbers, the ragged dimension, the group dimension (or None)."""
    (contract, batch), ragged, group = (
        numbers.dot_dimension_numbers,
        tuple(numbers.lhs_ragged_dimensions),
        tuple(numbers.rhs_group_dimensions),
    )
    if len(ragged) != 1:
        raise TypeError(
            f"ragged_dot_general: lhs_ragged_dimensions must name one dimension, got {ragged}"
        )
    ranks = typeof(lhs).ndim, typeof(rhs).ndim
    (lc, rc), (lb, rb) = (
        tuple(
            tuple(canonical_axis(d, n) for d in dims) for dims, n in zip(pair, ranks, strict=True)
        )
        for pair in (contract, batch)
    )
    d = canonical_axis(ragged[0], ranks[0], "lhs_ragged_dimensions:")
    stays = d not in (*lc, *lb)
    if len(group) != stays:
        raise TypeError(
            "ragged_dot_general: rhs_group_dimensions must name "
            + ("one dimension" if stays else "none")
            + f", since dimension {d} of lhs is "
            + ("neither contracted nor batched" if stays else "contracted or batched")
            + f"; got {group}"
        )
    return (
        ((lc, rc), (lb, rb)),
        d,
        canonical_axis(group[0], ranks[1], "rhs_group_dimensions:") if stays else None,
    )


def _mask(
    lhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged: int,
    outer: list,
    count: int | None,
    offset: np.ndarray | None,
) -> Any:
    """Return where an element of lhs belongs to a group: `[groups, *lhs.shape]`."""
    aval, sizes = typeof(lhs), typeof(group_sizes)
    if not dtypes.is_integer(sizes.dtype):
        raise TypeError(f"ragged_dot: group_sizes must be integers, got {sizes.str_short()}")
    lead = tuple(aval.shape[d] for d in outer)
    if sizes.ndim == 1:
        outer, lead = [], ()
    if sizes.ndim != 1 + len(lead) or sizes.shape[:-1] != lead:
        raise TypeError(
            f"ragged_dot: group_sizes must have shape [groups] or {(*lead, 'groups')}, got "
            f"{sizes.str_short()}"
        )
    ends = cumsum(group_sizes, len(lead))
    starts = sub(ends, group_sizes)
    if offset is not None:
        if count is None:
            raise TypeError("ragged_dot_general: group_offset needs a group dimension of rhs")
        first = reshape(offset, ())
        starts, ends = (dynamic_slice_in_dim(x, first, count, len(lead)) for x in (starts, ends))
    groups = typeof(ends).shape[-1]
    if count not in (None, groups):
        raise TypeError(f"ragged_dot: group_sizes has {groups} groups, rhs has {count}")
    shape = (groups, *aval.shape)
    # Dimensions of the sizes [*outer, groups] in those of the mask, which must be in order.
    places = [*(d + 1 for d in outer), 0]
    order = sorted(range(len(places)), key=lambda i: places[i])
    spread = lambda x: broadcast_in_dim(transpose(x, order), shape, tuple(places[i] for i in order))
    position = broadcasted_iota(sizes.dtype, shape, ragged + 1)
    return bitwise_and(ge(position, spread(starts)), lt(position, spread(ends)))


def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """`dot_general` of lhs * lhs_scale and rhs * rhs_scale, whose scales hold for blocks.

    lhs, rhs: low-precision arrays. lhs_scale, rhs_scale: of the same rank; each size divides the
    operand's, and one number scales a block. dimension_numbers: by default those of a matrix
    product, of matrices or of batches of matrices. preferred_element_type: what is computed in,
    bfloat16 by default.

    >>> import weft, numpy as np
    >>> x = np.ones((2, 4), "float32")
    >>> weft.lax.scaled_dot(x, x.T, lhs_scale=np.full((2, 2), 3.0, "float32")).tolist()
    [[12.0, 12.0], [12.0, 12.0]]
    """
    ndim = typeof(lhs).ndim
    if dimension_numbers is None:
        if ndim not in (2, 3) or typeof(rhs).ndim != ndim:
            raise TypeError(
                "scaled_dot: without dimension_numbers, lhs and rhs must both have 2 or 3 "
                f"dimensions, got {typeof(lhs).str_short()} and {typeof(rhs).str_short()}"
            )
        batch = tuple(range(ndim - 2))
        dimension_numbers = (((ndim - 1,), (ndim - 2,)), (batch, batch))
    dtype = dtypes.bfloat16
    if preferred_element_type is not None:
        dtype = dtypes.canonicalize_dtype(preferred_element_type)
    x = _scaled("lhs", lhs, lhs_scale, dtype)
    y = _scaled("rhs", rhs, rhs_scale, dtype)
    return dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _scaled(name: str, x: ArrayLike, scale: np.ndarray | None, dtype: np.dtype) -> Any:
    x = convert(x, dtype)
    if scale is None:
        return x
    shape, blocks = typeof(x).shape, typeof(scale).shape
    fits = len(shape) == len(blocks) and all(
        n and d % n == 0 for d, n in zip(shape, blocks, strict=True)
    )
    if not fits:
        raise TypeError(
            f"scaled_dot: {name}_scale has shape {blocks}; it must have the rank of {name} and "
            f"sizes that divide those of its shape {shape}"
        )
    split = [s for d, n in zip(shape, blocks, strict=True) for s in (n, d // n)]
    wide = broadcast_in_dim(convert(scale, dtype), split, tuple(range(0, 2 * len(shape), 2)))
    return mul(x, reshape(wide, shape))
