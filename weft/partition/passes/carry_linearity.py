# Tests: tests/partition/passes/test_sink_reductions.py
"""How a step of a loop makes a carry's next value, where sums over devices may wait for its end.

An update is read back from the next value through operations that are linear: they may come before
or after a sum over devices. It ends at the carry, at all_reduces, and at whole values, which all
the devices of a group have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft._xla.mlir import ir
from weft.partition.collect import byte_size, byte_size_of
from weft.partition.ops import facts, linear_operands, named, neutral
from weft.partition.walk import combiner_of, maker

WRITTEN = "weft.written"  # on a collective that the user wrote: it stays where it is
KEPT = "weft.kept"  # on a select: it keeps a value on the first device of each of these groups

_DEEPEST = 200  # operations that an update is followed through

# What may wait for the end of a loop: repeated terms change nothing, or zeros can stand for them.
COMBINERS = tuple(sorted(named(lambda row: row.idempotent or row.neutral == "zero")))


@dataclass(slots=True)
class Update:
    """The terms of a carry's next value.

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
    """Return the update of `carry` to `total` if it reduces and nothing else reads the carry."""
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
        """Return whether a value can stay a sum over devices."""
        cached = self.sums.get(value)
        if cached is None:
            cached = self.sums[value] = depth < _DEEPEST and self._made_of_sums(value, depth + 1)
        return cached

    def _made_of_sums(self, value: ir.Value, depth: int) -> bool:
        if isinstance(value.owner, ir.Block) or value.owner.operation.block != self.body:
            return False
        op = value.owner.operation
        if op.name == "stablehlo.all_reduce":
            alone = len(op.operands) == 1 and WRITTEN not in op.attributes
            return alone and combiner_of(op) == self.combiner
        linear = linear_in(op, self.combiner)
        sums = [i for i in linear if self.is_sum(op.operands[i], depth)]
        if facts(op).bilinear and len(sums) == 2:  # a product of sums is none: one is complete
            sums = [max(sums, key=lambda i: byte_size(op.operands[i].type))]
        self.operands[value] = tuple(sums) if facts(op).bilinear else linear
        return bool(sums)

    def read(self, total: ir.Value) -> Update:
        """Find everything that a sum is made of."""
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
    """Return the operands in which together an operation keeps what `combiner` combines, if any."""
    row = facts(op)
    if len(op.results) != 1:
        return ()
    if row.moves:
        return linear_operands(op)
    if combiner != "stablehlo.add":
        return (0, 1) if op.name == combiner else ()
    ends = [v.type for v in (*op.operands[:1], *op.results)]
    if not op.operands or not all(isinstance(t, ir.RankedTensorType) for t in ends):
        return ()  # a constant, or what handles tokens and futures
    now, then = (t.element_type for t in ends)
    if row.rounds and not (op.name == "stablehlo.convert" and _widens(now, then)):
        return ()
    if op.name == "stablehlo.reduce" and not _adds_up(op):
        return ()
    integer = isinstance(then, ir.IntegerType)
    if (op.name == "stablehlo.divide" and integer) or (
        op.name == "stablehlo.dot_general" and now != then
    ):
        return ()
    return linear_operands(op)


def _widens(now: ir.Type, then: ir.Type) -> bool:
    floats = all(isinstance(t, ir.FloatType) for t in (now, then))
    return floats and byte_size_of(then) >= byte_size_of(now)


def _adds_up(reduce: ir.Operation) -> bool:
    inner = [view.operation.name for view in reduce.regions[0].blocks[0].operations]
    return inner == ["stablehlo.add", "stablehlo.return"] and is_identity(
        reduce.operands[1], "stablehlo.add"
    )


# -- constants -------------------------------------------------------------------------------------


def is_identity(value: ir.Value, combiner: str) -> bool:
    """Return whether every element is known to be the combiner's identity."""
    constant = constant_of(value)
    element = value.type.element_type
    text = neutral(combiner, element)
    if constant is None or text is None:
        return False
    wanted = ir.Operation.parse(f"%0 = stablehlo.constant dense<{text}> : tensor<{element}>")
    numbers = [str(a).partition(" : ")[0] for a in (constant, wanted.attributes["value"])]
    return numbers[0] == numbers[1]


def constant_of(value: ir.Value) -> ir.Attribute | None:
    """Return the constant that a value is made of; all devices have it in common."""
    while (op := maker(value)) is not None:
        if op.name == "stablehlo.constant":
            return op.attributes["value"]
        alone = len(op.operands) == 1 and facts(op).moves
        if not alone and op.name != "stablehlo.convert":
            return None
        value = op.operands[0]
    return None
