"""Adds up before devices do: of reductions that are only added to each other, one is left.

The gradient of what several products read, such as the input of attention's three projections, is
a sum of sums over devices. The same holds for differences, for maxima and minima, and for sums
that are scattered.
"""

from __future__ import annotations

import math

from weft._xla.mlir import ir
from weft.partition.ops import facts
from weft.partition.passes.carry_linearity import COMBINERS, WRITTEN
from weft.partition.walk import (
    WHY,
    attributes_of,
    combiner_of,
    inner_first,
    insert,
    maker,
    only_user,
    reasons,
)


def join_sums(block: ir.Block) -> None:
    """Join the reductions of a function that are only added up."""
    for op in inner_first(block):
        if op.name in COMBINERS or op.name == "stablehlo.subtract":
            _join(op)


def _join(op: ir.Operation) -> None:
    kind = "stablehlo.add" if op.name == "stablehlo.subtract" else op.name
    first, second = (_term(value, op, kind) for value in op.operands)
    if first is not None and second is not None:
        if first == second or not _alike(first, second):
            return
        terms = [first, second]
        values = [_partial(op, i, term) for i, term in enumerate(terms)]
        op.results[0].replace_all_uses_with(_reduce_total(op, op.name, values, terms))
        _erase(op, *terms)
        return
    outer = first or second
    if outer is None or op.name != kind:
        return
    # (whole + reduced) + reduced
    number = 0 if outer is first else 1
    inner = _maker(op.operands[1 - number], op)
    if inner is None or inner.name != kind:
        return
    within = [_term(value, inner, kind) for value in inner.operands]
    alike = [(i, t) for i, t in enumerate(within) if t is not None and _alike(t, outer)]
    if len(alike) != 1:
        return
    [(position, term)] = alike
    whole = inner.operands[1 - position]
    both = [term, outer]
    values = [_partial(inner, position, term), _partial(op, number, outer)]
    op.operands[number] = _reduce_total(op, kind, values, both)
    op.operands[1 - number] = whole
    _erase(inner, *both)


def _erase(*operations: ir.Operation) -> None:
    for op in operations:
        op.erase()


def _maker(value: ir.Value, user: ir.Operation) -> ir.Operation | None:
    """Return the operation of the user's block that made a value for it alone."""
    op = maker(value)
    alone = op is not None and only_user(value) is not None and op.block == user.block
    return op if alone else None


def _term(value: ir.Value, user: ir.Operation, kind: str) -> ir.Operation | None:
    """Find the `kind` reduction that a value comes from, if only this value reads it."""
    op = _maker(value, user)
    moved = False
    while op is not None and _commutes(op, kind):
        op, moved = _maker(op.operands[0], user), True
    if op is None or len(op.operands) != 1 or WRITTEN in op.attributes:
        return None
    if op.name != "stablehlo.all_reduce" and (moved or op.name != "stablehlo.reduce_scatter"):
        return None
    return op if combiner_of(op) == kind else None


def _commutes(op: ir.Operation, kind: str) -> bool:
    """Tell whether an operation may come before the reduction, whose operand is as large."""
    row = facts(op)
    if len(op.operands) != 1 or not row.linear or row.rounds:
        return False
    kinds = [v.type for v in (*op.operands, *op.results)]
    alike = len({t.element_type for t in kinds}) == 1
    passes = row.moves or kind == "stablehlo.add"
    return passes and alike and len({math.prod(t.shape) for t in kinds}) == 1


def _alike(a: ir.Operation, b: ir.Operation) -> bool:
    return a.name == b.name and attributes_of(a, WHY) == attributes_of(b, WHY)


def _partial(op: ir.Operation, number: int, reduce: ir.Operation) -> ir.Value:
    """Return the operand before it is reduced."""
    if reduce.name == "stablehlo.reduce_scatter":
        return reduce.operands[0]
    reduce.results[0].replace_all_uses_with(reduce.operands[0])
    return op.operands[number]


def _reduce_total(
    op: ir.Operation, name: str, values: list[ir.Value], reduces: list[ir.Operation]
) -> ir.Value:
    """Reduce the combination of two values, in front of `op`."""
    last, total = reduces[-1], insert(op, name, [values[0].type], values)
    reduced = ir.Operation.create(
        last.name,
        results=[op.results[0].type],
        operands=list(total.results),
        attributes=attributes_of(last, WHY) | reasons(reduces),
        regions=1,
        loc=ir.Location.fused([r.location for r in reduces]),
        ip=ir.InsertionPoint(op),
    )
    last.regions[0].blocks[0].append_to(reduced.regions[0])
    return reduced.results[0]
