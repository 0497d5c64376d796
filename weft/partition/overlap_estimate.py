"""What a device computes between the start of a collective and its done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft._xla import stablehlo
from weft._xla.mlir import ir

Functions = dict[str, ir.Operation]
TripCount = Callable[[ir.Operation], int | None]

# They move, make up or hand on data; only what is left counts as computation.
_MOVE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("constant", "iota", "reshape", "broadcast_in_dim", "transpose", "slice", "pad"),
        *("dynamic_slice", "dynamic_update_slice", "concatenate", "reverse", "gather"),
        *("bitcast_convert", "replica_id", "partition_id", "optimization_barrier", "return"),
        *("async_start", "async_done", "all_reduce", "all_gather", "reduce_scatter"),
        *("all_to_all", "collective_permute", "collective_broadcast", "after_all", "tuple"),
    )
) | {"func.return"}


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Computation that a started collective can hide behind.

    Attributes:
      operations: that compute, loops counted; those that only move data are not.
      flops: of these on one device. A dot counts two for each product, other operations one for
        each element of their largest operand or result.
    """

    operations: int = 0
    flops: int = 0

    def __add__(self, other: Meanwhile) -> Meanwhile:
        return Meanwhile(self.operations + other.operations, self.flops + other.flops)

    def __mul__(self, trips: int) -> Meanwhile:
        return Meanwhile(self.operations * trips, self.flops * trips)


def until_done(start: ir.Operation, functions: Functions, trip_count: TripCount) -> Meanwhile:
    """What stands between an `async_start` and its `async_done`; unknown trip counts are one."""
    done = {
        use.owner.operation
        for use in start.results[0].uses
        if use.owner.operation.name == "stablehlo.async_done"
    }
    between: list[ir.Operation] = []
    inside = False
    for view in start.block.operations:
        op = view.operation
        if op in done:
            return _work(between, functions, trip_count)
        if inside:
            between.append(op)
        inside = inside or op == start
    return Meanwhile()


def _work(ops: Iterable[ir.Operation], functions: Functions, trip_count: TripCount) -> Meanwhile:
    def inside(region: ir.Region) -> Meanwhile:
        ops = (view.operation for view in region.blocks[0].operations)
        return _work(ops, functions, trip_count)

    total = Meanwhile()
    for op in ops:
        name = op.name
        if name in _MOVE:
            continue
        if name == "func.call":
            callee = functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
            total += inside(callee.regions[0])
        elif name == "stablehlo.while":
            total += inside(op.regions[1]) * (trip_count(op) or 1)
        elif name in ("stablehlo.case", "stablehlo.if"):
            branches = [inside(region) for region in op.regions]
            total += max(branches, key=lambda b: b.flops, default=Meanwhile())
        else:
            total += Meanwhile(1, _flops(op))
    return total


def _flops(op: ir.Operation) -> int:
    sizes = [
        math.prod(v.type.shape)
        for v in (*op.operands, *op.results)
        if isinstance(v.type, ir.RankedTensorType)
    ]
    if op.name == "stablehlo.dot_general":
        d = stablehlo.dot_dimensions(op.attributes["dot_dimension_numbers"])
        shape = op.operands[0].type.shape
        return 2 * sizes[-1] * math.prod(shape[i] for i in d.lhs_contract)
    if op.name == "stablehlo.convolution":
        kernel = op.operands[1].type.shape
        d = stablehlo.conv_dimensions(op.attributes["dimension_numbers"])
        return 2 * sizes[-1] * math.prod(kernel) // kernel[d.rhs_out]
    return max(sizes, default=0)
