# Tests: tests/partition/passes/test_optimize.py
"""all_gather + dot as a ring: each step multiplies one shard while the next one travels.

The decomposition of Wang et al., "Overlap communication with dependent computation via
decomposition in large deep learning models" (ASPLOS 2023), unrolled: XLA schedules each permute
next to the dot that does not need it.
"""

from __future__ import annotations

import numpy as np

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, DeviceMesh
from weft.partition.collect import trip_count
from weft.partition.emit import Emitter
from weft.partition.ops import facts
from weft.partition.walk import maker, only_user, ops_in, supersede

MAX_STEPS = 32  # larger rings would make the program too long


def overlap_gathers(block: ir.Block, mesh: DeviceMesh, diverges: bool = False) -> None:
    """Rewrite dots of gathered operands in a function's block and its loops.

    diverges: devices may take branches differently, in which permutes would wait for all of them
    on the CPU (see `Emitter.permute`): gathers there stay.
    """
    e = Emitter(mesh, block)
    _rewrite(block, mesh, e, diverges)
    e.anchor.erase()


def _rewrite(block: ir.Block, mesh: DeviceMesh, e: Emitter, diverges: bool) -> None:
    for op in ops_in(block):
        if op.name == "stablehlo.dot_general":
            _ = _overlap(op, 0, mesh, e) or _overlap(op, 1, mesh, e)
        elif facts(op).control and not (diverges and _decided(op)):
            for region in op.regions:
                _rewrite(region.blocks[0], mesh, e, diverges)


def _decided(op: ir.Operation) -> bool:
    """Tell whether a value decides what control flow runs; loops may have known trip counts."""
    return op.name != "stablehlo.while" or trip_count(op) is None


def _overlap(dot: ir.Operation, side: int, mesh: DeviceMesh, e: Emitter) -> bool:
    gather = maker(dot.operands[side])
    if gather is None or gather.name != "stablehlo.all_gather":
        return False
    if only_user(gather.results[0]) is None:
        return False
    atoms = _atoms_of(np.array(gather.attributes["replica_groups"]), mesh)
    if not atoms or not 1 < (n := mesh.count(atoms)) <= MAX_STEPS:
        return False
    dim = gather.attributes["all_gather_dim"].value
    d = stablehlo.dot_dimensions(dot.attributes["dot_dimension_numbers"])
    batch, contract = (d.lhs_batch, d.lhs_contract) if side == 0 else (d.rhs_batch, d.rhs_contract)
    if dim in batch:
        return False
    # Each step multiplies the shard that is here while the next one arrives.
    e.ip, e.loc = ir.InsertionPoint(dot), dot.location
    shard, other = gather.operands[0], dot.operands[1 - side]
    size = shard.type.shape[dim]
    result = dot.results[0].type
    attributes = {k: dot.attributes[k] for k in dot.attributes}
    ring = mesh.pairs(atoms, [(k + 1) % n for k in range(n)])
    out_dim = _result_dim(d, side, dim, len(dot.operands[0].type.shape), shard.type.shape)
    total = e.splat(0, result.shape, result.element_type)
    for step in range(n):
        # After `step` moves, coordinate k holds shard (k + step) % n.
        start = e.lookup(atoms, [(k + step) % n * size for k in range(n)])
        following = e.permute(shard, ring) if step < n - 1 else shard
        # A gathered dimension that is summed over gives terms of the result, another its parts.
        if dim in contract:
            where = (d.rhs_contract if side == 0 else d.lhs_contract)[contract.index(dim)]
            part = e.dynamic_slice(other, where, start, size)
            shape = list(result.shape)
        else:
            part = other
            shape = list(result.shape)
            shape[out_dim] = size
        operands = (shard, part) if side == 0 else (part, shard)
        kind = e.type(shape, result.element_type)
        product = e.op("stablehlo.dot_general", operands, [kind], attributes).results[0]
        if dim in contract:
            total = e.add(total, product)
        else:
            total = e.dynamic_update(total, product, out_dim, start)
        shard = following
    supersede(dot, total)
    gather.erase()
    return True


def _result_dim(
    d: stablehlo.DotDimensions, side: int, dim: int, lhs_rank: int, shape: list[int]
) -> int:
    """Return the result dimension of a free operand dimension."""
    lhs_free = [i for i in range(lhs_rank) if i not in (*d.lhs_batch, *d.lhs_contract)]
    if side == 0:
        return len(d.lhs_batch) + lhs_free.index(dim) if dim in lhs_free else -1
    free = [i for i in range(len(shape)) if i not in (*d.rhs_batch, *d.rhs_contract)]
    return len(d.lhs_batch) + len(lhs_free) + free.index(dim) if dim in free else -1


def _atoms_of(groups: np.ndarray, mesh: DeviceMesh) -> Atoms | None:
    """Return the atoms of these groups, in order; None where no single order fits."""
    crossed = mesh.crossed(groups[0], groups[0, 0])
    for order in (crossed, crossed[::-1]):
        if mesh.groups(order).shape == groups.shape and (mesh.groups(order) == groups).all():
            return order
    return None
