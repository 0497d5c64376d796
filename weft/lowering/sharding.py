"""Shardings of values inside a program: constraints in Shardy's or GSPMD's notation."""

from __future__ import annotations

from typing import Any

from weft.core import dtypes
from weft.lowering.context import parse_attr, string_attr


def constrain(ctx: Any, x: Any, sharding: Any, aval: Any) -> Any:
    """The value with a sharding constraint; unchanged without a sharding or on one device."""
    if sharding is None or ctx.module.num_partitions == 1 or not hasattr(sharding, "spec"):
        return x
    from weft.sharding.named import mhlo_sharding_text, sdy_sharding_text

    rank = aval.ndim + (len(aval.dtype.physical_shape) if dtypes.is_extended(aval.dtype) else 0)
    sharding = ctx.module.localize_sharding(sharding)
    if ctx.module.use_shardy:
        attr = parse_attr(sdy_sharding_text(sharding, rank))
        return ctx.op("sdy.sharding_constraint", [x], [x.type], {"sharding": attr})[0]
    attrs = {
        "call_target_name": string_attr("Sharding"),
        "mhlo.sharding": string_attr(mhlo_sharding_text(sharding, rank)),
        "api_version": ctx.i32(1),
    }
    return ctx.op("stablehlo.custom_call", [x], [x.type], attrs)[0]
