"""Says for every axis of a propagated sharding which sharding of the user's it came from.

Shardy can record this too, but sometimes ends the process (quirks.SHARDY_ORIGINS). Here each
axis is followed after propagation: from the arguments, constraints and results that had it before,
step by step to neighbours that have it now; the nearest one is the origin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.ops import facts
from weft.partition.walk import (
    boundary,
    functions,
    maker,
    number_of,
    outer_first,
    set_boundary,
    terminator,
)

NAME = "sdy.sharding_origin_name"
ORIGINS = "sdy.sharding_origins"

# Dimensions of their operands and results that correspond have one size; others need not.
_MANY_SIZES = ("stablehlo.dot_general", "stablehlo.gather", "stablehlo.scatter")


@dataclass(slots=True)
class Sources:
    """Where axes come from: a value, the name of its origin, and the axes that it had."""

    entries: list[tuple[ir.Value, str, frozenset[str]]] = field(default_factory=list)

    def add(self, value: ir.Value, name: str, sharding: ir.Attribute | None) -> None:
        if sharding is not None and (axes := _axes(sharding)):
            self.entries.append((value, name, axes))


def sources(module: ir.Module) -> Sources:
    """Return the user's shardings of a module before propagation; name its constraints."""
    user_sources = Sources()
    constraints = 0
    for function in functions(module).values():
        block = function.regions[0].blocks[0]
        for i, argument in enumerate(block.arguments):
            user_sources.add(argument, f"input: {i}", sdy.argument_sharding(function, i))
        for op in outer_first(function):
            if op.name == "sdy.sharding_constraint":
                name = f"constraint_{constraints}"
                constraints += 1
                op.attributes[NAME] = ir.StringAttr.get(name, module.context)
                user_sources.add(op.results[0], name, op.attributes["sharding"])
            elif op.name == "sdy.manual_computation":
                for way, values in (("in", op.operands), ("out", op.results)):
                    shardings = sdy.per_value(op.attributes[f"{way}_shardings"])
                    for value, sharding in zip(values, shardings, strict=True):
                        user_sources.add(value, "shard_map", sharding)
        results = terminator(block).operands
        for i, row in enumerate(boundary(function, "res")):
            user_sources.add(results[i], f"output: {i}", row.get("sdy.sharding"))
    return user_sources


def record(module: ir.Module, before: Sources) -> None:
    """Write on every operation of a propagated module where its results' axes came from."""
    graph = _Graph(module)
    origins: dict[ir.Value, dict[str, str]] = {}
    for axis in sorted({a for _, _, axes in before.entries for a in axes}):
        queue: deque[ir.Value] = deque()
        for value, name, axes in before.entries:
            if axis in axes and axis not in origins.setdefault(value, {}):
                origins[value][axis] = name
                queue.append(value)
        while queue:
            value = queue.popleft()
            size = graph.split(value).get(axis)
            for near, sized in graph.neighbours(value):
                other = graph.split(near).get(axis)
                if other is None or (sized and other != size):
                    continue
                if axis not in origins.setdefault(near, {}):
                    origins[near][axis] = origins[value][axis]
                    queue.append(near)
    with module.context:
        for function in functions(module).values():
            _mark_arguments(function)
            for op in outer_first(function):
                if "sdy.sharding" in op.attributes:
                    rows = [origins.get(r, {}) for r in op.results]
                    if any(rows):
                        op.attributes[ORIGINS] = ir.ArrayAttr.get([_dictionary(r) for r in rows])


class _Graph:
    """Values of a module: their axes, and which of them an operation ties together."""

    def __init__(self, module: ir.Module) -> None:
        self._near: dict[ir.Value, list[tuple[list[ir.Value], bool]]] = {}
        self._shardings: dict[ir.Value, ir.Attribute | None] = {}
        self._split: dict[ir.Value, dict[str, int]] = {}
        for function in functions(module).values():
            block = function.regions[0].blocks[0]
            for i, argument in enumerate(block.arguments):
                self._shardings[argument] = sdy.argument_sharding(function, i)
            for op in outer_first(function):
                self._add(op)

    def neighbours(self, value: ir.Value) -> Iterator[tuple[ir.Value, bool]]:
        """List values that operations tie to this one, and if only along dimensions of a size."""
        for tie, sized in self._near.get(value, ()):
            for near in tie:
                yield near, sized

    def split(self, value: ir.Value) -> dict[str, int]:
        """Return the size of the dimension that each axis splits."""
        if value not in self._split:
            sharding = self._shardings.get(value)
            dims = [] if sharding is None else sdy.dims_of(sharding)
            sizes = value.type.shape if dims else ()
            pairs = zip(dims, sizes, strict=True)
            self._split[value] = {name: n for dim, n in pairs for name, _, _ in dim}
        return self._split[value]

    def _tie(self, values: list[ir.Value], sized: bool = False) -> None:
        for value in values:
            self._near.setdefault(value, []).append((values, sized))

    def _add(self, op: ir.Operation) -> None:
        attributes = op.attributes
        if "sdy.sharding" in attributes:
            shardings = sdy.per_value(attributes["sdy.sharding"])
            self._shardings.update(zip(op.results, shardings, strict=True))
        elif op.name in ("sdy.sharding_constraint", "sdy.data_flow_edge"):
            self._shardings[op.results[0]] = attributes.get("sharding", None)
        blocks = [b for region in op.regions for b in region.blocks]
        if op.name == "sdy.data_flow_edge":
            self._tie([op.results[0], *self._carried(op.operands[0])])
        elif op.name == "sdy.manual_computation":
            carried = terminator(blocks[0]).operands
            for a, b in (
                *zip(op.operands, blocks[0].arguments, strict=True),
                *zip(carried, op.results, strict=True),
            ):
                self._tie([a, b])
            for way, values in (("in", blocks[0].arguments), ("out", op.results)):
                shardings = sdy.per_value(attributes[f"{way}_shardings"])
                self._shardings.update(zip(values, shardings, strict=True))
        elif not facts(op).control and op.name != "func.return":
            self._tie([*op.operands, *op.results], op.name in _MANY_SIZES)

    def _carried(self, value: ir.Value) -> list[ir.Value]:
        """Return the counterparts, in each region, of a loop's carry or a branch's result."""
        op = maker(value)
        if op is None:
            return [value]
        i, out = number_of(value), [value]
        rows = (use.owner.operation.attributes for use in value.uses)
        sharding = next((row["sharding"] for row in rows if "sharding" in row), None)
        for block in (b for region in op.regions for b in region.blocks):
            end = terminator(block)
            if op.name == "stablehlo.while":
                out.append(block.arguments[i])
                self._shardings[block.arguments[i]] = sharding
            if len(end.operands) == len(op.results):
                out.append(end.operands[i])
        if op.name == "stablehlo.while":
            out.append(op.operands[i])
        return out


def _axes(sharding: ir.Attribute) -> frozenset[str]:
    return frozenset(name for dim in sdy.dims_of(sharding) for name, _, _ in dim)


def _mark_arguments(function: ir.Operation) -> None:
    """Mark an argument's own sharding as the origin of its axes."""
    rows = boundary(function, "arg")
    for row in rows:
        if "sdy.sharding" in row and (axes := _axes(row["sdy.sharding"])):
            row[ORIGINS] = _dictionary(dict.fromkeys(sorted(axes), "self"))
    set_boundary(function, "arg", rows)


def _dictionary(row: dict[str, str]) -> ir.Attribute:
    return ir.DictAttr.get({k: ir.StringAttr.get(v) for k, v in row.items()})
