"""Sorting along one dimension, and the k greatest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import batch_in_front, canonical_axis
from weft.autodiff.shape import broadcasted_iota, expand_dims, reshape
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.elementwise_api import neg
from weft.ops.gather import GatherDimensionNumbers, gather

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def take_along(x: ArrayLike, indices: ArrayLike, axis: int) -> Any:
    """x at indices along one dimension; the other dimensions run together, indices in bounds."""
    aval, rank = typeof(x), typeof(x).ndim
    if aval.size == 0:  # and so are the indices
        return reshape(x, typeof(indices).shape)
    others = tuple(d for d in range(rank) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(x, expand_dims(indices, (rank,)), numbers, (1,) * rank, mode="promise_in_bounds")


def _sort_abstract(
    *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int
) -> list[ShapedArray]:
    for i, a in enumerate(avals):
        if a.shape != avals[0].shape:
            raise TypeError(
                f"sort: operands must have one shape; operand {i} is {a.str_short()}, operand 0 "
                f"is {avals[0].str_short()}"
            )
    return list(avals)


def _sort_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple:
    """Move tangents as their primals: an index sorted along says where."""
    dimension = params["dimension"]
    shape = typeof(primals[0]).shape
    iota = broadcasted_iota(dtypes.int32, shape, dimension)
    *outs, indices = sort_p.bind(*primals, iota, **params)
    moved = [None if t is None else take_along(t, indices, dimension) for t in tangents]
    return outs, moved


def _less(
    ctx: RuleContext, x: ir.Value, y: ir.Value, dtype: np.dtype
) -> list[tuple[Any, Any, Any]]:
    """Return the comparisons (x, y, dtype) that order scalars: floats by value, then NaN last."""
    if dtypes.is_complex(dtype):
        part = dtypes.float32 if dtype == dtypes.complex64 else dtypes.float64
        type_ = ctx.tensor((), part)
        pairs = []
        for op in ("stablehlo.real", "stablehlo.imag"):
            a, b = (ctx.op(op, [v], [type_])[0] for v in (x, y))
            pairs += _less(ctx, a, b, part)
        return pairs
    if dtypes.is_float(dtype):
        return [(_ordered(ctx, x, dtype), _ordered(ctx, y, dtype), dtype)]
    return [(x, y, dtype)]


def _ordered(ctx: RuleContext, x: ir.Value, dtype: np.dtype) -> Any:
    """Replace -0.0 by 0.0 and every NaN by one NaN, so that comparing bits orders values."""
    type_ = ctx.tensor((), dtype)
    zero = ctx.splat(0, (), dtype)
    x = ctx.op("stablehlo.select", [ctx.compare(x, zero, "EQ", dtype), zero, x], [type_])[0]
    nan = ctx.splat(np.nan, (), dtype)
    return ctx.op("stablehlo.select", [ctx.compare(x, x, "NE", dtype), nan, x], [type_])[0]


def _sort_lower(
    ctx: RuleContext, *operands: ir.Value, dimension: int, is_stable: bool, num_keys: int
) -> list:
    """XLA:CPU's sort of integers of less than 8 bits corrupts memory: they are sorted as bytes."""
    wide_dtypes = [_held(a.dtype) for a in ctx.avals_in]
    wide = [ctx.tensor(a.shape, dtype) for a, dtype in zip(ctx.avals_in, wide_dtypes, strict=True)]
    narrow = [a.dtype != dtype for a, dtype in zip(ctx.avals_in, wide_dtypes, strict=True)]

    def convert(values: Sequence[Any], types: Any) -> list:
        return [
            ctx.op("stablehlo.convert", [v], [t])[0] if n else v
            for v, t, n in zip(values, types, narrow, strict=True)
        ]

    operation = ctx.operation(
        "stablehlo.sort",
        convert(operands, wide),
        wide,
        {"dimension": ctx.i64(dimension), "is_stable": ctx.bool(is_stable)},
        regions=1,
    )
    bool_type = ctx.tensor((), dtypes.bool_)

    def comparator(*scalars: ir.Value) -> list:
        """Return x < y by the first key in which they differ."""
        pairs = []
        for k in range(num_keys):
            pairs += _less(ctx, scalars[2 * k], scalars[2 * k + 1], wide_dtypes[k])
        # From the last key to the first: less, or equal and less by the keys behind it.
        result = None
        for x, y, dtype in reversed(pairs):
            kind = "TOTALORDER" if dtypes.is_float(dtype) else None
            less = ctx.compare(x, y, "LT", dtype, kind)
            if result is None:
                result = less
            else:
                equal = ctx.compare(x, y, "EQ", dtype, kind)
                both = ctx.op("stablehlo.and", [equal, result], [bool_type])[0]
                result = ctx.op("stablehlo.or", [less, both], [bool_type])[0]
        return [result]

    # The region's arguments come in pairs, one of each operand's two elements.
    types = [ctx.tensor((), dtype) for dtype in wide_dtypes for _ in range(2)]
    ctx.region(operation, 0, types, comparator)
    ctx.mark(operation, "sort", num_keys)
    return convert(operation.results, ctx.out_types())


