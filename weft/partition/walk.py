# Tests: tests/partition/test_localize.py
"""Ways through a module's operations, and what many rewrites ask of one."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.ops import facts

WHY = "weft.why"  # on a collective: the reason that it exists
SHARDINGS = ("sdy.sharding", "sdy.sharding_origins")


def inner_first(block: ir.Block) -> Iterator[ir.Operation]:
    """Walk operations, each after those of its regions; the regions of combiners are left out.

    A block's operations are listed when its walk begins, so that the caller may replace the one
    it is at, and add others.
    """
    for op in ops_in(block):
        regions = op.regions
        if len(regions) and not facts(op).combines:
            for region in regions:
                for inner in region.blocks:
                    yield from inner_first(inner)
        yield op


def ops_in(block: ir.Block) -> list[ir.Operation]:
    """Return the operations of a block as they are now; the caller may add and erase some."""
    return [view.operation for view in block.operations]


def outer_first(op: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the operations in an operation's regions, each before those in its own."""
    for region in op.regions:
        for block in region.blocks:
            for inner in (view.operation for view in block.operations):
                yield inner
                if inner.regions:
                    yield from outer_first(inner)


def functions(module: ir.Module) -> dict[str, ir.Operation]:
    """Return the functions of a module that have a body, by name."""
    return {
        op.attributes["sym_name"].value: op
        for op in ops_in(module.body)
        if op.name == "func.func" and op.regions[0].blocks
    }


def main_block(module: ir.Module) -> ir.Block:
    """Return the operations of a module's main function."""
    return functions(module)["main"].regions[0].blocks[0]


def terminator(block: ir.Block) -> ir.Operation:
    """Return the last operation of a block."""
    return block.operations[len(block.operations) - 1].operation


def boundary(function: ir.Operation, which: str) -> list[dict[str, ir.Attribute]]:
    """Return each argument's ("arg") or result's ("res") attributes; nothing if none has any."""
    rows = function.attributes.get(f"{which}_attrs", None)
    return [{a.name: a.attr for a in row} for row in rows or ()]


def set_boundary(
    function: ir.Operation, which: str, rows: Iterable[dict[str, ir.Attribute]]
) -> None:
    """Write the attributes of each argument or result, where there are any."""
    if attributes := [ir.DictAttr.get(row, function.context) for row in rows]:
        function.attributes[f"{which}_attrs"] = ir.ArrayAttr.get(attributes, function.context)


def make_local(function: ir.Operation, arguments: Iterable, results: Iterable) -> None:
    """Give a function the types that one device has of its arguments and results."""
    kind = ir.FunctionType.get([*arguments], [*results], function.context)
    function.attributes["function_type"] = ir.TypeAttr.get(kind, function.context)
    for which in ("arg", "res"):
        rows = boundary(function, which)
        for row in rows:
            for name in SHARDINGS:
                row.pop(name, None)
        set_boundary(function, which, rows)


def run_as_replicas(module: ir.Module, devices: int) -> None:
    """Drop the mesh of a local module, and note that its devices are replicas."""
    for op in ops_in(module.body):
        if op.name == "sdy.mesh":
            op.erase()
    i32 = ir.IntegerType.get_signless(32, module.context)
    for name, count in (("partitions", 1), ("replicas", devices)):
        module.operation.attributes[f"mhlo.num_{name}"] = ir.IntegerAttr.get(i32, count)


def maker(value: ir.Value) -> ir.Operation | None:
    """Return the operation that made a value; None for a block's argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def splat_of(value: ir.Value) -> float | None:
    """Find the one number of a constant array."""
    made = maker(value)
    while made is not None and made.name == "stablehlo.broadcast_in_dim":
        made = maker(made.operands[0])
    if made is None or made.name != "stablehlo.constant":
        return None
    elements = made.attributes["value"]
    return elements.get_splat_value().value if elements.is_splat else None


def number_of(value: ir.Value) -> int:
    """Return a value's index among its operation's results or its block's arguments."""
    owner = value.owner
    values = owner.arguments if isinstance(owner, ir.Block) else owner.operation.results
    return list(values).index(value)


def sharding_of(value: ir.Value) -> ir.Attribute | None:
    """Return the sharding that the operation of a value, its function or its loop says, if any."""
    owner = value.owner
    op = (owner.owner if isinstance(owner, ir.Block) else owner).operation
    if op.name == "func.func":
        return sdy.argument_sharding(op, number_of(value))
    attribute = op.attributes.get("sdy.sharding", None)
    return None if attribute is None else sdy.per_value(attribute)[number_of(value)]


def only_user(value: ir.Value) -> ir.Operation | None:
    """Return the only operation that uses a value, if it uses the value once; None otherwise."""
    users = [use.owner.operation for use in itertools.islice(value.uses, 2)]
    return users[0] if len(users) == 1 else None


def insert(
    op: ir.Operation,
    name: str,
    types: Iterable[ir.Type],
    operands: Iterable[ir.Value] = (),
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Create an operation in front of another, at its source line."""
    ip, loc = ir.InsertionPoint(op), op.location
    return ir.Operation.create(name, [*types], [*operands], attributes, None, regions, loc, ip)


def supersede(op: ir.Operation, *values: ir.Value) -> None:
    """Erase an operation whose users read other values from here on."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def attributes_of(op: ir.Operation, *without: str) -> dict[str, ir.Attribute]:
    """Return an operation's attributes, some left out."""
    return {name: op.attributes[name] for name in op.attributes if name not in without}


def forget(op: ir.Operation, *names: str) -> None:
    """Drop attributes of an operation, where it has them."""
    for name in names:
        if name in op.attributes:
            del op.attributes[name]


def combiner_of(op: ir.Operation) -> str:
    """Return the name of the operation by which a collective reduces, or nothing."""
    if not op.regions:
        return ""
    return next(iter(op.regions[0].blocks[0].operations)).operation.name


def combine_by(op: ir.Operation, name: str, element: ir.Type) -> None:
    """Fill a reduction's region with an operation on two scalars."""
    scalar = ir.RankedTensorType.get([], element, loc=op.location)
    block = op.regions[0].blocks.append(scalar, scalar, arg_locs=[op.location] * 2)
    ip, both = ir.InsertionPoint(block), list(block.arguments)
    total = ir.Operation.create(name, results=[scalar], operands=both, loc=op.location, ip=ip)
    ir.Operation.create("stablehlo.return", operands=list(total.results), loc=op.location, ip=ip)


def reasons(collectives: Iterable[ir.Operation]) -> dict[str, ir.Attribute]:
    """Build the attribute with which a joined collective gives the reasons of its members."""
    texts = [op.attributes[WHY].value for op in collectives if WHY in op.attributes]
    return {WHY: ir.StringAttr.get("; ".join(dict.fromkeys(texts)))} if texts else {}


def clone(module: ir.Module) -> ir.Module:
    """Return a deep copy of a module."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return ir.Module.parse(buffer.getvalue(), module.context)
