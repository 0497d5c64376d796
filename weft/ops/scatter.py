"""The scatter family: updates combined into an operand at an array of indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.autodiff.shape import iota, moveaxis, reshape
from weft.autodiff.vmap import move_dim
from weft.autodiff.zeros import add_any, full, zeros_like
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.lowering.limits import UNEVEN
from weft.lowering.sharding import combined_alike
from weft.ops.elementwise_api import add, convert, div, eq, mul, neg, select, sub
from weft.ops.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    _shift,
    check_dims,
    check_index_types,
    gather_p,
)

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


class ScatterDimensionNumbers(NamedTuple):
    """How the dimensions of operand, indices and updates of a scatter correspond.

    update_window_dims: dimensions of the updates that run inside a window. inserted_window_dims:
    operand dimensions of window size 1 that the updates lack. scatter_dims_to_operand_dims: operand
    dimension of each component of an index vector. operand_batching_dims and
    scatter_indices_batching_dims: dimensions that run together.

    Source: StableHLO specification, `scatter`.
    """

    update_window_dims: Shape
    inserted_window_dims: Shape
    scatter_dims_to_operand_dims: Shape
    operand_batching_dims: Shape = ()
    scatter_indices_batching_dims: Shape = ()

    def attribute(self, index_vector_dim: int) -> str:
        return (
            f"#stablehlo.scatter<update_window_dims = {list(self.update_window_dims)}, "
            f"inserted_window_dims = {list(self.inserted_window_dims)}, "
            f"input_batching_dims = {list(self.operand_batching_dims)}, "
            f"scatter_indices_batching_dims = {list(self.scatter_indices_batching_dims)}, "
            f"scatter_dims_to_operand_dims = {list(self.scatter_dims_to_operand_dims)}, "
            f"index_vector_dim = {index_vector_dim}>"
        )


def scatter_dimensions(d: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """Return the scatter that writes where this gather reads. The two have the same five fields."""
    return ScatterDimensionNumbers(*d)


def window_sizes(operand_shape: Shape, updates_shape: Shape, d: ScatterDimensionNumbers) -> Shape:
    """Window sizes in operand dimensions."""
    sizes = iter([updates_shape[i] for i in d.update_window_dims])
    dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
    return tuple(min(1, n) if i in dropped else next(sizes) for i, n in enumerate(operand_shape))


def gather_updates(
    x: ArrayLike, indices: ArrayLike, updates_shape: Shape, params: dict, fill: object = 0
) -> Any:
    """Gather the elements of x that a scatter with these params writes; `fill` where it drops."""
    d = params["dimension_numbers"]
    return gather_p.bind(
        x,
        indices,
        dimension_numbers=GatherDimensionNumbers(*d),
        slice_sizes=window_sizes(typeof(x).shape, updates_shape, d),
        unique_indices=params["unique_indices"],
        indices_are_sorted=params["indices_are_sorted"],
        mode=params["mode"],
        fill_value=fill,
    )


# Rules shared by the family ---------------------------------------------------------------------


def check_scatter(
    name: str,
    operand: ShapedArray,
    indices: ShapedArray,
    updates_shape: Shape,
    d: ScatterDimensionNumbers,
) -> None:
    check_dims(name, "update_window_dims", d.update_window_dims, len(updates_shape), ordered=True)
    for param in ("inserted_window_dims", "operand_batching_dims"):
        check_dims(name, param, getattr(d, param), operand.ndim, ordered=True)
    mapped = d.scatter_dims_to_operand_dims
    check_dims(name, "scatter_dims_to_operand_dims", mapped, operand.ndim, ordered=False)
    batching = (d.operand_batching_dims, d.scatter_indices_batching_dims)
    check_index_types(name, operand, indices, mapped, batching)
    dropped = len(d.inserted_window_dims) + len(d.operand_batching_dims)
    if len(d.update_window_dims) + dropped != operand.ndim:
        raise TypeError(
            f"{name}: update_window_dims {d.update_window_dims}, inserted_window_dims "
            f"{d.inserted_window_dims} and operand_batching_dims {d.operand_batching_dims} must "
            f"together account for the {operand.ndim} dimensions of {operand.str_short()}"
        )
    batch = tuple(n for i, n in enumerate(updates_shape) if i not in d.update_window_dims)
    if batch != indices.shape[:-1]:
        raise TypeError(
            f"{name}: updates of shape {updates_shape} must have, outside of update_window_dims "
            f"{d.update_window_dims}, the dimensions {indices.shape[:-1]} of the indices"
        )
    window = window_sizes(operand.shape, updates_shape, d)
    if any(n > size for n, size in zip(window, operand.shape, strict=True)):
        raise TypeError(f"{name}: a window of shape {window} does not fit {operand.str_short()}")


def _abstract(name: str) -> Callable:
    def abstract(
        operand: ShapedArray,
        indices: ShapedArray,
        updates: ShapedArray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **_: object,
    ) -> ShapedArray:
        if operand.dtype != updates.dtype:
            raise TypeError(
                f"{name}: operand {operand.str_short()} and updates {updates.str_short()} must "
                "have the same dtype"
            )
        check_scatter(name, operand, indices, updates.shape, dimension_numbers)
        return ShapedArray(operand.shape, operand.dtype, operand.weak_type)

    return abstract


def batched_dimensions(
    d: ScatterDimensionNumbers, indices_batched: bool
) -> ScatterDimensionNumbers:
    """Dimension numbers once operand and updates (and indices) have a leading batch dimension."""
    window, batching = _shift(d.update_window_dims), _shift(d.operand_batching_dims)
    indices_batching = d.scatter_indices_batching_dims
    if indices_batched:
        batching, indices_batching = (0, *batching), (0, *_shift(indices_batching))
    else:
        window = (0, *window)
    return ScatterDimensionNumbers(
        window,
        _shift(d.inserted_window_dims),
        _shift(d.scatter_dims_to_operand_dims),
        batching,
        indices_batching,
    )


def _batch(prim_of: Callable[[], Primitive]) -> Callable:
    def batch(
        axis: AxisData,
        args: list,
        dims: list,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **params: object,
    ) -> tuple:
        (operand, indices, updates), (od, idim, ud) = args, dims
        operand = move_dim(operand, od, 0, axis)
        updates = move_dim(updates, ud, 0, axis)
        if idim is not None:
            indices = moveaxis(indices, idim, 0)
        numbers = batched_dimensions(dimension_numbers, idim is not None)
        return prim_of().bind(operand, indices, updates, dimension_numbers=numbers, **params), 0

    return batch


def _clamped(
    ctx: RuleContext,
    indices: ir.Value,
    aval: ShapedArray,
    window: Shape,
    d: ScatterDimensionNumbers,
) -> Any:
    """Clamp indices so that every window fits."""
    dtype, shape = aval.dtype, ctx.avals_in[0].shape
    bounds = [shape[i] - window[i] for i in d.scatter_dims_to_operand_dims]
    upper = np.minimum(np.array(bounds), dtypes.iinfo(dtype).max).astype(dtype)
    high = np.broadcast_to(upper, aval.shape)
    low = ctx.splat(0, aval.shape, dtype)
    return ctx.op("stablehlo.clamp", [low, indices, ctx.constant(high)], [ctx.type_of(aval)])[0]


def emit(
    ctx: RuleContext,
    operands: list,
    indices: ir.Value,
    updates: list,
    window: Shape,
    params: dict,
    body: Callable,
) -> list:
    d = params["dimension_numbers"]
    index_aval = ctx.avals_in[len(operands)]
    if params["mode"] is GatherScatterMode.CLIP and d.scatter_dims_to_operand_dims:
        indices = _clamped(ctx, indices, index_aval, window, d)
    attrs = {
        "scatter_dimension_numbers": ctx.attr(d.attribute(index_aval.ndim - 1)),
        "indices_are_sorted": ctx.bool(params["indices_are_sorted"]),
        "unique_indices": ctx.bool(params["unique_indices"]),
    }
    operation = ctx.operation(
        "stablehlo.scatter", [*operands, indices, *updates], ctx.out_types(), attrs, regions=1
    )
    scalars = [ctx.tensor((), a.dtype) for a in ctx.avals_out]
    ctx.region(operation, 0, [*scalars, *scalars], combined_alike(ctx, body))
    if index_aval.shape[:1] == (index_aval.size,) and index_aval.size >= UNEVEN:
        ctx.mark(operation, "uneven")
    return list(operation.results)


def _lower(hlo: str | None) -> Callable:
    """hlo: the op that combines old and new elements, or None: the new replaces the old."""

    def lower(
        ctx: RuleContext, operand: ir.Value, indices: ir.Value, updates: ir.Value, **params: Any
    ) -> Any:
        if not ctx.avals_in[2].size:
            return operand
        d = params["dimension_numbers"]
        window = window_sizes(ctx.avals_in[0].shape, ctx.avals_in[2].shape, d)

        def body(old: ir.Value, new: ir.Value) -> list:
            return [new if hlo is None else ctx.combine(hlo, old, new, ctx.avals_in[0].dtype)]

        return emit(ctx, [operand], indices, [updates], window, params, body)[0]

    return lower


def _zeros(x: ArrayLike) -> Any:
    return zeros_like(x)


def _prim(name: str, hlo: str | None, jvp: Callable, transpose: Callable | None) -> Primitive:
    prim = Primitive(
        name,
        abstract=_abstract(name),
        jvp=jvp,
        transpose=transpose,
        batch=_batch(lambda: prim),
        lower=_lower(hlo),
        sharding="scatter",
        linear=(0, 2) if hlo in (None, "stablehlo.add") else (),
        structural=hlo is None,
    )
    return prim


# scatter_add ------------------------------------------------------------------------------------


def _add_jvp(primals: list, tangents: list, **params: object) -> tuple:
    operand, indices, updates = primals
    t_operand, _, t_updates = tangents
    out = scatter_add_p.bind(operand, indices, updates, **params)
    if t_updates is None:
        return out, t_operand
    t_operand = _zeros(operand) if t_operand is None else t_operand
    return out, scatter_add_p.bind(t_operand, indices, t_updates, **params)


def _shape_of(x: Any) -> Shape:
    return (x.aval if is_undefined(x) else typeof(x)).shape


def _add_transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: object) -> list:
    ct_updates = None
    if is_undefined(updates):
        ct_updates = gather_updates(ct, indices, updates.aval.shape, params)
    return [ct if is_undefined(operand) else None, None, ct_updates]


scatter_add_p = _prim("scatter-add", "stablehlo.add", _add_jvp, _add_transpose)


# scatter ----------------------------------------------------------------------------------------


def _set_jvp(primals: list, tangents: list, **params: object) -> tuple:
    operand, indices, updates = primals
    t_operand, _, t_updates = tangents
    if t_updates is not None and not params["unique_indices"]:
        # Where indices repeat, one update wins, and its tangent must too: find it by its number.
        aval = typeof(updates)
        number = add(reshape(iota(dtypes.int32, aval.size), aval.shape), np.int32(1))
        nowhere = full(typeof(operand).shape, 0, dtypes.int32)
        winner = scatter_p.bind(nowhere, indices, number, **params)
        wins = eq(gather_updates(winner, indices, aval.shape, params), number)
        zeros = _zeros(updates)
        cleared = scatter_p.bind(operand, indices, zeros, **params)
        updates = select(wins, updates, zeros)
        out = scatter_add_p.bind(cleared, indices, updates, **params)
        t_updates = select(wins, t_updates, _zeros(t_updates))
        if t_operand is None:
            t_cleared = _zeros(operand)
        else:
            t_cleared = scatter_p.bind(t_operand, indices, zeros, **params)
        return out, scatter_add_p.bind(t_cleared, indices, t_updates, **params)
    out = scatter_p.bind(operand, indices, updates, **params)
    if t_operand is None and t_updates is None:
        return out, None
    t_operand = _zeros(operand) if t_operand is None else t_operand
    t_updates = _zeros(updates) if t_updates is None else t_updates
    return out, scatter_p.bind(t_operand, indices, t_updates, **params)


def _set_transpose(
    ct: ArrayLike, operand: Any, indices: ArrayLike, updates: Any, **params: object
) -> list:
    ct_operand = ct_updates = None
    shape = _shape_of(updates)
    if is_undefined(operand):
        zeros = full(shape, 0, typeof(ct).dtype)
        ct_operand = scatter_p.bind(ct, indices, zeros, **params)
    if is_undefined(updates):
        if not params["unique_indices"]:
            raise TypeError(
                "the transpose of scatter in its updates needs unique_indices=True, since one of "
                "several updates of an element wins"
            )
        ct_updates = gather_updates(ct, indices, shape, params)
    return [ct_operand, None, ct_updates]


scatter_p = _prim("scatter", None, _set_jvp, _set_transpose)


# scatter_mul ------------------------------------------------------------------------------------


def _other_factors(indices: ArrayLike, updates: ArrayLike, operand: ArrayLike, params: dict) -> Any:
    """Return for each update, the product of the other updates of the same element.

    Exact where factors are zero: an element's zeros are counted apart from its other factors.
    """
    aval = typeof(updates)
    shape = typeof(operand).shape
    zero = eq(updates, aval.dtype.type(0))
    one = full(aval.shape, 1, aval.dtype)
    nonzero = select(zero, one, updates)
    product = scatter_mul_p.bind(full(shape, 1, aval.dtype), indices, nonzero, **params)
    zeros = scatter_add_p.bind(
        full(shape, 0, dtypes.int32), indices, convert(zero, dtypes.int32), **params
    )
    product = gather_updates(product, indices, aval.shape, params, fill=1)
    others = gather_updates(zeros, indices, aval.shape, params)
    others = sub(others, convert(zero, dtypes.int32))
    rest = div(product, nonzero)
    return select(eq(others, np.int32(0)), rest, _zeros(rest))


def _mul_jvp(primals: list, tangents: list, **params: object) -> tuple:
    operand, indices, updates = primals
    t_operand, _, t_updates = tangents
    out = scatter_mul_p.bind(operand, indices, updates, **params)
    total = None
    if t_operand is not None:
        total = scatter_mul_p.bind(t_operand, indices, updates, **params)
    if t_updates is not None:
        factor = gather_updates(operand, indices, typeof(updates).shape, params)
        if not params["unique_indices"]:
            factor = mul(factor, _other_factors(indices, updates, operand, params))
        term = scatter_add_p.bind(_zeros(operand), indices, mul(t_updates, factor), **params)
        total = term if total is None else add_any(total, term)
    return out, total


def _mul_transpose(
    ct: ArrayLike, operand: UndefinedPrimal, indices: ArrayLike, updates: Any, **params: object
) -> list:
    if is_undefined(operand):
        return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]
    return [None, None, gather_updates(mul(ct, operand), indices, updates.aval.shape, params)]


scatter_mul_p = _prim("scatter-mul", "stablehlo.multiply", _mul_jvp, _mul_transpose)


# scatter_min, scatter_max -----------------------------------------------------------------------


def _extremum_jvp(prim_of: Callable[[], Primitive]) -> Callable:
    def jvp(primals: list, tangents: list, **params: object) -> tuple:
        """Share the tangent equally among all that reach the extremum."""
        operand, indices, updates = primals
        t_operand, _, t_updates = tangents
        out = prim_of().bind(operand, indices, updates, **params)
        shape, dtype = typeof(updates).shape, typeof(out).dtype
        kept = convert(eq(operand, out), dtype)
        reached = convert(
            eq(gather_updates(out, indices, shape, params, fill=None), updates), dtype
        )
        count = scatter_add_p.bind(kept, indices, reached, **params)
        total = None
        if t_operand is not None:
            total = mul(t_operand, div(kept, count))
        if t_updates is not None:
            weight = div(reached, gather_updates(count, indices, shape, params, fill=1))
            t_updates = mul(t_updates, weight)
            term = scatter_add_p.bind(_zeros(operand), indices, t_updates, **params)
            total = term if total is None else add_any(total, term)
        return out, total

    return jvp


scatter_min_p = _prim(
    "scatter-min", "stablehlo.minimum", _extremum_jvp(lambda: scatter_min_p), None
)
scatter_max_p = _prim(
    "scatter-max", "stablehlo.maximum", _extremum_jvp(lambda: scatter_max_p), None
)


# Public functions -------------------------------------------------------------------------------


def _public(prim: Primitive, summary: str, example: str) -> Callable:
    def function(
        operand: object,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        return prim.bind(
            operand,
            scatter_indices,
            updates,
            dimension_numbers=dimension_numbers,
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode),
        )

    name = prim.name.replace("-", "_")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
      operand: an array. scatter_indices: integers; the last dimension holds index vectors.
      updates: an array of the operand's dtype. dimension_numbers: a `ScatterDimensionNumbers`.
      indices_are_sorted, unique_indices: promises that let the compiler do less.
      mode: a `GatherScatterMode` or its name; by default windows out of bounds are dropped.

    Raises:
      TypeError: dimensions or dtypes do not fit together.

    Source: StableHLO specification, `scatter`.

    >>> import weft
    >>> from weft import lax
    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> indices = weft.numpy.array([[1], [1]])
    >>> x, updates = weft.numpy.ones(3), weft.numpy.array([2.0, 2.0])
    >>> lax.{name}(x, indices, updates, dnums)
    {example}
    """
    return function


scatter = _public(
    scatter_p,
    "Elements at the indices replaced by updates; where indices repeat, any one of them wins.",
    "Array([1., 2., 1.], dtype=float32)",
)
scatter_add = _public(
    scatter_add_p,
    "Update added to the elements at the indices.",
    "Array([1., 5., 1.], dtype=float32)",
)
scatter_mul = _public(
    scatter_mul_p,
    "Elements at the indices multiplied by updates.",
    "Array([1., 4., 1.], dtype=float32)",
)
scatter_min = _public(
    scatter_min_p,
    "Return the least of each element and the updates at its index.",
    "Array([1., 1., 1.], dtype=float32)",
)
scatter_max = _public(
    scatter_max_p,
    "Return the greatest of each element and the updates at its index.",
    "Array([1., 2., 1.], dtype=float32)",
)


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """Return updates subtracted from the elements at the indices: `scatter_add` of their negatives.

    >>> from weft import lax, numpy as wnp
    >>> how = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_sub(wnp.array([5, 5, 5]), wnp.array([[1], [1]]), wnp.array([1, 2]), how)
    Array([5, 2, 5], dtype=int32)
    """
    return scatter_add(
        operand,
        scatter_indices,
        neg(updates),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
