"""Moves stacks once: in front of the loop that reads them slice by slice, behind one that writes.

A scan over a stack that is split along the scanned dimension comes out of propagation as
all_to_all to another dimension in front of the loop, and a move of each slice inside it. Where
the loop reads all of the stack, moving it at once sends less, in one collective. So does a stack
of results that is split along the scanned dimension: it stays as the slices are, until the loop
ends. A large stack is not gathered: a copy on every device could cost more memory than the program
has.
"""

from __future__ import annotations

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.collect import byte_size, trip_count
from weft.partition.ops import facts
from weft.partition.walk import inner_first, maker, only_user, reasons, sharding_of, terminator

LARGEST = 4 * 2**20  # bytes of a stack that every device may hold whole


def gather_small_stacks(module: ir.Module) -> None:
    """Rewrite loops of a module with explicit collectives, in place."""
    with module.context, ir.Location.unknown(module.context):
        for op in inner_first(module.body):
            if op.name == "stablehlo.while" and (trips := trip_count(op)):
                _loop(op, trips)


def _loop(loop: ir.Operation, trips: int) -> None:
    body = loop.regions[1].blocks[0]
    carried = terminator(body).operands
    unchanged = [a for i, a in enumerate(body.arguments) if carried[i] == a]
    for view in list(body.operations):
        cut = view.operation
        if cut.name == "stablehlo.dynamic_slice":
            before = _moves_before(cut, 0)
            if before and before[0].operands[0] in unchanged:
                _gather(before, cut, _moves_after(cut), trips)
    for i in range(len(carried)):
        _keep(loop, i, trips)


def _moves_before(op: ir.Operation, number: int) -> list[ir.Operation]:
    """Return the moves that lead to an operand, and only there."""
    moves: list[ir.Operation] = []
    move = maker(op.operands[number])
    while move is not None and facts(move).relayout and only_user(move.results[0]) is not None:
        moves.insert(0, move)
        move = maker(move.operands[0])
    return moves


def _moves_after(cut: ir.Operation) -> list[ir.Operation]:
    """Return the moves that alone use the slice, one after the other."""
    moves: list[ir.Operation] = []
    while (user := only_user([cut, *moves][-1].results[0])) is not None and facts(user).relayout:
        moves.append(user)
    return moves


def _gather(
    before: list[ir.Operation], cut: ir.Operation, after: list[ir.Operation], trips: int
) -> None:
    """Rewrite moves, dynamic_slice, moves → one move, dynamic_slice."""
    sending = {op.name for op in before} - {"sdy.all_slice"}
    gathers = any(op.name == "sdy.all_gather" for op in after)
    if not sending or not (gathers or any(op.name == "sdy.all_to_all" for op in after)):
        return
    stack = before[0].operands[0]
    shape, sizes = stack.type.shape, list(cut.attributes["slice_sizes"])
    read = [trips * k >= n for n, k in zip(shape, sizes, strict=True) if k != n]
    whole = sdy.target_of(after[-1])
    if not all(read) or (gathers and byte_size(stack.type) > LARGEST):
        return
    if any(axes for axes, n, k in zip(sdy.dims_of(whole), shape, sizes, strict=True) if n != k):
        return
    cut.operands[0] = _reshard(stack, whole, ir.InsertionPoint(before[0]), before[0])
    cut.attributes["sdy.sharding"] = sdy.for_values(whole)
    after[-1].results[0].replace_all_uses_with(cut.results[0])
    for op in (*reversed(after), *reversed(before)):
        op.erase()


def _reshard(
    value: ir.Value, sharding: ir.Attribute, where: ir.InsertionPoint, move: ir.Operation
) -> ir.Value:
    """Return the value in another layout, in place of moves of its slices."""
    return ir.Operation.create(
        "sdy.reshard",
        results=[value.type],
        operands=[value],
        attributes={"sharding": sharding, **reasons([move])},
        loc=move.location,
        ip=where,
    ).results[0]


def _keep(loop: ir.Operation, number: int, trips: int) -> None:
    """Rewrite moves, dynamic_update_slice → dynamic_update_slice, one move behind the loop."""
    condition, body = (region.blocks[0] for region in loop.regions)
    write = maker(terminator(body).operands[number])
    stack = body.arguments[number]
    if write is None or write.name != "stablehlo.dynamic_update_slice":
        return
    if write.operands[0] != stack or write.block != body or list(condition.arguments[number].uses):
        return
    if any(len(list(v.uses)) != 1 for v in (stack, write.results[0])):
        return
    # The body only writes the stack, slice by slice: its layout in the loop is free.
    moves = _moves_before(write, 1)
    if not any(op.name == "sdy.all_gather" for op in moves) or not maker(moves[0].operands[0]):
        return
    old, new = sharding_of(loop.results[number]), sharding_of(moves[0].operands[0])
    if old is None or new is None:
        return
    pairs = list(zip(stack.type.shape, write.operands[1].type.shape, strict=True))
    # One move of the stack must not send more than the moves of the slices that fill it.
    if not all(trips * k >= n for n, k in pairs if k != n):
        return
    # The dimension that is written slice by slice must be whole on every device.
    if any(axes for axes, (n, k) in zip(sdy.dims_of(new), pairs, strict=True) if n != k):
        return
    if sdy.unreduced_of(new):
        return
    axes = [{ref for dim in sdy.dims_of(s) for ref in dim} for s in (old, new)]
    # A large stack must not take more memory than in its old layout.
    if byte_size(stack.type) > LARGEST and not axes[0] <= axes[1]:
        return
    write.operands[1] = moves[0].operands[0]
    write.attributes["sdy.sharding"] = sdy.for_values(new)
    before_loop = ir.InsertionPoint(loop)
    loop.operands[number] = _reshard(loop.operands[number], new, before_loop, moves[0])
    shardings = list(sdy.per_value(loop.attributes["sdy.sharding"]))
    shardings[number] = new
    loop.attributes["sdy.sharding"] = sdy.for_values(*shardings)
    users = [(use.owner.operation, use.operand_number) for use in loop.results[number].uses]
    behind = _reshard(loop.results[number], old, ir.InsertionPoint.after(loop), moves[0])
    for user, i in users:
        user.operands[i] = behind
    for op in reversed(moves):
        op.erase()
