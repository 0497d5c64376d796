# Tests: tests/test_profiler.py
"""Finds the operations of a compiled program in a trace of the profiler, and how long each took."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from weft._xla.profiler import ProfileData
from weft.partition.collect import KINDS, Collective
from weft.partition.report.communication import CommReport
from weft.partition.report.source_lines import short


class Operation(NamedTuple):
    """An operation of a compiled program as a trace measured it.

    name: XLA's. kind: all_reduce, fusion, …. source: `file:line` of the user's. calls: over all
    devices and runs. seconds: the mean of a call, in which a collective waits for the last device.
    estimate: of a call of a collective, by `weft.comm`. runs: of the program, over all devices.
    """

    name: str
    kind: str
    source: str
    calls: int
    seconds: float
    estimate: float | None
    runs: int

    @property
    def seconds_of_a_run(self) -> float:
        """The time of all its calls in one run of the program, on the average device."""
        return self.seconds * self.calls / self.runs

    @property
    def communicates(self) -> bool:
        """Tell whether an instruction communicates."""
        return self.kind in _COLLECTIVES


class Instruction(NamedTuple):
    """A line of an optimized program: `sizes` counts the elements of each of its operands."""

    kind: str
    source: str
    sizes: tuple[int, ...]


_COLLECTIVES = frozenset(KINDS.values())
# A type may be a tuple, with blanks in it: the operation is the first word before a parenthesis.
_INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*?)\)")


def instructions(optimized: str) -> dict[str, Instruction]:
    """Return the instructions of an optimized program's text with sources, by name.

    >>> instructions("%a = f32[2,3]{1,0} parameter(0)\\n%b = f32[2,3]{1,0} all-reduce(%a)")["b"]
    Instruction(kind='all_reduce', source='', sizes=(6,))
    """
    by_name: dict[str, Instruction] = {}
    sizes: dict[str, tuple[int, ...]] = {}
    for line in optimized.splitlines():
        if match := _INSTRUCTION.match(line):
            name, type_text, kind, operands = match.groups()
            shapes = re.findall(r"\w\[([\d,]*)\]", type_text)
            sizes[name] = tuple(math.prod(map(int, filter(None, s.split(",")))) for s in shapes)
            operand_names = re.findall(r"%([\w.-]+)", operands)
            source = line.rpartition("  // ")[2] if "  // " in line else ""
            kind = kind.removesuffix("-start").replace("-", "_")
            elements = sorted(n for operand in operand_names for n in sizes.get(operand, ()))
            by_name[name] = Instruction(kind, source, tuple(elements))
    return by_name


def newest_trace(log_dir: os.PathLike | str, function: str) -> Path:
    """Return the folder of the newest trace that `weft.profiler.trace` wrote.

    Raises FileNotFoundError if there is none.
    """
    folders = sorted(Path(log_dir).glob("plugins/profile/*"), key=os.path.getmtime)
    if not folders:
        raise FileNotFoundError(
            f"{function}: there is no trace in {os.fspath(log_dir)}; run the program inside "
            "weft.profiler.trace(folder)"
        )
    return folders[-1]


def measure(report: CommReport, trace: Path, optimized: str) -> CommReport:
    """Put the times of a trace into a report, each beside the estimate of its collective."""
    compiled = instructions(optimized)
    # Other programs of the trace have instructions of the same names.
    module = re.search(r"^HloModule ([^\s,]+)", optimized, re.MULTILINE)
    times: dict[str, list[float]] = {}
    runs = set()
    for name, seconds, stats in _events(trace):
        if name in compiled and (module is None or stats.get("hlo_module", module[1]) == module[1]):
            times.setdefault(name, []).append(seconds)
            runs.add((stats.get("run_id"), stats.get("device_ordinal")))
    # Of devices that do not number their runs, what is called least is called once a run.
    count = min(map(len, times.values())) if runs == {(None, None)} else len(runs)
    ran = {name: compiled[name] for name in compiled if name in times}
    pairs = _paired(report.collectives, ran)
    estimates = {name: report.hardware.estimate(c) / c.trips for name, c in pairs.items()}
    rows = [
        Operation(name, *compiled[name][:2], len(t), sum(t) / len(t), estimates.get(name), count)
        for name, t in times.items()
    ]
    rows.sort(key=lambda row: -row.seconds_of_a_run)
    taken = {id(pairs[row.name]): row.seconds_of_a_run for row in rows if row.name in pairs}
    notes = report.notes
    if not rows:
        notes += (f"not measured: the trace in {trace} has no operation of this program",)
    return replace(
        report,
        collectives=[replace(c, measured=taken.get(id(c))) for c in report.collectives],
        measured=tuple(rows),
        notes=notes,
    )


def _events(trace: Path) -> Iterator[tuple[str, float, dict]]:
    for path in trace.glob("*.xplane.pb"):
        for plane in ProfileData.from_file(str(path)).planes:
            for line in plane.lines:
                for event in line.events:
                    yield event.name, event.duration_ns / 1e9, dict(event.stats)


def _paired(collectives: list[Collective], ran: dict[str, Instruction]) -> dict[str, Collective]:
    """Return the collective that each instruction is: of its kind and sizes, of its line, in order.

    XLA widens numbers and reorders dimensions, so that only the sizes of operands stay.
    """
    left = {name: instr for name, instr in ran.items() if instr.kind in _COLLECTIVES}
    pairs = {}
    for c in collectives:
        sizes = tuple(sorted(_size(shape) for shape in c.shape.split(", ")))
        best, likeness = "", (False, False)
        for name, instr in left.items():
            if instr.kind != c.kind:
                continue
            alike = (instr.sizes == sizes, instr.source == short(c.source))
            if alike > likeness:
                best, likeness = name, alike
        if best:
            pairs[best] = c
            del left[best]
    return pairs


def _size(shape: str) -> int:
    """Return the elements of a shape such as `8x64xf32`."""
    return math.prod(int(n) for n in shape.split("x")[:-1])


def by_line(report: CommReport) -> dict[str, list[float]]:
    """Sum up a run by the user's line: seconds of computing and communicating, estimated and real.

    The longest measured lines come first.
    """
    lines: dict[str, list[float]] = {}
    for step in report.timeline():
        lines.setdefault(step.source, [0.0] * 4)[2 * step.communicates] += step.seconds
    for row in report.measured:
        at = 2 * row.communicates + 1
        lines.setdefault(row.source, [0.0] * 4)[at] += row.seconds_of_a_run
    return dict(sorted(lines.items(), key=lambda item: -(item[1][1] + item[1][3])))
