# Tests: tests/partition/test_manual.py
"""Collectives: Shardy's become StableHLO's; those inside manual computations stay."""

from __future__ import annotations

import weft.partition.reshard as reshard
from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout
from weft.partition.collect import KINDS
from weft.partition.local_value import LocalValue, fill_padding
from weft.partition.localize import Localizer, rule
from weft.partition.ops import facts, named
from weft.partition.passes.carry_linearity import WRITTEN
from weft.partition.walk import SHARDINGS, forget, only_user, ops_in


@rule(*named(lambda row: row.relayout))
def relayout(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Tell by the operand and result layouts which collective it is.

    A chain of them waits for its end: `reshard.relayout` then finds a way that sends less, if any.
    """
    out = lz.target(op)
    x = lz.local(op.operands[0])
    wanted = lz.unreduced(sdy.target_of(op))
    if x.partial and wanted and set(x.partial[0]) != set(wanted):
        return lz.replace(op, lz.as_sum(x, lz.target(op), wanted))
    still = x.partial if x.partial and wanted else None
    if not still:
        x = lz.complete(op.operands[0])
        if _next_in_chain(op):
            via = (*(x.via or (x.layout,)), out)
            x = LocalValue(x.value, x.layout, remake=x.remake, via=via)
            return lz.replace(op, x)
    now = LocalValue(x.value, x.layout, remake=x.remake, via=x.via)
    with lz.e.tentatively():
        moved = reshard.relayout(lz.e, now, out, x.via)
    return lz.replace(op, LocalValue(moved.value, out, still, moved.remake, None if still else now))


def _next_in_chain(op: ir.Operation) -> bool:
    """Return whether nothing but another such operation of the same block uses the result."""
    user = only_user(op.results[0])
    return user is not None and facts(user).relayout and user.block == op.block


@rule("sdy.all_reduce")
def all_reduce(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Combine a partial result with the combiner of its producer; a complete one is left alone."""
    if lz.local(op.operands[0]).partial is None:
        return relayout(lz, op)
    axes = lz.atoms(sdy.axis_refs(op.attributes["reduction_axes"]))
    out = lz.target(op)
    x = _reduce_over(lz, lz.local(op.operands[0]), axes, out)
    if x.partial is None and x.layout != out and _next_in_chain(op):
        return lz.replace(op, LocalValue(x.value, x.layout, via=(out,)))
    return lz.replace(op, LocalValue(lz.at(LocalValue(x.value, x.layout), out), out, x.partial))


def _reduce_over(lz: Localizer, x: LocalValue, axes: Atoms, out: AxisLayout) -> LocalValue:
    """Reduce over axes, and over those that split the result where the operand has sums."""
    if x.partial is None:
        return x
    atoms, kind = x.partial
    now = tuple(i for i in atoms if i in axes or i in out.used)
    left = tuple(i for i in atoms if i not in now)
    value = lz.e.all_reduce(x.value, now, kind) if now else x.value
    return LocalValue(value, x.layout, (left, kind) if left else None)


@rule("sdy.reduce_scatter")
def reduce_scatter(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    if lz.local(op.operands[0]).partial is None:
        return relayout(lz, op)
    out = lz.target(op)
    x = lz.local(op.operands[0])
    x = _reduce_over(lz, reshard.scatter_partial(lz.e, x, out), (), out)
    return lz.replace(op, LocalValue(lz.at(LocalValue(x.value, x.layout), out), out, x.partial))


@rule("sdy.replicated_to_unreduced")
def replicated_to_unreduced(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Return the first device of each group keeps the value, the others hold zero."""
    x = lz.local(op.operands[0])
    return lz.replace(op, lz.as_sum(x, lz.target(op), lz.unreduced(sdy.target_of(op))))


@rule("sdy.sharded_to_unreduced")
def sharded_to_unreduced(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Put each device's shard into zeros of the whole dimension."""
    out = lz.target(op)
    wanted = lz.unreduced(sdy.target_of(op))
    x = lz.local(op.operands[0])
    due = tuple(i for i in x.partial[0] if i in wanted) if x.partial else ()
    x = lz.as_sum(x, x.layout, due)  # with the sums that stay open
    e = lz.e
    value, layout = x.value, x.layout
    across: Atoms = due
    for d, atoms in enumerate(x.layout.dims):
        gone = atoms[len(out.dims[d]) :]
        if not gone:
            continue
        value = fill_padding(e, LocalValue(value, layout), [d]).value
        size = layout.local[d]
        shape = list(value.type.shape)
        shape[d] = size * lz.mesh.count(gone)
        zeros = e.splat(0, shape, value.type.element_type)
        start = e.lookup(gone, [k * size for k in range(lz.mesh.count(gone))])
        layout = layout.with_dim(d, out.dims[d])
        value = e.slice(e.dynamic_update(zeros, value, d, start), d, 0, layout.local[d])
        across += gone
    return lz.replace(op, LocalValue(value, out, (across, "add")))


@rule(*KINDS)
def manual_collective(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Written by the user: its groups name devices; only axes that are still free are localized."""
    outs = lz.layouts(op)
    whole = [op.attributes[name].value for name in (facts(op).cut, facts(op).merged) if name]
    values, layouts = [], []
    for x, out in zip(lz.operands(op), outs, strict=True):
        dims = tuple(() if d in whole else a for d, a in enumerate(out.dims))
        values.append(lz.at(x, AxisLayout(lz.mesh, x.layout.shape, dims)))
        layouts.append(AxisLayout(lz.mesh, out.shape, dims))
    forget(op, "channel_handle", "use_global_device_ids")  # devices are replicas now
    op.attributes[WRITTEN] = ir.UnitAttr.get()
    return lz.keep_and_move(op, values, layouts, outs)


@rule("stablehlo.partition_id")
def partition_id(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Return the device's number; the local program's devices are replicas."""
    value = lz.e.make("stablehlo.replica_id", (), op.results[0].type)
    return lz.replace(op, LocalValue(value, lz.layout(None, ())))


@rule("stablehlo.replica_id")
def replica_id(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Return zero: the global program has one replica."""
    zero = lz.e.const(0, op.results[0].type.element_type)
    return lz.replace(op, LocalValue(zero, lz.layout(None, ())))


@rule("stablehlo.async_start")
def async_start(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Written by the user: what it starts stays as it is, on operands whole along free axes."""
    for i, x in enumerate(lz.operands(op)):
        op.operands[i] = lz.at(x, lz.layout(None, op.operands[i].type.shape))
    for inner in ops_in(op.regions[0].blocks[0]):
        forget(inner, "channel_handle", "use_global_device_ids", *SHARDINGS)
    return [LocalValue(op.results[0], lz.layout(None, ()))]


@rule("stablehlo.async_done")
def async_done(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Return the value of what was started, whole along free axes."""
    out = lz.layouts(op)[0]
    forget(op, "sdy.sharding")
    lz.e.ip = ir.InsertionPoint.after(op)
    return [lz.move(LocalValue(op.results[0], lz.layout(None, op.results[0].type.shape)), out)]
