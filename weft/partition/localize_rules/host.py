"""Calls into Python: a program over many devices makes each of them once."""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.partition.layout import Layout
from weft.partition.local import Local
from weft.partition.localize import Localizer


def is_host_call(op: ir.Operation) -> bool:
    return "python" in op.attributes["call_target_name"].value


def host_call(lz: Localizer, op: ir.Operation, xs: list[Local], outs: list[Layout]) -> list[Local]:
    """Whole operands; the first device of each group that has the same ones makes the call.

    Python serves one caller at a time, so eight calls would take eight times as long as one and the
    sum that hands out its results. The target for shards takes them as they are.
    """
    if "partitioned" in op.attributes["call_target_name"].value:
        return lz.keep(op, [x.value for x in xs], outs)
    values = [lz.at(x, _whole(x.layout)) for x in xs]
    whole = [_whole(o) for o in outs]
    free = tuple(i for i in range(len(lz.mesh.atoms)) if i not in lz.manual[-1])
    if not free:
        got = lz.keep(op, values, whole)
        lz.after(op)
    else:
        got = _once(lz, op, values, whole, free)
    return [lz.move(x, o) for x, o in zip(got, outs, strict=True)]


def _whole(layout: Layout) -> Layout:
    return Layout(layout.mesh, layout.shape, ((),) * len(layout.shape))


def _once(
    lz: Localizer,
    op: ir.Operation,
    values: list[ir.Value],
    whole: list[Layout],
    free: tuple[int, ...],
) -> list[Local]:
    e = lz.e
    first = e.compare(e.coordinate(free), e.const(0), "EQ")
    types = [r.type for r in op.results]
    branch = e.op("stablehlo.if", [first], types, regions=2)
    outside = e.ip
    called, skipped = (region.blocks.append() for region in branch.regions)
    inner = op.clone(ip=ir.InsertionPoint(called)).operation
    for i, value in enumerate(values):
        inner.operands[i] = value
    if "sdy.sharding" in inner.attributes:
        del inner.attributes["sdy.sharding"]
    e.ip = ir.InsertionPoint(called)
    e.op("stablehlo.return", list(inner.results), [])
    e.ip = ir.InsertionPoint(skipped)
    tokens = iter(v for v in values if not isinstance(v.type, ir.RankedTensorType))
    others = [
        e.splat(0, t.shape, t.element_type) if isinstance(t, ir.RankedTensorType) else next(tokens)
        for t in types
    ]
    e.op("stablehlo.return", others, [])
    e.ip = outside
    results = [
        Local(_handed_out(lz, r, free) if isinstance(r.type, ir.RankedTensorType) else r, layout)
        for r, layout in zip(branch.results, whole, strict=True)
    ]
    return lz.replace(op, *results)


def _handed_out(lz: Localizer, x: ir.Value, across: tuple[int, ...]) -> ir.Value:
    """The one value that is not zero: the sum, of bits, so that -0.0 and every NaN stay
    (complex numbers are summed as such)."""
    e = lz.e
    kind = x.type.element_type
    if not isinstance(kind, ir.FloatType):
        return e.all_reduce(x, across, "add")
    bits = e.type(x.type.shape, ir.IntegerType.get_unsigned(kind.width))
    summed = e.all_reduce(e.op("stablehlo.bitcast_convert", [x], [bits]).result, across, "add")
    return e.op("stablehlo.bitcast_convert", [summed], [x.type]).result
