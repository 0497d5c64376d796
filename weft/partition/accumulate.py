"""Reduces what a loop adds up once, behind the loop.

Where a loop only adds all_reduces to a carry, as in the gradient of weights that every step uses,
the sum over devices and the sum over steps change places: each device adds up its own terms, and
one all_reduce behind the loop sends what each step did. The same holds for maxima and minima.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft._xla.mlir import ir
from weft.partition.collect import WHY, byte_size, byte_size_of, trip_count
from weft.partition.walk import inner_first

_COMBINERS = ("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum")
_MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.broadcast_in_dim")


def reduce_behind_loops(block: ir.Block) -> int:
    """Moves all_reduces behind the loops of a block that add them up; returns how many."""
    return sum(
        _carry(op, i)
        for op in inner_first(block)
        if op.name == "stablehlo.while"
        for i in range(len(op.operands))
    )


@dataclass(slots=True)
class _Term:
    """all_reduces whose results, moved and added, make up a term."""

    reduces: list[ir.Operation]

    @property
    def groups(self) -> ir.Attribute:
        return self.reduces[0].attributes["replica_groups"]


def _carry(loop: ir.Operation, number: int) -> int:
    condition, body = (region.blocks[0] for region in loop.regions)
    terminator = list(body.operations)[-1].operation
    carry, total = body.arguments[number], terminator.operands[number]
    if isinstance(total.owner, ir.Block) or list(condition.arguments[number].uses):
        return 0
    add = total.owner.operation
    if add.name not in _COMBINERS or not _one_use(total) or not _one_use(carry):
        return 0
    others = [v for v in add.operands if v != carry]
    if len(others) != 1 or add.block != body:
        return 0
    if _identity(add.name, carry.type.element_type) is None:
        return 0
    term = _term(others[0], body, add.name)
    trips = trip_count(loop) or 1
    if term is None or trips * sum(_size(r) for r in term.reduces) < byte_size(carry.type):
        return 0
    _move(loop, number, add.name, term)
    return len(term.reduces)


def _one_use(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1


def _size(reduce: ir.Operation) -> int:
    return byte_size(reduce.operands[0].type)


def _term(value: ir.Value, body: ir.Block, combiner: str) -> _Term | None:
    """What `value` is made of, if it is a combination of all_reduces that nothing else reads."""
    if isinstance(value.owner, ir.Block) or not _one_use(value):
        return None
    op = value.owner.operation
    if op.block != body:
        return None
    if op.name == "stablehlo.all_reduce":
        kind = next(iter(op.regions[0].blocks[0].operations)).operation.name
        return _Term([op]) if kind == combiner and len(op.operands) == 1 else None
    if op.name == combiner:
        left, right = (_term(v, body, combiner) for v in op.operands)
        if left is None or right is None or left.groups != right.groups:
            return None
        return _Term(left.reduces + right.reduces)
    if op.name in _MOVES or (combiner == "stablehlo.add" and _keeps_sums(op)):
        return _term(op.operands[0], body, combiner)
    return None


def _keeps_sums(op: ir.Operation) -> bool:
    """True where the operation may come before or after a sum over devices."""
    if op.name == "stablehlo.convert":
        now, then = (v.type.element_type for v in (op.operands[0], op.results[0]))
        floats = all(isinstance(t, ir.FloatType) for t in (now, then))
        return floats and byte_size_of(then) >= byte_size_of(now)
    if op.name in ("stablehlo.multiply", "stablehlo.divide"):
        return (
            isinstance(op.results[0].type.element_type, ir.FloatType)
            and _constant(op.operands[1]) is not None
        )
    return op.name == "stablehlo.negate"


def _constant(value: ir.Value) -> ir.Attribute | None:
    """The constant that a value is made of; all devices have it in common."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "stablehlo.constant":
            return op.attributes["value"]
        if op.name not in (*_MOVES, "stablehlo.convert"):
            return None
        value = op.operands[0]
    return None


_INFINITY = {"f64": 0x7FF0000000000000, "f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}


def _identity(combiner: str, element: ir.Type) -> str | None:
    """The value, as MLIR writes it, that combined with another gives that one; None if unknown."""
    integer, name = isinstance(element, ir.IntegerType), str(element)
    if combiner == "stablehlo.add":
        zero = "0" if integer else "0.0"
        return f"({zero}, {zero})" if isinstance(element, ir.ComplexType) else zero
    lowest = combiner == "stablehlo.maximum"
    if integer and element.width > 1:
        bits = element.width if element.is_unsigned else element.width - 1
        low = 0 if element.is_unsigned else -(1 << bits)
        return str(low if lowest else (1 << bits) - 1)
    if name not in _INFINITY:
        return None
    infinity = _INFINITY[name]
    return f"0x{infinity | (1 << infinity.bit_length() if lowest else 0):X}"


def _move(loop: ir.Operation, number: int, combiner: str, term: _Term) -> None:
    first, result = loop.operands[number], loop.results[number]
    users = [(use.owner.operation, use.operand_number) for use in result.uses]
    old = term.reduces[0]
    after = ir.InsertionPoint.after(loop)
    total = ir.Operation.create(
        "stablehlo.all_reduce",
        results=[result.type],
        operands=[result],
        attributes={k: old.attributes[k] for k in old.attributes},
        regions=1,
        loc=old.location,
        ip=after,
    )
    reasons = dict.fromkeys(r.attributes[WHY].value for r in term.reduces if WHY in r.attributes)
    if reasons:
        total.attributes[WHY] = ir.StringAttr.get("; ".join(reasons))
    _combine_by(total, combiner, result.type.element_type)
    value = total.results[0]
    start = _constant_of(loop, result.type, _identity(combiner, result.type.element_type))
    if _splat_text(first) != _splat_text(start):
        # Devices may have started from values of their own: these come in behind the reduction.
        loop.operands[number] = start
        value = ir.Operation.create(
            combiner,
            results=[result.type],
            operands=[first, value],
            loc=old.location,
            ip=ir.InsertionPoint.after(total),
        ).results[0]
    for user, place in users:
        user.operands[place] = value
    for reduce in term.reduces:
        reduce.results[0].replace_all_uses_with(reduce.operands[0])
        reduce.erase()


def _combine_by(reduce: ir.Operation, combiner: str, element: ir.Type) -> None:
    scalar = ir.RankedTensorType.get([], element)
    unknown = ir.Location.unknown()
    block = reduce.regions[0].blocks.append(scalar, scalar, arg_locs=[unknown, unknown])
    ip = ir.InsertionPoint(block)
    both = list(block.arguments)
    combined = ir.Operation.create(combiner, results=[scalar], operands=both, loc=unknown, ip=ip)
    ir.Operation.create("stablehlo.return", operands=list(combined.results), loc=unknown, ip=ip)


def _splat_text(value: ir.Value) -> str | None:
    """The elements of a constant without its type; None for other values."""
    constant = _constant(value)
    return None if constant is None else str(constant).partition(" : ")[0]


def _constant_of(loop: ir.Operation, kind: ir.Type, value: str | None) -> ir.Value:
    made = ir.Operation.parse(f"%0 = stablehlo.constant dense<{value}> : {kind}")
    ir.InsertionPoint(loop).insert(made)
    return made.results[0]
