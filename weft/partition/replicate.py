"""Lets every device run all of a small program, on arguments that are gathered once.

With few elements, what takes time is how often devices wait for each other: a loop that sums over
devices in each of its turns is slower on shards than whole, and sends more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout
from weft.partition.collect import Collective, byte_size, byte_size_of, trip_count
from weft.partition.ops import facts
from weft.partition.overlap_estimate import work_of
from weft.partition.traffic_estimate import LATENCY
from weft.partition.walk import SHARDINGS, WHY, forget, functions, ops_in, supersede

LARGEST = LATENCY  # bytes of the arguments: to gather more takes longer than it takes to wait
_SUMS = ("sdy.all_reduce", "sdy.reduce_scatter")
_PASSES_ON = ("func.return", "stablehlo.return", "sdy.data_flow_edge")
_REASON = "every device computes all of this small program, which sends less in fewer collectives"


def is_small(module: ir.Module) -> bool:
    """Whether a propagated program may run whole: few bytes, only arithmetic, nothing pinned.

    What the user constrained, or wrote for each device, is split as written.
    """
    by_name = functions(module)
    if len(by_name) != 1:
        return False
    block = by_name["main"].regions[0].blocks[0]
    return sum(byte_size(a.type) for a in block.arguments) <= LARGEST and _computes(block)


def _computes(block: ir.Block) -> bool:
    """Whether operations only compute, from values that the partitioner may place."""
    for op in ops_in(block):
        row = facts(op)
        if row.relayout or not (row.pure or row.control or op.name in _PASSES_ON or _solves(op)):
            return False
        inner = () if row.combines else (b for region in op.regions for b in region.blocks)
        if not all(map(_computes, inner)):
            return False
    return True


def _solves(op: ir.Operation) -> bool:
    """Whether an operation is a call of LAPACK, which computes from its operands alone."""
    return op.name == "stablehlo.custom_call" and op.attributes[
        "call_target_name"
    ].value.startswith("lapack_")


def may_send_less(
    whole: ir.Module, arguments: Sequence[AxisLayout], split: Sequence[Collective]
) -> bool:
    """Whether to try a program whole, given the collectives of the one on shards.

    Its arguments must be gathered for less, and what every device computes must take no longer than
    the latency of half the collectives, with each operation passing an element through the memory.
    """
    block = functions(whole)["main"].regions[0].blocks[0]
    gathered = sum(
        math.prod(layout.local) * byte_size_of(a.type.element_type) * (layout.mesh.count(used) - 1)
        for a, layout in zip(block.arguments, arguments, strict=True)
        if (used := tuple(layout.used)) and next(iter(a.uses), None) is not None
    )
    if gathered >= sum(c.total_bytes for c in split):
        return False
    return 2 * work_of(ops_in(block), {}, trip_count).flops <= LATENCY * sum(c.trips for c in split)


def sends_less(whole: Sequence[Collective], split: Sequence[Collective]) -> bool:
    """Whether collectives send fewer bytes in at most half the executions."""
    fewer = 2 * sum(c.trips for c in whole) <= sum(c.trips for c in split)
    return fewer and sum(c.total_bytes for c in whole) < sum(c.total_bytes for c in split)


def make_whole(module: ir.Module) -> None:
    """Gathers the arguments of a module with explicit collectives and splits nothing else."""
    function = functions(module)["main"]
    block = function.regions[0].blocks[0]
    with module.context, ir.Location.unknown(module.context):
        _forget_shardings(block)
        for i, argument in enumerate(block.arguments):
            uses = [(use.owner.operation, use.operand_number) for use in argument.uses]
            sharding = sdy.argument_sharding(function, i)
            if not uses or sharding is None or not any(sdy.dims_of(sharding)):
                continue
            whole = sdy.replicated(sharding)
            copy = _reshard(argument, whole, ir.InsertionPoint.at_block_begin(block))
            for user, number in uses:
                user.operands[number] = copy
        end = ops_in(block)[-1]
        for i, attributes in enumerate(function.attributes.get("res_attrs", ())):
            target = {a.name: a.attr for a in attributes}.get("sdy.sharding")
            if target is not None:
                end.operands[i] = _reshard(end.operands[i], target, ir.InsertionPoint(end))


def _forget_shardings(block: ir.Block) -> None:
    """Drops the shardings of operations, and what moved and summed for them."""
    for op in ops_in(block):
        if facts(op).relayout or op.name in _SUMS:
            supersede(op, *op.operands)
            continue
        forget(op, *SHARDINGS)
        for region in op.regions if not facts(op).combines else ():
            for inner in region.blocks:
                _forget_shardings(inner)


def _reshard(value: ir.Value, target: ir.Attribute, where: ir.InsertionPoint) -> ir.Value:
    attributes = {"sharding": target, WHY: ir.StringAttr.get(_REASON)}
    return ir.Operation.create(
        "sdy.reshard", results=[value.type], operands=[value], attributes=attributes, ip=where
    ).results[0]
