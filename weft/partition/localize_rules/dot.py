"""Contractions: stablehlo.dot_general."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.collect import byte_size_of, bytes_sent
from weft.partition.emit import Emitter
from weft.partition.layout import Atoms, Layout
from weft.partition.local import Local, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.choice import (
    FLOPS_PER_BYTE,
    Share,
    chain_of,
    result_cost,
    share,
    wanted,
)


@dataclass(slots=True)
class _Plan:
    """Operands, the layouts they move to, the result's layout, and the axes it is partial over."""

    lhs: Local
    rhs: Local
    left: Layout
    right: Layout
    out: Layout
    across: Atoms
    reduced: int  # bytes sent to complete the result
    shares: tuple[Share, Share]

    def sent(self, e: Emitter) -> float:
        moves = ((self.lhs, self.left), (self.rhs, self.right))
        costs = (s.cost(e, x, to) for s, (x, to) in zip(self.shares, moves, strict=True))
        return self.reduced + sum(costs)


@rule("stablehlo.dot_general")
def dot_general(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Batch and free dimensions follow the result; a split contraction gives a partial sum.

    Where that sends more than moving the operands to whole contractions, they are moved.
    """
    out = lz.layouts(op)[0]
    lhs, rhs = lz.operands(op)
    numbers = stablehlo.dot_dimensions(op.attributes["dot_dimension_numbers"])
    plan = _plan(lz, op, numbers, lhs, rhs, out, split=True)
    plan = _cheapest(lz, op, numbers, plan) if plan.across else _as_wanted(lz, op, numbers, plan)
    x = fill_padding(lz.e, lz.move(plan.lhs, plan.left), numbers.lhs_contract)
    y = fill_padding(lz.e, lz.move(plan.rhs, plan.right), numbers.rhs_contract)
    [z] = lz.keep(op, [x.value, y.value], [plan.out])
    if plan.across:
        z.partial = (plan.across, "add")
    chain = chain_of(lz, op)
    if plan.out != out and scattered_to(lz, op) is None and (not chain or chain[-1] != plan.out):
        lz.after(op)
        return [lz.move(z, out)]
    return [z]


def _plan(
    lz: Localizer,
    op: ir.Operation,
    numbers: stablehlo.DotDimensions,
    lhs: Local,
    rhs: Local,
    out: Layout,
    split: bool,
) -> _Plan:
    """How operands move for a result in layout `out`, contractions split as they are or whole."""
    left: list[Atoms] = [()] * len(lhs.layout.shape)
    right: list[Atoms] = [()] * len(rhs.layout.shape)
    place = iter(out.dims)
    for a, b in zip(numbers.lhs_batch, numbers.rhs_batch, strict=True):
        left[a] = right[b] = next(place)
    for dims, batch, contract in (
        (left, numbers.lhs_batch, numbers.lhs_contract),
        (right, numbers.rhs_batch, numbers.rhs_contract),
    ):
        for d in range(len(dims)):
            if d not in batch and d not in contract:
                dims[d] = next(place)
    taken = set(out.used)
    across: Atoms = ()
    for a, b in zip(numbers.lhs_contract, numbers.rhs_contract, strict=True):
        atoms = _free(lhs.layout.dims[a], taken) or _free(rhs.layout.dims[b], taken)
        if split:
            left[a] = right[b] = atoms
            taken.update(atoms)
            across += atoms
    reduced = 0
    if across:
        size = math.prod(out.local) * byte_size_of(op.results[0].type.element_type)
        kind = "all_reduce" if scattered_to(lz, op) is None else "reduce_scatter"
        reduced = bytes_sent(kind, int(size), lz.mesh.count(across))
    return _Plan(
        lhs,
        rhs,
        Layout(lz.mesh, lhs.layout.shape, tuple(left)),
        Layout(lz.mesh, rhs.layout.shape, tuple(right)),
        out,
        across,
        reduced,
        (share(op, op.operands[0]), share(op, op.operands[1])),
    )


def _as_wanted(
    lz: Localizer, op: ir.Operation, numbers: stablehlo.DotDimensions, plan: _Plan
) -> _Plan:
    """The plan, or one whose result needs no move, if that sends less and repeats no work."""
    target = wanted(lz, op)
    if target is None or math.prod(target.local) > math.prod(plan.out.local):
        return plan
    best, least = plan, plan.sent(lz.e)
    least += result_cost(lz, op, plan.out, target)
    for lhs in filter(None, (plan.lhs, plan.lhs.before)):
        for rhs in filter(None, (plan.rhs, plan.rhs.before)):
            other = _plan(lz, op, numbers, lhs, rhs, target, split=False)
            if other.sent(lz.e) < least:
                best, least = other, other.sent(lz.e)
    return best


def _cheapest(
    lz: Localizer, op: ir.Operation, numbers: stablehlo.DotDimensions, split: _Plan
) -> _Plan:
    """The split plan, or one with whole contractions that sends less.

    Operands that both come split, such as activations in the gradient of a weight, are summed
    where a gather would repeat work: that is the program people expect.
    """
    scattered = scattered_to(lz, op)
    natural = comes_split(split.lhs, numbers.lhs_contract)
    natural = natural and comes_split(split.rhs, numbers.rhs_contract)
    chain = chain_of(lz, op)
    end = scattered or (chain[-1] if chain else split.out)
    best, least = split, split.sent(lz.e)
    if scattered is None:
        least += result_cost(lz, op, split.out, end)
    flops = _flops(split, numbers)
    for out in dict.fromkeys((split.out, end)):
        more = math.prod(out.local) * lz.mesh.count(split.across) / math.prod(split.out.local) - 1
        if more > 0 and natural:
            continue
        for lhs in filter(None, (split.lhs, split.lhs.before)):
            for rhs in filter(None, (split.rhs, split.rhs.before)):
                plan = _plan(lz, op, numbers, lhs, rhs, out, split=False)
                sent = plan.sent(lz.e) + result_cost(lz, op, out, end)
                if sent < least and flops * more <= FLOPS_PER_BYTE * (least - sent):
                    best, least = plan, sent
    return best if scattered is not None else _summed_in_place(lz, op, numbers, split, best)


def _summed_in_place(
    lz: Localizer, op: ir.Operation, numbers: stablehlo.DotDimensions, split: _Plan, best: _Plan
) -> _Plan:
    """The best plan, or one that sums fewer terms in the layout that the result is moved to.

    Free dimensions then stay split along axes that the contraction would otherwise take.
    """
    chain = chain_of(lz, op)
    if not chain or chain[-1] == best.out:
        return best
    end = chain[-1]
    least = best.sent(lz.e) + result_cost(lz, op, best.out, end)
    for lhs in filter(None, (split.lhs, split.lhs.before)):
        for rhs in filter(None, (split.rhs, split.rhs.before)):
            plan = _plan(lz, op, numbers, lhs, rhs, end, split=True)
            if plan.across and _flops(plan, numbers) <= _flops(split, numbers):
                sent = plan.sent(lz.e)
                if sent < least:
                    best, least = plan, sent
    return best


def _flops(plan: _Plan, numbers: stablehlo.DotDimensions) -> int:
    summed = math.prod(plan.left.local[a] for a in numbers.lhs_contract)
    return 2 * math.prod(plan.out.local) * summed


def comes_split(x: Local, contract: tuple[int, ...]) -> bool:
    """True where the contracted dimensions are split by no reshard, and evenly."""
    assert x.layout is not None
    if any(x.layout.padded(d) for d in contract):
        return False
    before = x.before.layout if x.before is not None else None
    return before is None or all(before.dims[d] == x.layout.dims[d] for d in contract)


def scattered_to(lz: Localizer, op: ir.Operation) -> Layout | None:
    """The layout of a reduce_scatter that alone uses the result, else None."""
    users = [use.owner.operation for use in op.results[0].uses]
    if len(users) != 1 or users[0].name != "sdy.reduce_scatter":
        return None
    return lz.layout(users[0].attributes["out_sharding"], op.results[0].type.shape)


def _free(atoms: Atoms, taken: set[int]) -> Atoms:
    stop = next((j for j, i in enumerate(atoms) if i in taken), len(atoms))
    return atoms[:stop]
