"""Estimate the work that overlaps a started collective."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft._xla.mlir import ir
from weft.partition.ops import facts
from weft.partition.walk import ops_in

Functions = dict[str, ir.Operation]
TripCount = Callable[[ir.Operation], int | None]


@dataclass(frozen=True, slots=True)
class OverlappedWork:
    """Computation that a started collective can hide behind.

    Attributes:
      operations: that compute, loops counted; those that only move data are not.
      flops: of these on one device. A dot counts two for each product, other operations one for
        each element of their largest operand or result.
    """

    operations: int = 0
    flops: int = 0

    def __add__(self, other: OverlappedWork) -> OverlappedWork:
        return OverlappedWork(self.operations + other.operations, self.flops + other.flops)

    def __mul__(self, trips: int) -> OverlappedWork:
        return OverlappedWork(self.operations * trips, self.flops * trips)


def overlapped_work(
    start: ir.Operation, functions: Functions, trip_count: TripCount
) -> OverlappedWork:
    """Estimate the work between an `async_start` and its done; unknown trip counts are one."""
    done = {
        use.owner.operation
        for use in start.results[0].uses
        if use.owner.operation.name == "stablehlo.async_done"
    }
    between: list[ir.Operation] = []
    inside = False
    for op in ops_in(start.block):
        if op in done:
            return work_of(between, functions, trip_count)
        if inside:
            between.append(op)
        inside = inside or op == start
    return OverlappedWork()


def work_of(
    ops: Iterable[ir.Operation], functions: Functions, trip_count: TripCount
) -> OverlappedWork:
    """Return the arithmetic of operations, with that of loops, branches and calls in them."""

    def inside(region: ir.Region) -> OverlappedWork:
        return work_of(ops_in(region.blocks[0]), functions, trip_count)

    total = OverlappedWork()
    for op in ops:
        name = op.name
        if name == "func.call":
            callee = functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
            total += inside(callee.regions[0])
        elif name == "stablehlo.while":
            total += inside(op.regions[1]) * (trip_count(op) or 1)
        elif name in ("stablehlo.case", "stablehlo.if"):
            branches = [inside(region) for region in op.regions]
            total += max(branches, key=lambda b: b.flops, default=OverlappedWork())
        elif flops := facts(op).flops(op):
            total += OverlappedWork(1, flops)
    return total
