"""Contiguous and strided windows at static bounds: slice and its forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.op_families import canonical_axis, linear_unary, static_ints
from weft.autodiff.shape import squeeze
from weft.core.aval import ShapedArray
from weft.core.errors import BadIndexError
from weft.core.trace import typeof

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


def _slice_abstract(
    x: ShapedArray, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> ShapedArray:
    steps = strides or (1,) * x.ndim
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        raise TypeError(
            f"slice: start_indices {start_indices}, limit_indices {limit_indices} and strides "
            f"{strides} must have one entry for each of the {x.ndim} dimensions of {x.str_short()}"
        )
    shape = []
    for d, (size, start, limit, step) in enumerate(
        zip(x.shape, start_indices, limit_indices, steps, strict=True)
    ):
        if not 0 <= start <= limit <= size or step < 1:
            raise TypeError(
                f"slice: dimension {d} of {x.str_short()} needs 0 <= start <= limit <= {size} and "
                f"stride >= 1, got start {start}, limit {limit}, stride {step}"
            )
        shape.append(-(-(limit - start) // step))
    return ShapedArray(tuple(shape), x.dtype, x.weak_type)


def _slice_transpose(
    ct: ArrayLike,
    aval: ShapedArray,
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> Any:
    from weft.ops.joining import pad

    config = []
    for size, n, start, step in zip(
        aval.shape, typeof(ct).shape, start_indices, strides or (1,) * aval.ndim, strict=True
    ):
        taken = (n - 1) * step + 1 if n else 0
        config.append((start, size - start - taken, step - 1))
    return pad(ct, 0, config)


def _slice_batch(
    axis: AxisData,
    x: ArrayLike,
    dim: int,
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> tuple[Any, int]:
    def insert(values: Shape, value: int) -> Shape:
        return (*values[:dim], value, *values[dim:])

    out = slice_p.bind(
        x,
        start_indices=insert(start_indices, 0),
        limit_indices=insert(limit_indices, axis.size),
        strides=None if strides is None else insert(strides, 1),
    )
    return out, dim


def _slice_lower(
    ctx: RuleContext,
    x: ir.Value,
    *,
    start_indices: Shape,
    limit_indices: Shape,
    strides: Shape | None,
) -> Any:
    attrs = {
        "start_indices": ctx.i64s(start_indices),
        "limit_indices": ctx.i64s(limit_indices),
        "strides": ctx.i64s(strides or (1,) * len(start_indices)),
    }
    return ctx.op("stablehlo.slice", [x], ctx.out_types(), attrs)[0]


slice_p = linear_unary(
    "slice",
    abstract=_slice_abstract,
    transpose=_slice_transpose,
    batch=_slice_batch,
    lower=_slice_lower,
    sharding="slice",
    structural=True,
)


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """Slice from `start_indices` up to, excluding, `limit_indices`, in steps of `strides`.

    Bounds are static ints in [0, size] with start <= limit; anything else raises TypeError.

    Source: StableHLO specification, `slice`.

    >>> import weft
    >>> weft.lax.slice(weft.numpy.arange(10), (2,), (8,), (2,))
    Array([2, 4, 6], dtype=int32)
    """
    steps = None if strides is None else static_ints("slice", "strides", strides)
    if steps is not None and all(s == 1 for s in steps):
        steps = None
    return slice_p.bind(
        operand,
        start_indices=static_ints("slice", "start_indices", start_indices),
        limit_indices=static_ints("slice", "limit_indices", limit_indices),
        strides=steps,
    )


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """`slice` along one dimension; None and negative bounds mean what they do in Python.

    >>> import weft
    >>> weft.lax.slice_in_dim(weft.numpy.arange(5), 1, -1)
    Array([1, 2, 3], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = canonical_axis(axis, len(shape))
    size = shape[axis]
    start = 0 if start_index is None else start_index.__index__()
    limit = size if limit_index is None else limit_index.__index__()
    starts, limits = [0] * len(shape), list(shape)
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    strides = None
    if stride != 1:
        strides = [1] * len(shape)
        strides[axis] = stride.__index__()
    return slice_p.bind(
        operand,
        start_indices=tuple(starts),
        limit_indices=tuple(limits),
        strides=None if strides is None else tuple(strides),
    )


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """Take one position along a dimension, which stays with size 1 unless keepdims is False.

    >>> import weft
    >>> weft.lax.index_in_dim(weft.numpy.arange(6).reshape(2, 3), 1)
    Array([[3, 4, 5]], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = canonical_axis(axis, len(shape))
    index, size = index.__index__(), shape[axis]
    if not -size <= index < size:
        raise BadIndexError(
            f"index_in_dim: index {index} is out of bounds for axis {axis} of size {size}"
        )
    index %= size
    out = slice_in_dim(operand, index, index + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))
