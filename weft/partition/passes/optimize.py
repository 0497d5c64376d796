"""Optimizations on the local program's collectives.

merge_equal      the same collective of the same value happens once
hoist            collectives of loop-invariant values leave while loops
join_sums        reductions that are only added up become one; not the user's own
accumulate       all_reduces that a loop only adds up happen once, behind it; not the user's own
combine          small collectives of a kind over the same groups become one (fewer latencies)
overlap          optional: all_gather + dot becomes a ring of permutes and partial dots
bytes            integers of fewer than 8 bits travel as bytes
"""

from __future__ import annotations

from collections.abc import Sequence

from weft._xla import passes
from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout, DeviceMesh
from weft.partition.collect import KINDS
from weft.partition.ops import facts
from weft.partition.passes.byte_transport import send_bytes
from weft.partition.passes.carry_linearity import KEPT, WRITTEN
from weft.partition.passes.combine import combine
from weft.partition.passes.merge_reductions import join_sums
from weft.partition.passes.overlap import overlap_gathers
from weft.partition.passes.sink_reductions import reduce_behind_loops
from weft.partition.walk import (
    WHY,
    attributes_of,
    combiner_of,
    forget,
    functions,
    inner_first,
    insert,
    maker,
    ops_in,
    supersede,
    terminator,
)


def optimize(
    module: ir.Module,
    mesh: DeviceMesh,
    *,
    arguments: Sequence[AxisLayout] | None = None,
    written: bool = False,
    overlap: bool = False,
    diverges: bool = False,
    whole: bool = False,
) -> None:
    """Improve a local module in place.

    Args:
      module: the local module.
      mesh: its devices.
      arguments: the layouts of the main function's arguments, where known.
      written: the user wrote all of its collectives.
      overlap: make rings of gathers and products.
      diverges: devices may take branches and loops differently.
      whole: every device runs all of the program, on arguments that are gathered in front of it.
    """
    passes.run(module, "cse")  # so that equal collectives have one operand
    with module.context, ir.Location.unknown(module.context):
        for name, function in functions(module).items():
            block = function.regions[0].blocks[0]
            if not whole:
                if not _drop_unused(block):
                    continue
                _hoist(block)
                if not written:
                    join_sums(block)
                    reduce_behind_loops(block, mesh, arguments if name == "main" else None)
                _merge_equal(block, {})
            if overlap:
                overlap_gathers(block, mesh, diverges)
            combine(block, mesh)
            _finish(block, mesh)
    passes.run(module, "cse")


def _finish(block: ir.Block, mesh: DeviceMesh) -> None:
    """Rewrite collectives as a backend needs them."""
    for op in inner_first(block):
        forget(op, KEPT)
        if op.name not in KINDS:
            continue
        forget(op, WRITTEN)  # by the user: that matters no more
        sent = send_bytes(op, mesh) or op
        if sent.name == "stablehlo.all_to_all":
            _keep_operands_whole(sent)


def _keep_operands_whole(op: ir.Operation) -> None:
    """Put a barrier in front of an all_to_all.

    XLA:CPU cuts the operand of an all_to_all early. Parts that it then simplifies apart, one that
    is transposed and one of padding, get different layouts, which its own verifier rejects
    (quirks.ALL_TO_ALL_LAYOUT). The barrier goes before XLA assigns layouts, and costs nothing.
    """
    around = op.parent
    if around.name == "stablehlo.async_start":  # which holds its collective and no more
        op = around
    values = list(op.operands)
    types = [v.type for v in values]
    barrier = insert(op, "stablehlo.optimization_barrier", types, values)
    for i, value in enumerate(barrier.results):
        op.operands[i] = value


def _drop_unused(block: ir.Block) -> bool:
    """Erase collectives whose result nothing uses; MLIR's own passes must keep them.

    Returns:
      Whether there are others.
    """
    kept = False
    for op in reversed(ops_in(block)):
        collective = op.name in KINDS
        used = any([next(iter(r.uses), None) is not None for r in op.results])
        if used or not (collective or facts(op).pure):
            inner = [b for region in op.regions for b in region.blocks]
            kept |= collective or any([_drop_unused(b) for b in inner])
        else:
            op.erase()
    return kept


# -- merge_equal ---------------------------------------------------------------------------------


def _merge_equal(block: ir.Block, earlier_ops: dict) -> None:
    """Replace a collective by an equal earlier one of its block or of an enclosing block."""
    earlier_ops = dict(earlier_ops)
    for op in ops_in(block):
        if op.name in KINDS:
            earlier = earlier_ops.setdefault(_key(op), op)
            if earlier != op:
                supersede(op, *earlier.results)
        elif facts(op).control:
            for region in op.regions:
                _merge_equal(region.blocks[0], earlier_ops)


def _key(op: ir.Operation) -> tuple:
    attributes = tuple(attributes_of(op, WHY).items())
    operands = tuple((_unshaped(v), v.type) for v in op.operands)
    return (op.name, operands, attributes, combiner_of(op), op.results[0].type)


def _unshaped(value: ir.Value) -> ir.Value:
    """Return the source of a value before reshapes and empty pads."""
    while (op := maker(value)) is not None:
        kept = op.name == "stablehlo.pad" and op.operands[0].type == value.type
        if kept and any(any(op.attributes[name]) for name in _PADDED):
            kept = False
        if not kept and op.name != "stablehlo.reshape":
            break
        value = op.operands[0]
    return value


_PADDED = ("edge_padding_low", "interior_padding")


# -- hoist ---------------------------------------------------------------------------------------


def _hoist(block: ir.Block) -> None:
    """Move collectives whose operands do not change in a while loop in front of it."""
    for op in inner_first(block):
        if op.name == "stablehlo.while":
            _hoist_from(op)


def _hoist_from(loop: ir.Operation) -> None:
    body = loop.regions[1].blocks[0]
    carried = terminator(body).operands
    outside: dict[ir.Value, ir.Value] = {
        argument: loop.operands[i]
        for i, argument in enumerate(body.arguments)
        if carried[i] == argument
    }
    movable: dict[ir.Operation, None] = {}  # operations on invariant values

    def invariant(value: ir.Value) -> bool:
        if value in outside:
            return True
        owner = value.owner
        if isinstance(owner, ir.Block):
            return owner != body
        return owner.operation in movable or owner.operation.block != body

    def lift(op: ir.Operation) -> None:
        """Move an operation in front of the loop, with those that its operands come from."""
        needed, left = {op}, [op]
        while left:
            for made in map(maker, left.pop().operands):
                if made in movable and made not in needed:
                    needed.add(made)
                    left.append(made)
        for each in [*(o for o in movable if o in needed), op]:
            movable.pop(each, None)
            for i, value in enumerate(each.operands):
                if value in outside:
                    each.operands[i] = outside[value]
            each.move_before(loop)

    for op in ops_in(body):
        collective = op.name in KINDS
        if not (collective or _is_pure(op)) or not all(invariant(v) for v in op.operands):
            continue
        if collective:
            lift(op)
        else:
            movable[op] = None


def _is_pure(op: ir.Operation) -> bool:
    """Return whether an operation only computes, from its operands alone."""
    return facts(op).pure and all(
        isinstance(v.owner, ir.Block) or v.owner.operation.block == block
        for region in op.regions
        for block in region.blocks
        for inner in ops_in(block)
        for v in inner.operands
    )
