"""Picks by cost in which layout an operation runs, and what its operands are moved from.

Shardy's collectives move a result after its operation. Where it sends less, an operation runs in
the layout that its result is moved to, on operands moved there, or on what a reshard made them of;
a sum over a split dimension is made of partial sums, or its operands are gathered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout, free_of
from weft.partition.collect import trip_count
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue
from weft.partition.localize import Localizer
from weft.partition.ops import facts
from weft.partition.reshard import add_up, relayout, relayout_cost
from weft.partition.traffic_estimate import Tally
from weft.partition.walk import WHY, attributes_of, maker, only_user, terminator

# A device may do this many more operations for each byte that it need not send: the balance of an
# H100 is 989e12 FLOP/s over 450e9 B/s, about 2000.
FLOPS_PER_BYTE = 1000
# What it costs to pass an element through the memory, in operations: 8 bytes at 3.35e12 B/s.
FLOPS_PER_ELEMENT = 1000

# -- the moves behind an operation -----------------------------------------------------------------


def moves_behind(
    lz: Localizer, op: ir.Operation, result: ir.Value, sums: bool = False
) -> list[AxisLayout]:
    """Return the layouts of the moves (and sums) that alone use a result, one after the other."""
    layouts = []
    while (user := only_user(result)) is not None and user.block == op.block:
        if not facts(user).relayout and not (sums and user.name in _SUMS):
            break
        layouts.append(lz.target(user))
        result = user.results[0]
    return layouts


_SUMS = ("sdy.all_reduce", "sdy.reduce_scatter")


def chain_of(lz: Localizer, op: ir.Operation) -> list[AxisLayout]:
    """Return the layouts of the reductions and moves, in turn, that alone use the result."""
    return moves_behind(lz, op, op.results[0], sums=True)


def common_moves(lz: Localizer, op: ir.Operation) -> list[AxisLayout]:
    """Return the layouts of the moves that alone use the results, one after the other.

    Where an operation has several results, moves of all that are used end alike.
    """
    used = [moves_behind(lz, op, result) for result in op.results if list(result.uses)]
    alike = used and all(moves and moves[-1].dims == used[0][-1].dims for moves in used if used[0])
    return used[0] if alike else []


def scattered_to(lz: Localizer, op: ir.Operation) -> AxisLayout | None:
    """Return the layout of a reduce_scatter that alone uses the result, else None."""
    user = only_user(op.results[0])
    return lz.target(user) if user and user.name == "sdy.reduce_scatter" else None


# -- what a way costs ------------------------------------------------------------------------------


@dataclass(slots=True)
class Share:
    """The cost of an operand's moves in one execution.

    Attributes:
      part: less than one where a loop does not change the operand, which then moves in front of it,
        or where others want the same move.
      making: of a reshard that made the operand, which is shared with others that use it.
    """

    part: float
    making: float

    def cost(
        self, e: Emitter, x: LocalValue, target: AxisLayout, via: Sequence[AxisLayout] = ()
    ) -> float:
        sent: float = relayout_cost(e, x, target, via)
        if x.before is not None:
            sent += relayout_cost(e, x.before, x.layout) * self.making
        return sent * self.part


def share(lz: Localizer, op: ir.Operation, value: ir.Value) -> Share:
    """Return the cost that `op` pays of an operand's moves."""
    users = [use.owner.operation for use in value.uses] if value in lz.shared else [op]
    certain = any(not len(user.results) for user in users)  # returned, and made in any case
    # Who has chosen already has made the move, or does without it.
    count = sum(user == op or not _is_done(lz, user) for user in users)
    while (move := maker(value)) is not None and facts(move).relayout:
        value = move.operands[0]
        same = move.name, attributes_of(move, WHY)
        users = [use.owner.operation for use in value.uses]
        alike = [user for user in users if (user.name, attributes_of(user, WHY)) == same]
        count = max(count, sum(user == move or not _is_done(lz, user) for user in alike))
    making = 0.0 if certain else 1 / count
    block = op.block
    loop = block.owner.operation
    if loop.name != "stablehlo.while":
        return Share(1, making)
    making *= count == 1  # a sum that stays as propagated can be reduced behind the loop
    inside = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    if inside == block:
        # The condition sees the carries of the body, which says whether they change.
        body = loop.regions[1].blocks[0]
        carried = terminator(body).operands
        stays = [a == b for a, b in zip(body.arguments, carried, strict=True)]
        if not any(a == value and stay for a, stay in zip(block.arguments, stays, strict=True)):
            return Share(1, making)
    if loop not in lz.trips:
        lz.trips[loop] = trip_count(loop) or 1
    return Share(1 / lz.trips[loop], making)


