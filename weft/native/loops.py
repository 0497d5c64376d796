"""Stacked results of loops without the zeros they start as: each step overwrites a row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.lowering.limits import STACKED
from weft.native.calls import has_compiler, untouched
from weft.partition.emit import Emitter
from weft.partition.walk import maker


def stacked(e: Emitter, op: ir.Operation, count: int) -> Sequence[ir.Value] | None:
    """Replace what the last `count` values of a loop start as, all rows of which it writes."""
    (block,) = op.regions[1].blocks
    returned = list(block.operations)[-1].operands
    places = [
        k
        for k in range(len(op.operands) - count, len(op.operands))
        if math.prod(op.operands[k].type.shape) >= STACKED
        and _is_filled(returned[k], block.arguments[k])
    ]
    if places and has_compiler():
        fresh = untouched(e, [op.operands[k].type for k in places])
        for k, value in zip(places, fresh, strict=True):
            op.operands[k] = value
    return None


def _is_filled(result: ir.Value, argument: ir.Value) -> bool:
    """Return whether a value is an argument with whole rows replaced, as this device has them."""
    while result != argument:
        op = maker(result)
        if op is None or op.name != "stablehlo.dynamic_update_slice":
            return False
        old, row = op.operands[:2]
        if list(row.type.shape) != [1, *old.type.shape[1:]]:
            return False
        result = old
    return len(list(argument.uses)) == 1
