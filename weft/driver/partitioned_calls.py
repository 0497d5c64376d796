# Tests: tests/driver/test_use_partitioner.py
"""Calls of functions that say themselves how they run on shards, once it is known how.

Such a call is lowered to a custom call with the user's sharding rule. When the module is complete
its shardings are propagated in a copy, and every call is replaced by the computation per device
that the user makes of its shardings there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import mlir, passes, sdy
from weft._xla.mlir import ir
from weft.driver.staging import ShapeDtypeStruct
from weft.lowering.context import RuleContext, int_attr, parse_attr
from weft.lowering.module import FunctionContext
from weft.partition.localize import read_mesh
from weft.partition.propagate import propagate
from weft.partition.shardy_workarounds import detach_async
from weft.partition.walk import clone, outer_first
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec
from weft.sharding.text import sdy_sharding_text

if TYPE_CHECKING:
    from weft.core.jaxpr import ClosedJaxpr
    from weft.lowering.module import ModuleContext
    from weft.partition.axis_layout import DeviceMesh

TARGET = "weft_partitioned_call"
_SITE = "weft.site"
_SHARDING = "sdy.sharding"


class PartitionedCall:
    """A call as it was lowered.

    call: has infer(mesh, operands, results), which gives shardings of the results or None, and
    per_device(mesh, axes, operands, results), the jaxpr to put in its place; operands and results
    are `ShapeDtypeStruct`s.
    """

    def __init__(self, call: Any, ctx: RuleContext, jaxpr: ClosedJaxpr) -> None:
        self.call = call
        self.jaxpr = jaxpr
        self.eqn, self.loc = ctx.eqn, ctx.loc
        self.manual_axes = ctx.module.manual_axes
        self.untracked_axes = ctx.module.untracked_axes
        self.diverging = ctx.module.diverging


def replace_calls(lowered: ModuleContext) -> None:
    """Put computations per device in the place of the module's partitioned calls."""
    module = lowered.module
    with mlir.context(), mlir.unknown_location():
        passes.run(module, "inline{default-pipeline= },symbol-dce")  # one call for each place
        sites = _sites(module)
        for number, op in enumerate(sites):
            op.attributes[_SITE] = int_attr(number, 64)
        types = _inferred(lowered, sites)
        for op, (operands, results) in zip(sites, types, strict=True):
            _replace(lowered, op, operands, results)


def _sites(module: ir.Module) -> list[ir.Operation]:
    return [
        op
        for op in outer_first(module.operation)
        if op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value == TARGET
    ]


def _inferred(lowered: ModuleContext, sites: list[ir.Operation]) -> list[tuple[list, list]]:
    """Return types of the operands and results of every call, with the shardings they will have.

    Where a function infers the results' shardings from the operands', these may follow from other
    calls of the kind: it is asked again until nothing changes.
    """
    for _ in range(len(sites) + 1):
        types = _propagated(lowered, sites)
        changed = False
        for op, (operands, results) in zip(sites, types, strict=True):
            site = _call_of(lowered, op)
            shardings = site.call.infer(lowered.mesh, operands, results)
            if shardings is None:
                continue
            texts = (
                sdy_sharding_text(s, len(r.shape)) for s, r in zip(shardings, results, strict=True)
            )
            attribute = sdy.for_values(*map(parse_attr, texts))
            if _SHARDING not in op.attributes or op.attributes[_SHARDING] != attribute:
                op.attributes[_SHARDING] = attribute
                changed = True
        if not changed:
            break
    return types


def _call_of(lowered: ModuleContext, op: ir.Operation) -> PartitionedCall:
    return lowered.partitioned_calls[int(op.attributes["backend_config"].value)]


def _propagated(lowered: ModuleContext, sites: list[ir.Operation]) -> list[tuple[list, list]]:
    copy = clone(lowered.module)
    detach_async(copy)
    propagate(copy)
    mesh = read_mesh(copy)
    by_site = {op.attributes[_SITE].value: op for op in _sites(copy)}
    types = []
    for number, op in enumerate(sites):
        jaxpr, seen = _call_of(lowered, op).jaxpr, by_site.get(number)
        operands = None if seen is None else list(seen.operands)
        results = None if seen is None else list(seen.results)
        types.append(
            (
                _typed(lowered, mesh, jaxpr.in_avals, operands),
                _typed(lowered, mesh, jaxpr.out_avals, results),
            )
        )
    return types


def _typed(
    lowered: ModuleContext, mesh: DeviceMesh, avals: Sequence[Any], values: list[ir.Value] | None
) -> list[ShapeDtypeStruct]:
    """Return the types with the values' shardings; whole where a call was found to be dead."""
    texts = [None] * len(avals) if values is None else [sharding_of(v) for v in values]
    return [
        ShapeDtypeStruct(
            a.shape, a.dtype, sharding=NamedSharding(lowered.mesh, _spec(a.shape, mesh, text))
        )
        for a, text in zip(avals, texts, strict=True)
    ]


def _spec(shape: tuple[int, ...], mesh: DeviceMesh, sharding: ir.Attribute | None) -> PartitionSpec:
    """Return the whole axes of a sharding, as many as divide each dimension."""
    if sharding is None:
        return PartitionSpec(*(None for _ in shape))
    entries: list[Any] = []
    for size, axes in zip(shape, sdy.dims_of(sharding), strict=True):
        names, parts = [], 1
        for name, _, piece in axes:
            parts *= mesh.axes[name]
            if piece is not None or size % parts:
                break
            names.append(name)
        entries.append(names[0] if len(names) == 1 else tuple(names) or None)
    return PartitionSpec(*entries)


def sharding_of(value: ir.Value) -> ir.Attribute | None:
    """Return the sharding that propagation gave a value, None for one that is whole."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        outer = owner.owner.operation
        number = list(owner.arguments).index(value)
        if outer.name == "func.func":
            return sdy.argument_sharding(outer, number)
        if outer.name != "stablehlo.while":
            return None
        value = outer.results[number]  # a carry is placed as its result is
        edges = (use.owner.operation for use in value.uses)
        edge = next((e for e in edges if e.name == "sdy.data_flow_edge"), None)
        return sharding_of(edge.results[0] if edge is not None else value)
    op = owner.operation
    if "sharding" in op.attributes and op.name.startswith("sdy."):
        return op.attributes["sharding"]
    name = "out_shardings" if op.name == "sdy.manual_computation" else _SHARDING
    if name not in op.attributes:
        return None
    return sdy.per_value(op.attributes[name])[list(op.results).index(value)]


def _replace(lowered: ModuleContext, op: ir.Operation, operands: list, results: list) -> None:
    site = _call_of(lowered, op)
    assert lowered.mesh is not None, "partitioned calls run over a mesh"
    axes = frozenset(lowered.mesh.axis_names) - site.manual_axes
    jaxpr = site.call.per_device(lowered.mesh, axes, operands, results)
    before = lowered.manual_axes, lowered.untracked_axes, lowered.diverging
    lowered.manual_axes, lowered.untracked_axes = site.manual_axes, site.untracked_axes
    lowered.diverging = site.diverging
    ctx = RuleContext(lowered, FunctionContext(), site.eqn, site.loc)
    try:
        with ir.InsertionPoint(op):
            inlined = ctx.inline(jaxpr, *op.operands)
    finally:
        lowered.manual_axes, lowered.untracked_axes, lowered.diverging = before
    for result, value in zip(op.results, inlined, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
