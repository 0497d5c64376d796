# Tests: tests/partition/report/test_communication.py
"""Memory of one device: from XLA's buffer assignment, or estimated from the local program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft._xla.mlir import ir
from weft.partition.collect import byte_size, source_line
from weft.partition.ops import facts
from weft.partition.report.source_lines import short
from weft.partition.walk import main_block, outer_first, terminator


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one device.

    Attributes:
      arguments, results, temporaries: sizes; `temporaries` is the peak of what is neither.
      largest: the value that dominates, as `type, op, source`.
      largest_bytes: its size.
      exact: True where the numbers are XLA's, False where they come from the local program.
    """

    arguments: int
    results: int
    temporaries: int
    largest: str
    largest_bytes: int
    exact: bool

    @property
    def total(self) -> int:
        """Peak bytes on one device."""
        return self.arguments + self.results + self.temporaries


def estimate_memory(module: ir.Module, names: Sequence[str] = ()) -> Memory:
    """Memory of a local module from the liveness of its values, without compiling it.

    Values live from their definition to their last use, loop bodies on top of what lives around
    them. XLA fuses and reuses buffers, so this is an upper bound for most programs. `names` are
    the arguments', for `largest`.
    """
    block = main_block(module)
    arguments = sum(byte_size(a.type) for a in block.arguments)
    returned = list(terminator(block).operands)
    results = sum(byte_size(v.type) for v in returned)
    largest: list[tuple[int, str]] = [
        (byte_size(a.type), f"{type_text(a.type)}, argument {names[i] if i < len(names) else i}")
        for i, a in enumerate(block.arguments)
    ]
    peak = _peak(block, set(returned), largest)
    size, name = max(largest, default=(0, ""))
    return Memory(arguments, results, peak, name, size, exact=False)


def compiled_memory(module: ir.Module, stats: Any, names: Sequence[str] = ()) -> Memory:
    """Memory as XLA assigned it, from an executable's `CompiledMemoryStats`."""
    guess = estimate_memory(module, names)
    return Memory(
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes - stats.alias_size_in_bytes,
        stats.temp_size_in_bytes,
        guess.largest,
        guess.largest_bytes,
        exact=True,
    )


def _peak(block: ir.Block, kept: set[ir.Value], largest: list[tuple[int, str]]) -> int:
    """Peak bytes of the values defined in `block`, without those in `kept`."""
    ops = [view.operation for view in block.operations]
    last: dict[ir.Value, int] = {}
    for i, op in enumerate(ops):
        for each in (op, *outer_first(op)):
            last.update(dict.fromkeys(each.operands, i))
    live = peak = 0
    ends: dict[int, int] = {}
    for i, op in enumerate(ops):
        inner = 0
        if facts(op).control:
            inner = max(_peak(r.blocks[0], set(), largest) for r in op.regions)
        result_bytes = 0
        for result in op.results:
            size = byte_size(result.type)
            if op.name == "stablehlo.constant" and size < 1024:
                continue
            location = short(source_line(op.location))
            largest.append((size, f"{type_text(result.type)}, {op.name.split('.')[-1]} {location}"))
            if result in kept:
                continue
            result_bytes += size
            end = last.get(result, i)
            ends[end] = ends.get(end, 0) + size
        live += result_bytes
        peak = max(peak, live + inner)
        live -= ends.pop(i, 0)
    return peak


def type_text(type: ir.Type) -> str:
    return str(type).removeprefix("tensor<").removesuffix(">")