def result_cost(
    lz: Localizer,
    op: ir.Operation,
    now: AxisLayout,
    target: AxisLayout,
    via: Sequence[AxisLayout] = (),
    across: Atoms = (),
    combiner: str | None = "add",
) -> float:
    """Return bytes that adding up results which are partial sums sends, and moving them."""
    tally = Tally(lz.e)
    for result in [r for r in op.results if list(r.uses)] or list(op.results)[:1]:
        x = imagined(lz, result, now)
        if across and combiner is None:
            tally.all_gather(x.value, across, 0)
        elif across and combiner is not None:
            x.partial = (across, combiner)
            x = add_up(tally, x, target)
        tally.cost += relayout_cost(lz.e, x, target, via)
    return tally.cost


def _others_wanting(
    lz: Localizer, op: ir.Operation, value: ir.Value, layout: AxisLayout, from_root: bool
) -> int:
    """Count the other users that want this layout for a value, or for a result made from it.

    Args:
      from_root: users of what the value was moved from count too, as they can share the move.
    """
    path = [op]
    values = [value]
    while from_root and (move := maker(values[-1])) is not None and facts(move).relayout:
        path.append(move)
        values.append(move.operands[0])
    count = 0
    for use in itertools.chain.from_iterable(v.uses for v in values):
        user = use.owner.operation
        row = facts(user)
        if user in path or _is_done(lz, user):
            continue
        alike = row.bilinear and _are_alike(lz, user, op)
        if not (row.relayout or row.windowed or alike):
            continue
        moves = common_moves(lz, user)
        if row.relayout:
            moves = [lz.target(user), *moves]
        count += alike or bool(moves) and moves[-1].dims == layout.dims
    return count


def _are_alike(lz: Localizer, a: ir.Operation, b: ir.Operation) -> bool:
    """Return whether two products take their operands to results of the same layout."""
    name = "sdy.sharding_rule"
    if a.name != b.name or a.attributes[name] != b.attributes[name]:
        return False
    ends = [[lz.layouts(op)[0], *chain_of(lz, op)][-1].dims for op in (a, b)]
    return ends[0] == ends[1]


def _is_done(lz: Localizer, op: ir.Operation) -> bool:
    """Return whether an operation, or what moves are made for, has chosen what it needs already."""
    while facts(op).relayout and (user := only_user(op.results[0])) is not None:
        op = user
    if facts(op).relayout:
        return not list(op.results[0].uses)
    return bool(op.results) and op.results[0] in lz.values


def imagined(lz: Localizer, value: ir.Value, layout: AxisLayout) -> LocalValue:
    """Return a value in a layout, with a type only."""
    kind = lz.e.type(layout.local, value.type.element_type)
    return LocalValue(cast(Any, SimpleNamespace(type=kind)), layout)


def comes_split(x: LocalValue, dims: Sequence[int]) -> bool:
    """Return whether dimensions are split by no reshard, and evenly."""
    if any(x.layout.padded(d) for d in dims):
        return False
    if x.before is None:
        return True
    propagated = (*x.before.via, x.before.layout)[0]
    return all(propagated.dims[d] == x.layout.dims[d] for d in dims)


# -- the choice ------------------------------------------------------------------------------------


# A value, where to, and layouts that lead there.
Move = tuple[LocalValue, AxisLayout, Sequence[AxisLayout]]


