# Tests: tests/partition/test_check.py
"""Which devices hold the same contents, for every value of a local program.

Every value is typed by its *classes*, one number for each device. They refine the manual-axis types
of `shard_map`: a value varies over a mesh axis where devices along it are of different classes.
Arguments start with the classes of their layout; an operation's result joins those of its operands;
a collective's depend on its groups. Integer values that follow from the device's number are
computed, so that `device / 4` varies over no more than it should.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout, DeviceMesh
from weft.partition.collect import KINDS, source_line

Classes = np.ndarray  # int, one for each device, numbered from 0 in order of appearance

_LARGEST = 4096  # elements of an integer value that is still computed


def tile_classes(layout: AxisLayout) -> Classes:
    """Return devices that hold the same shard of a layout, by device number."""
    mesh = layout.mesh
    total = np.zeros(mesh.size, np.int64)
    for atoms, count in zip(layout.dims, layout.counts, strict=True):
        total = total * count + mesh.coordinates(atoms)
    out = np.empty_like(total)
    out[mesh.partition_ids(np.arange(mesh.size))] = total
    return _numbered(out)


def varying(classes: Classes, mesh: DeviceMesh) -> tuple[str, ...]:
    """Return the mesh axes over which a value varies."""
    at = classes[mesh.partition_ids(np.arange(mesh.size))].reshape(tuple(mesh.axes.values()))
    return tuple(name for i, name in enumerate(mesh.axes) if (at != np.take(at, [0], axis=i)).any())


def join(*parts: Classes) -> Classes:
    """Intersect partitions of the devices: a class of the result is a class in every part."""
    if len(parts) == 1:
        return parts[0]
    return _numbered(np.stack(parts, axis=1))


def _numbered(rows: np.ndarray) -> Classes:
    axis = 0 if rows.ndim > 1 else None
    return np.unique(rows, return_inverse=True, axis=axis)[1].reshape(-1)


class Typer:
    """Types the values of a module's functions, `types` by value.

    Raises TypeError where a collective stands under a condition on which its group may disagree.
    """

    def __init__(self, mesh: DeviceMesh, functions: dict[str, ir.Operation]) -> None:
        self.mesh, self.functions = mesh, functions
        self.same = np.zeros(mesh.size, np.int64)
        self.types: dict[ir.Value, Classes] = {}
        self.known: dict[ir.Value, np.ndarray] = {}  # contents of integers, by device
        self.parts: dict[ir.Value, _Parts] = {}  # of what is laid side by side
        self.guards: list[Classes] = []  # classes of the conditions around

    def function(self, name: str, argument_classes: Sequence[Classes]) -> list[Classes]:
        block = self.functions[name].regions[0].blocks[0]
        return self.block(block, argument_classes)

    def block(self, block: ir.Block, argument_classes: Sequence[Classes]) -> list[Classes]:
        """Type a block's values; return the types of what its terminator gives."""
        for argument, classes in zip(block.arguments, argument_classes, strict=True):
            self.types[argument] = classes
        operations = [view.operation for view in block.operations]
        for op in operations[:-1]:
            for result, classes in zip(op.results, self.operation(op), strict=True):
                self.types[result] = classes
        return [self.types[v] for v in operations[-1].operands]

    def operation(self, op: ir.Operation) -> list[Classes]:
        name = op.name
        operands = [self.types[v] for v in op.operands]
        count = len(op.results)
        if name == "stablehlo.constant":
            self._remember(op, _constant(op))
            return [self.same]
        if name == "stablehlo.replica_id":
            self._remember(op, np.arange(self.mesh.size))
            return [np.arange(self.mesh.size)]
        if name in KINDS:
            return self._collective(op, operands)
        if name in ("stablehlo.case", "stablehlo.if"):
            return self._case(op, operands[0])
        if name == "stablehlo.while":
            return self._while(op, operands)
        if name == "stablehlo.async_start":
            return self.block(op.regions[0].blocks[0], operands)
        if name == "func.call":
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            return self.function(callee, operands)
        if name in ("stablehlo.optimization_barrier", "stablehlo.async_done"):
            for value, result in zip(op.operands, op.results, strict=True):
                if value in self.parts:
                    self.parts[result] = self.parts[value]
            return operands
        part = self._part(op, operands)
        if part is not None:
            return [part]
        value = self._computed(op)
        if value is not None:
            self.known[op.results[0]] = value
            return [_numbered(value.reshape(self.mesh.size, -1))]
        # Regions of other operations (combiners) may use values from around them.
        return [join(self.same, *operands)] * count

    def _remember(self, op: ir.Operation, value: np.ndarray | None) -> None:
        if value is not None:
            self.known[op.results[0]] = value

    # -- integers ----------------------------------------------------------------------------------

    def _computed(self, op: ir.Operation) -> np.ndarray | None:
        """Return an integer result's contents on each device, where the operands' are known."""
        compute = _INTEGER.get(op.name)
        if compute is None or any(v not in self.known for v in op.operands):
            return None
        n = self.mesh.size
        parts = [self.known[v] for v in op.operands]
        shapes = [tuple(v.type.shape) for v in op.operands]
        parts = [
            np.broadcast_to(p.reshape(-1, *s), (n, *s)) for p, s in zip(parts, shapes, strict=True)
        ]
        return np.ascontiguousarray(compute(op, *parts))

    # -- values side by side -----------------------------------------------------------------------

    def _part(self, op: ir.Operation, operands: list[Classes]) -> Classes | None:
        """Return the classes of a slice of one of several values that were laid side by side."""
        if op.name == "stablehlo.concatenate":
            dim = op.attributes["dimension"].value
            ends = np.cumsum([v.type.shape[dim] for v in op.operands])
            self.parts[op.results[0]] = _Parts(dim, ends, operands)
        elif op.name == "stablehlo.slice" and op.operands[0] in self.parts:
            parts = self.parts[op.operands[0]]
            low, high = (op.attributes[f"{end}_indices"][parts.dim] for end in ("start", "limit"))
            first, last = np.searchsorted(parts.ends, [low, high - 1], side="right")
            return parts.classes[first] if first == last and low < high else None
        return None

    # -- collectives -------------------------------------------------------------------------------

    def _collective(self, op: ir.Operation, operands: list[Classes]) -> list[Classes]:
        parts = self.parts.get(op.operands[0]) if len(operands) == 1 else None
        if parts is not None and not any(
            op.attributes[name].value == parts.dim for name in _ALONG if name in op.attributes
        ):
            outs = [self._sent(op, [classes])[0] for classes in parts.classes]
            self.parts[op.results[0]] = _Parts(parts.dim, parts.ends, outs)
            return [join(*outs)]
        return self._sent(op, operands)

    def _sent(self, op: ir.Operation, operands: list[Classes]) -> list[Classes]:
        kind = KINDS[op.name]
        if kind == "collective_permute":
            pairs = np.array(op.attributes["source_target_pairs"]).reshape(-1, 2)
            self._check_guards(op, [pairs.reshape(-1)])
            [source] = operands
            out = np.full(self.mesh.size, -1)
            out[pairs[:, 1]] = source[pairs[:, 0]]
            return [_numbered(out)]
        groups = np.array(op.attributes["replica_groups"])
        self._check_guards(op, list(groups))
        outs = []
        for classes in operands:
            rows = classes[groups]
            if kind == "all_reduce":  # a sum does not know the order of its terms
                rows = np.sort(rows, axis=1)
            together = np.empty(self.mesh.size, np.int64)
            together[groups] = _numbered(rows)[:, None]
            if kind in ("reduce_scatter", "all_to_all"):  # each device gets its own part
                position = np.empty_like(together)
                position[groups] = np.arange(groups.shape[1])
                together = join(together, position)
            outs.append(together)
        return outs if kind == "all_reduce" else [join(*outs)] * len(op.results)

    def _check_guards(self, op: ir.Operation, groups: list[np.ndarray]) -> None:
        for guard in self.guards:
            for group in groups:
                if len(np.unique(guard[group])) > 1:
                    line = source_line(op.location)
                    raise TypeError(
                        f"{op.name}{f' at {line}' if line else ''} stands under a condition that"
                        f" varies over {', '.join(varying(guard, self.mesh))}, so that devices of"
                        " one group may wait for each other for ever"
                    )

    # -- control flow ------------------------------------------------------------------------------

    def _case(self, op: ir.Operation, predicate: Classes) -> list[Classes]:
        self.guards.append(predicate)
        branches = [self.block(region.blocks[0], ()) for region in op.regions]
        self.guards.pop()
        return [join(predicate, *parts) for parts in zip(*branches, strict=True)]

    def _while(self, op: ir.Operation, carry: list[Classes]) -> list[Classes]:
        """Split classes from step to step until they stay as they are."""
        condition, body = (region.blocks[0] for region in op.regions)
        guard = self.same
        while True:
            self.guards.append(guard)
            [again] = self.block(condition, carry)
            self.guards[-1] = guard = join(guard, again)
            after = self.block(body, carry)
            self.guards.pop()
            joined = [join(a, b, guard) for a, b in zip(carry, after, strict=True)]
            if all(_count(a) == _count(b) for a, b in zip(carry, joined, strict=True)):
                return carry
            carry = joined


