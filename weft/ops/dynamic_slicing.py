# Tests: tests/ops/test_slicing.py
"""Windows at indices that may be traced: dynamic_slice, dynamic_update_slice and their forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import canonical_axis, static_ints
from weft.autodiff.shape import broadcast_in_dim, expand_dims, moveaxis, squeeze
from weft.autodiff.transpose import ct_aval_of
from weft.autodiff.vmap import move_dim
from weft.autodiff.zeros import instantiate_zero, zeros_like
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError
from weft.core.primitive import Primitive
from weft.core.state import state
from weft.core.trace import EVAL, typeof
from weft.core.undefined import is_undefined
from weft.ops.elementwise_api import add_p, convert, lt_p, select_n_p
from weft.ops.gather import GatherDimensionNumbers, GatherScatterMode, gather
from weft.ops.joining import concatenate
from weft.ops.scatter import ScatterDimensionNumbers, scatter
from weft.ops.slicing import index_in_dim, slice_p

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


# Start indices ---------------------------------------------------------------------------------


def tracing_only() -> bool:
    """Return whether no op runs now: with static indices a static slice is then the leaner program.

    While ops do run, indices are operands, so that one compilation serves all their values.
    """
    trace = state.trace
    while trace is not EVAL:
        trace = getattr(trace, "parent", None)
        if trace is None:
            return True
    return False


def start_operands(
    name: str, shape: Shape, sizes: Shape, starts: Sequence, wrap: bool | Sequence[bool]
) -> tuple[list[Any], bool]:
    """Start indices as scalars of one integer dtype, and whether all are static.

    `wrap`: negative indices count from the end. Static ones are clamped here.
    """
    if not isinstance(starts, tuple | list):
        aval = typeof(starts)
        if aval.ndim != 1:
            raise ArgumentError(
                f"{name}: start_indices must be a sequence of scalars or an array of rank 1, got "
                f"{aval.str_short()}"
            )
        starts = [index_in_dim(starts, i, 0, keepdims=False) for i in range(aval.shape[0])]
    if len(starts) != len(shape):
        raise ArgumentError(
            f"{name}: got {len(starts)} start_indices for an operand of rank {len(shape)}; give "
            "one for each dimension"
        )
    wraps = [wrap] * len(shape) if isinstance(wrap, bool) else wrap
    result: list[Any] = []
    dtype = None
    static = True
    for i, dim, size, neg in zip(starts, shape, sizes, wraps, strict=True):
        # Known starts are wrapped and clamped now.
        if isinstance(i, int | np.integer) and not isinstance(i, bool):
            i = int(i)
            if i < 0 and neg:
                i += dim
            result.append(min(max(i, 0), max(dim - size, 0)))
            if result[-1] != i and state.report_index is not None:
                state.report_index(i, len(result) - 1, tuple(shape))
            continue
        aval = typeof(i)
        if aval.ndim or not dtypes.is_integer(aval.dtype):
            raise TypeError(
                f"{name}: each start index must be an integer scalar, got {aval.str_short()}"
            )
        if dim == size:  # the only place where it fits
            result.append(0)
            continue
        static = False
        # Sums with sizes must not overflow in the index's own dtype.
        if aval.dtype.itemsize < 4:
            i = _convert(i, dtypes.int32)
            aval = typeof(i)
        if dtype is None or aval.dtype == dtype:
            dtype = aval.dtype
        else:
            dtype = dtypes.int64 if 8 in (aval.dtype.itemsize, dtype.itemsize) else dtypes.int32
        result.append(_wrap_negative(i, dim) if neg and aval.dtype.kind == "i" else i)
    if static:
        return [np.int32(i) if i < 2**31 else np.int64(i) for i in result], True
    assert dtype is not None
    return [dtype.type(i) if isinstance(i, int) else _convert(i, dtype) for i in result], False


def _convert(x: object, dtype: object) -> Any:
    return x if typeof(x).dtype == dtype else convert(x, dtype)


def _wrap_negative(i: ArrayLike, size: int) -> Any:
    kind = typeof(i).dtype.type
    return select_n_p.bind(lt_p.bind(i, kind(0)), i, add_p.bind(i, kind(size)))


# dynamic_slice ---------------------------------------------------------------------------------


def _check_starts(name: str, x: ShapedArray, sizes: Shape, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim or len(sizes) != x.ndim:
        raise TypeError(
            f"{name}: {len(starts)} start indices and window {sizes} for {x.str_short()}; give one "
            "of each for every dimension"
        )
    for d, (size, window) in enumerate(zip(x.shape, sizes, strict=True)):
        if not 0 <= window <= size:
            raise TypeError(
                f"{name}: the window's size {window} in dimension {d} does not fit {x.str_short()}"
            )
    if any(s.ndim or not dtypes.is_integer(s.dtype) or s.dtype != starts[0].dtype for s in starts):
        listing = ", ".join(s.str_short() for s in starts)
        raise TypeError(f"{name}: start indices must be integer scalars of one type, got {listing}")


def _dynamic_slice_abstract(
    x: ShapedArray, *starts: ShapedArray, slice_sizes: Shape
) -> ShapedArray:
    _check_starts("dynamic_slice", x, slice_sizes, starts)
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _dynamic_slice_transpose(ct: object, x: Any, *starts: object, slice_sizes: Shape) -> list:
    zeros = instantiate_zero(ct_aval_of(x))
    return [dynamic_update_slice_p.bind(zeros, ct, *starts), *[None] * len(starts)]


def _dynamic_slice_batch(axis: AxisData, args: list, dims: list, *, slice_sizes: Shape) -> tuple:
    (x, *starts), (dim, *start_dims) = args, dims
    if all(d is None for d in start_dims):
        zero = typeof(starts[0]).dtype.type(0) if starts else np.int32(0)
        starts.insert(dim, zero)
        sizes = (*slice_sizes[:dim], axis.size, *slice_sizes[dim:])
        return dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), dim
    moved, indices = stack_starts(axis, starts, start_dims, slice_sizes, typeof(x).shape, dim)
    rank = len(slice_sizes)
    offset_dims = tuple(range(1, rank + 1))
    if dim is None:
        dnums = GatherDimensionNumbers(offset_dims, (), moved)
        sizes = slice_sizes
    else:
        x = moveaxis(x, dim, 0)
        dnums = GatherDimensionNumbers(offset_dims, (), tuple(d + 1 for d in moved), (0,), (0,))
        sizes = (min(1, axis.size), *slice_sizes)
    out = gather(x, indices, dnums, sizes, mode=GatherScatterMode.CLIP)
    return out, 0


def stack_starts(
    axis: AxisData, starts: list, dims: list, sizes: Shape, shape: Shape, dim: int | None
) -> tuple[Shape, Any]:
    """Batched start indices as one (batch, k) array, for the k dimensions in which windows move."""
    example = shape if dim is None else shape[:dim] + shape[dim + 1 :]
    moved = tuple(d for d in range(len(sizes)) if sizes[d] != example[d])
    columns = []
    for d in moved:
        s, sdim = starts[d], dims[d]
        columns.append(broadcast_in_dim(s, (axis.size, 1), () if sdim is None else (0,)))
    if not columns:
        return (), broadcast_in_dim(np.int32(0), (axis.size, 0), ())
    return moved, concatenate(columns, 1)


def _dynamic_slice_lower(
    ctx: RuleContext, x: ir.Value, *starts: ir.Value, slice_sizes: Shape
) -> Any:
    # XLA clamps starts too, but not where it joins nested slices: quirks.NESTED_SLICES.
    bounds = zip(ctx.avals_in[0].shape, slice_sizes, strict=True)
    within = [
        _clamped(ctx, start, aval.dtype, n - size)
        for start, aval, (n, size) in zip(starts, ctx.avals_in[1:], bounds, strict=True)
    ]
    attrs = {"slice_sizes": ctx.i64s(slice_sizes)}
    return ctx.op("stablehlo.dynamic_slice", [x, *within], ctx.out_types(), attrs)[0]


def _clamped(ctx: RuleContext, start: ir.Value, dtype: np.dtype, last: int) -> Any:
    """Return a start between 0 and the last one for which the slice lies in the array."""
    if last == 0:
        return ctx.constant(np.zeros((), dtype))
    if last >= np.iinfo(dtype).max and np.iinfo(dtype).min == 0:
        return start
    last = min(last, np.iinfo(dtype).max)
    low, high = (ctx.constant(np.array(v, dtype)) for v in (0, last))
    return ctx.op("stablehlo.clamp", [low, start, high], [start.type])[0]


dynamic_slice_p = Primitive(
    "dynamic_slice",
    abstract=_dynamic_slice_abstract,
    jvp="linear",
    transpose=_dynamic_slice_transpose,
    batch=_dynamic_slice_batch,
    lower=_dynamic_slice_lower,
    sharding="dynamic_slice",
    structural=True,
    linear=(0,),
)


def dynamic_slice(
    operand: ArrayLike,
    start_indices: Any,
    slice_sizes: int | Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """Return a window of static size at an index that may be traced.

    Args:
      operand: an array. start_indices: one integer scalar for each dimension (or an array of
      them); clamped so that the window lies inside. slice_sizes: static ints.
      allow_negative_indices: whether negative indices count from the end (per dimension or for
      all); without it they clamp to 0.

    Source: StableHLO specification, `dynamic_slice`.

    >>> import weft
    >>> weft.lax.dynamic_slice(weft.numpy.arange(5), (3,), (2,))
    Array([3, 4], dtype=int32)
    """
    shape = typeof(operand).shape
    if isinstance(slice_sizes, int):
        slice_sizes = (slice_sizes,)
    sizes = static_ints("dynamic_slice", "slice_sizes", slice_sizes)
    if len(sizes) != len(shape):
        raise ArgumentError(
            f"dynamic_slice: slice_sizes {sizes} must have one entry for each dimension of "
            f"{typeof(operand).str_short()}"
        )
    starts, static = start_operands(
        "dynamic_slice", shape, sizes, start_indices, allow_negative_indices
    )
    if static and _fits(sizes, shape) and tracing_only():
        begin = tuple([int(s) for s in starts])
        limits = tuple([b + n for b, n in zip(begin, sizes, strict=True)])
        return slice_p.bind(operand, start_indices=begin, limit_indices=limits, strides=None)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)


def _fits(sizes: Shape, shape: Shape) -> bool:
    return all(0 <= n <= d for n, d in zip(sizes, shape, strict=True))


def _at_axis(rank: int, axis: int, index: object) -> list:
    starts: list[Any] = [0] * rank
    starts[axis] = index
    return starts


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_slice` along one dimension.

    >>> import weft
    >>> weft.lax.dynamic_slice_in_dim(weft.numpy.arange(5), 1, 3)
    Array([1, 2, 3], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = canonical_axis(axis, len(shape))
    sizes = list(shape)
    sizes[axis] = slice_size
    return dynamic_slice(
        operand,
        _at_axis(len(shape), axis, start_index),
        sizes,
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """Return one position along a dimension; the index may be traced and is clamped.

    >>> import weft
    >>> weft.lax.dynamic_index_in_dim(weft.numpy.arange(5), 2, keepdims=False)
    Array(2, dtype=int32)
    """
    axis = canonical_axis(axis, typeof(operand).ndim)
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return out if keepdims else squeeze(out, (axis,))


# dynamic_update_slice --------------------------------------------------------------------------


def _update_abstract(x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    if x.dtype != update.dtype or x.ndim != update.ndim:
        raise TypeError(
            f"dynamic_update_slice: the update {update.str_short()} must have the dtype and rank "
            f"of the operand {x.str_short()}"
        )
    _check_starts("dynamic_update_slice", x, update.shape, starts)
    return ShapedArray(x.shape, x.dtype, x.weak_type)


def _update_transpose(ct: object, x: Any, update: Any, *starts: object) -> list:
    ct_x = ct_update = None
    aval = update.aval if is_undefined(update) else typeof(update)
    if is_undefined(x):
        hole = dynamic_slice_p.bind(ct, *starts, slice_sizes=aval.shape)
        ct_x = dynamic_update_slice_p.bind(ct, zeros_like(hole), *starts)
    if is_undefined(update):
        ct_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=aval.shape)
    return [ct_x, ct_update, *[None] * len(starts)]


def _update_batch(axis: AxisData, args: list, dims: list) -> tuple:
    (x, update, *starts), (xd, ud, *start_dims) = args, dims
    x = move_dim(x, xd, 0, axis)
    update = move_dim(update, ud, 0, axis)
    if all(d is None for d in start_dims):
        zero = typeof(starts[0]).dtype.type(0) if starts else np.int32(0)
        return dynamic_update_slice_p.bind(x, update, zero, *starts), 0
    sizes = typeof(update).shape[1:]
    moved, indices = stack_starts(axis, starts, start_dims, sizes, typeof(x).shape, 0)
    dnums = ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, len(sizes) + 1)),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=tuple(d + 1 for d in moved),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    )
    out = scatter(
        x,
        indices,
        update,
        dnums,
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
    )
    return out, 0


def _update_lower(ctx: RuleContext, x: ir.Value, update: ir.Value, *starts: ir.Value) -> Any:
    return ctx.op("stablehlo.dynamic_update_slice", [x, update, *starts], ctx.out_types())[0]


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    abstract=_update_abstract,
    jvp="linear",
    transpose=_update_transpose,
    batch=_update_batch,
    lower=_update_lower,
    sharding="dynamic_update_slice",
    structural=True,
    linear=(0, 1),
)


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """Return the operand with the window at `start_indices` replaced by `update`.

    Args:
      operand, update: arrays of one dtype and rank; update fits into operand.
      start_indices: one integer scalar for each dimension; clamped so that the window lies inside.
      allow_negative_indices: whether negative indices count from the end.

    Source: StableHLO specification, `dynamic_update_slice`.

    >>> import weft
    >>> weft.lax.dynamic_update_slice(weft.numpy.zeros(4), weft.numpy.ones(2), (1,))
    Array([0., 1., 1., 0.], dtype=float32)
    """
    aval = typeof(operand)
    if update.__class__ in _SCALARS:
        update = aval.dtype.type(update)
    window = typeof(update)
    if window.ndim != aval.ndim:
        raise ArgumentError(
            f"dynamic_update_slice: the update {window.str_short()} must have the rank of the "
            f"operand {aval.str_short()}"
        )
    starts, _ = start_operands(
        "dynamic_update_slice", aval.shape, window.shape, start_indices, allow_negative_indices
    )
    return dynamic_update_slice_p.bind(operand, update, *starts)


_SCALARS = frozenset((bool, int, float, complex))


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_update_slice` along one dimension.

    >>> import weft
    >>> x = weft.numpy.zeros(4)
    >>> weft.lax.dynamic_update_slice_in_dim(x, weft.numpy.ones(2), 2, axis=0)
    Array([0., 0., 1., 1.], dtype=float32)
    """
    rank = typeof(operand).ndim
    axis = canonical_axis(axis, rank)
    return dynamic_update_slice(
        operand,
        update,
        _at_axis(rank, axis, start_index),
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """Replace one position along a dimension; `update` has that dimension with size 1 or lacks it.

    >>> import weft
    >>> weft.lax.dynamic_update_index_in_dim(weft.numpy.zeros(3), 1.0, 1, axis=0)
    Array([0., 1., 0.], dtype=float32)
    """
    aval = typeof(operand)
    axis = canonical_axis(axis, aval.ndim)
    if update.__class__ in _SCALARS:
        update = aval.dtype.type(update)
    if typeof(update).ndim != aval.ndim:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Any:
    """Take positions along several dimensions, one index array for each, all of one 1-D shape.

    The result has the indices' dimension first, then the operand's other dimensions. Negative
    indices count from the end, others are clamped.

    >>> from weft import lax, numpy as wnp
    >>> lax.index_take(wnp.array([[1, 2], [3, 4]]), (wnp.array([1, 0]),), (0,))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    aval = typeof(src)
    axes = tuple(canonical_axis(a, aval.ndim) for a in axes)
    if len(idxs) != len(axes):
        raise ValueError(f"index_take: {len(idxs)} index arrays were given for {len(axes)} axes")
    columns = [
        expand_dims(_wrap_negative(i, aval.shape[a]), (1,)) for i, a in zip(idxs, axes, strict=True)
    ]
    rest = [d for d in range(aval.ndim) if d not in axes]
    dnums = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(rest) + 1)),
        collapsed_slice_dims=tuple(sorted(axes)),
        start_index_map=axes,
    )
    sizes = tuple(1 if d in axes else n for d, n in enumerate(aval.shape))
    return gather(src, concatenate(columns, 1), dnums, sizes, mode=GatherScatterMode.CLIP)
