"""Joins small collectives of one kind over the same groups: one wait for the network, not many.

Those that do not need each other's results are found by the collectives that each depends on, and
the block is put into an order in which they meet. all_reduce takes several operands; of the others
the operands are laid side by side, one row for each device that data goes to.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import DeviceMesh
from weft.partition.collect import KINDS, byte_size, byte_size_of
from weft.partition.emit import Emitter
from weft.partition.ops import facts
from weft.partition.walk import WHY, attributes_of, combiner_of, ops_in, reasons, supersede

# Bytes of an operand or result up to which the network's latency costs more than what is copied to
# lay operands side by side. all_reduce copies nothing, and gains nothing where bandwidth counts.
_SMALL = {kind: 64 * 1024 for kind in KINDS} | {"stablehlo.all_reduce": 256 * 1024}
_MOST = 1024 * 1024  # bytes of a group whose operands are laid side by side


@dataclass(slots=True)
class _Group:
    """Collectives that may be joined: their numbers, and the bits of all operations before them."""

    members: list[int] = field(default_factory=list)
    bits: int = 0
    before: int = 0
    size: int = 0


def combine(block: ir.Block, mesh: DeviceMesh) -> None:
    """Join the small collectives of a block, and of the loops and branches in it."""
    ops = ops_in(block)
    for op in ops:
        if facts(op).control:
            for region in op.regions:
                combine(region.blocks[0], mesh)
    if groups := _groups(ops):
        _reorder(ops, groups)
    for group in groups:
        _join([ops[i] for i in group.members], mesh)


def _groups(ops: Sequence[ir.Operation]) -> list[_Group]:
    """Return which of the operations to join."""
    keys = {i: key for i, op in enumerate(ops) if (key := _key(op)) is not None}
    count = Counter(keys.values())
    bits = {i: 1 << n for n, i in enumerate(i for i, key in keys.items() if count[key] > 1)}
    if not bits:
        return []
    groups: dict[tuple, list[_Group]] = {keys[i]: [] for i in bits}
    groups_so_far: list[_Group] = []
    masks: dict[ir.Value, int] = {}  # the collectives that a value depends on
    effects = 0
    for i, op in enumerate(ops[: max(bits) + 1]):
        before = 0
        for value in _uses(op):
            before |= masks.get(value, 0)
        if facts(op).effects:
            before = effects = before | effects
        if i in bits:
            group = _fitting(groups[keys[i]], groups_so_far, op, bits[i], before)
            if group is None:
                group = _Group()
                groups[keys[i]].append(group)
                groups_so_far.append(group)
            group.members.append(i)
            group.bits |= bits[i]
            group.before |= before
            group.size += _size(op)
        before |= bits.get(i, 0)
        if before:
            masks.update(dict.fromkeys(op.results, before))
    return [group for group in groups_so_far if len(group.members) > 1]


def _fitting(
    candidates: list[_Group], all_groups: list[_Group], op: ir.Operation, bit: int, before: int
) -> _Group | None:
    """Return the first of its groups that a collective neither waits for nor is waited for by."""
    if not candidates:
        return None
    before = _closure(before, all_groups)
    for group in candidates:
        free = not before & group.bits and not _closure(group.before, all_groups) & bit
        if free and (op.name == "stablehlo.all_reduce" or group.size + _size(op) <= _MOST):
            return group
    return None


def _closure(before: int, groups: list[_Group]) -> int:
    """Return everything that comes before, once members of a group happen together."""
    grown = -1
    while grown != before:
        grown = before
        for group in groups:
            if group.bits & before:
                before |= group.bits | group.before
    return before


def _key(op: ir.Operation) -> tuple | None:
    """Return the key that combinable collectives share; None for those to leave alone."""
    if op.name not in KINDS or len(op.operands) != 1:
        return None
    kind = op.operands[0].type
    if not 0 < _size(op) <= _SMALL[op.name] or byte_size_of(kind.element_type) < 1:
        return None
    permute = op.name == "stablehlo.collective_permute"
    along = op.attributes["source_target_pairs" if permute else "replica_groups"]
    return (op.name, along, combiner_of(op), kind.element_type)


def _size(op: ir.Operation) -> int:
    return max(byte_size(op.operands[0].type), byte_size(op.results[0].type))


def _uses(op: ir.Operation) -> Iterator[ir.Value]:
    """Return the values that an operation and its regions read."""
    yield from op.operands
    if not facts(op).combines:
        for region in op.regions:
            for inner in region.blocks:
                for view in inner.operations:
                    yield from _uses(view.operation)


def _reorder(ops: list[ir.Operation], groups: list[_Group]) -> None:
    """Reorder operations so that the members of each group are adjacent.

    Otherwise the order stays as it is; a group stands where its last member stood.
    """
    node = list(range(len(ops)))  # members stand for their last one
    for group in groups:
        for i in group.members:
            node[i] = group.members[-1]
    members: dict[int, list[int]] = {}
    for i, n in enumerate(node):
        members.setdefault(n, []).append(i)
    node_of = {result: node[i] for i, op in enumerate(ops) for result in op.results}
    waits = dict.fromkeys(members, 0)
    users: dict[int, list[int]] = {n: [] for n in members}
    edges = {(node_of[v], node[i]) for i, op in enumerate(ops) for v in _uses(op) if v in node_of}
    ordered = [i for i, op in enumerate(ops) if facts(op).effects]
    edges.update(zip(ordered, ordered[1:], strict=False))
    for first, then in edges:
        users[first].append(then)
        waits[then] += 1
    end = ops[-1]
    ready = [n for n, count in waits.items() if not count]
    heapq.heapify(ready)
    position = 0
    moving = False
    while ready:
        n = heapq.heappop(ready)
        for i in members[n]:
            moving = moving or i != position
            position += 1
            if moving and ops[i] != end:
                ops[i].move_before(end)
        for user in users[n]:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, user)


def _join(members: list[ir.Operation], mesh: DeviceMesh) -> None:
    """Replace adjacent collectives by one."""
    last = members[-1]
    e = Emitter.before(last, mesh)
    e.loc = ir.Location.fused([m.location for m in members])
    attributes = attributes_of(last, WHY) | reasons(members)
    operands = [m.operands[0] for m in members]
    if last.name == "stablehlo.all_reduce":
        joined = e.op(last.name, operands, [v.type for v in operands], attributes, regions=1)
        last.regions[0].blocks[0].append_to(joined.regions[0])
        got = list(joined.results)
    else:
        got = _side_by_side(e, members, attributes)
    for member, value in zip(members, got, strict=True):
        supersede(member, value)


def _side_by_side(
    e: Emitter, members: list[ir.Operation], attributes: dict[str, ir.Attribute]
) -> list[ir.Value]:
    """Return the results of a collective of operands of which each device's part is one row."""
    name, n = members[0].name, 1
    if "replica_groups" in attributes:
        n = np.array(attributes["replica_groups"]).shape[1]
    rows = [_rows(e, m, n if facts(members[0]).cut else 1) for m in members]
    widths = [r.type.shape[1] for r in rows]
    whole = e.concatenate(rows, 1)
    along = {facts(members[0]).cut, facts(members[0]).merged}
    attributes |= {k: e.i64_attr(0) for k in attributes if k in along}
    kind = e.type((n if facts(members[0]).merged else 1, sum(widths)), whole.type.element_type)
    joined = e.op(name, [whole], [kind], attributes, regions=len(members[0].regions))
    if members[0].regions:
        members[-1].regions[0].blocks[0].append_to(joined.regions[0])
    out, start = [], 0
    for member, width in zip(members, widths, strict=True):
        part = e.slice(joined.results[0], 1, start, start + width)
        out.append(_from_rows(e, member, part))
        start += width
    return out


