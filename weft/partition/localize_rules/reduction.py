"""stablehlo.reduce: partial results on shards, combined across devices."""

from __future__ import annotations

from weft._xla.mlir import ir
from weft.partition.axis_layout import Layout, free_of
from weft.partition.local_value import Local, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.ops import facts


def combiner_kind(region: ir.Region) -> str | None:
    """The name of a region that applies one commutative operation to its two arguments."""
    block = region.blocks[0]
    ops = [view.operation for view in block.operations]
    if len(ops) != 2 or len(block.arguments) != 2:
        return None
    if set(ops[0].operands) != set(block.arguments) or ops[1].operands[0] != ops[0].results[0]:
        return None
    return ops[0].name.removeprefix("stablehlo.") if facts(ops[0]).neutral else None


@rule("stablehlo.reduce")
def reduce(lz: Localizer, op: ir.Operation) -> list[Local]:
    e = lz.e
    dims = list(op.attributes["dimensions"])
    count = len(op.operands) // 2
    outs = lz.layouts(op)
    xs = [lz.operand(op, i) for i in range(count)]
    inits = [lz.operand(op, i).value for i in range(count, 2 * count)]
    # Kept dimensions follow the result; reduced ones stay as they are where axes are free.
    shape = xs[0].layout.shape
    kept = iter(outs[0].dims)
    layout = Layout(
        lz.mesh, shape, tuple(() if d in dims else next(kept) for d in range(len(shape)))
    )
    for d in dims:
        layout = layout.with_dim(d, free_of(xs[0].layout.dims[d], layout.used))
    values = []
    for x, init in zip(xs, inits, strict=True):
        moved = lz.move(x, layout)
        values.append(fill_padding(e, moved, dims, init).value)
    across = tuple(i for d in dims for i in layout.dims[d])
    kind = combiner_kind(op.regions[0])
    if kind in ("and", "or") and values[0].type.element_type.width > 1:
        kind = None  # XLA's all_reduce takes and, or of booleans only (jaxlib 0.10.2)
    result = outs[0]
    got = lz.keep(op, values + inits, [Layout(lz.mesh, o.shape, result.dims) for o in outs])
    if across and kind:
        got[0].partial = (across, kind)
    elif across:
        got = _combine(lz, op, got, inits, across)
    return [x if x.partial else lz.move(x, o) for x, o in zip(got, outs, strict=True)]


def _combine(lz: Localizer, op: ir.Operation, parts: list[Local], inits, across) -> list[Local]:
    """Gathers the partial results and reduces them with a copy of the op: any combiner."""
    e = lz.e
    gathered = []
    for x in parts:
        local = list(x.layout.local)
        gathered.append(e.all_gather(e.reshape(x.value, [1, *local]), across, 0))
    again = op.clone(ip=e.ip)
    for i, value in enumerate(gathered + inits):
        again.operands[i] = value
    again.attributes["dimensions"] = e.i64s([0])
    return [Local(r, x.layout) for r, x in zip(again.results, parts, strict=True)]
