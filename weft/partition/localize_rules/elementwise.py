"""Operations that act on every element by itself."""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.partition.axis_layout import Layout
from weft.partition.local_value import Local
from weft.partition.localize import Localizer, rule
from weft.partition.localize_rules.choice import choose, deliver
from weft.partition.ops import named


@rule("stablehlo.bitcast_convert", *named(lambda row: row.pointwise))
def elementwise(lz: Localizer, op: ir.Operation) -> list[Local]:
    layout = lz.layouts(op)[0]
    if op.name == "stablehlo.bitcast_convert" and not _same_rank(op):
        return _bitcast(lz, op, layout)
    shapes = [lz.local(v).layout.shape for v in op.operands]

    def need(index: int, out: Layout) -> Layout:  # select and clamp take scalars too
        return Layout(lz.mesh, shapes[index], out.dims if shapes[index] else ())

    def make(index: int, given: Layout) -> Layout:
        return Layout(lz.mesh, layout.shape, given.dims) if given.dims else layout

    xs, now = choose(lz, op, layout, range(len(shapes)), need, make=make)
    [out] = lz.keep(op, [x.value for x in xs], [now])
    return [deliver(lz, op, out, layout)]


def _same_rank(op: ir.Operation) -> bool:
    return len(op.operands[0].type.shape) == len(op.results[0].type.shape)


def _bitcast(lz: Localizer, op: ir.Operation, layout: Layout) -> list[Local]:
    """bitcast_convert that adds or drops a minor dimension, which stays whole."""
    x = lz.operand(op, 0)
    rank = min(len(x.layout.shape), len(layout.shape))
    lead = layout.dims[:rank]
    source = Layout(lz.mesh, x.layout.shape, lead + ((),) * (len(x.layout.shape) - rank))
    target = Layout(lz.mesh, layout.shape, lead + ((),) * (len(layout.shape) - rank))
    return lz.keep_and_move(op, [lz.at(x, source)], [target], [layout])


@rule("stablehlo.optimization_barrier")
def each_by_itself(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Every result is its operand, each with a layout of its own."""
    xs = lz.operands(op)
    return lz.keep(op, [x.value for x in xs], [x.layout for x in xs])


@rule(
    "stablehlo.after_all",
    "stablehlo.create_token",
)
def unchanged(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Tokens are the same in both programs."""
    return lz.keep(
        op, [x.value for x in lz.operands(op)], [lz.layout(None, ()) for r in op.results]
    )


@rule("stablehlo.rng")
def rng(lz: Localizer, op: ir.Operation) -> list[Local]:
    """Whole on every device, then sliced: the same numbers as without sharding."""
    layout = lz.layouts(op)[0]
    xs = [lz.at(x, x.layout.whole) for x in lz.operands(op)]
    return lz.keep_and_move(op, xs, [layout.whole], [layout])
