"""Elementwise functions that XLA:CPU computes one element at a time, as calls of kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.core import dtypes
from weft.lowering.limits import UNFUSED_WAVES
from weft.native.calls import call, has_compiler, target
from weft.partition.emit import Emitter
from weft.partition.walk import maker, splat_of

LARGE = {"f32": 0x4E000000, "f64": 0x4130000000000000}
"""The bits of the greatest arguments of waves that the kernel reduces: 2²⁹ and 2²⁰."""

LARGEST_QUOTIENTS = {"f32": 1 << 29, "f64": 1 << 53}
"""The quotients below which the kernel of remainders is exact."""


def wave(e: Emitter, op: ir.Operation, quarter: int) -> Sequence[ir.Value] | None:
    """Replace a sine (quarter 0), a cosine (1) or a tangent (2) of f32 or f64."""
    x = _widened(e, op.operands[0])
    size, name = math.prod(x.type.shape), str(x.type.element_type)
    if name not in LARGE or size < UNFUSED_WAVES or not has_compiler():
        return None
    if "result_accuracy" in op.attributes:
        return None
    bits = int(name[1:])
    numbers = {"BITS": bits, "LARGE": LARGE[name], "QUARTER": quarter}
    bindings: dict[str, str | int] = {"T": name, "U": f"u{bits}", **numbers}
    kernel = target("waves", "waves", bindings)
    return _narrowed(e, op, call(e, kernel, [x], [x.type], [size]))


def power(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a power of f32 or less."""
    x, y = op.operands
    if math.prod(x.type.shape) < UNFUSED_WAVES or not has_compiler():
        return None
    return _binary(e, op, target("exponentials", "powers", {}))


def remainder(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a remainder of floats, but by a power of two, at which XLA is fast."""
    if not has_compiler():
        return None
    divisor = splat_of(op.operands[1])
    if divisor is not None and abs(math.frexp(divisor)[0]) == 0.5:
        return None
    name = "f64" if str(op.results[0].type.element_type) == "f64" else "f32"
    bindings: dict[str, str | int] = {"T": name, "LIMIT": LARGEST_QUOTIENTS[name]}
    return _binary(e, op, target("remainders", "remainders", bindings))


def _binary(e: Emitter, op: ir.Operation, kernel: str) -> Sequence[ir.Value]:
    """Call a kernel on two arrays, the second of which may be a scalar that was spread."""
    x, y = op.operands
    spread = maker(y)
    if spread is not None and spread.name == "stablehlo.broadcast_in_dim":
        scalar = spread.operands[0]
        y = scalar if scalar.type.rank == 0 else y
    x, y = _widened(e, x), _widened(e, y)
    parameters = [math.prod(x.type.shape), int(y.type.rank > 0)]
    return _narrowed(e, op, call(e, kernel, [x, y], [x.type], parameters))


def _widened(e: Emitter, x: ir.Value) -> ir.Value:
    """Convert floats of 16 bits to f32."""
    narrow = str(x.type.element_type) in ("bf16", "f16")
    return e.convert(x, mlir.element_type(dtypes.float32)) if narrow else x


def _narrowed(e: Emitter, op: ir.Operation, outs: Sequence[ir.Value]) -> Sequence[ir.Value]:
    return [e.convert(out, op.results[0].type.element_type) for out in outs]
