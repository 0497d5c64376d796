"""Tells operations that their results stay partial sums, from the constraints behind them."""

from __future__ import annotations

from typing import Any

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.ops import facts


def leave_parts(module: ir.Module) -> None:
    """Moves unreduced constraints onto the sums and products that they constrain, in place.

    Shardy takes a constraint for a change of a value that is whole before; on the op itself, it
    says that the sum over these axes is left out. A value that is whole before the change has a
    constraint of its own, which stands between.
    """
    module.operation.walk(_leave)


def _hold(constraint: ir.Operation) -> None:
    """Keeps a replicated value that is to become a partial sum as a value with a sharding.

    Shardy forgets shardings that split nothing, and then refuses the change (jaxlib 0.10.2).
    """
    value = constraint.operands[0]
    if any(sdy.dims_of(constraint.attributes["sharding"])):
        return
    with ir.InsertionPoint(constraint), constraint.location:
        held = ir.Operation.create(
            "stablehlo.optimization_barrier",
            [value.type],
            [value],
            {"sdy.sharding": sdy.for_values(constraint.attributes["sharding"])},
        )
        constraint.results[0].replace_all_uses_with(held.results[0])


def _is_carried(maker: Any) -> bool:
    """Whether this is a constraint on what a loop's body is given."""
    if isinstance(maker, ir.Block) or maker.operation.name != "sdy.sharding_constraint":
        return False
    block = maker.operation.operands[0].owner
    return isinstance(block, ir.Block) and block.owner.operation.name == "stablehlo.while"


def _leave(op: ir.Operation) -> ir.WalkResult:
    op = op.operation
    if op.name == "sdy.sharding_constraint" and sdy.unreduced_of(op.attributes["sharding"]):
        value = op.operands[0]
        maker = value.owner
        if _is_carried(maker):  # whole; `accumulate` moves sums behind loops
            op.results[0].replace_all_uses_with(maker.operation.operands[0])
            return ir.WalkResult.ADVANCE
        if not isinstance(maker, ir.Block) and facts(maker.operation).linear:
            maker = maker.operation
            if "sdy.sharding" not in maker.attributes and len(list(value.uses)) == 1:
                maker.attributes["sdy.sharding"] = sdy.for_values(op.attributes["sharding"])
                op.results[0].replace_all_uses_with(value)
                op.erase()
        elif not isinstance(maker, ir.Block) and maker.operation.name == "sdy.sharding_constraint":
            _hold(maker.operation)
    return ir.WalkResult.ADVANCE
