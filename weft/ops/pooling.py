# Tests: tests/ops/test_window.py
"""The derivative of max and min pooling: what is taken from, and put at, the places of extrema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import batch_in_front
from weft.autodiff.shape import broadcast_in_dim
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.lowering.sharding import whole_for_xla
from weft.ops.conv_shapes import Dims, Pads, dilated
from weft.ops.elementwise_api import add, and_p, gt, lt, not_p
from weft.ops.elementwise_api import select as choose
from weft.ops.joining import pad
from weft.ops.reduce import highest, lowest
from weft.ops.slicing import slice as slice_op
from weft.ops.window import window_attrs, window_offsets, window_shape, window_views, with_dimension

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext


def _bound(select: str, dtype: np.dtype) -> Any:
    return lowest(dtype) if select == "ge" else highest(dtype)


def _gather_abstract(
    tangents: ShapedArray, operand: ShapedArray, *, select: str, **window: Any
) -> ShapedArray:
    shape = window_shape("select_and_gather_add", operand.shape, **window)
    return ShapedArray(shape, tangents.dtype)


def _gather_transpose(
    ct: object, t: object, operand: object, *, select: str, **window: object
) -> list:
    ones = (1,) * typeof(operand).ndim
    if window["base_dilation"] == ones and window["window_dilation"] == ones:
        result = select_and_scatter_add_p.bind(
            ct,
            operand,
            select=select,
            window_dimensions=window["window_dimensions"],
            window_strides=window["window_strides"],
            padding=window["padding"],
        )
        return [result, None]
    return [_scatter_dilated(ct, operand, select, window), None]


def _scatter_dilated(ct: Any, operand: object, select: str, window: dict) -> Any:
    """select_and_scatter_add for dilated windows, one place of the window after the other."""
    aval = typeof(operand)
    views = window_views([operand], [_bound(select, aval.dtype)], window)
    # The first element that no other beats, as the comparison `select` picks it.
    best = views[0][0]
    winners = [broadcast_in_dim(np.bool_(True), typeof(best).shape, ())]
    beats = gt if select == "ge" else lt
    for (value,) in views[1:]:
        wins = beats(value, best)
        best = choose(wins, value, best)
        winners = [and_p.bind(w, not_p.bind(wins)) for w in winners] + [wins]
    zero = ct.dtype.type(0)
    total = None
    for offset, won in zip(window_offsets(window), winners, strict=True):
        part = choose(won, ct, broadcast_in_dim(zero, typeof(ct).shape, ()))
        spread = _unview(part, offset, aval.shape, window)
        total = spread if total is None else add(total, spread)
    return total


def _unview(part: Any, offset: Dims, shape: Dims, window: dict) -> Any:
    """Return the transpose of one of `window_views`."""
    config = []
    for i, d in enumerate(shape):
        low, high = window["padding"][i]
        base = window["base_dilation"][i]
        extent = dilated(d, base) + low + high
        start = offset[i] * window["window_dilation"][i]
        stride = window["window_strides"][i]
        used = start + dilated(typeof(part).shape[i], stride)
        config.append((start - low, extent - used - high, stride - 1))
    spread = pad(part, part.dtype.type(0), config)
    size = typeof(spread).shape
    return slice_op(spread, (0,) * len(size), size, window["base_dilation"])


def _gather_lower(
    ctx: RuleContext, t: ir.Value, operand: ir.Value, *, select: str, **window: Any
) -> Any:
    tangent, x = ctx.avals_in
    types = [ctx.tensor(ctx.avals_out[0].shape, a.dtype) for a in (x, tangent)]
    inits = [
        ctx.splat(_bound(select, x.dtype), (), x.dtype),
        ctx.splat(0, (), tangent.dtype),
    ]
    operation = ctx.operation(
        "stablehlo.reduce_window",
        [operand, t, *inits],
        types,
        window_attrs(ctx, **window),
        regions=1,
    )
    scalars = [ctx.tensor((), a.dtype) for a in (x, tangent)]

    def body(kx: ir.Value, kt: ir.Value, vx: ir.Value, vt: ir.Value) -> list:
        keep = ctx.compare(kx, vx, select.upper(), x.dtype)
        return [
            ctx.op("stablehlo.select", [keep, a, b], [kind])[0]
            for a, b, kind in ((kx, vx, scalars[0]), (kt, vt, scalars[1]))
        ]

    ctx.region(operation, 0, [*scalars, *scalars], body)
    return operation.results[1]


select_and_gather_add_p = Primitive(
    "select_and_gather_add",
    abstract=_gather_abstract,
    jvp="linear",
    transpose=_gather_transpose,
    batch=batch_in_front(lambda: select_and_gather_add_p, lambda p: with_dimension(p, 0)),
    lower=_gather_lower,
    sharding="window",
    linear=(0,),
)
"""The tangents at the places where the windows of operand have their extremum."""


def _scatter_abstract(source: ShapedArray, operand: ShapedArray, **_: object) -> ShapedArray:
    return ShapedArray(operand.shape, source.dtype)


def _scatter_transpose(ct: object, source: object, operand: object, **params: object) -> list:
    ones = (1,) * typeof(operand).ndim
    result = select_and_gather_add_p.bind(
        ct, operand, base_dilation=ones, window_dilation=ones, **params
    )
    return [result, None]


def _scatter_lower(
    ctx: RuleContext,
    source: ir.Value,
    operand: ir.Value,
    *,
    select: str,
    window_dimensions: Dims,
    window_strides: Dims,
    padding: Pads,
) -> Any:
    """Pad the operand here: XLA pads with the scatter's zero, which may win."""
    x = ctx.avals_in[1]
    shape = tuple(d + lo + hi for d, (lo, hi) in zip(x.shape, padding, strict=True))
    padded = any(p != (0, 0) for p in padding)
    if padded:
        # quirks.SCATTER_PADDING: pad with what is never selected.
        low, high = zip(*padding, strict=True)
        operand = ctx.op(
            "stablehlo.pad",
            [operand, ctx.splat(_bound(select, x.dtype), (), x.dtype)],
            [ctx.tensor(shape, x.dtype)],
            {
                "edge_padding_low": ctx.i64s(low),
                "edge_padding_high": ctx.i64s(high),
                "interior_padding": ctx.i64s((0,) * len(shape)),
            },
        )[0]
    # XLA's partitioner would split windows: along those dimensions values are whole for it.
    windowed = [d for d, size in enumerate(window_dimensions) if size > 1]
    operand = whole_for_xla(ctx, operand, x, windowed)
    source = whole_for_xla(ctx, source, x, windowed)
    scalar = ctx.tensor((), x.dtype)
    operation = ctx.operation(
        "stablehlo.select_and_scatter",
        [operand, source, ctx.splat(0, (), x.dtype)],
        [ctx.tensor(shape, x.dtype)],
        {
            "window_dimensions": ctx.i64s(window_dimensions),
            "window_strides": ctx.i64s(window_strides),
            "padding": ctx.int_matrix(((0, 0),) * len(shape)),
        },
        regions=2,
    )
    ctx.region(
        operation,
        0,
        [scalar, scalar],
        lambda a, b: [ctx.compare(a, b, select.upper(), x.dtype)],
    )
    ctx.region(
        operation, 1, [scalar, scalar], lambda a, b: ctx.op("stablehlo.add", [a, b], [scalar])
    )
    result = whole_for_xla(ctx, operation.results[0], x, windowed)
    # The padding has gradients of its own, which are cut off.
    if padded:
        attrs = {
            "start_indices": ctx.i64s(low),
            "limit_indices": ctx.i64s([lo + d for lo, d in zip(low, x.shape, strict=True)]),
            "strides": ctx.i64s((1,) * len(shape)),
        }
        result = ctx.op("stablehlo.slice", [result], [ctx.tensor(x.shape, x.dtype)], attrs)[0]
    return result


select_and_scatter_add_p = Primitive(
    "select_and_scatter_add",
    abstract=_scatter_abstract,
    jvp="linear",
    transpose=_scatter_transpose,
    batch=batch_in_front(lambda: select_and_scatter_add_p, lambda p: with_dimension(p, 0)),
    lower=_scatter_lower,
    sharding="window",
    linear=(0,),
)
"""Adds each source element where its window of operand has its extremum."""
