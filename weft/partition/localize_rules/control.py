# Tests: tests/partition/test_localize.py
"""Regions and function structure: while, case, calls, tokens, manual_computation, …."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout
from weft.partition.collect import trip_count
from weft.partition.local_value import LocalValue
from weft.partition.localize import Localizer, rule
from weft.partition.walk import terminator


@rule("stablehlo.while")
def while_(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Keep one layout of the carry through condition, body and result."""
    layouts = lz.layouts(op)
    values = [lz.at(x, layout) for x, layout in zip(lz.operands(op), layouts, strict=True)]
    for region in op.regions:
        for argument, layout in zip(region.blocks[0].arguments, layouts, strict=True):
            lz.bind_argument(argument, layout)
    with _may_diverge(lz, trip_count(op) is None):
        lz.walk(op.regions[0].blocks[0], [AxisLayout(lz.mesh, (), ())])
        lz.walk(op.regions[1].blocks[0], layouts)
    return lz.keep(op, values, layouts)


@rule("stablehlo.case", "stablehlo.if")
def case(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    layouts = lz.layouts(op)
    predicate = lz.operand(op, 0).value
    with _may_diverge(lz):
        for region in op.regions:
            lz.walk(region.blocks[0], layouts)
    return lz.keep(op, [predicate], layouts)


@contextmanager
def _may_diverge(lz: Localizer, decided: bool = True) -> Iterator[None]:
    """Emit what devices may run or not: what decides may vary over the manual axes around it.

    Along the free axes, over which the partitioner communicates, devices decide alike.
    """
    before = lz.e.apart
    lz.e.apart = before or (decided and bool(lz.manual[-1]))
    lz.diverges |= lz.e.apart
    yield
    lz.e.apart = before


@rule("stablehlo.return", "sdy.return")
def return_(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    for i, (value, layout) in enumerate(zip(op.operands, lz.returns[-1], strict=True)):
        op.operands[i] = lz.at(lz.complete(value), layout)
    return []


@rule("func.return")
def function_return(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Leave results partial sums where the signature says unreduced."""
    for i, (value, layout) in enumerate(zip(op.operands, lz.returns[-1], strict=True)):
        x = lz.local(value)
        x = (
            lz.as_sum(x, x.layout, lz.result_unreduced[i])
            if lz.result_unreduced[i]
            else lz.complete(value)
        )
        op.operands[i] = lz.at(LocalValue(x.value, x.layout), layout)
    return []


@rule("sdy.manual_computation")
def manual_computation(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Move the body, which is per-device along the manual axes, out of the region."""
    manual = frozenset(
        i for name in sdy.manual_axes(op.attributes["manual_axes"]) for i in lz.mesh.atoms_of(name)
    )
    block = op.regions[0].blocks[0]
    inputs = sdy.per_value(op.attributes["in_shardings"])
    outputs = sdy.per_value(op.attributes["out_shardings"])
    for value, sharding, argument in zip(op.operands, inputs, block.arguments, strict=True):
        atoms = lz.unreduced(sharding)
        x = lz.local(value)
        x = lz.as_sum(x, x.layout, atoms) if atoms else lz.complete(value)
        layout = lz.layout(sharding, x.layout.shape)
        moved = lz.at(LocalValue(x.value, x.layout), layout)
        inner = layout.free_of(manual).of_shape(argument.type.shape)
        lz.values[argument] = LocalValue(moved, inner)
    end = terminator(block)
    outer = [lz.layout(s, r.type.shape) for s, r in zip(outputs, op.results, strict=True)]
    returns = [
        layout.free_of(manual).of_shape(v.type.shape)
        for layout, v in zip(outer, end.operands, strict=True)
    ]
    outside = lz.e.scopes, lz.e.roots
    lz.e.scopes, lz.e.roots = [], {}  # inside, the same values have other layouts
    lz.manual.append(lz.manual[-1] | manual)
    lz.walk(block, returns)
    lz.manual.pop()
    lz.e.scopes, lz.e.roots = outside
    for view in list(block.operations)[:-1]:
        view.operation.move_before(op)
    partials = [lz.unreduced(s) for s in outputs]
    return lz.replace(
        op,
        *(
            LocalValue(v, layout, (atoms, "add") if atoms else None)
            for v, layout, atoms in zip(end.operands, outer, partials, strict=True)
        ),
    )


@rule("stablehlo.optimization_barrier")
def each_by_itself(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Give every operand on as a result, each with a layout of its own."""
    xs = lz.operands(op)
    return lz.keep(op, [x.value for x in xs], [x.layout for x in xs])


@rule("stablehlo.after_all", "stablehlo.create_token")
def unchanged(lz: Localizer, op: ir.Operation) -> list[LocalValue]:
    """Keep tokens, which are the same in both programs."""
    return lz.keep(
        op, [x.value for x in lz.operands(op)], [lz.layout(None, ()) for r in op.results]
    )
