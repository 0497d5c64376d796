"""Show rows as a table in the terminal or in Markdown, and keep the one in docs/performance.md."""

import os
import platform
from pathlib import Path

from benchmarks.harness import Row

BEGIN, END = "<!-- table: written by make bench -->", "<!-- end of table -->"
HEAD = ("case", "weft", "JAX", "ratio", "range", "budget", "")


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
    for library in ("weft", "jax"):
        value = row.median(library)
        text = format_value(value, row.case.unit)
        if value is not None and library in row.equations:
            count = row.equations[library]
            text += f" ({value / count * 1e6:.2f} µs × {count})"
        shown.append("error" if library in row.errors else text)
    ratio, ratios = row.ratio, row.ratios
    return (
        f"{row.case.group}: {row.case.name}",
        *shown,
        "—" if ratio is None else f"{ratio:.2f}×",
        f"{min(ratios):.2f}–{max(ratios):.2f}" if ratios else "",
        "" if row.case.budget is None else f"≤ {row.case.budget:g}×",
        {True: "✓", False: "✗", None: ""}[row.met],
    )


def as_text(rows: list[Row]) -> str:
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    out = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    out.insert(1, "-" * len(out[0]))
    for row in rows:
        out += [f"{lib} failed on {row.case.name}: {said}" for lib, said in row.errors.items()]
    if all(row.values[lib] or lib in row.errors for row in rows for lib in row.values):
        budgeted = [row for row in rows if row.case.budget is not None]
        out.append(f"{sum(row.met is True for row in budgeted)} of {len(budgeted)} budgets met")
    return "\n".join(out)


def as_markdown(rows: list[Row], rounds: int) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}"
    lines += [
        "",
        f"Medians of {rounds} interleaved rounds on {machine}; times in parentheses are "
        "per equation of that library's jaxpr.",
    ]
    return "\n".join(lines)


def write_between_markers(path: Path, body: str) -> None:
    """Replace what stands between the two marker lines of a page."""
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path} has no lines {BEGIN!r} and {END!r} to write the table between")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}", encoding="utf-8")
