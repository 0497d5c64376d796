"""Started collectives on their way through propagation and localization.

Shardy sees nothing in a future: what goes into an `async_start` would be gathered along every axis
that it has to propagate. So a started collective travels as the collective itself, and its
`async_done` as a barrier, through which shardings pass. Both carry a number, by which they are put
together again in the local program.
"""

from __future__ import annotations

from weft._xla import passes
from weft._xla.mlir import ir
from weft.partition.collect import KINDS
from weft.partition.walk import inner_first, only_user, outer_first

STARTED, DONE = "weft.started", "weft.done"


def set_out(module: ir.Module) -> bool:
    """Turns what is started and done at one place each into a collective and a barrier."""
    if not _named(module, "stablehlo.async_start"):
        return False
    passes.run(module, "inline{default-pipeline= },symbol-dce")  # each call's own get own numbers
    found = 0
    with module.context:
        i64 = ir.IntegerType.get_signless(64)
        for op in _named(module, "stablehlo.async_start"):
            collective, done = _only(op), _done_of(op)
            if collective is None or done is None:
                continue  # not written by weft: it stays, and its operand is gathered
            number = ir.IntegerAttr.get(i64, found)
            found += 1
            collective.move_before(op)
            collective.operands[0] = op.operands[0]
            collective.attributes[STARTED] = number
            value = collective.results[0]
            barrier = ir.Operation.create(
                "stablehlo.optimization_barrier",
                [value.type],
                [value],
                {DONE: number},
                loc=done.location,
                ip=ir.InsertionPoint(done),
            )
            done.results[0].replace_all_uses_with(barrier.results[0])
            done.erase()
            op.erase()
    return bool(found)


def arrive(module: ir.Module) -> None:
    """Puts the collectives that `set_out` marked into their starts again, and ends them there."""
    with module.context:
        starts = {
            op.attributes[STARTED].value: op
            for name in KINDS
            for op in _named(module, name)
            if STARTED in op.attributes
        }
        for barrier in _named(module, "stablehlo.optimization_barrier"):
            if DONE not in barrier.attributes:
                continue
            collective = starts.pop(barrier.attributes[DONE].value, None)
            if collective is not None and collective.block == barrier.block:
                _start(collective, barrier)
            barrier.results[0].replace_all_uses_with(barrier.operands[0])
            barrier.erase()
        for op in starts.values():  # nothing takes its value any more
            del op.attributes[STARTED]


def _start(collective: ir.Operation, barrier: ir.Operation) -> None:
    """The collective in a start; its done, and what depends on it, in front of the barrier."""
    del collective.attributes[STARTED]
    [operand], [result] = collective.operands, collective.results
    waiting = _between(collective, barrier)
    future = ir.Type.parse(f"!stablehlo.future<{result.type}>")
    start = ir.Operation.create(
        "stablehlo.async_start",
        [future],
        [operand],
        loc=collective.location,
        ip=ir.InsertionPoint(collective),
        regions=1,
    )
    block = start.regions[0].blocks.append(operand.type, arg_locs=[collective.location])
    first = waiting[0] if waiting else barrier
    done = ir.Operation.create(
        "stablehlo.async_done",
        [result.type],
        [start.results[0]],
        loc=barrier.location,
        ip=ir.InsertionPoint(first),
    )
    result.replace_all_uses_with(done.results[0])
    collective.operands[0] = block.arguments[0]
    end = ir.Operation.create(
        "stablehlo.return",
        operands=[collective.results[0]],
        loc=collective.location,
        ip=ir.InsertionPoint(block),
    )
    collective.move_before(end)
    if _leads_to(waiting, barrier):
        for op in (done, *waiting):
            op.move_before(barrier)


def _between(collective: ir.Operation, barrier: ir.Operation) -> list[ir.Operation]:
    """The operations in front of the barrier that use the collective's value, in order."""
    values = {collective.results[0]}
    found, inside = [], False
    for view in collective.block.operations:
        op = view.operation
        if op == barrier:
            break
        if inside and _uses(op, values):
            found.append(op)
            values.update(op.results)
        inside = inside or op == collective
    return found


def _uses(op: ir.Operation, values: set) -> bool:
    return any(v in values for each in (op, *outer_first(op)) for v in each.operands)


def _leads_to(waiting: list[ir.Operation], barrier: ir.Operation) -> bool:
    """Whether nothing but the barrier takes what these operations make of the value."""
    users = {op for op in waiting} | {barrier}
    return all(use.owner.operation in users for op in waiting for v in op.results for use in v.uses)


def _named(module: ir.Module, name: str) -> list[ir.Operation]:
    return [op for op in inner_first(module.body) if op.name == name]


def _only(start: ir.Operation) -> ir.Operation | None:
    """The collective that a start holds, if it holds one of one operand and no more."""
    *held, _ = [view.operation for view in start.regions[0].blocks[0].operations]
    if len(held) != 1 or held[0].name not in KINDS or len(held[0].operands) != 1:
        return None
    return held[0]


def _done_of(start: ir.Operation) -> ir.Operation | None:
    user = only_user(start.results[0])
    return user if user is not None and user.name == "stablehlo.async_done" else None
