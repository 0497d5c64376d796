"""Show rows as a table in the terminal or in Markdown, and keep the one in docs/performance.md."""

import os
import platform
from pathlib import Path

from benchmarks.harness import Row

MARKERS = "<!-- table: written by make bench -->", "<!-- end of table -->"
NAMES = {"jax": "JAX", "jax again": "JAX again"}


def format_value(value: float | None, unit: str) -> str:
    """A value with a prefix that leaves two to four digits."""
    if value is None:
        return "—"
    if unit == "s":
        for scale, name in ((1.0, "s"), (1e-3, "ms")):
            if value >= scale:
                return f"{value / scale:.3g} {name}"
        return f"{value / 1e-6:.3g} µs"
    for scale, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:.4g} {unit}"


def cells(row: Row) -> tuple[str, ...]:
    shown = []
    for side in row.sides:
        value = row.median(side)
        text = format_value(value, row.case.unit)
        if value is not None and side in row.equations:
            count = row.equations[side]
            text += f" ({value / count * 1e6:.2f} µs × {count})"
        shown.append("error" if side in row.errors else text)
    ratio, ratios = row.ratio, row.ratios
    return (
        f"{row.case.group}: {row.case.name}",
        *shown,
        "—" if ratio is None else f"{ratio:.2f}×",
        f"{min(ratios):.2f}–{max(ratios):.2f} ({len(ratios)})" if ratios else "",
        "" if row.case.budget is None else f"≤ {row.case.budget:.4g}×",
        row.verdict,
    )


def head(rows: list[Row]) -> tuple[str, ...]:
    sides = [NAMES.get(side, side) for side in rows[0].sides]
    return ("case", *sides, "ratio", "range (rounds)", "budget", "")


def summary(rows: list[Row]) -> str:
    verdicts = [row.verdict for row in rows if row.verdict]
    return (
        f"{verdicts.count('✓')} of {len(verdicts)} budgets are met (✓); {verdicts.count('≈')} are "
        f"not by the median, though in two rounds of seven or more (≈); {verdicts.count('✗')} are "
        "not (✗)."
    )


def as_text(rows: list[Row]) -> str:
    lines = [head(rows), *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    out.insert(1, "-" * len(out[0]))
    for row in rows:
        out += [f"{side} failed on {row.case.name}: {said}" for side, said in row.errors.items()]
    return "\n".join([*out, summary(rows)])


def as_markdown(rows: list[Row]) -> str:
    first = head(rows)
    lines = ["| " + " | ".join(first) + " |", "|---" * len(first) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}"
    lines += [
        "",
        f"Medians of interleaved rounds on {machine}; times in parentheses are per equation of "
        "that library's jaxpr.",
        summary(rows),
    ]
    return "\n".join(lines)


def write_between_markers(path: Path, body: str, markers: tuple[str, str] = MARKERS) -> None:
    """Replace what stands between the two marker lines of a page."""
    begin, end = markers
    text = path.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise ValueError(f"{path} has no lines {begin!r} and {end!r} to write the table between")
    before, rest = text.split(begin, 1)
    after = rest.split(end, 1)[1]
    path.write_text(f"{before}{begin}\n{body}\n{end}{after}", encoding="utf-8")
