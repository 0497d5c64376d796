"""Chooses the layout in which an operation runs: as propagated, or as the moves behind it want.

Shardy's collectives move a result after its operation. Where it sends less, an operation runs in
the layout that its result is moved to, on operands moved there, or on what a reshard made them of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from weft._xla.mlir import ir
from weft.partition.axis_layout import Layout
from weft.partition.collect import trip_count
from weft.partition.emit import Emitter
from weft.partition.local_value import Local
from weft.partition.localize import Localizer
from weft.partition.localize_rules.collectives import move_target
from weft.partition.ops import facts
from weft.partition.reshard import relayout, relayout_cost
from weft.partition.traffic_estimate import Tally
from weft.partition.walk import WHY, attributes_of, only_user

# A device may do this many more operations for each byte that it need not send: the balance of an
# H100 is 989e12 FLOP/s over 450e9 B/s, about 2000.
FLOPS_PER_BYTE = 1000
# What it costs to pass an element through the memory, in operations: 8 bytes at 3.35e12 B/s.
FLOPS_PER_ELEMENT = 1000

Exchange = Callable[[Emitter, int, Local, Layout], object]


@dataclass(slots=True)
class Share:
    """What one execution pays of an operand's moves.

    Attributes:
      part: less than one where a loop does not change the operand, which then moves in front of it,
        or where others want the same move.
      alone: nothing else uses the operand, so that a reshard that made it could be left out.
    """

    part: float
    alone: bool

    def cost(self, e: Emitter, x: Local, target: Layout, via: Sequence[Layout] = ()) -> float:
        sent = relayout_cost(e, x, target, via)
        if self.alone and x.before is not None and x.layout is not None:
            sent += relayout_cost(e, x.before, x.layout)
        return sent * self.part


def share(lz: Localizer, op: ir.Operation, value: ir.Value) -> Share:
    """What `op` pays of the moves of an operand."""
    alone = value not in lz.shared
    while not isinstance(value.owner, ir.Block) and facts(value.owner.operation).relayout:
        move = value.owner.operation
        value = move.operands[0]
        users = [use.owner.operation for use in value.uses]
        alone = alone and sum(_same_move(move, user) for user in users) == 1
    block = op.block
    loop = block.owner.operation
    if loop.name != "stablehlo.while":
        return Share(1, alone)
    inside = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    if inside == block:
        given = list(block.operations)[-1].operation.operands
        if not any(a == value and b == value for a, b in zip(block.arguments, given, strict=True)):
            return Share(1, alone)
    return Share(1 / (trip_count(loop) or 1), alone)


def _same_move(a: ir.Operation, b: ir.Operation) -> bool:
    return a.name == b.name and attributes_of(a, WHY) == attributes_of(b, WHY)


def wanted(lz: Localizer, op: ir.Operation) -> Layout | None:
    """The layout at the end of the moves that alone use the result, else None."""
    steps = _steps(lz, op)
    return steps[-1] if steps else None


def _steps(lz: Localizer, op: ir.Operation) -> list[Layout]:
    """The layouts of the moves that alone use the result, one after the other.

    Where an operation has several results, moves of all that are used end alike.
    """
    used = [_moves(lz, op, result) for result in op.results if list(result.uses)]
    alike = used and all(steps and steps[-1].dims == used[0][-1].dims for steps in used if used[0])
    return used[0] if alike else []


def _moves(
    lz: Localizer, op: ir.Operation, result: ir.Value, sums: Sequence[str] = ()
) -> list[Layout]:
    found = []
    while (user := only_user(result)) is not None and user.block == op.block:
        if not facts(user).relayout and user.name not in sums:
            break
        found.append(move_target(lz, user))
        result = user.results[0]
    return found


def chain_of(lz: Localizer, op: ir.Operation) -> list[Layout]:
    """The layouts of the reductions and moves that alone use the result, one after the other."""
    return _moves(lz, op, op.results[0], ("sdy.reduce_scatter", "sdy.all_reduce"))


def result_cost(
    lz: Localizer, op: ir.Operation, now: Layout, target: Layout, via: Sequence[Layout] = ()
) -> int:
    """Bytes that moving the results sends."""
    used = [r for r in op.results if list(r.uses)] or list(op.results)[:1]
    return sum(relayout_cost(lz.e, imagined(lz, r, now), target, via) for r in used)


def imagined(lz: Localizer, value: ir.Value, layout: Layout) -> Local:
    """A value in a layout, with a type only."""
    kind = lz.e.type(layout.local, value.type.element_type)
    return Local(cast(Any, SimpleNamespace(type=kind)), layout)


def choose(
    lz: Localizer,
    op: ir.Operation,
    out: Layout,
    operands: Sequence[int],
    need: Callable[[int, Layout], Layout | None],
    *,
    fit: Callable[[Layout], Layout] = lambda layout: layout,
    make: Callable[[int, Layout], Layout] | None = None,
    exchange: Exchange | None = None,
    flops: float = 0,
) -> tuple[list[Local], Layout]:
    """Operands and a result layout with which the operation and the moves behind it send least.

    Args:
      out: the layout that propagation gave the result.
      operands: which operands have to move.
      need: the layout that an operand must have for a result layout, None where there is none.
      fit: the layout nearest to a given one that the operation can produce.
      make: the result layout that an operand's layout leads to, for operations that may run before
        their operands' moves.
      exchange: emits what an operand, by its number, still sends in the layout it needs.
      flops: operations for each element of the result, beside reading and writing it.

    Returns:
      The operands in the layouts they need, and the result's layout.
    """
    asked, out = out, fit(out)
    given = [lz.operand(op, i) for i in operands]
    best = _Plan(out, [(x, ()) for x in given], 0)
    *via, target = _steps(lz, op) or [asked]
    others = [] if 0 in target.shape else [fit(target)]
    if make is not None:
        before = [(i, x.before) for i, x in zip(operands, given, strict=True)]
        others += [fit(make(i, x.layout)) for i, x in before if x is not None and x.layout]
    others = [layout for layout in dict.fromkeys(others) if layout != out]
    if others:
        plan = partial(_plan, lz, op, operands, given, need, exchange, (target, via))
        first = least = plan(out)
        for other in filter(None, map(plan, others if first is not None else ())):
            saved = first.sent - other.sent
            more = math.prod(other.out.local) - math.prod(out.local)
            fair = more * (flops + FLOPS_PER_ELEMENT) <= FLOPS_PER_BYTE * saved
            if other.sent < least.sent and fair:
                best = least = other
    moved = []
    for i, (x, steps) in zip(operands, best.sources, strict=True):
        layout_in = need(i, best.out)
        assert layout_in is not None
        moved.append(relayout(lz.e, Local(x.value, x.layout, remake=x.remake), layout_in, steps))
    return moved, best.out


@dataclass(slots=True)
class _Plan:
    """A result layout, the operands with the layouts on their ways, and bytes sent for them."""

    out: Layout
    sources: list[tuple[Local, Sequence[Layout]]]
    sent: float


def _plan(
    lz: Localizer,
    op: ir.Operation,
    operands: Sequence[int],
    given: Sequence[Local],
    need: Callable[[int, Layout], Layout | None],
    exchange: Exchange | None,
    end: tuple[Layout, Sequence[Layout]],
    out: Layout,
) -> _Plan | None:
    """How `out` is made and moved to the end of the moves behind it; None where it cannot be."""
    target, via = end
    plan = _Plan(out, [], float(result_cost(lz, op, out, target, (out, *via) if via else ())))
    for i, x in zip(operands, given, strict=True):
        layout = need(i, out)
        if layout is None:
            return None
        steps = [step for v in via if (step := need(i, v)) is not None] if out == target else []
        value = op.operands[i]
        pays = share(lz, op, value)
        pays.part /= max(1, _wanting(lz, value, out))
        options = [(pays.cost(lz.e, s, layout, steps), s) for s in (x, x.before) if s is not None]
        cost, source = min(options, key=lambda option: option[0])
        if exchange is not None:
            tally = Tally(lz.e)
            exchange(tally, i, imagined(lz, value, layout), out)
            cost += tally.cost
        plan.sent += cost
        plan.sources.append((source, steps))
    return plan


def _wanting(lz: Localizer, value: ir.Value, layout: Layout) -> int:
    """How many users of a value want it, or what they make of it, in the layout."""
    count = 0
    for use in value.uses:
        user = use.owner.operation
        if facts(user).relayout:
            end = wanted(lz, user) or move_target(lz, user)
        elif facts(user).windowed:
            end = wanted(lz, user)
        else:
            continue
        count += end is not None and end.dims == layout.dims
    return count


def deliver(lz: Localizer, op: ir.Operation, got: Local, out: Layout) -> Local:
    """The result in its layout, or as it is where the moves behind it take it on."""
    if got.layout == out:
        return got
    if wanted(lz, op) is None:
        moved = lz.move(got, out)
        return Local(moved.value, out, before=got)
    return Local(got.value, got.layout, via=(out,))
