"""Contractions: stablehlo.dot_general."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, Layout, free_of
from weft.partition.collect import byte_size_of, bytes_sent
from weft.partition.local_value import Local, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.choice import FLOPS_PER_BYTE, chain_of, result_cost, share
from weft.partition.localize_rules.collectives import move_target
from weft.partition.reshard import reordered
from weft.partition.walk import only_user


@rule("stablehlo.dot_general")
def dot_general(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Batch and free dimensions follow the result; a split contraction gives a partial sum.

    Where that sends more, operands move to whole contractions, or the result moves to its layout
    from another one.
    """
    e, ways = lz.e, _Ways(lz, op)
    plan = ways.best()
    values = []
    for side, (x, layout) in enumerate(zip(plan.operands, plan.layouts, strict=True)):
        values.append(fill_padding(e, lz.move(x, layout), ways.contract[side]).value)
    [z] = lz.keep(op, values, [plan.out])
    if plan.across:
        z.partial = (plan.across, "add")
    if ways.scattered or plan.out in (ways.out, ways.end):
        return [z]
    if plan.across:
        z = Local(e.all_reduce(z.value, plan.across, "add"), plan.out)
    return [Local(z.value, z.layout, via=(ways.out,)) if ways.chain else lz.move(z, ways.out)]


@dataclass(slots=True)
class _Plan:
    """Operands, the layouts they move to, the result's layout, and the axes it is partial over."""

    operands: Sequence[Local]
    layouts: Sequence[Layout]
    out: Layout
    across: Atoms


class _Ways:
    """The ways to run one contraction, and what each sends."""

    def __init__(self, lz: Localizer, op: ir.Operation) -> None:
        self.lz, self.op = lz, op
        n = stablehlo.dot_dimensions(op.attributes["dot_dimension_numbers"])
        self.contract = n.lhs_contract, n.rhs_contract
        self.given = lz.operands(op)
        self.out = lz.layouts(op)[0]
        self.shares = [share(lz, op, value) for value in op.operands]
        self.scattered = scattered_to(lz, op)
        self.chain = chain_of(lz, op)
        self.end = self.scattered or (self.chain[-1] if self.chain else self.out)
        # The result's dimension of each operand's: batch, then free ones of both; None if summed.
        self.places: list[list[int | None]] = []
        free = len(n.lhs_batch)
        for x, batch, contract in zip(
            self.given, (n.lhs_batch, n.rhs_batch), self.contract, strict=True
        ):
            places: list[int | None] = [None] * len(x.layout.shape)
            for d in range(len(places)):
                if d in batch:
                    places[d] = batch.index(d)
                elif d not in contract:
                    places[d] = free
                    free += 1
            self.places.append(places)

    def best(self) -> _Plan:
        """The plan for the result as propagated, or one that sends less.

        Operands that both come split, such as activations in the gradient of a weight, are summed
        where a gather would repeat work: that is the program people expect.
        """
        best = first = self.plan(self.given, self.out, split=True)
        least = self.sent(first)
        if not least:
            return first
        both = all(map(comes_split, self.given, self.contract))
        flops = self.flops(first)
        for plan in self.others():
            more = self.flops(plan) - flops
            if more > 0 and (both or plan.across or not first.across):
                continue
            sent = self.sent(plan)
            if sent < least and more <= FLOPS_PER_BYTE * (least - sent):
                best, least = plan, sent
        return best

    def others(self) -> Iterator[_Plan]:
        """Plans for the result where it is wanted, and where operands lead as they are."""
        lhs, rhs = ([x, x.before] if x.before else [x] for x in self.given)
        outs = [self.out, self.end]
        if not self.scattered:
            outs += [self.led_to(side, x) for side, xs in enumerate((lhs, rhs)) for x in xs]
        for out in dict.fromkeys(outs):
            for pair in itertools.product(lhs, rhs):
                plan = self.plan(pair, out, split=True)
                if plan.across:
                    yield self.plan(pair, out, split=False)
                if not (plan.across and self.scattered):
                    yield plan

    def led_to(self, side: int, x: Local) -> Layout:
        """The result's layout in which an operand needs no move; other axes stay where free."""
        assert x.layout is not None
        pairs = zip(self.places[side], x.layout.dims, strict=True)
        own = {place: atoms for place, atoms in pairs if place is not None}
        taken = {i for atoms in own.values() for i in atoms}
        dims = (own.get(d, free_of(a, taken)) for d, a in enumerate(self.out.dims))
        return Layout(self.lz.mesh, self.out.shape, tuple(dims))

    def plan(self, operands: Sequence[Local], out: Layout, split: bool) -> _Plan:
        """How operands move for a result in a layout, contractions split as they are or whole."""
        given = [x.layout for x in operands]
        dims = [[() if p is None else out.dims[p] for p in places] for places in self.places]
        taken = set(out.used)
        across: Atoms = ()
        for a, b in zip(*self.contract, strict=True) if split else ():
            atoms = free_of(given[0].dims[a], taken) or free_of(given[1].dims[b], taken)
            dims[0][a] = dims[1][b] = atoms
            taken.update(atoms)
            across += atoms
        layouts = (
            Layout(self.lz.mesh, x.shape, tuple(d)) for x, d in zip(given, dims, strict=True)
        )
        return _Plan(tuple(operands), tuple(layouts), out, across)

    def sent(self, plan: _Plan) -> float:
        """Bytes that operands and result send on their ways."""
        moves = zip(self.shares, plan.operands, plan.layouts, strict=True)
        sent = sum(s.cost(self.lz.e, x, to, reordered(x.layout, to)) for s, x, to in moves)
        if plan.across:
            size = math.prod(plan.out.local) * byte_size_of(self.op.results[0].type.element_type)
            kind = "reduce_scatter" if self.scattered else "all_reduce"
            sent += bytes_sent(kind, int(size), self.lz.mesh.count(plan.across))
            if self.scattered:
                return sent
        return sent + result_cost(self.lz, self.op, plan.out, self.end)

    def flops(self, plan: _Plan) -> int:
        summed = math.prod(plan.layouts[0].local[a] for a in self.contract[0])
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
    user = only_user(op.results[0])
    return move_target(lz, user) if user and user.name == "sdy.reduce_scatter" else None
