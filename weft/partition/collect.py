"""Finds every collective of a local module: kind, mesh axes, bytes, loop trips, source, reason."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from weft._xla.mlir import ir
from weft.partition.axis_layout import DeviceMesh
from weft.partition.overlap_estimate import OverlappedWork, overlapped_work
from weft.partition.walk import WHY, functions, maker, terminator

KINDS = {
    "stablehlo.all_reduce": "all_reduce",
    "stablehlo.all_gather": "all_gather",
    "stablehlo.reduce_scatter": "reduce_scatter",
    "stablehlo.all_to_all": "all_to_all",
    "stablehlo.collective_permute": "collective_permute",
    "stablehlo.collective_broadcast": "collective_broadcast",
}


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of the program of one device.

    Attributes:
      kind: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `collective_permute`, ….
      axes: the mesh axes it crosses.
      group_size: devices that take part together.
      span: difference of the device numbers at the ends of a group, plus one; tells a model of a
        machine with several levels which links the group uses.
      operand_bytes: size of the local operands.
      bytes: bytes each device sends in one execution (ring algorithms; see `bytes_sent`).
      trips: executions for one call of the program, the product of enclosing loops' trip counts.
      exact_trips: False where some enclosing loop's count is not known; it then counts as 1.
      shape: local operand shapes, for people.
      source: `file:line` of the user's code, or "", or all lines that were joined in it.
      why: which producer and consumer disagreed and where their shardings came from, or "".
      meanwhile: of a started collective, the computation between start and done; else None.
      measured: seconds of all executions in one call, from a trace; None where there is none.
    """

    kind: str
    axes: tuple[str, ...]
    group_size: int
    span: int
    operand_bytes: int
    bytes: int
    trips: int
    exact_trips: bool
    shape: str
    source: str
    why: str
    meanwhile: OverlappedWork | None = None
    measured: float | None = None

    @property
    def total_bytes(self) -> int:
        """Bytes each device sends for one call of the program."""
        return self.bytes * self.trips


def bytes_sent(kind: str, operand_bytes: int, n: int) -> int:
    """Return bytes a device sends, for the bandwidth-optimal ring algorithms.

    All algorithms send at least this much (Chan, Heimlich, Purkayastha, van de Geijn, "Collective
    communication: theory, practice, and experience", 2007).

    >>> bytes_sent("all_reduce", 800, 8)
    1400
    """
    if n <= 1 and kind != "collective_permute":
        return 0
    return {
        "all_reduce": 2 * operand_bytes * (n - 1) // max(n, 1),
        "all_gather": operand_bytes * (n - 1),
        "reduce_scatter": operand_bytes * (n - 1) // max(n, 1),
        "all_to_all": operand_bytes * (n - 1) // max(n, 1),
        "collective_permute": operand_bytes,
        "collective_broadcast": operand_bytes,
    }[kind]


def collect(module: ir.Module, mesh: DeviceMesh) -> list[Collective]:
    """List every collective of a local module that moves data, in program order."""
    by_name = functions(module)
    block = by_name["main"].regions[0].blocks[0]
    return collect_block((view.operation for view in block.operations), by_name, mesh)


def collect_block(
    ops: Iterable[ir.Operation], functions: dict[str, ir.Operation], mesh: DeviceMesh
) -> list[Collective]:
    """Collect the collectives of operations, of their regions and of the functions they call."""
    collectives: list[Collective] = []
    names: dict[tuple, tuple[tuple[str, ...], int, int]] = {}

    def visit_block(block: ir.Block, trips: int, exact: bool) -> None:
        visit((view.operation for view in block.operations), trips, exact)

    def visit(ops: Iterable[ir.Operation], trips: int, exact: bool) -> None:
        for op in ops:
            name = op.name
            if name in KINDS:
                entry = _read(op, mesh, trips, exact, names)
                if entry is not None:
                    collectives.append(entry)
            elif name == "stablehlo.async_start":
                start = len(collectives)
                visit_block(op.regions[0].blocks[0], trips, exact)
                meanwhile = overlapped_work(op, functions, trip_count)
                collectives[start:] = [replace(c, meanwhile=meanwhile) for c in collectives[start:]]
            elif name == "stablehlo.while":
                count = trip_count(op)
                for region in op.regions:
                    visit_block(region.blocks[0], trips * (count or 1), exact and count is not None)
            elif name in ("stablehlo.case", "stablehlo.if"):
                # One branch runs; the one that sends most stands for all.
                start = len(collectives)
                branches = []
                for region in op.regions:
                    visit_block(region.blocks[0], trips, exact)
                    branches.append(collectives[start:])
                    del collectives[start:]
                collectives.extend(
                    max(branches, key=lambda b: sum(c.total_bytes for c in b), default=[])
                )
            elif name == "func.call":
                callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
                visit_block(functions[callee].regions[0].blocks[0], trips, exact)

    visit(ops, 1, True)
    return collectives