def _held(dtype: np.dtype) -> Any:
    if dtype.name not in dtypes.int4_names:
        return dtype
    return dtypes.int8 if dtypes.is_signed(dtype) else dtypes.uint8


sort_p = Primitive(
    "sort",
    abstract=_sort_abstract,
    jvp=_sort_jvp,
    batch=batch_in_front(lambda: sort_p, lambda p: {**p, "dimension": p["dimension"] + 1}),
    lower=_sort_lower,
    sharding="sort",
    multiple_results=True,
)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort along a dimension, ascending; NaN last, complex by real then imaginary part.

    Args:
      operand: an array, or a sequence of arrays of one shape, permuted together by the first
        `num_keys` of them, compared lexicographically.

    Source: StableHLO specification, `sort`.

    >>> import weft
    >>> weft.lax.sort((weft.numpy.array([2, 1]), weft.numpy.array([5, 6])))
    (Array([1, 2], dtype=int32), Array([6, 5], dtype=int32))
    """
    many = isinstance(operand, tuple | list)
    leaves = operand if many else (operand,)
    if not leaves:
        raise ArgumentError("sort: needs at least one operand, got none")
    if not 1 <= num_keys <= len(leaves):
        raise ValueError(
            f"sort: num_keys must be between 1 and the number of operands {len(leaves)}, got "
            f"{num_keys}"
        )
    if typeof(leaves[0]).ndim == 0:
        raise ArgumentError(f"sort: operands must have rank 1 at least, got {typeof(leaves[0])}")
    outs = sort_p.bind(
        *leaves,
        dimension=canonical_axis(dimension, typeof(leaves[0]).ndim, "dimension"),
        is_stable=bool(is_stable),
        num_keys=int(num_keys),
    )
    return tuple(outs) if many else outs[0]


def sort_key_val(
    keys: object, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple:
    """Sort keys, and values along with them.

    >>> import weft
    >>> weft.lax.sort_key_val(weft.numpy.array([3, 1]), weft.numpy.array([10, 20]))
    (Array([1, 3], dtype=int32), Array([20, 10], dtype=int32))
    """
    return sort((keys, values), dimension, is_stable, 1)


# top_k ----------------------------------------------------------------------------------------


def _top_abstract(x: ShapedArray, *, k: int, axis: int) -> list[ShapedArray]:
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(
            f"top_k: k must be between 0 and the size {x.shape[axis]} of dimension {axis} of "
            f"{x.str_short()}, got {k}"
        )
    if dtypes.is_complex(x.dtype):
        raise TypeError(f"top_k takes real operands, got {x.str_short()}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, dtypes.int32)]


def _top_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, k: int, axis: int) -> tuple:
    values, indices = top_k_p.bind(primals[0], k=k, axis=axis)
    return [values, indices], [take_along(tangents[0], indices, axis), None]


def _top_batch(axis_data: AxisData, args: list, dims: list, *, k: int, axis: int) -> tuple:
    dim = dims[0]
    return top_k_p.bind(args[0], k=k, axis=axis + (axis >= dim)), [dim, dim]


def _top_lower(ctx: RuleContext, x: object, *, k: int, axis: int) -> list:
    rank = ctx.avals_in[0].ndim

    def moved(value: ir.Value, shape: tuple[int, ...], order: list[int]) -> Any:
        if order == list(range(rank)):
            return value
        type_ = ctx.tensor(tuple(shape[i] for i in order), dtype)
        return ctx.op("stablehlo.transpose", [value], [type_], {"permutation": ctx.i64s(order)})[0]

    order = [d for d in range(rank) if d != axis] + [axis]
    back = [order.index(d) for d in range(rank)]
    dtype = ctx.avals_in[0].dtype
    x = moved(x, ctx.avals_in[0].shape, order)
    shape = tuple(ctx.avals_out[0].shape[d] for d in order)
    types = [ctx.tensor(shape, a.dtype) for a in ctx.avals_out]
    results = ctx.op("chlo.top_k", [x], types, {"k": ctx.i64(k)})
    ctx.mark(results[0].owner, "top_k")
    outs = []
    for value, aval in zip(results, ctx.avals_out, strict=True):
        dtype = aval.dtype
        outs.append(moved(value, shape, back))
    return outs


top_k_p = Primitive(
    "top_k",
    abstract=_top_abstract,
    jvp=_top_jvp,
    batch=_top_batch,
    lower=_top_lower,
    sharding="sort",
    multiple_results=True,
)


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> list:
    """Return the k greatest elements along a dimension, descending, and their indices (int32).

    Of equal elements the one with the lower index comes first.

    >>> import weft
    >>> weft.lax.top_k(weft.numpy.array([1.0, 3.0, 2.0]), 2)
    [Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    aval = typeof(operand)
    if aval.ndim == 0:
        raise ArgumentError(f"top_k: operand must have rank 1 at least, got {aval.str_short()}")
    return top_k_p.bind(operand, k=k.__index__(), axis=canonical_axis(axis, aval.ndim))


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list:
    """Return the k greatest elements and their indices; exact, so of any recall_target up to 1.

    reduction_input_size_override tunes the approximation of accelerators that have one; an exact
    result meets it as it is. Raises ValueError for aggregate_to_topk=False, the candidates of an
    approximation.

    >>> from weft import lax, numpy as wnp
    >>> lax.approx_max_k(wnp.array([3.0, 9.0, 5.0]), 2)
    [Array([9., 5.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    _check_recall("approx_max_k", operand, recall_target, aggregate_to_topk)
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list:
    """Return the k least elements and their indices; see `approx_max_k`.

    >>> from weft import lax, numpy as wnp
    >>> lax.approx_min_k(wnp.array([3.0, 9.0, 5.0]), 2)
    [Array([3., 5.], dtype=float32), Array([0, 2], dtype=int32)]
    """
    _check_recall("approx_min_k", operand, recall_target, aggregate_to_topk)
    values, indices = top_k(neg(operand), k, axis=reduction_dimension)
    return [neg(values), indices]


def _check_recall(name: str, operand: object, recall_target: float, aggregate: bool) -> None:
    if not aggregate:
        raise ValueError(
            f"{name}: aggregate_to_topk=False asks for the candidates of an approximation; the "
            "search is exact and has only the result: leave aggregate_to_topk out"
        )
    if not 0 < recall_target <= 1:
        raise ValueError(f"{name}: recall_target must lie in (0, 1], got {recall_target}")
    if not dtypes.is_float(typeof(operand).dtype):
        raise ValueError(
            f"{name}: operand must be of a float dtype, got {typeof(operand).str_short()}"
        )
