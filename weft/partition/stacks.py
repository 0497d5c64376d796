"""Moves stacks once, in front of the loop that reads them slice by slice.

A scan over a stack that is split along the scanned dimension comes out of propagation as
all_to_all to another dimension in front of the loop, and a move of each slice inside it. Where
the loop reads all of the stack, moving it at once sends less, in one collective. A large stack is
not gathered: a copy on every device could cost more memory than the program has.
"""

from __future__ import annotations

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.collect import WHY, byte_size, trip_count
from weft.partition.walk import inner_first

LARGEST = 4 * 2**20  # bytes of a stack that every device may hold whole


def gather_small_stacks(module: ir.Module) -> None:
    """Rewrites loops of a module with explicit collectives, in place."""
    with module.context, ir.Location.unknown(module.context):
        for op in inner_first(module.body):
            if op.name == "stablehlo.while":
                _loop(op)


def _loop(loop: ir.Operation) -> None:
    body = loop.regions[1].blocks[0]
    terminator = list(body.operations)[-1].operation
    unchanged = [a for i, a in enumerate(body.arguments) if terminator.operands[i] == a]
    trips = trip_count(loop)
    if not trips:
        return
    for view in list(body.operations):
        cut = view.operation
        if cut.name == "stablehlo.dynamic_slice":
            before = _moves_before(cut)
            if before and before[0].operands[0] in unchanged:
                _gather(before, cut, _moves_after(cut), trips)


_MOVES = ("sdy.all_gather", "sdy.all_slice", "sdy.all_to_all", "sdy.collective_permute")


def _moves_before(cut: ir.Operation) -> list[ir.Operation]:
    """The moves that lead to what is cut, and only there."""
    found: list[ir.Operation] = []
    value = cut.operands[0]
    while not isinstance(value.owner, ir.Block) and len(list(value.uses)) == 1:
        if value.owner.operation.name not in _MOVES:
            break
        found.insert(0, value.owner.operation)
        value = found[0].operands[0]
    return found


def _moves_after(cut: ir.Operation) -> list[ir.Operation]:
    """The moves that alone use the slice, one after the other."""
    found: list[ir.Operation] = []
    while (user := _only_user([cut, *found][-1])) is not None and user.name in _MOVES:
        found.append(user)
    return found


def _gather(
    before: list[ir.Operation], cut: ir.Operation, after: list[ir.Operation], trips: int
) -> None:
    """Moves, dynamic_slice, moves → one move, dynamic_slice."""
    sending = {op.name for op in before} - {"sdy.all_slice"}
    gathers = any(op.name == "sdy.all_gather" for op in after)
    if not sending or not (gathers or any(op.name == "sdy.all_to_all" for op in after)):
        return
    stack = before[0].operands[0]
    shape, sizes = stack.type.shape, list(cut.attributes["slice_sizes"])
    read = [trips * k >= n for n, k in zip(shape, sizes, strict=True) if k != n]
    whole = after[-1].attributes["out_sharding"]
    if not all(read) or (gathers and byte_size(stack.type) > LARGEST):
        return
    if any(axes for axes, n, k in zip(sdy.dims_of(whole), shape, sizes, strict=True) if n != k):
        return
    attributes = {"sharding": whole}
    if WHY in before[0].attributes:
        attributes[WHY] = before[0].attributes[WHY]
    made = ir.Operation.create(
        "sdy.reshard",
        results=[stack.type],
        operands=[stack],
        attributes=attributes,
        loc=after[-1].location,
        ip=ir.InsertionPoint(before[0]),
    )
    cut.operands[0] = made.results[0]
    cut.attributes["sdy.sharding"] = ir.Attribute.parse(
        f"#sdy.sharding_per_value<[{str(whole).removeprefix('#sdy.sharding')}]>"
    )
    after[-1].results[0].replace_all_uses_with(cut.results[0])
    for op in (*reversed(after), *reversed(before)):
        op.erase()


def _only_user(op: ir.Operation) -> ir.Operation | None:
    users = [use.owner.operation for use in op.results[0].uses]
    return users[0] if len(users) == 1 else None
