"""How a step of a loop makes a carry's next value, where sums over devices may wait for its end.

An update is read back from the next value through operations that are linear: they may come before
or after a sum over devices. It ends at the carry, at all_reduces, and at whole values, which all
the devices of a group have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft._xla.mlir import ir
from weft.partition.collect import byte_size, byte_size_of
from weft.partition.walk import combiner_of

WRITTEN = "weft.written"  # on a collective that the user wrote: it stays where it is
KEPT = "weft.kept"  # on a select: it keeps a value on the first device of each of these groups

_DEEPEST = 200  # operations that an update is followed through

COMBINERS = ("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum")

_MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.broadcast_in_dim")
_EITHER = ("stablehlo.multiply", "stablehlo.dot_general")  # linear in one of two operands
# Linear in these operands together; the others are factors, predicates and indices.
_LINEAR = {
    "stablehlo.add": (0, 1),
    "stablehlo.subtract": (0, 1),
    "stablehlo.multiply": (0, 1),
    "stablehlo.dot_general": (0, 1),
    "stablehlo.divide": (0,),
    "stablehlo.negate": (0,),
    "stablehlo.reverse": (0,),
    "stablehlo.slice": (0,),
    "stablehlo.dynamic_slice": (0,),
    "stablehlo.dynamic_update_slice": (0, 1),
    "stablehlo.select": (1, 2),
}


@dataclass(slots=True)
class Update:
    """What a carry's next value is made of.

    Attributes:
      reduces: all_reduces that nothing else reads, by their result.
      partial: the operands, as (operation, number), that are sums over devices.
      whole: the operands that are added to these, but are complete.
      others: factors, predicates and indices.
      adds: the carry comes in as it is, and once.
    """

    reduces: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    partial: list[tuple[ir.Operation, int]] = field(default_factory=list)
    whole: list[tuple[ir.Operation, int]] = field(default_factory=list)
    others: list[ir.Value] = field(default_factory=list)
    adds: bool = False


def read_update(carry: ir.Value, total: ir.Value, body: ir.Block, combiner: str) -> Update | None:
    """The update of `carry` to `total`, if it reduces anything and nothing else reads the carry."""
    whole: set[ir.Value] = set()
    while True:
        reader = _Reader(carry, body, combiner, whole)
        if not reader.is_sum(total):
            return None
        update = reader.read(total)
        uses = {total: 1}
        for op, number in update.partial:
            value = op.operands[number]
            uses[value] = uses.get(value, 0) + 1
        if carry not in uses or not update.reduces:
            return None
        read = {value for value, count in uses.items() if len(list(value.uses)) != count}
        if not read:
            return update
        if carry in read or total in read:
            return None
        whole |= read  # by something else, which needs them complete


class _Reader:
    def __init__(
        self, carry: ir.Value, body: ir.Block, combiner: str, whole: set[ir.Value]
    ) -> None:
        self.carry, self.body, self.combiner = carry, body, combiner
        self.sums = {carry: True} | dict.fromkeys(whole, False)
        self.operands: dict[ir.Value, tuple[int, ...]] = {}  # of a sum, those that make it one

    def is_sum(self, value: ir.Value, depth: int = 0) -> bool:
        """Whether a value can stay a sum over devices."""
        known = self.sums.get(value)
        if known is None:
            known = self.sums[value] = depth < _DEEPEST and self._made_of_sums(value, depth + 1)
        return known

    def _made_of_sums(self, value: ir.Value, depth: int) -> bool:
        if isinstance(value.owner, ir.Block) or value.owner.operation.block != self.body:
            return False
        op = value.owner.operation
        if op.name == "stablehlo.all_reduce":
            alone = len(op.operands) == 1 and WRITTEN not in op.attributes
            return alone and combiner_of(op) == self.combiner
        linear = linear_in(op, self.combiner)
        found = [i for i in linear if self.is_sum(op.operands[i], depth)]
        if op.name in _EITHER and len(found) == 2:  # a product of sums is none: one is complete
            found = [max(found, key=lambda i: byte_size(op.operands[i].type))]
        self.operands[value] = tuple(found) if op.name in _EITHER else linear
        return bool(found)

    def read(self, total: ir.Value) -> Update:
        """All that a sum is made of."""
        update = Update()
        carried = {self.carry}

        def visit(value: ir.Value) -> None:
            if value in seen:
                return
            seen.add(value)
            op = value.owner.operation
            if op.name == "stablehlo.all_reduce":
                update.reduces[value] = op
                return
            numbers = self.operands[value]
            for i in numbers:
                if self.is_sum(op.operands[i]):
                    update.partial.append((op, i))
                    visit(op.operands[i])
                    if op.operands[i] in carried:
                        carried.add(value)
                else:
                    update.whole.append((op, i))
            update.others += [v for i, v in enumerate(op.operands) if i not in numbers]

        seen = {self.carry}
        visit(total)
        value = total
        while value != self.carry:
            op = value.owner.operation
            ways = [v for v in op.operands if v in carried]
            if op.name != self.combiner or len(ways) != 1:
                return update
            value = ways[0]
        update.adds = True
        return update


def linear_in(op: ir.Operation, combiner: str) -> tuple[int, ...]:
    """The operands in which together an operation keeps what `combiner` combines, if any."""
    name = op.name
    if len(op.results) != 1:
        return ()
    if name in _MOVES:
        return (0,)
    if combiner != "stablehlo.add":
        return (0, 1) if name == combiner else ()
    ends = [v.type for v in (*op.operands[:1], *op.results)]
    if not op.operands or not all(isinstance(t, ir.RankedTensorType) for t in ends):
        return ()  # a constant, or what handles tokens and futures
    now, then = (t.element_type for t in ends)
    if name == "stablehlo.convert":
        return (0,) if _widens(now, then) else ()
    if name == "stablehlo.concatenate":
        return tuple(range(len(op.operands)))
    if name == "stablehlo.reduce":
        return (0,) if _adds_up(op) else ()
    integer = isinstance(then, ir.IntegerType)
    if (name == "stablehlo.divide" and integer) or (
        name == "stablehlo.dot_general" and now != then
    ):
        return ()
    return _LINEAR.get(name, ())


def _widens(now: ir.Type, then: ir.Type) -> bool:
    floats = all(isinstance(t, ir.FloatType) for t in (now, then))
    return floats and byte_size_of(then) >= byte_size_of(now)


def _adds_up(reduce: ir.Operation) -> bool:
    inner = [view.operation.name for view in reduce.regions[0].blocks[0].operations]
    return inner == ["stablehlo.add", "stablehlo.return"] and is_identity(
        reduce.operands[1], "stablehlo.add"
    )


# -- constants -------------------------------------------------------------------------------------

_INFINITY = {"f64": 0x7FF0000000000000, "f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}


def identity(combiner: str, element: ir.Type) -> str | None:
    """The value, as MLIR writes it, that combined with another gives that one; None if unknown."""
    integer, name = isinstance(element, ir.IntegerType), str(element)
    if integer and element.width == 1:
        return None
    if combiner == "stablehlo.add":
        zero = "0" if integer else "0.0"
        return f"({zero}, {zero})" if isinstance(element, ir.ComplexType) else zero
    lowest = combiner == "stablehlo.maximum"
    if integer:
        bits = element.width if element.is_unsigned else element.width - 1
        low = 0 if element.is_unsigned else -(1 << bits)
        return str(low if lowest else (1 << bits) - 1)
    if name not in _INFINITY:
        return None
    infinity = _INFINITY[name]
    return f"0x{infinity | (1 << infinity.bit_length() if lowest else 0):X}"


def is_identity(value: ir.Value, combiner: str) -> bool:
    """Whether every element is known to be the combiner's identity."""
    constant = constant_of(value)
    element = value.type.element_type
    text = identity(combiner, element)
    if constant is None or text is None:
        return False
    wanted = ir.Operation.parse(f"%0 = stablehlo.constant dense<{text}> : tensor<{element}>")
    numbers = [str(a).partition(" : ")[0] for a in (constant, wanted.attributes["value"])]
    return numbers[0] == numbers[1]


def constant_of(value: ir.Value) -> ir.Attribute | None:
    """The constant that a value is made of; all devices have it in common."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "stablehlo.constant":
            return op.attributes["value"]
        if op.name not in (*_MOVES, "stablehlo.convert"):
            return None
        value = op.operands[0]
    return None
