"""Moves stacks once, in front of the loop that reads them slice by slice.

A scan over a stack that is split along the scanned dimension comes out of propagation as
all_to_all to another dimension in front of the loop, and a move of each slice inside it. Where
the loop reads all of the stack, moving it at once sends less, in one collective. A large stack is
not gathered: a copy on every device could cost more memory than the program has.
"""

from __future__ import annotations

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.collect import byte_size, trip_count
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
        move = view.operation
        if move.name == "sdy.all_to_all" and move.operands[0] in unchanged:
            _gather(move, trips)


def _gather(move: ir.Operation, trips: int) -> None:
    """all_to_all, dynamic_slice, and all_gather or all_to_all → one move, dynamic_slice."""
    cut = _only_user(move)
    if cut is None or cut.name != "stablehlo.dynamic_slice" or cut.operands[0] != move.results[0]:
        return
    gather = _only_user(cut)
    if gather is None or gather.name not in ("sdy.all_gather", "sdy.all_to_all"):
        return
    stack = move.operands[0]
    shape, sizes = stack.type.shape, list(cut.attributes["slice_sizes"])
    read = [trips * k >= n for n, k in zip(shape, sizes, strict=True) if k != n]
    whole = gather.attributes["out_sharding"]
    if not all(read) or (gather.name == "sdy.all_gather" and byte_size(stack.type) > LARGEST):
        return
    if any(axes for axes, n, k in zip(sdy.dims_of(whole), shape, sizes, strict=True) if n != k):
        return
    attributes = {
        "sharding": whole,
        **{k: move.attributes[k] for k in move.attributes if k == "weft.why"},
    }
    made = ir.Operation.create(
        "sdy.reshard",
        results=[stack.type],
        operands=[stack],
        attributes=attributes,
        loc=gather.location,
        ip=ir.InsertionPoint(move),
    )
    cut.operands[0] = made.results[0]
    cut.attributes["sdy.sharding"] = ir.Attribute.parse(
        f"#sdy.sharding_per_value<[{str(whole).removeprefix('#sdy.sharding')}]>"
    )
    gather.results[0].replace_all_uses_with(cut.results[0])
    gather.erase()
    move.erase()


def _only_user(op: ir.Operation) -> ir.Operation | None:
    users = [use.owner.operation for use in op.results[0].uses]
    return users[0] if len(users) == 1 else None
