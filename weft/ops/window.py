"""Reductions over sliding windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.jvp import jvp_flat
from weft.autodiff.op_families import NUMBER, canonical_axis, check_kind, static_ints
from weft.autodiff.shape import broadcast_in_dim
from weft.autodiff.vmap import batch_flat, in_front
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.combiner import (
    IDENTITIES,
    combine_start,
    elementwise_combine,
    halves,
    monoid_of,
    trace_combiner,
)
from weft.ops.conv_shapes import Dims, Pads, dilated, padtype_to_pads, window_count
from weft.ops.elementwise_api import and_p, select
from weft.ops.joining import pad
from weft.ops.reduce import highest, lowest
from weft.ops.slicing import slice as slice_op

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def _check_window(name: str, shape: Sequence[int], **lists: Sequence[Any]) -> None:
    for param, values in lists.items():
        if len(values) != len(shape):
            raise TypeError(
                f"{name}: {param} {values} must have an entry for each of the {len(shape)} "
                f"dimensions of shape {tuple(shape)}"
            )
        if param != "padding" and any(v < 1 for v in values):
            raise ValueError(f"{name}: {param} must be positive, got {values}")


def window_shape(
    name: str,
    shape: Sequence[int],
    window_dimensions: Dims,
    window_strides: Dims,
    padding: Pads,
    base_dilation: Dims,
    window_dilation: Dims,
) -> Dims:
    """Return the shape of a reduction over windows."""
    _check_window(
        name,
        shape,
        window_dimensions=window_dimensions,
        window_strides=window_strides,
        padding=padding,
        base_dilation=base_dilation,
        window_dilation=window_dilation,
    )
    return tuple(
        window_count(max(dilated(d, base) + lo + hi, 0), dilated(w, wd), stride)
        for d, w, stride, (lo, hi), base, wd in zip(
            shape,
            window_dimensions,
            window_strides,
            padding,
            base_dilation,
            window_dilation,
            strict=True,
        )
    )


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Dims:
    """Return the shape of `reduce_window`'s result.

    >>> from weft import lax, numpy as wnp
    >>> lax.reduce_window_shape_tuple((8, 9), (2, 2), (2, 2), [(0, 0), (0, 1)])
    (4, 5)
    """
    ones = (1,) * len(operand_shape)
    return window_shape(
        "reduce_window",
        operand_shape,
        tuple(window_dimensions),
        tuple(window_strides),
        tuple(map(tuple, padding)),  # type: ignore[arg-type]
        tuple(base_dilation or ones),
        tuple(window_dilation or ones),
    )


def with_dimension(params: dict, dim: int) -> dict:
    """Return the window parameters with a dimension inserted that windows do not span."""
    fill = {"padding": (0, 0)}
    return {
        name: (*value[:dim], fill.get(name, 1), *value[dim:]) if name in _WINDOW else value
        for name, value in params.items()
    }


_WINDOW = frozenset(
    ["window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"]
)


def window_attrs(
    ctx: RuleContext,
    window_dimensions: Dims,
    window_strides: Dims,
    padding: Pads,
    base_dilation: Dims,
    window_dilation: Dims,
) -> dict:
    return {
        "window_dimensions": ctx.i64s(window_dimensions),
        "window_strides": ctx.i64s(window_strides),
        "base_dilations": ctx.i64s(base_dilation),
        "window_dilations": ctx.i64s(window_dilation),
        "padding": ctx.int_matrix(padding),
    }


def emit_window(
    ctx: RuleContext, operands: Sequence[Any], inits: Sequence[Any], body: Callable, window: dict
) -> list:
    """stablehlo.reduce_window; body(*scalars) emits the combiner."""
    if not ctx.avals_in[0].ndim:
        scalars = [*inits, *operands]
        return list(body(*scalars))
    operation = ctx.operation(
        "stablehlo.reduce_window",
        [*operands, *inits],
        ctx.out_types(),
        window_attrs(ctx, **window),
        regions=1,
    )
    scalar_types = [ctx.tensor((), a.dtype) for a in ctx.avals_out]
    ctx.region(operation, 0, [*scalar_types, *scalar_types], body)
    return list(operation.results)


def _windowed(
    name: str, hlo: str, identity: Callable, jvp: Any, transpose: Callable | None
) -> Primitive:
    """Return a reduction over windows by one StableHLO op, whose identity fills the padding."""

    def abstract(x: ShapedArray, **window: Any) -> ShapedArray:
        check_kind(name, x.dtype, NUMBER if hlo == "stablehlo.add" else "any")
        return ShapedArray(window_shape(name, x.shape, **window), x.dtype, x.weak_type)

    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **window: object) -> tuple:
        return prim.bind(args[0], **with_dimension(window, dims[0])), dims[0]

    def lower(ctx: RuleContext, x: ir.Value, **window: object) -> Any:
        dtype = ctx.avals_in[0].dtype
        init = ctx.splat(identity(dtype), (), dtype)
        (out,) = emit_window(ctx, [x], [init], lambda a, b: [ctx.combine(hlo, a, b, dtype)], window)
        if hlo != "stablehlo.add" and dtypes.is_float(dtype) and ctx.avals_in[0].ndim:
            ctx.mark(out.owner, "extremum")  # quirks.LOST_NANS
        return out

    prim = Primitive(
        name,
        abstract=abstract,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        lower=lower,
        sharding="window",
        linear=(0,) if hlo == "stablehlo.add" else (),
    )
    return prim


def _sum_transpose(ct: Any, x: UndefinedPrimal, **window: Any) -> list:
    """Give each cotangent to the elements of its window: a sum over the mirrored windows."""
    strides, base = window["window_strides"], window["base_dilation"]
    config = []
    shape = typeof(ct).shape
    for i, d in enumerate(x.aval.shape):
        extent = dilated(window["window_dimensions"][i], window["window_dilation"][i])
        low = extent - 1 - window["padding"][i][0]
        high = dilated(d, base[i]) + extent - 1 - dilated(shape[i], strides[i]) - low
        config.append((low, high, strides[i] - 1))
    ones = (1,) * len(shape)
    spread = pad(ct, ct.dtype.type(0), config)
    result = reduce_window_sum_p.bind(
        spread,
        window_dimensions=window["window_dimensions"],
        window_strides=base,
        padding=((0, 0),) * len(shape),
        base_dilation=ones,
        window_dilation=window["window_dilation"],
    )
    return [result]


def _extremum_jvp(prim: Callable[[], Primitive], select: str) -> Callable:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **window: object) -> tuple:
        from weft.ops.pooling import select_and_gather_add_p

        (x,), (t,) = primals, tangents
        out = prim().bind(x, **window)
        return out, select_and_gather_add_p.bind(t, x, select=select, **window)

    return jvp


reduce_window_sum_p = _windowed(
    "reduce_window_sum",
    "stablehlo.add",
    lambda dtype: dtype.type(0),
    "linear",
    _sum_transpose,
)
reduce_window_max_p = _windowed(
    "reduce_window_max",
    "stablehlo.maximum",
    lowest,
    _extremum_jvp(lambda: reduce_window_max_p, "ge"),
    None,
)
reduce_window_min_p = _windowed(
    "reduce_window_min",
    "stablehlo.minimum",
    highest,
    _extremum_jvp(lambda: reduce_window_min_p, "le"),
    None,
)


def window_offsets(window: dict) -> Any:
    return itertools.product(*(range(w) for w in window["window_dimensions"]))


def window_views(operands: Sequence[Any], inits: Sequence[Any], window: dict) -> list[list]:
    """Return for each place in the window, the operands' elements there in every window."""
    shape = window_shape("reduce_window", typeof(operands[0]).shape, **window)
    config = [
        (lo, hi, base - 1)
        for (lo, hi), base in zip(window["padding"], window["base_dilation"], strict=True)
    ]
    padded = [pad(x, init, config) for x, init in zip(operands, inits, strict=True)]
    strides = window["window_strides"]
    views = []
    for offset in window_offsets(window):
        start = [o * d for o, d in zip(offset, window["window_dilation"], strict=True)]
        limit = [
            b + (n - 1) * s + 1 if n else b for b, n, s in zip(start, shape, strides, strict=True)
        ]
        views.append([slice_op(x, start, limit, strides) for x in padded])
    return views


