"""The communication report: a table of collectives for terminals, notebooks and HTML pages."""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.core.errors import plural
from weft.core.notebook import displayed
from weft.core.source import with_cells
from weft.partition.collect import Collective, collect
from weft.partition.cost import HardwareModel, hardware
from weft.partition.partitioner import Stages
from weft.partition.report.device_memory import Memory, estimate_memory
from weft.partition.report.source_lines import mlir_with_lines, short
from weft.partition.walk import boundary, functions

if TYPE_CHECKING:
    from weft.partition.report.measured import Operation
    from weft.partition.report.timeline import Step


@displayed("weft.partition.report.html_page", "table_html")
@dataclass(slots=True)
class CommReport:
    """Every collective of a program, with its cost.

    Attributes:
      collectives: in program order.
      mesh: axis names and sizes.
      hardware: the model behind the times.
      memory: bytes on one device.
      stages: (name, text) of the program's stages, for the HTML page.
      arguments, results: (name, shape, axes of each dimension) for the drawing of shards.
      notes: what the program asks for and arrays cannot be, a line each.
      measured: the operations that ran, where `weft.comm` was given a trace (`profile=`).
      program: the modules of all stages, of which the page draws the time and the memory.
    """

    collectives: list[Collective]
    mesh: dict[str, int]
    hardware: HardwareModel
    memory: Memory
    stages: list[tuple[str, str]] = field(default_factory=list)
    arguments: list[tuple[str, tuple[int, ...], tuple[tuple[str, ...], ...]]] = field(
        default_factory=list
    )
    results: list[tuple[str, tuple[int, ...], tuple[tuple[str, ...], ...]]] = field(
        default_factory=list
    )
    notes: tuple[str, ...] = ()
    measured: tuple[Operation, ...] = ()
    program: Stages | None = field(default=None, repr=False, compare=False)

    @property
    def total_bytes(self) -> int:
        """Bytes each device sends for one call."""
        return sum(c.total_bytes for c in self.collectives)

    @property
    def seconds(self) -> float:
        """Estimated time of all collectives, one after the other."""
        return sum(self.hardware.estimate(c) for c in self.collectives)

    def counts(self) -> dict[str, int]:
        """Return executions by kind, loops counted."""
        out: dict[str, int] = {}
        for c in self.collectives:
            out[c.kind] = out.get(c.kind, 0) + c.trips
        return out

    def header(self) -> tuple[str, ...]:
        """Return the table's columns; with a trace, measured times stand behind the estimates."""
        return (*HEADER[:6], "measured", *HEADER[6:]) if self.measured else HEADER

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table's cells, as text, in program order."""
        return [
            (
                c.kind,
                ", ".join(c.axes),
                grouped(c.shape),
                format_bytes(c.bytes),
                f"× {c.trips}" + ("" if c.exact_trips else "+"),
                format_seconds(self.hardware.estimate(c)),
                *([format_seconds(c.measured)] if self.measured else []),
                short(c.source),
                "; ".join(filter(None, (self._until_done(c), _why(c)))),
            )
            for c in self.collectives
        ]

    def _until_done(self, collective: Collective) -> str:
        """Describe in a line the work that a started collective overlaps."""
        meanwhile = collective.meanwhile
        if meanwhile is None:
            return ""
        if not meanwhile.operations:
            return "started: nothing is computed until done"
        time = ""
        if self.hardware.peak_flops:
            seconds = meanwhile.flops / self.hardware.peak_flops
            time = f", about {format_seconds(seconds)} at the peak of {self.hardware.name}"
        return (
            f"started: {plural(meanwhile.operations, 'operation')} with "
            f"{format_flops(meanwhile.flops)} until done{time}"
        )

    def summary(self) -> str:
        """Summarize in two lines, traffic and memory, and the notes."""
        axes = " × ".join(f"{k}={v}" for k, v in self.mesh.items()) or "one device"
        m = self.memory
        count = sum(c.trips for c in self.collectives)
        how = "" if m.exact else " (estimated)"
        return (
            f"mesh {axes}: each device sends {format_bytes(self.total_bytes)} in"
            f" {count} collective{'' if count == 1 else 's'},"
            f" about {format_seconds(self.seconds)} on {self.hardware.name}\n"
            f"memory per device{how}: arguments {format_bytes(m.arguments)},"
            f" results {format_bytes(m.results)}, temporaries {format_bytes(m.temporaries)};"
            f" largest {format_bytes(m.largest_bytes)} ({m.largest})"
            + self._measured_text()
            + "".join(f"\n{note}" for note in self.notes)
        )

    def _measured_text(self) -> str:
        if not self.measured:
            return ""
        spent = [0.0, 0.0]
        for row in self.measured:
            spent[row.communicates] += row.seconds_of_a_run
        runs = plural(self.measured[0].runs, "run")
        computing, communicating = map(format_seconds, spent)
        return (
            f"\nmeasured in {runs} of a device: communicating, with waiting, {communicating},"
            f" computing {computing}"
        )

    def __str__(self) -> str:
        shown = [r[:-1] for r in (self.header(), *self.rows())]
        widths = [max(len(r[i]) for r in shown) for i in range(len(shown[0]))]
        lines = []
        for cells, c in zip(shown, (None, *self.collectives), strict=True):
            lines.append("  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip())
            if c is not None:
                notes = (self._until_done(c), _why(c) and f"why: {_why(c)}")
                lines += [f"    {note}" for note in notes if note]
        return "\n".join([*lines, self.summary()])

    __repr__ = __str__

    def __rich__(self):
        from rich.console import Group
        from rich.table import Table

        table = Table(*self.header(), box=None, header_style="bold")
        for row in self.rows():
            table.add_row(*row)
        return Group(table, self.summary())

    def to_html(self, path: str | os.PathLike[str], before: CommReport | None = None) -> None:
        """Write one self-contained page: table, time and memory, shards, stages side by side.

        before: another report, whose collectives are compared with these.
        """
        from weft.partition.report.html_page import page_html

        with open(path, "w", encoding="utf-8") as file:
            file.write(page_html(self, before))

    def show(self, before: CommReport | None = None) -> str:
        """Open the page in a browser, and return the path of its file. See `to_html`."""
        import tempfile
        import webbrowser

        if not isinstance(before, CommReport | None):
            raise TypeError(
                f"show: before must be another report, got {before!r:.60}; to_html(path) writes "
                "the page to a file"
            )
        handle, path = tempfile.mkstemp(".html", "weft-report-")
        os.close(handle)
        self.to_html(path, before)
        webbrowser.open(f"file://{path}")
        return path

    def timeline(self) -> list[Step]:
        """Estimate the time line of one device: computation, communication and bytes in use."""
        from weft.partition.report.timeline import timeline

        if self.program is None:
            return []
        return timeline(self.program.local, self.program.mesh, self.hardware)

    def diff(self, before: CommReport) -> str:
        """Compare the collectives with another report's: `-` for those gone, `+` for new ones."""
        then, now = (Counter(map(_told, r.collectives)) for r in (before, self))
        sent = f"sent {format_bytes(self.total_bytes)}, was {format_bytes(before.total_bytes)}"
        lines = [f"- {told}" for told in (then - now).elements()]
        return "\n".join([sent, *lines, *(f"+ {told}" for told in (now - then).elements())])


def _told(c: Collective) -> str:
    """Return a collective in a line, for comparisons."""
    size = f"{format_bytes(c.bytes)} × {c.trips}"
    return f"{c.kind} {', '.join(c.axes)} {grouped(c.shape)} {size} {short(c.source)}".rstrip()


def _why(collective: Collective) -> str:
    return merged_reasons(with_cells(collective.why).replace(os.getcwd() + os.sep, ""))


HEADER = ("collective", "axes", "local operand", "sent", "trips", "time", "source", "why")


def report(
    stages: Stages,
    *,
    hardware_model: str | HardwareModel | None = None,
    memory: Memory | None = None,
    extra_stages: Sequence[tuple[str, str]] = (),
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> CommReport:
    """Return the report of a partitioned program; needs no devices.

    Args:
      stages: from `partition(module, explain=True)`.
      hardware_model: a preset's name, such as `cpu` or `h100`, or a `HardwareModel`.
      memory: XLA's numbers where the program was compiled; else they are estimated.
      extra_stages: (name, text) of earlier stages, shown before those of `stages`.
      names: of the arguments, for the drawing.
      notes: lines behind the summary.
    """
    texts = list(extra_stages)
    for name in ("propagated", "collectives", "local"):
        module = getattr(stages, name)
        if module is not None:
            texts.append((name, module_text(module, sources=True)))

    def described(kind: str, layouts, known_names: Sequence[str] = ()):
        return [
            (
                known_names[i] if i < len(known_names) else f"{kind} {i}",
                layout.shape,
                tuple(stages.mesh.axis_names(a) for a in layout.dims),
            )
            for i, layout in enumerate(layouts)
        ]

    return CommReport(
        collect(stages.local, stages.mesh),
        dict(stages.mesh.axes),
        hardware(hardware_model),
        memory or estimate_memory(stages.local, names),
        texts,
        described("argument", stages.arguments, names),
        described("result", stages.results, _result_names(stages.local)),
        tuple(notes),
        program=stages,
    )


def _result_names(module: ir.Module) -> list[str]:
    """Return the names of main's results by `jax.result_info`, as `result['loss']`."""
    rows = boundary(functions(module)["main"], "res")
    named = all("jax.result_info" in row for row in rows)
    return [row["jax.result_info"].value for row in rows] if named else []


def module_text(module: ir.Module, sources: bool) -> str:
    """Return a module as text; with `sources`, each operation's line is followed by the user's."""
    text = mlir.text(module, locations=sources)
    return mlir_with_lines(text) if sources else text


def format_bytes(count: float) -> str:
    """Return bytes with a unit, three digits: `3.2 MB` (powers of ten).

    >>> format_bytes(3210000)
    '3.21 MB'
    """
    return _scaled(count if count >= 1000 else int(count), ("B", "kB", "MB", "GB", "TB"))


def format_flops(count: float) -> str:
    """Return floating-point operations with a unit, three digits.

    >>> format_flops(2.5e6)
    '2.5 MFLOP'
    """
    return _scaled(count, [f"{prefix}FLOP" for prefix in ("", "k", "M", "G", "T", "P", "E")])


def parse_bytes(text: str | float) -> float:
    """`'3 MB'` → 3000000.0; numbers pass through.

    Raises:
      ValueError: not a number with one of B, kB, MB, GB, TB, KiB, MiB, GiB.

    >>> parse_bytes("3 MB")
    3000000.0
    """
    if not isinstance(text, str):
        return float(text)
    units = {"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    units |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    cleaned = text.strip()
    for unit in sorted(units, key=len, reverse=True):
        if cleaned.endswith(unit):
            try:
                return float(cleaned[: -len(unit)]) * units[unit]
            except ValueError:
                break
    raise ValueError(f"max_bytes={text!r} is not a size; write a number and a unit, as in '3 MB'")


def format_seconds(seconds: float | None) -> str:
    """Return seconds with a unit, three digits; a dash where there are none.

    >>> format_seconds(0.00042)
    '420 µs'
    """
    return "–" if seconds is None else _scaled(seconds * 1e9, ("ns", "µs", "ms", "s"))


def _scaled(count: float, units: Sequence[str]) -> str:
    """Return a number in the first unit of which there are fewer than 1000, or in the last one."""
    at = 0
    while count >= 1000 and at < len(units) - 1:
        count, at = count / 1000, at + 1
    # Three digits, or all in front of the point.
    return f"{count:.3g} {units[at]}" if count < 999.5 else f"{count:.0f} {units[at]}"


def grouped(shapes: str) -> str:
    """Return the operands of a collective, equal ones counted.

    >>> grouped("8xf32, 4x8xf32, 8xf32")
    '2 of 8xf32, 4x8xf32'
    """
    counts = Counter(shapes.split(", "))
    texts = [f"{count} of {shape}" if count > 1 else shape for shape, count in counts.items()]
    return ", ".join(texts)


_PARTIAL = re.compile(r"(.+) splits what it sums over ([^()]+?)(?: \((.*)\))?")


def merged_reasons(why: str) -> str:
    """Merge the reasons of the members of a joined collective, each said once.

    >>> sums = "splits what it sums over x"
    >>> merged_reasons(f"a {sums} (x from u); b {sums} (x from u)")
    'a, b split what they sum over x (x from u)'
    >>> merged_reasons(f"a {sums} (x from u); a {sums} (x from v)")
    'a splits what it sums over x (x from u; x from v)'
    >>> merged_reasons("; ".join(f"{name} gives (x); b needs (y)" for name in "uvwpq"))
    'u gives (x); b needs (y); v gives (x); b needs (y); w gives (x); b needs (y); 2 more'
    """
    parts = why.split("; ")
    matches = [match for part in parts if (match := _PARTIAL.fullmatch(part))]
    if len(parts) == 1 or len(matches) < len(parts):
        moves = re.split(r"; (?=[^;]* gives )", why)
        return why if len(moves) < 5 else "; ".join([*moves[:3], f"{len(moves) - 3} more"])
    origins: dict[tuple[str, str], list[str]] = {}  # of each producer and its axes
    for match in matches:
        of_axes = origins.setdefault((match[1], match[2]), [])
        if match[3] and match[3] not in of_axes:
            of_axes.append(match[3])
    producers: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (producer, axes), of_axes in origins.items():
        producers.setdefault((axes, tuple(of_axes)), []).append(producer)
    texts = []
    for (axes, sources), names in producers.items():
        verb = "splits what it sums" if len(names) == 1 else "split what they sum"
        more = [*sources[:3], f"{len(sources) - 3} more"] if len(sources) > 4 else sources
        source = f" ({'; '.join(more)})" if sources else ""
        texts.append(f"{', '.join(names)} {verb} over {axes}{source}")
    return "; ".join(texts)


def escape(text: str) -> str:
    """Text for an HTML page."""
    return html.escape(text, quote=True)
