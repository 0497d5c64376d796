"""Elementwise functions that XLA:CPU computes one element at a time, as calls of kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.lowering.limits import UNFUSED_WAVES
from weft.native.calls import call, has_compiler, target
from weft.partition.emit import Emitter
from weft.partition.walk import maker

LARGE = {"f32": 0x4E000000, "f64": 0x4130000000000000}
"""The bits of the greatest arguments of waves that the kernel reduces: 2²⁹ and 2²⁰."""


def wave(e: Emitter, op: ir.Operation, quarter: int) -> Sequence[ir.Value] | None:
    """Replace a sine (quarter 0) or a cosine (1) of f32 or f64, or a tangent (2) of f32."""
    (x,) = op.operands
    size, name = math.prod(x.type.shape), str(x.type.element_type)
    if name not in LARGE or size < UNFUSED_WAVES or not has_compiler():
        return None
    if "result_accuracy" in op.attributes or (quarter == 2 and name != "f32"):
        return None
    bits = int(name[1:])
    numbers = {"BITS": bits, "LARGE": LARGE[name], "QUARTER": quarter}
    bindings: dict[str, str | int] = {"T": name, "U": f"u{bits}", **numbers}
    kernel = target("waves", "waves", bindings)
    return call(e, kernel, [x], [x.type], [size])


def power(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a power of f32."""
    x, y = op.operands
    size = math.prod(x.type.shape)
    if str(x.type.element_type) != "f32" or size < UNFUSED_WAVES or not has_compiler():
        return None
    spread = maker(y)
    if spread is not None and spread.name == "stablehlo.broadcast_in_dim":
        scalar = spread.operands[0]
        y = scalar if scalar.type.rank == 0 else y
    kernel = target("exponentials", "powers", {})
    return call(e, kernel, [x, y], [x.type], [size, int(y.type.rank > 0)])