@dataclass(slots=True)
class Way:
    """A way to run an operation.

    Attributes:
      out: the layout of the result.
      moves: of the operands.
      across: the axes over which the result is a partial sum.
    """

    out: AxisLayout
    moves: list[Move]
    across: Atoms = ()


class Planner:
    """Finds the way to run an operation that sends least, the moves behind it included.

    Args:
      out: the layout that propagation gave the result.
      operands: which operands have to move.
      need: the layout that an operand must have for a result layout; by default, the same split.
      fit: the layout nearest to a given one that the operation can produce.
      lead: the result layout in which an operand of a layout need not move, for operations that may
        run before their operands' moves.
      exchange: emits what an operand, by its number, still sends in the layout it needs.
      flops: operations for each element of the result, or each term of a sum, with what it takes to
        read and write it.
      summed: for each factor that is summed over, the (place among `operands`, dimension) pairs
        that run through it. Where it is split, the result is a partial sum.
      combiner: what adds up partial sums; None where no collective does, so that they are gathered.
    """

    def __init__(
        self,
        lz: Localizer,
        op: ir.Operation,
        out: AxisLayout,
        operands: Sequence[int],
        need: Callable[[int, AxisLayout], AxisLayout] | None = None,
        *,
        fit: Callable[[AxisLayout], AxisLayout] = lambda layout: layout,
        lead: Callable[[int, AxisLayout], AxisLayout] | None = None,
        exchange: Callable[[Emitter, int, LocalValue, AxisLayout], object] | None = None,
        flops: Callable[[], float] = lambda: FLOPS_PER_ELEMENT,
        summed: Sequence[Sequence[tuple[int, int]]] = (),
        combiner: str | None = "add",
    ) -> None:
        self.lz, self.op, self.fit, self.lead = lz, op, fit, lead
        self.need = need or (lambda i, out: out.of_shape(lz.operand(op, i).layout.shape))
        self.exchange, self.flops = exchange, flops
        self.summed, self.combiner = summed, combiner
        self.numbers, self.out = operands, fit(out)
        self.shares: dict[int, Share] = {}
        self.given = [lz.operand(op, i) for i in operands]
        self.chain = chain_of(lz, op) if summed else common_moves(lz, op)
        scattered = scattered_to(lz, op) if summed else None
        self.end = scattered or (self.chain[-1] if self.chain else out)

    def moved(self) -> tuple[list[LocalValue], Way]:
        """Return the operands, moved as the best way asks, and that way."""
        way = self.best()
        moved = [
            relayout(self.lz.e, LocalValue(x.value, x.layout, remake=x.remake), layout, via)
            for x, layout, via in way.moves
        ]
        return moved, way

    def best(self) -> Way:
        """Return the result's plan as propagated, or one that sends less for little more work."""
        first = self._way(self.given, self.out, split=True)
        if self._stays(first):
            return first
        best = first
        others = list(self._others())
        if not others:
            return first
        least = sent = self._price(first)[0]
        if not sent:
            return first
        # Operands that both come split, such as activations in the gradient of a weight, are summed
        # where a gather would repeat work: that is the program people expect.
        places = list(itertools.chain.from_iterable(self.summed))
        both = all(
            comes_split(x, [d for k, d in places if k == n]) for n, x in enumerate(self.given)
        )
        for way in others:
            more = self._work(way) - self._work(first)
            if self.summed and more > 0 and (both or way.across or not first.across):
                continue
            cost, way.moves = self._price(way)
            if cost < least and more <= FLOPS_PER_BYTE * (sent - cost):
                best, least = way, cost
        return best

    def cost(self, way: Way) -> float:
        """Return bytes that a way sends."""
        return self._price(way)[0]

    def _stays(self, way: Way) -> bool:
        """Return whether nothing moves, now or behind the operation."""
        if self.chain or way.across or self.exchange is not None:
            return False
        return all(x.before is None and x.layout == layout for x, layout, _ in way.moves)

    def _others(self) -> Iterator[Way]:
        """Return ways to the result where it is wanted, and where operands lead as they are."""
        outs = [] if 0 in self.end.shape else [self.fit(self.end)]
        if self.lead is not None:
            for i, x in zip(self.numbers, self.given, strict=True):
                for source in (x, x.before) if self.summed else (x.before,):
                    if source is not None:
                        outs.append(self.fit(self.lead(i, source.layout)))
        if self.summed:
            outs.insert(0, self.out)
        else:
            outs = [out for out in outs if out != self.out]
        for out in dict.fromkeys(outs):
            # Which axes split a sum depends on what an operand is made of.
            pairs = ([x, x.before] if x.before and self.summed else [x] for x in self.given)
            for sources in itertools.product(*pairs):
                way = self._way(sources, out, split=True)
                if way.across:
                    yield self._way(sources, out, split=False)
                yield way

    def _way(self, sources: Sequence[LocalValue], out: AxisLayout, split: bool) -> Way:
        """Plan the operands' moves for a result in a layout, sums split as operands or whole."""
        layouts = [self.need(i, out) for i in self.numbers]
        across: Atoms = ()
        for run in self.summed if split else ():
            taken = {*out.used, *across}
            splits = (free_of(sources[k].layout.dims[d], taken) for k, d in run)
            atoms = next(filter(None, splits), ())
            for k, d in run:
                layouts[k] = layouts[k].with_dim(d, atoms)
            across += atoms
        return Way(out, [(x, y, ()) for x, y in zip(sources, layouts, strict=True)], across)

    def _price(self, way: Way) -> tuple[float, list[Move]]:
        """Return bytes that a way sends, and its operands from the sources that send least."""
        lz, via = self.lz, self.chain[:-1]
        passed = (way.out, *via) if via else ()
        sent = result_cost(lz, self.op, way.out, self.end, passed, way.across, self.combiner)
        moves: list[Move] = []
        for i, (x, layout, _) in zip(self.numbers, way.moves, strict=True):
            steps = [self.need(i, layout) for layout in via] if way.out == self.end else []
            value = self.op.operands[i]
            if i not in self.shares:
                self.shares[i] = share(lz, self.op, value)
            pays = self.shares[i]
            # A copy gathered for others serves here too; an exchange may yet be left out by all.
            gathered = x.layout is not None and layout.used < x.layout.used
            # What a loop does not change moves in front of it, for little already.
            others = _others_wanting(lz, self.op, value, layout, from_root=pays.part == 1)
            if gathered or facts(self.op).windowed:
                others += list(self.op.operands).count(value)
            parts = 1 + 0.9 * max(0, others - 1)  # others may yet choose otherwise
            sources = [x] if self.summed or x.before is None else [x.before, x]
            options = [(pays.cost(lz.e, source, layout, steps), source) for source in sources]
            cost, source = min(options, key=lambda option: option[0])
            cost /= parts
            if x.remake is not None and not self.summed:
                cost = 0.0  # it is made where it is wanted, and is no more than its source
            if self.exchange is not None:
                tally = Tally(lz.e)
                self.exchange(tally, i, imagined(lz, value, layout), way.out)
                cost += tally.cost
            sent += cost
            moves.append((source, layout, steps))
        return sent, moves

    def _work(self, way: Way) -> float:
        """Return operations of one device."""
        terms = (way.moves[run[0][0]][1].local[run[0][1]] for run in self.summed)
        return self.flops() * math.prod(way.out.local) * math.prod(terms)

    def deliver(self, got: LocalValue, out: AxisLayout) -> LocalValue:
        """Deliver a result in its layout, or before the moves that its users take over."""
        if got.partial and got.layout != self.end:
            got = add_up(self.lz.e, got, self.end)
        return deliver(self.lz, got, out, self.chain)


def deliver(
    lz: Localizer, got: LocalValue, out: AxisLayout, chain: Sequence[AxisLayout]
) -> LocalValue:
    """Return a result in its layout, or as it is where the chain of moves behind it takes it on."""
    if got.layout == out:
        return got
    if not chain:
        return LocalValue(lz.move(got, out).value, out, before=got)
    return LocalValue(got.value, got.layout, got.partial, via=(out,))
