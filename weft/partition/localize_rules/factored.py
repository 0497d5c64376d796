# Tests: tests/partition/test_localize.py, tests/partition/test_contractions.py
"""Operations that Shardy's rules describe whole: elementwise ones, products, reductions, sorts, ….

Shardy's registry says for each operation which factors the dimensions of operands and results run
through, which are summed over, and which must stay whole. That is all it takes to run it on shards.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout, free_of
from weft.partition.emit import Emitter
from weft.partition.local_value import LocalValue, fill_padding
from weft.partition.localize import FACTORED, WHOLE, Localizer, rule
from weft.partition.ops import facts
from weft.partition.plan import FLOPS_PER_ELEMENT, Planner, common_moves


@rule(FACTORED)
def factored(
    lz: Localizer,
    op: ir.Operation,
    arrange: Callable[[Emitter, ir.Value], ir.Value] = lambda e, value: value,
) -> list[LocalValue]:
    """Shared factors follow the result; split sums give partial ones, where that is cheaper.

    Dimensions that are summed over are filled with what changes nothing where they are padded.
    `arrange` is applied to the local operands and results.
    """
    e, outs, xs = lz.e, lz.layouts(op), lz.operands(op)
    r = sdy.sharding_rule(op.attributes["sdy.sharding_rule"])
    first = r.results[0]
    sums = facts(op).combines or facts(op).bilinear
    summed = [r.places(f) for f in sorted(r.reduction)] if sums else []
    drop = _whole_dims(r, sums)
    if not summed and _is_aligned(lz, op, r, xs, outs, drop):  # most operations: nothing moves
        got = lz.keep(op, [arrange(e, x.value) for x in xs], outs)
        return [LocalValue(arrange(e, x.value), x.layout) for x in got]

    def fit(out: AxisLayout) -> AxisLayout:
        return out.without(*drop) if drop else out

    def need(index: int, out: AxisLayout) -> AxisLayout:
        return by_factor(_splits(out, first), xs[index].layout, r.operands[index])

    def lead(index: int, layout: AxisLayout) -> AxisLayout:
        split = _splits(layout, r.operands[index])
        taken = {i for atoms in split.values() for i in atoms}
        factors_here = {f[0] for f in r.operands[index] if f}
        rest = _splits(outs[0], first).items()
        split |= {f: free_of(atoms, taken) for f, atoms in rest if f not in factors_here}
        return by_factor(split, outs[0], first)

    # Weigh moving operands to the result's layout against partial sums and moves behind it.
    planner = Planner(
        *(lz, op, outs[0], range(len(xs)), need),
        fit=fit,
        lead=lead,
        flops=functools.partial(_flops_each, op, outs[0], r, summed),
        summed=summed,
        combiner=(kind := _kind(op)),
    )
    moved, way = planner.moved()
    values = [x.value for x in moved]
    for k, d in itertools.chain.from_iterable(summed):
        fill = values[len(outs) + k] if facts(op).combines else None
        moved[k] = fill_padding(e, moved[k], [d], fill)
    split = _splits(way.out, first)
    now = [by_factor(split, o, m) for o, m in zip(outs, r.results, strict=True)]
    got = lz.keep(op, [arrange(e, x.value) for x in moved], now)
    got = [LocalValue(arrange(e, x.value), x.layout) for x in got]
    # Sums over a split factor are partial: known combiners wait, any other is applied again.
    if way.across and kind is not None:
        got[0].partial = (way.across, kind)
    elif way.across:
        got = _reduce_again(lz, op, got, values[len(got) :], way.across)
    return [planner.deliver(x, o) for x, o in zip(got, outs, strict=True)]


@rule("stablehlo.fft")
def fft(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Keep operands and results in order: the last dimension is innermost in memory.

    XLA:CPU lays out operands of FFTs for what is before or behind them, such as an all_to_all, and
    then refuses them as it runs (quirks.FFT_LAYOUT).
    """
    return factored(lz, op, _in_order)


def _in_order(e: Emitter, value: ir.Value) -> ir.Value:
    rank = len(value.type.shape)
    if rank < 2:
        return value
    minor_to_major = f"[dense<{list(reversed(range(rank)))}> : tensor<{rank}xindex>]"
    order = ir.Attribute.parse(minor_to_major, context=e.context)
    return e.make(
        "stablehlo.custom_call",
        (value,),
        value.type,
        call_target_name=ir.StringAttr.get("LayoutConstraint", e.context),
        operand_layouts=order,
        result_layouts=order,
    )