def _read(op: ir.Operation, mesh: DeviceMesh, trips: int, exact: bool, names) -> Collective | None:
    kind = KINDS[op.name]
    attribute = op.attributes[
        "source_target_pairs" if kind == "collective_permute" else "replica_groups"
    ]
    rows = np.array(attribute)
    key = (kind == "collective_permute", rows.shape, rows.tobytes())
    if key not in names:
        names[key] = (
            _permute_axes(rows, mesh) if kind == "collective_permute" else _group_axes(rows, mesh)
        )
    axes, n, span = names[key]
    if n <= 1:
        return None
    size = sum(byte_size(v.type) for v in op.operands)
    reason = op.attributes[WHY].value if WHY in op.attributes else ""
    return Collective(
        kind,
        axes,
        n,
        span,
        size,
        bytes_sent(kind, size, n),
        trips,
        exact,
        ", ".join(str(v.type)[7:-1] for v in op.operands),
        ", ".join(source_lines(op.location)),
        reason,
    )


def _group_axes(groups: np.ndarray, mesh: DeviceMesh) -> tuple[tuple[str, ...], int, int]:
    if groups.ndim != 2 or not groups.size:
        return tuple(mesh.axes), mesh.size, mesh.size
    spans = groups.max(axis=1) - groups.min(axis=1)
    crossed = mesh.crossed(groups[0], groups[0, 0])
    return mesh.axis_names(crossed), groups.shape[1], int(spans.max()) + 1


def _permute_axes(pairs: np.ndarray, mesh: DeviceMesh) -> tuple[tuple[str, ...], int, int]:
    moving = pairs[pairs[:, 0] != pairs[:, 1]] if pairs.size else pairs
    if not len(moving):
        return (), 1, 1
    span = int(np.abs(moving[:, 0] - moving[:, 1]).max()) + 1
    return mesh.axis_names(mesh.crossed(moving[:, 0], moving[:, 1])), 2, span


def byte_size(type: ir.Type) -> int:
    """Return bytes of a tensor type; sub-byte elements are packed."""
    if not isinstance(type, ir.RankedTensorType):
        return 0
    return math.ceil(math.prod(type.shape) * byte_size_of(type.element_type))


@functools.lru_cache(maxsize=256)
def byte_size_of(type: ir.Type) -> float:
    """Return bytes of one element."""
    element = str(type)
    digits = re.search(r"\d+", element)
    assert digits is not None, f"{element} has no number of bits"
    bits = int(digits[0])
    bits = 8 if bits == 1 else bits
    if element.startswith("complex"):
        bits *= 2
    return bits / 8


def source_line(location: ir.Location) -> str:
    """`file:line` of the user's code in an MLIR location."""
    return next(_places(str(location)), "")


def source_lines(location: ir.Location) -> list[str]:
    """`file:line` of all the lines of the user's code that a joined collective comes from."""
    places = list(dict.fromkeys(_places(text := str(location))))
    return places if "fused[" in text else places[:1]


def _places(location: str) -> Iterator[str]:
    for file, line in re.findall(r'"([^"]*)":(\d+):\d+', location):
        if file not in ("-", ""):
            yield f"{file}:{line}"


def trip_count(loop: ir.Operation) -> int | None:
    """Return trips of a while loop that counts from one constant to another, else None."""
    condition, body = (r.blocks[0] for r in loop.regions)
    test = maker(terminator(condition).operands[0])
    if test is None or test.name != "stablehlo.compare":
        return None
    index = next((i for i, a in enumerate(condition.arguments) if a == test.operands[0]), None)
    limit = _scalar(test.operands[1])
    if index is None or limit is None:
        return None
    start = _scalar(loop.operands[index])
    step = maker(terminator(body).operands[index])
    if start is None or step is None or step.name != "stablehlo.add":
        return None
    if body.arguments[index] not in list(step.operands):
        return None
    by = next((_scalar(v) for v in step.operands if v != body.arguments[index]), None)
    direction = str(test.attributes["comparison_direction"])
    if not by or "GE" in direction or "GT" in direction or "EQ" in direction or "NE" in direction:
        return None
    return max(0, -(-(limit + ("LE" in direction) - start) // by))


def _scalar(value: ir.Value) -> int | None:
    definition = maker(value)
    if definition is not None and definition.name == "stablehlo.convert":
        definition = maker(definition.operands[0])
    if definition is None or definition.name not in ("stablehlo.constant", "sdy.constant"):
        return None
    if not isinstance(definition.results[0].type.element_type, ir.IntegerType):
        return None
    match = re.search(r"dense<(-?\d+)>", str(definition.attributes["value"]))
    return int(match[1]) if match else None