@dataclass(frozen=True, slots=True)
class _Parts:
    """Values laid side by side along a dimension: where each ends, and the classes of each."""

    dim: int
    ends: np.ndarray
    classes: list[Classes]


_ALONG = ("all_gather_dim", "scatter_dimension", "split_dimension", "concat_dimension")


def _count(classes: Classes) -> int:
    return len(np.unique(classes))


def _constant(op: ir.Operation) -> np.ndarray | None:
    """Return the contents of a small integer constant, with a device dimension of 1."""
    kind = op.results[0].type
    if not isinstance(kind.element_type, ir.IntegerType) or kind.element_type.width == 1:
        return None
    if int(np.prod(kind.shape)) > _LARGEST:
        return None
    return np.array(op.attributes["value"]).astype(np.int64).reshape(1, *kind.shape)


def _dynamic_slice(op: ir.Operation, value: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    sizes = list(op.attributes["slice_sizes"])
    rows = []
    for device in range(len(value)):
        at = [
            int(np.clip(s[device], 0, n - k))
            for s, n, k in zip(starts, value.shape[1:], sizes, strict=True)
        ]
        rows.append(value[device][tuple(slice(a, a + k) for a, k in zip(at, sizes, strict=True))])
    return np.stack(rows)


def _reshape(op: ir.Operation, value: np.ndarray) -> np.ndarray:
    return value.reshape(len(value), *op.results[0].type.shape)


_INTEGER: dict[str, Callable[..., np.ndarray]] = {
    "stablehlo.add": lambda op, a, b: a + b,
    "stablehlo.subtract": lambda op, a, b: a - b,
    "stablehlo.multiply": lambda op, a, b: a * b,
    "stablehlo.divide": lambda op, a, b: np.trunc(a / np.where(b == 0, 1, b)).astype(np.int64),
    "stablehlo.remainder": lambda op, a, b: np.fmod(a, np.where(b == 0, 1, b)),
    "stablehlo.minimum": lambda op, a, b: np.minimum(a, b),
    "stablehlo.maximum": lambda op, a, b: np.maximum(a, b),
    "stablehlo.convert": lambda op, a: a,
    "stablehlo.reshape": _reshape,
    "stablehlo.dynamic_slice": _dynamic_slice,
}