# Any combiner ----------------------------------------------------------------------------------


def _generic_abstract(*avals: ShapedArray, jaxpr: ClosedJaxpr, **window: Any) -> list:
    operands, _ = halves(avals)
    shape = window_shape("reduce_window", operands[0].shape, **window)
    return [ShapedArray(shape, a.dtype) for a in operands]


def _fold_windows(values: Sequence[Any], jaxpr: ClosedJaxpr, window: dict) -> list:
    """Return the same by elementwise ops, which have all rules."""
    operands, inits = halves(values)
    views = window_views(operands, inits, window)
    in_shape, shape = typeof(operands[0]).shape, typeof(views[0][0]).shape
    total = [broadcast_in_dim(i, shape, ()) for i in inits]
    for offset, view in zip(window_offsets(window), views, strict=True):
        combined = elementwise_combine(jaxpr, total, view)
        covered = _covered(offset, in_shape, shape, window)
        if covered is not None:  # XLA combines no padding, which only shapes the windows
            combined = [select(covered, c, t) for c, t in zip(combined, total, strict=True)]
        total = combined
    return total


def _covered(offset: Dims, in_shape: Dims, shape: Dims, window: dict) -> Any:
    """Return which windows have an element of the operand at this offset; None for all of them."""
    mask = None
    for d, size in enumerate(in_shape):
        base, (low, _) = window["base_dilation"][d], window["padding"][d]
        position = np.arange(shape[d]) * window["window_strides"][d] - low
        position += offset[d] * window["window_dilation"][d]
        real = (position >= 0) & (position % base == 0) & (position < size * base)
        if not real.all():
            along = broadcast_in_dim(real, shape, (d,))
            mask = along if mask is None else and_p.bind(mask, along)
    return mask


