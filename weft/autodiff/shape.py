"""Ops that give elements another shape or order: broadcast, reshape, transpose, iota."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import canonical_axes, canonical_axis, linear_unary, static_ints
from weft.core import dtypes, provided
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError, ShapeError
from weft.core.primitive import Primitive
from weft.core.trace import typeof

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike, DTypeLike

Shape = tuple[int, ...]


def check_shape(shape: Any, label: str = "shape") -> Shape:
    """Return a shape as a tuple of nonnegative Python ints."""
    if isinstance(shape, Sequence | np.ndarray):
        shape = (shape,) if getattr(shape, "ndim", 1) == 0 else shape
    elif hasattr(shape, "__iter__") and getattr(shape, "ndim", None) != 0:
        shape = tuple(shape)  # an array of sizes, or a library's class of shapes
    else:
        shape = (shape,)
    result = []
    for d in shape:
        try:
            d = d.__index__()
        except AttributeError:
            raise ArgumentError(
                f"{label} must consist of integers, got {d!r} of type {type(d).__name__}"
            ) from None
        if d < 0:
            raise ArgumentError(f"{label} {tuple(shape)} has a negative dimension")
        result.append(d)
    return tuple(result)


# broadcast_in_dim -----------------------------------------------------------------------------


def _check_broadcast(x: ShapedArray, shape: Shape, broadcast_dimensions: Shape) -> None:
    if len(broadcast_dimensions) != x.ndim:
        raise TypeError(
            f"broadcast_in_dim: broadcast_dimensions {broadcast_dimensions} must name a result "
            f"dimension for each of the operand's {x.ndim} dimensions ({x.str_short()})"
        )
    for i, d in enumerate(broadcast_dimensions):
        if not 0 <= d < len(shape) or x.shape[i] not in (1, shape[d]):
            raise ArgumentError(
                f"broadcast_in_dim: operand dimension {i} of size {x.shape[i]} ({x.str_short()}) "
                f"cannot become dimension {d} of the shape {shape}; it must be 1 or equal"
            )
    if len(set(broadcast_dimensions)) < len(broadcast_dimensions):
        raise TypeError(
            f"broadcast_in_dim: broadcast_dimensions {broadcast_dimensions} name a dimension twice"
        )


def _broadcast_abstract(x: ShapedArray, *, shape: Shape, broadcast_dimensions: Shape) -> Any:
    _check_broadcast(x, shape, broadcast_dimensions)
    if list(broadcast_dimensions) != sorted(broadcast_dimensions):
        raise TypeError(
            f"broadcast_in_dim: broadcast_dimensions {broadcast_dimensions} must increase; "
            "weft.lax.broadcast_in_dim transposes the operand where they do not"
        )
    return ShapedArray(shape, x.dtype, x.weak_type)


def _broadcast_transpose(
    ct: ArrayLike, aval: ShapedArray, *, shape: Shape, broadcast_dimensions: Shape
) -> Any:
    kept = {d for i, d in enumerate(broadcast_dimensions) if aval.shape[i] == shape[d]}
    summed = tuple(d for d in range(len(shape)) if d not in kept)
    ct = provided.reduce_sum(ct, summed) if summed else ct
    return reshape(ct, aval.shape) if typeof(ct).shape != aval.shape else ct


def _broadcast_batch(
    axis: AxisData, x: ArrayLike, dim: int, *, shape: Shape, broadcast_dimensions: Shape
) -> tuple[Any, int]:
    x = moveaxis(x, dim, 0)
    dims = (0, *(d + 1 for d in broadcast_dimensions))
    return broadcast_in_dim_p.bind(x, shape=(axis.size, *shape), broadcast_dimensions=dims), 0


def _broadcast_lower(
    ctx: RuleContext, x: ir.Value, *, shape: Shape, broadcast_dimensions: Shape
) -> Any:
    splat = ctx.splat_of(0, shape)
    if splat is not None:
        return splat
    attrs = {"broadcast_dimensions": ctx.i64s(broadcast_dimensions)}
    if shape[-1:] == ctx.avals_in[0].shape[-1:] != shape:  # rows of neighbors, repeated
        return ctx.moves("stablehlo.broadcast_in_dim", [x], attrs)
    return ctx.op("stablehlo.broadcast_in_dim", [x], ctx.out_types(), attrs)[0]


broadcast_in_dim_p = linear_unary(
    "broadcast_in_dim",
    abstract=_broadcast_abstract,
    transpose=_broadcast_transpose,
    batch=_broadcast_batch,
    lower=_broadcast_lower,
    sharding="broadcast_in_dim",
    structural=True,
)


def broadcast_in_dim(
    operand: ArrayLike,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: object = None,
) -> Any:
    """Place the operand's dimensions at `broadcast_dimensions` of `shape` and repeat it.

    Dimensions that do not increase are transposed first.

    Source: StableHLO specification, `broadcast_in_dim`.

    >>> import weft
    >>> weft.lax.broadcast_in_dim(weft.numpy.arange(2), (2, 3), (0,))
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    shape = check_shape(shape)
    on_host = isinstance(operand, np.generic | int | float | complex)
    dims = static_ints("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    if list(dims) != sorted(dims):
        _check_broadcast(typeof(operand), shape, dims)
        operand = transpose(operand, sorted(range(len(dims)), key=dims.__getitem__))
        dims = tuple(sorted(dims))
    same = dims == tuple(range(len(shape))) and typeof(operand).shape == shape
    if same and out_sharding is None and not on_host:
        return operand
    return bind_placed(
        broadcast_in_dim_p, out_sharding, operand, shape=shape, broadcast_dimensions=dims
    )


def bind_placed(
    prim: Primitive, out_sharding: object, *operands: ArrayLike, **params: object
) -> Any:
    """`prim` with a result of the given sharding, whatever the operands' shardings are."""
    if out_sharding is None:
        return prim.bind(*operands, **params)
    from weft.sharding.explicit import placed

    return placed(lambda *xs: prim.bind(*xs, **params), out_sharding, *operands)


def _place(x: object, out_sharding: object) -> Any:
    """Return a result that no explicit type was needed for, placed as asked."""
    if out_sharding is None:
        return x
    from weft.sharding.explicit import reshard

    return reshard(x, out_sharding)


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: object = None) -> Any:
    """Repeat the operand along new leading dimensions of the given sizes.

    >>> import weft
    >>> weft.lax.broadcast(weft.numpy.ones(3), (2,)).shape
    (2, 3)
    """
    sizes = check_shape(sizes, "sizes")
    aval = typeof(operand)
    dims = tuple(range(len(sizes), len(sizes) + aval.ndim))
    return broadcast_in_dim(operand, sizes + aval.shape, dims, out_sharding=out_sharding)


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """Return the shape to which NumPy's rules broadcast the given shapes.

    >>> import weft
    >>> weft.lax.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    if len(shapes) == 1 and isinstance(shapes[0], int):
        return shapes[0]  # type: ignore[return-value]  # one shape is given back, as JAX does
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for i in range(rank):
        size = 1
        for s in shapes:
            j = i - rank + len(s)
            if j >= 0 and s[j] != 1:
                if size not in (1, s[j]):
                    raise ShapeError(
                        "Incompatible shapes for broadcasting: "
                        f"{', '.join(map(str, map(tuple, shapes)))}; dimension {i - rank} has "
                        f"sizes {size} and {s[j]}"
                    )
                size = s[j]
        result.append(size)
    return tuple(result)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Any:
    """Leading size-1 dimensions up to the rank.

    >>> from weft import lax, numpy as wnp
    >>> lax.broadcast_to_rank(wnp.ones((2, 3)), rank=4).shape
    (1, 1, 2, 3)
    """
    aval = typeof(x)
    return x if aval.ndim == rank else reshape(x, (1,) * (rank - aval.ndim) + aval.shape)


def broadcast_to_dim(x: ArrayLike, dim: int, size: int) -> Any:
    """Repeat x along a new dimension at `dim`."""
    aval = typeof(x)
    if not isinstance(aval, ShapedArray):
        return aval.broadcast_to_dim(x, dim, size) if hasattr(aval, "broadcast_to_dim") else x
    shape = (*aval.shape[:dim], size, *aval.shape[dim:])
    dims = tuple(i for i in range(aval.ndim + 1) if i != dim)
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims)


# reshape, squeeze, expand_dims ----------------------------------------------------------------


def _reshape_abstract(x: ShapedArray, *, new_sizes: Shape) -> ShapedArray:
    if math.prod(new_sizes) != x.size:
        raise ShapeError(
            f"reshape: cannot reshape {x.str_short()} of {x.size} elements to {new_sizes}, "
            f"which has {math.prod(new_sizes)}"
        )
    return ShapedArray(new_sizes, x.dtype, x.weak_type)


def _reshape_batch(axis: AxisData, x: ArrayLike, dim: int, *, new_sizes: Shape) -> tuple[Any, int]:
    return reshape_p.bind(moveaxis(x, dim, 0), new_sizes=(axis.size, *new_sizes)), 0


reshape_p = linear_unary(
    "reshape",
    abstract=_reshape_abstract,
    transpose=lambda ct, aval, *, new_sizes: reshape(ct, aval.shape),
    batch=_reshape_batch,
    lower=lambda ctx, x, *, new_sizes: ctx.op("stablehlo.reshape", [x], ctx.out_types())[0],
    sharding="reshape",
    structural=True,
)
reshape_p.hlo = "stablehlo.reshape"


def reshape(
    operand: Any,
    new_sizes: int | Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Return the same elements in row-major order with another shape; one size may be -1.

    Source: StableHLO specification, `reshape`.

    >>> import weft
    >>> weft.lax.reshape(weft.numpy.arange(4), (2, 2))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    aval = typeof(operand)
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    if isinstance(new_sizes, int | np.integer):
        new_sizes = (new_sizes,)
    sizes = tuple([d if d.__class__ is int else operator.index(d) for d in new_sizes])
    if -1 in sizes:
        rest = math.prod(d for d in sizes if d != -1)
        if sizes.count(-1) > 1 or rest == 0 or aval.size % rest:
            twice = sizes.count(-1) > 1
            why = "at most one size may be -1" if twice else "the others do not divide its size"
            raise TypeError(
                f"reshape: cannot infer the -1 in {sizes} for {aval.str_short()}: {why}"
            )
        sizes = tuple(aval.size // rest if d == -1 else d for d in sizes)
    sizes = check_shape(sizes, "new_sizes")
    if sizes == aval.shape and dimensions is None and out_sharding is None:
        return operand
    return bind_placed(reshape_p, out_sharding, operand, new_sizes=sizes)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Any:
    """Drop size-1 dimensions.

    >>> from weft import lax, numpy as wnp
    >>> lax.squeeze(wnp.ones((1, 3, 1)), (0, 2)).shape
    (3,)
    """
    aval = typeof(array)
    dims = canonical_axes(dimensions, aval.ndim, "dimensions")
    for d in dims:
        if aval.shape[d] != 1:
            raise ValueError(
                f"squeeze: dimension {d} of {aval.str_short()} has size {aval.shape[d]}; only "
                "size-1 dimensions can be dropped"
            )
    if not dims:
        return array
    return reshape(array, tuple(s for i, s in enumerate(aval.shape) if i not in dims))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Any:
    """Add size-1 dimensions at these positions of the result.

    >>> import weft
    >>> weft.lax.expand_dims(weft.numpy.ones(3), (0,)).shape
    (1, 3)
    """
    aval = typeof(array)
    rank = aval.ndim + len(tuple(dimensions))
    dims = canonical_axes(tuple(dimensions), rank, "dimensions")
    old = iter(aval.shape)
    return reshape(array, tuple(1 if i in dims else next(old) for i in range(rank)))


# transpose ------------------------------------------------------------------------------------


def _transpose_abstract(x: ShapedArray, *, permutation: Shape) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            f"transpose: permutation {permutation} is not a permutation of the {x.ndim} "
            f"dimensions of {x.str_short()}"
        )
    return ShapedArray(tuple(x.shape[i] for i in permutation), x.dtype, x.weak_type)


def _inverse(permutation: Shape) -> Shape:
    inverse = [0] * len(permutation)
    for i, p in enumerate(permutation):
        inverse[p] = i
    return tuple(inverse)


def _transpose_batch(axis: object, x: object, dim: int, *, permutation: Shape) -> tuple[Any, int]:
    moved = tuple(p + (p >= dim) for p in permutation)
    return transpose_p.bind(x, permutation=(dim, *moved)), 0


transpose_p = linear_unary(
    "transpose",
    abstract=_transpose_abstract,
    transpose=lambda ct, aval, *, permutation: transpose(ct, _inverse(permutation)),
    batch=_transpose_batch,
    lower=lambda ctx, x, *, permutation: ctx.op(
        "stablehlo.transpose", [x], ctx.out_types(), {"permutation": ctx.i64s(permutation)}
    )[0],
    sharding="transpose",
    structural=True,
)


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Any:
    """Permute dimensions: result dimension i is operand dimension permutation[i].

    >>> from weft import lax, numpy as wnp
    >>> lax.transpose(wnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    permutation = static_ints("transpose", "permutation", permutation)
    if permutation == tuple(range(typeof(operand).ndim)) and not isinstance(operand, np.ndarray):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def moveaxis(x: ArrayLike, source: int, target: int) -> Any:
    """Move one dimension; tokens and refs move their own way."""
    aval = typeof(x)
    if not isinstance(aval, ShapedArray):
        return aval.moveaxis(x, source, target) if hasattr(aval, "moveaxis") else x
    if source == target:
        return x
    order = [i for i in range(aval.ndim) if i != source]
    order.insert(target, source)
    return transpose_p.bind(x, permutation=tuple(order))


# iota -----------------------------------------------------------------------------------------


iota_p = Primitive(
    "iota",
    abstract=lambda *, dtype, shape, dimension: ShapedArray(shape, dtype),
    batch=lambda axis, args, dims, **params: (iota_p.bind(**params), None),
    lower=lambda ctx, *, dtype, shape, dimension: ctx.op(
        "stablehlo.iota", [], ctx.out_types(), {"iota_dimension": ctx.i64(dimension)}
    )[0],
    sharding="replicated",
)


def broadcasted_iota(
    dtype: DTypeLike | None, shape: Sequence[int], dimension: int, *, out_sharding: object = None
) -> Any:
    """0, 1, 2, … along one dimension, repeated along the others.

    >>> import weft
    >>> weft.lax.broadcasted_iota("int32", (2, 2), 1)
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    shape = check_shape(shape)
    dimension = canonical_axis(dimension, len(shape), "dimension")
    if dtype is None:
        raise ArgumentError("iota needs a dtype, such as 'int32', got None")
    dtype = dtypes.canonicalize_dtype(dtype)
    return bind_placed(iota_p, out_sharding, dtype=dtype, shape=shape, dimension=dimension)


def iota(dtype: DTypeLike | None, size: int) -> Any:
    """0, 1, …, size - 1.

    >>> import weft
    >>> weft.lax.iota("int32", 4)
    Array([0, 1, 2, 3], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)
