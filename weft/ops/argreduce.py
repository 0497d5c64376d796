"""Reductions by any function, and the indices of extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.jvp import jvp_flat
from weft.autodiff.op_families import REAL, canonical_axes, canonical_axis, check_kind
from weft.autodiff.shape import broadcast_in_dim, moveaxis, reshape
from weft.autodiff.vmap import batch_flat, in_front
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.tree import tree_map
from weft.ops.combiner import combine_start, fold, halves, monoid_of, trace_combiner
from weft.ops.joining import concatenate
from weft.ops.reduce import (
    Axes,
    highest,
    lowest,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_sum_p,
    reduce_xor_p,
)
from weft.sharding.explicit import drop_type, reshard

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# argmax, argmin --------------------------------------------------------------------------------


def _arg_reduction(name: str, direction: str, identity: Callable[[Any], Any]) -> Primitive:
    def abstract(x: ShapedArray, *, axes: Axes, index_dtype: np.dtype) -> ShapedArray:
        if not dtypes.is_bool(x.dtype):
            check_kind(name, x.dtype, REAL)
        if len(axes) != 1 or not 0 <= axes[0] < x.ndim:
            raise ValueError(f"{name}: {axes} is not one dimension of {x.str_short()}")
        if x.shape[axes[0]] == 0:
            raise ValueError(
                f"{name}: dimension {axes[0]} of {x.str_short()} is empty and "
                "has no element to choose"
            )
        if not dtypes.is_integer(index_dtype):
            raise ArgumentError(f"{name}: index_dtype must be an integer dtype, got {index_dtype}")
        shape = tuple(s for i, s in enumerate(x.shape) if i not in axes)
        return ShapedArray(shape, index_dtype)

    def batch(
        axis: AxisData, args: list, dims: list, *, axes: Axes, index_dtype: np.dtype
    ) -> tuple:
        dim = dims[0]
        out = prim.bind(args[0], axes=(axes[0] + (axes[0] >= dim),), index_dtype=index_dtype)
        return out, dim - (axes[0] < dim)

    def lower(ctx: RuleContext, x: ir.Value, *, axes: Axes, index_dtype: np.dtype) -> Any:
        aval = ctx.avals_in[0]
        dtype = aval.dtype
        # Values and their positions are reduced together.
        iota = ctx.op(
            "stablehlo.iota",
            [],
            [ctx.tensor(aval.shape, index_dtype)],
            {"iota_dimension": ctx.i64(axes[0])},
        )[0]
        out = ctx.avals_out[0].shape
        operation = ctx.operation(
            "stablehlo.reduce",
            [x, iota, ctx.splat(identity(dtype), (), dtype), ctx.splat(0, (), index_dtype)],
            [ctx.tensor(out, dtype), ctx.tensor(out, index_dtype)],
            {"dimensions": ctx.i64s(axes)},
            regions=1,
        )
        scalars = [ctx.tensor((), dtype), ctx.tensor((), index_dtype)]
        bit = ctx.tensor((), dtypes.bool_)

        def body(x: ir.Value, i: ir.Value, y: ir.Value, j: ir.Value) -> list:
            """(x, i) if x wins, or is NaN, or equals y at a lower index."""
            wins = ctx.compare(x, y, direction, dtype)
            if dtypes.is_float(dtype):
                wins = ctx.op("stablehlo.or", [wins, ctx.compare(x, x, "NE", dtype)], [bit])[0]
            equal = ctx.compare(x, y, "EQ", dtype)
            lower = ctx.compare(i, j, "LT", index_dtype)
            tie = ctx.op("stablehlo.and", [equal, lower], [bit])[0]
            index = ctx.op("stablehlo.or", [wins, tie], [bit])[0]
            return [
                ctx.op("stablehlo.select", [wins, x, y], [scalars[0]])[0],
                ctx.op("stablehlo.select", [index, i, j], [scalars[1]])[0],
            ]

        ctx.region(operation, 0, [*scalars, *scalars], body)
        # XLA:CPU runs two operands one by one; weft/native has a loop over vectors.
        ctx.mark(operation, "argreduce", int(direction == "LT"))
        return operation.results[1]

    prim = Primitive(
        name,
        abstract=abstract,
        jvp=lambda primals, tangents, **params: (prim.bind(primals[0], **params), None),
        batch=batch,
        lower=lower,
        sharding="reduce",
    )
    return prim


argmax_p = _arg_reduction("argmax", "GT", lowest)
argmin_p = _arg_reduction("argmin", "LT", highest)


def argmax(operand: ArrayLike, axis: int, index_dtype: object) -> Any:
    """Return the index of the greatest element along `axis`: the first, or that of the first NaN.

    >>> import weft
    >>> weft.lax.argmax(weft.numpy.array([1, 5, 5]), 0, "int32")
    Array(1, dtype=int32)
    """
    axis = canonical_axis(axis, typeof(operand).ndim)
    return argmax_p.bind(operand, axes=(axis,), index_dtype=dtypes.canonicalize_dtype(index_dtype))


def argmin(operand: ArrayLike, axis: int, index_dtype: object) -> Any:
    """Return the index of the least element along `axis`: the first, or that of the first NaN.

    >>> import weft
    >>> weft.lax.argmin(weft.numpy.array([3, 1, 2]), 0, "int32")
    Array(1, dtype=int32)
    """
    axis = canonical_axis(axis, typeof(operand).ndim)
    return argmin_p.bind(operand, axes=(axis,), index_dtype=dtypes.canonicalize_dtype(index_dtype))


# reduce by any function ------------------------------------------------------------------------


def _abstract(*avals: ShapedArray, jaxpr: ClosedJaxpr, dimensions: Axes) -> list[ShapedArray]:
    operands, _ = halves(avals)
    shape = tuple(s for i, s in enumerate(operands[0].shape) if i not in dimensions)
    return [ShapedArray(shape, a.dtype) for a in operands]


def folded(values: Sequence[Any], jaxpr: ClosedJaxpr, dimensions: Axes) -> list:
    """Return the same by elementwise ops, which have all rules: the init is one more element."""
    operands, inits = halves(values)
    rows = []
    for x, init in zip(operands, inits, strict=True):
        for i, d in enumerate(sorted(dimensions)):
            x = moveaxis(x, d, i)
        shape = typeof(x).shape
        n = len(dimensions)
        size = 1
        for s in shape[:n]:
            size *= s
        x = reshape(x, (size, *shape[n:]))
        first = broadcast_in_dim(init, (1, *shape[n:]), ())
        rows.append(concatenate([first, x], 0))
    return fold(jaxpr, rows, 0)


def _jvp(primals: list, tangents: list, *, jaxpr: ClosedJaxpr, dimensions: Axes) -> tuple:
    return jvp_flat(lambda *xs: folded(xs, jaxpr, dimensions), primals, tangents)


def _batch(
    axis: AxisData, args: list, dims: list, *, jaxpr: ClosedJaxpr, dimensions: Axes
) -> tuple:
    operand_dims, init_dims = halves(dims)
    if any(d is not None for d in init_dims):
        return batch_flat(lambda *xs: folded(xs, jaxpr, dimensions), axis, args, dims)
    operands, inits = halves(args)
    moved = in_front(axis, operands, operand_dims)
    shifted = tuple(d + 1 for d in dimensions)
    outs = reduce_p.bind(*moved, *inits, jaxpr=jaxpr, dimensions=shifted)
    return outs, [0] * len(outs)


def _lower(ctx: RuleContext, *values: object, jaxpr: ClosedJaxpr, dimensions: Axes) -> list:
    operation = ctx.operation(
        "stablehlo.reduce",
        list(values),
        ctx.out_types(),
        {"dimensions": ctx.i64s(dimensions)},
        regions=1,
    )
    scalars = [ctx.tensor((), a.dtype) for a in ctx.avals_out]
    ctx.region(operation, 0, [*scalars, *scalars], lambda *xs: ctx.inline(jaxpr, *xs))
    return list(operation.results)


reduce_p = Primitive(
    "reduce",
    abstract=_abstract,
    jvp=_jvp,
    batch=_batch,
    lower=_lower,
    sharding="reduce",
    multiple_results=True,
    higher_order=True,
)


_MONOIDS = {
    "add": reduce_sum_p,
    "mul": reduce_prod_p,
    "max": reduce_max_p,
    "min": reduce_min_p,
    "and": reduce_and_p,
    "or": reduce_or_p,
    "xor": reduce_xor_p,
}
"""The reduction by each combiner that is one op."""


def reduce(
    operands: object,
    init_values: object,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: object = None,
) -> Any:
    """Combine the elements along dimensions, starting from init_values.

    Args:
      operands: an array, or a pytree of arrays of one shape.
      init_values: scalars of the same structure and dtypes; where dimensions are split over
        devices, an identity of the computation, unless that is one op such as add or max.
      computation: f(x, y) on scalars of that structure, associative and commutative.
      dimensions: those to combine over.

    Source: StableHLO specification, `reduce`.

    >>> import weft
    >>> weft.lax.reduce(weft.numpy.arange(4), 0, weft.lax.add, (0,))
    Array(6, dtype=int32)
    """
    if out_sharding is not None:
        untyped = tree_map(drop_type, operands)
        return reshard(reduce(untyped, init_values, computation, dimensions), out_sharding)
    flat, inits, tree, jaxpr = trace_combiner("reduce", computation, operands, init_values)
    axes = canonical_axes(tuple(dimensions), typeof(flat[0]).ndim, "dimensions")
    monoid = _MONOIDS.get(monoid_of(jaxpr) or "") if len(flat) == 1 else None
    if monoid is not None:
        outs = [monoid.bind(flat[0], axes=axes)] if axes else flat
        outs = [combine_start(jaxpr, inits[0], outs[0])]
    else:
        outs = reduce_p.bind(*flat, *inits, jaxpr=jaxpr, dimensions=axes)
    return tree.unflatten(outs)
