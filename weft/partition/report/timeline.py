# Tests: tests/partition/test_cost.py, tests/partition/report/test_communication.py
"""Estimate when one device computes and communicates, and what it holds meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from weft._xla.mlir import ir
from weft.partition.axis_layout import DeviceMesh
from weft.partition.collect import byte_size, collect_block, source_line, trip_count
from weft.partition.cost import HardwareModel
from weft.partition.ops import facts
from weft.partition.overlap_estimate import work_of
from weft.partition.report.device_memory import type_text
from weft.partition.report.source_lines import short
from weft.partition.walk import functions, outer_first


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a program's outermost level; a loop is one.

    Attributes:
      name, source: the operation and the user's line.
      start, seconds: by the model of the hardware, one step after the other.
      communicates: whether some collective is in it.
      live: bytes of the values that are held while it runs.
      largest: of these, the largest few, as `type, op source`.
    """

    name: str
    source: str
    start: float
    seconds: float
    communicates: bool
    live: int
    largest: tuple[str, ...]


def timeline(module: ir.Module, mesh: DeviceMesh, model: HardwareModel) -> list[Step]:
    """Return the steps of a local module, one after the other.

    An operation takes the longer of its arithmetic at the model's peak and its operands and results
    at the memory's bandwidth (Williams et al., "Roofline", 2009); collectives as in the report.
    """
    by_name = functions(module)
    block = by_name["main"].regions[0].blocks[0]
    ops = [view.operation for view in block.operations]
    last: dict[ir.Value, int] = {}
    for i, op in enumerate(ops):
        for each in (op, *outer_first(op)):
            last.update(dict.fromkeys(each.operands, i))
    alive: dict[ir.Value, str] = {a: f"{type_text(a.type)}, argument" for a in block.arguments}
    # Arguments stay for the whole call; they are not donated as far as the module tells.
    last.update(dict.fromkeys(block.arguments, len(ops)))
    steps: list[Step] = []
    start = 0.0
    for i, op in enumerate(ops[:-1]):
        source = short(source_line(op.location))
        kind = op.name.rpartition(".")[2]
        alive.update({r: f"{type_text(r.type)}, {kind} {source}" for r in op.results})
        moved = collect_block([op], by_name, mesh)
        seconds = sum(model.estimate(c) for c in moved) + _seconds(op, by_name, model)
        by_size = sorted(alive, key=lambda v: -byte_size(v.type))
        live = sum(byte_size(v.type) for v in alive)
        largest = tuple(alive[v] for v in by_size[:3])
        steps.append(Step(kind, source, start, seconds, bool(moved), live, largest))
        start += seconds
        for value in [v for v in alive if last.get(v, i) <= i]:
            del alive[value]
    return steps


def _seconds(op: ir.Operation, functions: dict[str, ir.Operation], model: HardwareModel) -> float:
    if op.name == "stablehlo.constant" or facts(op).flops(op) == 0 and not op.regions:
        return 0.0
    flops = work_of([op], functions, trip_count).flops
    moved = sum(byte_size(v.type) for v in (*op.operands, *op.results))
    rates = ((flops, model.peak_flops), (moved, model.memory_bandwidth))
    return max((amount / rate for amount, rate in rates if rate), default=0.0)