def _generic_jvp(primals: list, tangents: list, *, jaxpr: ClosedJaxpr, **window: object) -> tuple:
    return jvp_flat(lambda *xs: _fold_windows(xs, jaxpr, window), primals, tangents)


def _generic_batch(
    axis: AxisData, args: list, dims: list, *, jaxpr: ClosedJaxpr, **window: object
) -> tuple:
    operand_dims, init_dims = halves(dims)
    if any(d is not None for d in init_dims):
        return batch_flat(lambda *xs: _fold_windows(xs, jaxpr, window), axis, args, dims)
    operands, inits = halves(args)
    moved = in_front(axis, operands, operand_dims)
    outs = reduce_window_p.bind(*moved, *inits, jaxpr=jaxpr, **with_dimension(window, 0))
    return outs, [0] * len(outs)


def _generic_lower(
    ctx: RuleContext, *values: ir.Value, jaxpr: ClosedJaxpr, **window: object
) -> list:
    operands, inits = halves(values)
    return emit_window(ctx, operands, inits, lambda *xs: ctx.inline(jaxpr, *xs), window)


reduce_window_p = Primitive(
    "reduce_window",
    abstract=_generic_abstract,
    jvp=_generic_jvp,
    batch=_generic_batch,
    lower=_generic_lower,
    sharding="window",
    multiple_results=True,
    higher_order=True,
)

_MONOIDS = {
    "add": reduce_window_sum_p,
    "max": reduce_window_max_p,
    "min": reduce_window_min_p,
}


def reduce_window(
    operand: ArrayLike,
    init_value: object,
    computation: Callable,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combine the elements in each window of the operand, starting from init_value.

    Args:
      operand: an array, or a pytree of arrays of one shape.
      init_value: scalars of the same structure, with which every window starts; padding adds
        nothing to them. Where dimensions are split over devices, an identity of the computation,
        unless that is one op such as add or max.
      computation: f(x, y) on scalars of that structure, associative.
      window_dimensions, window_strides, base_dilation, window_dilation: a positive integer for
        every dimension.
      padding: 'VALID', 'SAME', 'SAME_LOWER' or (low, high) for every dimension.

    Source: StableHLO specification, `reduce_window`.

    >>> import weft
    >>> weft.lax.reduce_window(weft.numpy.arange(4.0), 0.0, weft.lax.add, (2,))
    Array([1., 3., 5.], dtype=float32)
    """
    flat, inits, tree, jaxpr = trace_combiner("reduce_window", computation, operand, init_value)
    shape = typeof(flat[0]).shape
    ones = (1,) * len(shape)
    dims = static_ints("reduce_window", "window_dimensions", window_dimensions)
    strides, base, dilation = (
        ones if values is None else static_ints("reduce_window", name, values)
        for name, values in (
            ("window_strides", window_strides),
            ("base_dilation", base_dilation),
            ("window_dilation", window_dilation),
        )
    )
    if isinstance(padding, str):
        _check_window("reduce_window", shape, window_dimensions=dims, window_strides=strides)
        _check_window("reduce_window", shape, base_dilation=base, window_dilation=dilation)
        spread = [dilated(d, b) for d, b in zip(shape, base, strict=True)]
        extents = [dilated(w, d) for w, d in zip(dims, dilation, strict=True)]
        padding = padtype_to_pads(spread, extents, strides, padding)
    window = {
        "window_dimensions": dims,
        "window_strides": strides,
        "padding": tuple((int(lo), int(hi)) for lo, hi in padding),
        "base_dilation": base,
        "window_dilation": dilation,
    }
    monoid = monoid_of(jaxpr)
    if monoid is None:
        return tree.unflatten(reduce_window_p.bind(*flat, *inits, jaxpr=jaxpr, **window))
    dtype = typeof(flat[0]).dtype
    prim = None if dtypes.is_bool(dtype) else _MONOIDS.get(monoid)
    if prim is not None:
        out = prim.bind(flat[0], **window)
    else:
        [out] = reduce_window_p.bind(flat[0], IDENTITIES[monoid](dtype), jaxpr=jaxpr, **window)
    return tree.unflatten([combine_start(jaxpr, inits[0], out)])


def cumulative_window(size: int, axis: int, ndim: int, reverse: bool) -> dict:
    """Make the windows of a cumulative operation: each element and all before (or after) it."""
    axis = canonical_axis(axis, ndim)

    def at(value: int | tuple, other: int | tuple) -> tuple:
        return tuple(value if i == axis else other for i in range(ndim))

    return {
        "window_dimensions": at(size, 1),
        "window_strides": (1,) * ndim,
        "padding": at((0, size - 1) if reverse else (size - 1, 0), (0, 0)),
        "base_dilation": (1,) * ndim,
        "window_dilation": (1,) * ndim,
    }