@rule(WHOLE, "stablehlo.rng", "stablehlo.rng_bit_generator", "func.call")
def whole(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Compute all of it on every device, which keeps its share: random bits are one device's."""
    outs = lz.layouts(op)
    values = [lz.at(x, x.layout.whole) for x in lz.operands(op)]
    return lz.keep_and_move(op, values, [o.whole for o in outs], outs)


def _is_aligned(
    lz: Localizer,
    op: ir.Operation,
    rule: sdy.ShardingRule,
    xs: Sequence[LocalValue],
    outs: Sequence[AxisLayout],
    drop: Sequence[int],
) -> bool:
    """Tell whether operands and results are split alike, factor by factor, with no move behind."""
    dims = outs[0].dims
    if any([dims[d] for d in drop]) or any([o.dims != dims for o in outs]):
        return False
    if any([x.before is not None or x.layout.dims != dims for x in xs]):
        return False
    same = all([m == rule.results[0] for m in (*rule.operands, *rule.results)])
    return same and not common_moves(lz, op)


@functools.lru_cache(maxsize=4096)
def _whole_dims(rule: sdy.ShardingRule, sums: bool) -> tuple[int, ...]:
    """Return the dimensions of the result that cannot be split."""
    whole = rule.whole if sums else rule.whole | rule.reduction
    mapping = enumerate(rule.results[0])
    return tuple(d for d, f in mapping if not f or f[0] in whole or not rule.places(f[0]))


def _flops_each(
    op: ir.Operation, out: AxisLayout, rule: sdy.ShardingRule, summed: Sequence
) -> float:
    """Count operations per element of the result or term of a sum, with reading and writing it.

    Products read an element for many of their terms.
    """
    row = facts(op)
    terms = math.prod(out.shape) * math.prod(rule.sizes[f] for f in rule.reduction if summed)
    return row.flops(op) / max(terms, 1) + (0 if row.bilinear else FLOPS_PER_ELEMENT)


def _kind(op: ir.Operation) -> str | None:
    """Return the name of what combines partial results; None where no collective does."""
    if not facts(op).combines:
        return "add"
    kind = combiner_kind(op.regions[0])
    if kind in ("and", "or") and op.results[0].type.element_type.width > 1:
        return None  # quirks.ALL_REDUCE_LOGIC
    return kind


def combiner_kind(region: ir.Region) -> str | None:
    """Return the name of a region that applies one commutative operation to its two arguments."""
    block = region.blocks[0]
    ops = [view.operation for view in block.operations]
    if len(ops) != 2 or len(block.arguments) != 2:
        return None
    if set(ops[0].operands) != set(block.arguments) or ops[1].operands[0] != ops[0].results[0]:
        return None
    return ops[0].name.removeprefix("stablehlo.") if facts(ops[0]).neutral else None


def _reduce_again(
    lz: Localizer,
    op: ir.Operation,
    parts: list[LocalValue],
    inits: Sequence[ir.Value],
    across: Atoms,
) -> list[LocalValue]:
    """Gather the partial results and reduce them with a copy of the op: any combiner."""
    e = lz.e
    gathered = []
    for x in parts:
        local = list(x.layout.local)
        gathered.append(e.all_gather(e.reshape(x.value, [1, *local]), across, 0))
    again = op.clone(ip=e.ip)
    for i, value in enumerate([*gathered, *inits]):
        again.operands[i] = value
    again.attributes["dimensions"] = e.i64s([0])
    return [LocalValue(r, x.layout) for r, x in zip(again.results, parts, strict=True)]


# -- factors ---------------------------------------------------------------------------------------

Factors = Sequence[Sequence[int]]  # the factors of each dimension, major first


def _splits(layout: AxisLayout, mapping: Factors) -> dict[int, Atoms]:
    """Return the axes that split each factor of a layout's dimensions."""
    return {f[0]: atoms for f, atoms in zip(mapping, layout.dims, strict=True) if f}


def split_factors(
    rule: sdy.ShardingRule,
    tensors: Sequence[tuple[AxisLayout, Factors]],
    fits: Callable[[int, int], bool],
    split: Mapping[int, Atoms] | None = None,
) -> dict[int, Atoms]:
    """Return the axes that split each factor of a sharding rule: of the first tensor that has some.

    Args:
      tensors: layouts with the factors of their dimensions.
      fits: whether a factor may be split into so many parts.
      split: factors whose axes are settled.
    """
    settled = dict(split or {})
    taken = {i for atoms in settled.values() for i in atoms}
    for layout, mapping in tensors:
        for atoms, factors in zip(layout.dims, mapping, strict=True):
            if not atoms or not factors or factors[0] in settled or taken.intersection(atoms):
                continue
            if factors[0] not in rule.whole and fits(factors[0], layout.mesh.count(atoms)):
                settled[factors[0]] = atoms
                taken.update(atoms)
    return settled


def by_factor(split: Mapping[int, Atoms], layout: AxisLayout, mapping: Factors) -> AxisLayout:
    """Return a layout as the split of its dimensions' factors asks for."""
    dims = tuple(split.get(factors[0], ()) if factors else () for factors in mapping)
    return AxisLayout(layout.mesh, layout.shape, dims)


def whole_sums(
    lz: Localizer, rule: sdy.ShardingRule, split: Mapping[int, Atoms], got: list[LocalValue]
) -> list[LocalValue]:
    """Add up results of a call over the axes that split what it sums over."""
    across = tuple(i for f in sorted(rule.reduction) for i in split.get(f, ()))
    if not across:
        return got
    return [LocalValue(lz.e.all_reduce(x.value, across, "add"), x.layout) for x in got]
