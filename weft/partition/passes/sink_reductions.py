"""Reduces what a loop adds up once, behind the loop.

Where a loop does nothing with a carry but add all_reduces to it, as in the gradient of weights that
every step uses, the sum over devices and the sum over steps change places: each device adds up its
own terms, and one all_reduce behind the loop sends what each step did. The same holds

- for every update that is linear in the carry and the reduced values: scaled, moved, written into a
  row of a stack, a running mean, a decaying average;
- for terms beside these that need no reduction: the first device of each group adds them;
- for maxima and minima.

Where the total is to be a sum over devices again, typed as unreduced, it is not reduced at all.

The carry keeps its size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout, DeviceMesh
from weft.partition.classes import Typer, tile_classes
from weft.partition.collect import byte_size, bytes_sent, trip_count
from weft.partition.emit import Emitter
from weft.partition.ops import OPS, neutral
from weft.partition.passes.carry_linearity import (
    COMBINERS,
    KEPT,
    Update,
    constant_of,
    is_identity,
    read_update,
)
from weft.partition.walk import (
    WHY,
    attributes_of,
    combine_by,
    inner_first,
    ops_in,
    reasons,
    terminator,
)

# Larger reductions wait for bandwidth: fewer of them that send as much gain nothing.
_SMALL = 256 * 1024


def reduce_behind_loops(
    block: ir.Block, mesh: DeviceMesh, arguments: Sequence[AxisLayout] | None = None
) -> None:
    """Move all_reduces behind the loops of a function that add them up.

    Args:
      block: the function's; changed in place.
      mesh: the devices.
      arguments: layouts of the function's arguments, which tell where devices hold the same.
    """
    agreement = _Agreement(block, mesh, arguments)
    for op in inner_first(block):
        if op.name == "stablehlo.while" and _reduces(op):
            for i in range(len(op.operands)):
                _carry(op, i, agreement)


def _reduces(loop: ir.Operation) -> bool:
    """Return whether a loop's body holds an all_reduce, which an update can end at."""
    return any(op.name == "stablehlo.all_reduce" for op in ops_in(loop.regions[1].blocks[0]))


class _Agreement:
    """Tells where the devices of groups hold the same; types the function when first asked."""

    def __init__(
        self, block: ir.Block, mesh: DeviceMesh, arguments: Sequence[AxisLayout] | None
    ) -> None:
        self.block, self.mesh, self.arguments = block, mesh, arguments
        self._typer: Typer | None = None

    def on(self, value: ir.Value, groups: np.ndarray) -> bool:
        if constant_of(value) is not None:
            return True
        if self._typer is None:
            self._typer = self._typed()
        classes = self._typer.types.get(value)
        return classes is not None and bool((classes[groups] == classes[groups[:, :1]]).all())

    def _typed(self) -> Typer:
        typer = Typer(self.mesh, {})
        argument_classes = [np.arange(self.mesh.size) for _ in self.block.arguments]
        if self.arguments is not None:
            argument_classes = [tile_classes(layout) for layout in self.arguments]
        try:
            typer.block(self.block, argument_classes)
        except (TypeError, KeyError):  # a group that may not meet, or a call: nothing is known
            typer.types.clear()
        return typer

    def forget(self, value: ir.Value) -> None:
        """Drop the classes of a removed value: a new value may have the same identity."""
        if self._typer is not None:
            self._typer.types.pop(value, None)


def _carry(loop: ir.Operation, number: int, agreement: _Agreement) -> None:
    condition, body = (region.blocks[0] for region in loop.regions)
    carry, total = body.arguments[number], terminator(body).operands[number]
    if isinstance(total.owner, ir.Block) or list(condition.arguments[number].uses):
        return
    for combiner in COMBINERS:
        if neutral(combiner, carry.type.element_type) is None:
            continue
        update = read_update(carry, total, body, combiner)
        if update is None:
            continue
        reduce = _common(update)
        pays = reduce is not None and (
            _pays(update, carry.type, trip_count(loop), reduce)
            or all(_kept_again(use, reduce) for use in loop.results[number].uses)
        )
        if pays and _agreed(update, loop.operands[number], combiner, reduce, agreement):
            _Move(loop, number, combiner, reduce, agreement).apply(update)
        return


# -- whether to move -------------------------------------------------------------------------------


def _groups(reduce: ir.Operation) -> np.ndarray:
    return np.array(reduce.attributes["replica_groups"])


def _common(update: Update) -> ir.Operation | None:
    """Return one of the all_reduces where all are over the same groups; None where they are not."""
    first, *others = update.reduces.values()
    groups = first.attributes["replica_groups"]
    return first if all(op.attributes["replica_groups"] == groups for op in others) else None


