"""Lets every device run all of a small program, on arguments that are gathered once.

With few elements, what takes time is how often devices wait for each other: a loop that sums over
devices in each of its turns is slower on shards than whole, and sends more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout
from weft.partition.collect import Collective, byte_size, byte_size_of, trip_count
from weft.partition.ops import calls_lapack, facts
from weft.partition.overlap_estimate import work_of
from weft.partition.traffic_estimate import LATENCY
from weft.partition.walk import (
    SHARDINGS,
    forget,
    functions,
    inner_first,
    main_block,
    ops_in,
    supersede,
)

LARGEST = LATENCY  # bytes of the arguments: to gather more takes longer than it takes to wait
_PASSES_ON = ("func.return", "stablehlo.return", "sdy.data_flow_edge")


def is_small(module: ir.Module) -> bool:
    """Tell whether a propagated program may run whole: few bytes, only arithmetic, nothing pinned.

    What the user constrained, or wrote for each device, is split as written.
    """
    by_name = functions(module)
    if len(by_name) != 1 or _has_partial_sums(by_name["main"]):
        return False
    block = by_name["main"].regions[0].blocks[0]
    return sum(byte_size(a.type) for a in block.arguments) <= LARGEST and _computes(block)


def _has_partial_sums(function: ir.Operation) -> bool:
    """Return whether arguments or results are sums over devices, which is for the user to say."""
    boundary = (function.attributes.get(name) for name in ("arg_attrs", "res_attrs"))
    return any("unreduced" in str(attribute) for attribute in boundary)


def _computes(block: ir.Block) -> bool:
    """Return whether operations only compute, from values that the partitioner may place."""
    for op in ops_in(block):
        row = facts(op)
        passes = row.pure or row.control or op.name in _PASSES_ON or calls_lapack(op)
        if row.relayout or not passes:
            return False
        inner = () if row.combines else (b for region in op.regions for b in region.blocks)
        if not all(map(_computes, inner)):
            return False
    return True


def sends_less(
    whole: ir.Module, arguments: Sequence[AxisLayout], split: Sequence[Collective]
) -> bool:
    """Return whether to run a program whole, given the collectives of the one on shards.

    It must send fewer bytes in at most half the executions, and what every device computes must
    take no longer than their latency, with each operation passing an element through the memory.
    """
    block = main_block(whole)
    sent, gathers = 0.0, set()
    for argument, layout in zip(block.arguments, arguments, strict=True):
        if next(iter(argument.uses), None) is not None:
            element, parts = argument.type.element_type, layout.mesh.count(tuple(layout.used))
            sent += (parts - 1) * math.prod(layout.local) * byte_size_of(element)
            gathers |= {(element, atoms) for atoms in layout.dims if atoms}  # alike ones are joined
    fewer = sum(c.trips for c in split) - len(gathers)
    if sent >= sum(c.total_bytes for c in split) or fewer < len(gathers):
        return False
    return work_of(ops_in(block), {}, trip_count).flops <= LATENCY * fewer


def make_whole(module: ir.Module) -> None:
    """Drop the shardings of a module's operations, with the moves and sums for them."""
    for op in inner_first(main_block(module)):
        if op.name == "sdy.constant":
            forget(op, *SHARDINGS)
            # Through text: quirks.COMPLEX_ELEMENTS.
            constant = ir.Operation.parse(str(op).replace("sdy.constant", "stablehlo.constant", 1))
            ir.InsertionPoint(op).insert(constant)
            supersede(op, *constant.operation.results)
            continue
        forget(op, *SHARDINGS)
        if facts(op).relayout or op.name in ("sdy.all_reduce", "sdy.reduce_scatter"):
            supersede(op, *op.operands)
