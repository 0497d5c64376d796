# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""Lowering of scan: a stablehlo.while with the body in its region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr
from weft.lowering.limits import STACKED
from weft.ops.control.common import (
    ordered_effects_of,
)

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext


def lower_scan(
    ctx: RuleContext,
    *operands: ir.Value,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int,
    num_carry: int,
) -> list:
    """Emit a stablehlo.while over (index, constants, carry, xs, ys); its region is the body."""
    end = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], list(operands[num_consts:end]), operands[end:]
    x_avals = [physical(a) for a in jaxpr.in_avals[end:]]
    y_avals = [physical(a) for a in jaxpr.out_avals[num_carry:]]
    if length == 0:
        return carry + [ctx.splat(0, (0, *a.shape), a.dtype) for a in y_avals]
    tokens = ctx.function.tokens
    effects = ordered_effects_of(jaxpr)
    index_type = ctx.tensor((), dtypes.int32)
    zero = ctx.splat(0, (), dtypes.int32)

    def step(
        position: int | ir.Value, consts: tuple, carry: list, xs: tuple, ys: list
    ) -> tuple[list, list]:
        """Emit one iteration, at a position that is a value or a Python int."""
        static = isinstance(position, int)
        at = position
        if reverse:
            at = length - 1 - position if static else _sub(ctx, length - 1, position)
        slices = [_take(ctx, x, at, a) for x, a in zip(xs, x_avals, strict=True)]
        outs = ctx.inline(jaxpr, *consts, *carry, *slices)
        if static:
            at = ctx.splat(at, (), dtypes.int32)
        rows = whole(ctx, outs[num_carry:], jaxpr.out_avals[num_carry:])
        ys = [_put(ctx, y, o, at, a) for y, o, a in zip(ys, rows, y_avals, strict=True)]
        return outs[:num_carry], ys

    ys = [ctx.splat(0, (length, *a.shape), a.dtype) for a in y_avals]
    # Whole groups of `unroll` steps run in the loop, what is left over behind it.
    trips = 0 if unroll >= length else length // unroll * unroll
    carry_avals = jaxpr.in_avals[num_consts:end]
    if trips:
        # quirks.GSPMD_LOOP_SUMS
        carry = whole(ctx, carry, carry_avals)
        values = [zero, *consts, *carry, *xs, *ys, *(tokens[e] for e in effects)]
        types = [v.type for v in values]
        loop = ctx.operation("stablehlo.while", values, types, regions=2)
        bounds = np.cumsum([1, num_consts, num_carry, len(xs), len(ys)]).tolist()

        def condition(*v: ir.Value) -> list:
            return [ctx.compare(v[0], ctx.splat(trips, (), dtypes.int32), "LT", dtypes.int32)]

        def body(*v: ir.Value) -> list:
            index, (b0, b1, b2, b3, b4) = v[0], bounds
            consts, carry, xs, ys = v[b0:b1], list(v[b1:b2]), v[b2:b3], list(v[b3:b4])
            carry = whole(ctx, carry, carry_avals, parts=True)
            for e, token in zip(effects, v[b4:], strict=True):
                tokens[e] = token
            # Several steps in one body: XLA optimizes across them.
            for k in range(unroll):
                at = index
                if k:
                    offset = ctx.splat(k, (), dtypes.int32)
                    at = ctx.op("stablehlo.add", [index, offset], [index_type])[0]
                carry, ys = step(at, consts, carry, xs, ys)
            carry = whole(ctx, carry, carry_avals)
            following = ctx.op(
                "stablehlo.add", [index, ctx.splat(unroll, (), dtypes.int32)], [index_type]
            )[0]
            return [following, *consts, *carry, *xs, *ys, *(tokens[e] for e in effects)]

        ctx.region(loop, 0, types, condition)
        ctx.region(loop, 1, types, body)
        if not effects and any(length * a.size >= STACKED for a in y_avals):
            ctx.mark(loop, "stacked", len(ys))
        results = list(loop.results)
        carry, ys = results[bounds[1] : bounds[2]], results[bounds[3] : bounds[4]]
        carry = whole(ctx, carry, carry_avals, parts=True)
        for e, token in zip(effects, results[bounds[4] :], strict=True):
            tokens[e] = token
    for position in range(trips, length):
        carry, ys = step(position, consts, carry, xs, ys)
    return [*carry, *whole(ctx, ys, ctx.avals_out[num_carry:], parts=True)]


def whole(ctx: RuleContext, xs: Sequence[Any], avals: Sequence[Any], parts: bool = False) -> list:
    """Add up partial sums, as loops carry values; with `parts`, make parts of them again.

    XLA's partitioner takes what a loop carries for whole (quirks.GSPMD_LOOP_SUMS).
    """
    out = []
    for x, aval in zip(xs, avals, strict=True):
        sharding = getattr(aval, "sharding", None)
        if sharding is not None and sharding.spec.unreduced:
            added = sharding.with_spec(sharding.spec.update(unreduced=()))
            x = ctx.constrain(x, added, aval, by_type=True)
            if parts:
                x = ctx.constrain(x, sharding, aval, by_type=True)
        out.append(x)
    return out


def physical(aval: ShapedArray) -> ShapedArray:
    """Return the array that holds values of the type: keys are arrays of their words.

    Of a value in flight, that is the value.
    """
    aval = getattr(aval, "value", aval)
    if dtypes.is_extended(aval.dtype):
        return ShapedArray(aval.shape + aval.dtype.physical_shape, aval.dtype.physical_dtype)
    if aval.dtype == dtypes.float0:
        return ShapedArray(aval.shape, dtypes.bool_)
    return aval


def _sub(ctx: RuleContext, value: int, index: ir.Value) -> Any:
    total = ctx.splat(value, (), dtypes.int32)
    return ctx.op("stablehlo.subtract", [total, index], [index.type])[0]


def _take(ctx: RuleContext, x: ir.Value, at: int | ir.Value, aval: ShapedArray) -> Any:
    """Row `at` of x."""
    row = ctx.tensor((1, *aval.shape), aval.dtype)
    rank = aval.ndim + 1
    if isinstance(at, int):
        attrs = {
            "start_indices": ctx.i64s((at,) + (0,) * aval.ndim),
            "limit_indices": ctx.i64s((at + 1, *aval.shape)),
            "strides": ctx.i64s((1,) * rank),
        }
        piece = ctx.op("stablehlo.slice", [x], [row], attrs)[0]
    else:
        starts = [at] + [ctx.splat(0, (), dtypes.int32)] * aval.ndim
        attrs = {"slice_sizes": ctx.i64s((1, *aval.shape))}
        piece = ctx.op("stablehlo.dynamic_slice", [x, *starts], [row], attrs)[0]
    return ctx.op("stablehlo.reshape", [piece], [ctx.tensor(aval.shape, aval.dtype)])[0]


def _put(ctx: RuleContext, ys: ir.Value, y: ir.Value, at: ir.Value, aval: ShapedArray) -> Any:
    """ys with row `at` replaced."""
    row = ctx.op("stablehlo.reshape", [y], [ctx.tensor((1, *aval.shape), aval.dtype)])[0]
    starts = [at] + [ctx.splat(0, (), dtypes.int32)] * aval.ndim
    return ctx.op("stablehlo.dynamic_update_slice", [ys, row, *starts], [ys.type])[0]