def _pays(update: Update, carry: ir.Type, trips: int | None, reduce: ir.Operation) -> bool:
    """Tell whether one reduction of the carry sends less than the steps do, or as much at once."""
    if trips is not None and trips < 2:
        return False
    each = [
        bytes_sent("all_reduce", byte_size(op.operands[0].type), _groups(op).shape[-1])
        for op in update.reduces.values()
    ]
    now = (trips or 1) * sum(each)
    once = bytes_sent("all_reduce", byte_size(carry), _groups(reduce).shape[-1])
    return once < now or (once == now and byte_size(carry) <= _SMALL)


def _agreed(
    update: Update,
    first: ir.Value,
    combiner: str,
    reduce: ir.Operation,
    agreement: _Agreement,
) -> bool:
    """Return whether the devices of a group have the same of all that is not summed over them."""
    values = [op.operands[number] for op, number in update.whole]
    values += update.others
    if not update.adds and not is_identity(first, combiner):
        values.append(first)
    if all(constant_of(v) is not None for v in values):
        return True
    groups = _groups(reduce)
    return all(agreement.on(v, groups) for v in values)


# -- moving ----------------------------------------------------------------------------------------


def _kept_again(use: ir.OpOperand, reduce: ir.Operation) -> ir.Operation | None:
    """Return the operation that makes parts of a total again, as before its reduction."""
    op = use.owner.operation
    while op.name == "stablehlo.optimization_barrier" and len(op.results) == 1:
        uses = list(op.results[0].uses)
        if len(uses) != 1:
            return None
        use = uses[0]
        op = use.owner.operation
    if KEPT not in op.attributes or use.operand_number != 1:
        return None
    return op if op.attributes[KEPT] == reduce.attributes["replica_groups"] else None


class _Move:
    """Moves the reductions of one carry of a loop."""

    def __init__(
        self,
        loop: ir.Operation,
        number: int,
        combiner: str,
        reduce: ir.Operation,
        agreement: _Agreement,
    ) -> None:
        self.loop, self.number, self.combiner, self.reduce = loop, number, combiner, reduce
        self.agreement = agreement
        self.e = Emitter.before(loop, agreement.mesh)
        self.e.loc = reduce.location
        self.leaders = _groups(reduce)[:, 0]

    def apply(self, update: Update) -> None:
        loop, number = self.loop, self.number
        first = loop.operands[number]
        for op, i in update.whole:
            op.operands[i] = self._kept(op.operands[i], op)
        behind = not update.adds or is_identity(first, self.combiner)
        if not is_identity(first, self.combiner):
            self.e.ip = ir.InsertionPoint(loop)
            start = self._nothing(first) if update.adds else self._kept(first, loop)
            loop.operands[number] = start
        self._reduce_result(list(update.reduces.values()), None if behind else first)
        for reduced, op in update.reduces.items():
            reduced.replace_all_uses_with(op.operands[0])
        for reduced, op in update.reduces.items():
            self.agreement.forget(reduced)
            op.erase()

    def _reduce_result(self, reduces: list[ir.Operation], first: ir.Value | None) -> None:
        """Reduce the loop's result and add what devices started from, which may be their own."""
        e, result = self.e, self.loop.results[self.number]
        users = []
        for use in list(result.uses):
            if first is None and (kept := _kept_again(use, self.reduce)) is not None:
                kept.results[0].replace_all_uses_with(result)
            else:
                users.append((use.owner.operation, use.operand_number))
        if not users:
            return
        e.ip = ir.InsertionPoint.after(self.loop)
        attributes = attributes_of(self.reduce, WHY) | reasons(reduces)
        total = e.op("stablehlo.all_reduce", [result], [result.type], attributes, regions=1)
        combine_by(total, self.combiner, result.type.element_type)
        value = total.results[0]
        if first is not None:
            value = e.make(self.combiner, (first, value), result.type)
        for user, position in users:
            user.operands[position] = value

    def _kept(self, value: ir.Value, op: ir.Operation) -> ir.Value:
        """Keep a value on the first device of each group for an operation; others add nothing.

        Maxima and the like may meet a value more than once.
        """
        if OPS[self.combiner].idempotent or is_identity(value, self.combiner):
            return value
        e, mesh = self.e, self.agreement.mesh
        e.ip = ir.InsertionPoint(op)
        everything = tuple(range(len(mesh.atoms)))
        is_leader = e.lookup(
            everything, np.isin(mesh.partition_ids(np.arange(mesh.size)), self.leaders)
        )
        is_leader = e.broadcast(e.compare(is_leader, e.const(1), "EQ"), value.type.shape)
        return e.select(is_leader, value, self._nothing(value))

    def _nothing(self, value: ir.Value) -> ir.Value:
        text = neutral(self.combiner, value.type.element_type)
        assert text is not None
        return self.e.constant_text(text, value.type)
