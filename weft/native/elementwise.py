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

LARGEST_QUOTIENTS = {"f32": 1 << 29, "f64": 1 << 53}
"""The quotients below which the kernel of remainders is exact."""


def wave(e: Emitter, op: ir.Operation, quarter: int) -> Sequence[ir.Value] | None:
    """Replace a sine (quarter 0), a cosine (1) or a tangent (2) of f32 or f64."""
    (x,) = op.operands
    size, name = math.prod(x.type.shape), str(x.type.element_type)
    if name not in LARGE or size < UNFUSED_WAVES or not has_compiler():
        return None
    if "result_accuracy" in op.attributes:
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
    return _binary(e, target("exponentials", "powers", {}), x, y)


def remainder(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a remainder of f32 or f64, but by a power of two, at which XLA is fast."""
    x, y = op.operands
    name = str(x.type.element_type)
    if name not in LARGEST_QUOTIENTS or not has_compiler():
        return None
    divisor = _splat(y)
    if divisor is not None and abs(math.frexp(divisor)[0]) == 0.5:
        return None
    bindings: dict[str, str | int] = {"T": name, "LIMIT": LARGEST_QUOTIENTS[name]}
    return _binary(e, target("remainders", "remainders", bindings), x, y)


def _splat(value: ir.Value) -> float | None:
    """Find the one number of a constant array."""
    made = maker(value)
    while made is not None and made.name == "stablehlo.broadcast_in_dim":
        made = maker(made.operands[0])
    if made is None or made.name != "stablehlo.constant":
        return None
    elements = made.attributes["value"]
    return elements.get_splat_value().value if elements.is_splat else None


def _binary(e: Emitter, kernel: str, x: ir.Value, y: ir.Value) -> Sequence[ir.Value]:
    """Call a kernel on two arrays, the second of which may be a scalar that was spread."""
    spread = maker(y)
    if spread is not None and spread.name == "stablehlo.broadcast_in_dim":
        scalar = spread.operands[0]
        y = scalar if scalar.type.rank == 0 else y
    return call(e, kernel, [x, y], [x.type], [math.prod(x.type.shape), int(y.type.rank > 0)])