def _rows(e: Emitter, op: ir.Operation, n: int) -> ir.Value:
    """Return the operand as n rows, of which a collective that cuts it sends one to each device."""
    value = op.operands[0]
    if cut := facts(op).cut:
        shape, d = list(value.type.shape), op.attributes[cut].value
        value = e.reshape(value, [*shape[:d], n, shape[d] // n, *shape[d + 1 :]])
        value = _moved(e, value, d, 0)
    size = math.prod(value.type.shape) // n
    return e.reshape(value, (n, size))


def _from_rows(e: Emitter, op: ir.Operation, rows: ir.Value) -> ir.Value:
    """Return the collective's result, from a row of each device where it merges them."""
    shape = list(op.results[0].type.shape)
    if merged := facts(op).merged:
        n, d = rows.type.shape[0], op.attributes[merged].value
        part = [*shape[:d], shape[d] // n, *shape[d + 1 :]]
        rows = _moved(e, e.reshape(rows, (n, *part)), 0, d)
    return e.reshape(rows, shape)


def _moved(e: Emitter, value: ir.Value, source: int, target: int) -> ir.Value:
    """Return the value with one dimension in another place."""
    order = [i for i in range(len(value.type.shape)) if i != source]
    order.insert(target, source)
    return value if source == target else e.transpose(value, order)
