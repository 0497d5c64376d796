"""Softmax along the last dimension of what is in memory as a call of a kernel.

XLA:CPU makes it of three loops, each of which reads all rows from memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.lowering.context import in_memory
from weft.lowering.limits import SOFTMAX_ROW
from weft.native.calls import call, has_compiler, target
from weft.native.extrema import readers
from weft.native.parallel import threads
from weft.partition.emit import Emitter
from weft.partition.walk import combiner_of, maker

LANES = 32


def softmax(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace exp(x - max(x)) / sum(exp(x - max(x))), unless products read it, part by part."""
    shifted = shifted_rows(op)
    if shifted is None or not has_compiler():
        return None
    x = shifted.operands[0]
    shape, n = list(x.type.shape), x.type.shape[-1]
    rows = math.prod(shape) // n
    if not in_memory(x) or str(x.type.element_type) != "f32" or n < SOFTMAX_ROW:
        return None
    if rows < 4 * threads() or any(u.name == "stablehlo.dot_general" for u in readers(op)):
        return None
    return call(e, target("softmax", "softmax", {"LANES": LANES}), [x], [x.type], [rows, n])


def shifted_rows(divide: ir.Operation) -> ir.Operation | None:
    """Return the subtraction of the maximum, if all rows of a softmax are whole on this device."""
    if divide.name != "stablehlo.divide":
        return None
    numerator, divisor = divide.operands
    exponential = maker(numerator)
    if exponential is None:
        return None
    shifted = maker(exponential.operands[0])
    if exponential.name != "stablehlo.exponential" or shifted is None:
        return None
    if shifted.name != "stablehlo.subtract":
        return None
    whole = _is_of_rows(divisor, numerator, "stablehlo.add")
    x, top = shifted.operands
    return shifted if whole and _is_of_rows(top, x, "stablehlo.maximum") else None


def _is_of_rows(spread: ir.Value, x: ir.Value, combiner: str) -> bool:
    """Tell whether a value is a reduction of another along its last dimension, spread over it."""
    last, op = x.type.rank - 1, maker(spread)
    if op is None or op.name != "stablehlo.broadcast_in_dim":
        return False
    if list(op.attributes["broadcast_dimensions"]) != [*range(last)]:
        return False
    reduced = maker(op.operands[0])
    return (
        reduced is not None
        and reduced.name == "stablehlo.reduce"
        and reduced.operands[0] == x
        and list(reduced.attributes["dimensions"]) == [last]
        and combiner_of(reduced) == combiner
    )
