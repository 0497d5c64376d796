# Tests: tests/partition/report/test_communication.py
# ruff: noqa: E501 - lines of HTML and CSS read better whole
"""The HTML of a communication report: one self-contained page, no scripts from elsewhere."""

from __future__ import annotations

import linecache
import os
import re
from typing import TYPE_CHECKING

from weft._xla.mlir import to_hlo_text
from weft.core.source import with_cells
from weft.partition.collect import KINDS
from weft.partition.report.communication import escape, format_bytes, format_seconds
from weft.partition.report.measured import by_line
from weft.partition.report.source_lines import hlo_with_lines
from weft.sharding.drawing import mesh_svg, value_html

if TYPE_CHECKING:
    from weft.partition.report.communication import CommReport

_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#1c2430;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table.comm td:nth-child(4),table.comm td:nth-child(8){max-width:20rem;overflow-wrap:anywhere}
table.comm{border-collapse:collapse;font-size:13px}
table.comm th,table.comm td{padding:.25rem .7rem;text-align:left;border-bottom:1px solid #e3e7ee;vertical-align:top}
table.comm td.num{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}
.bar{height:8px;margin-top:.4rem;background:#3f6fd8;border-radius:2px;min-width:1px}
table.comm th.num{text-align:right}.why{color:#5a6472;min-width:22rem;max-width:44rem}
@media (max-width:700px){body{margin:1rem}}
.stages{display:flex;gap:1rem;overflow-x:auto;align-items:flex-start}
.stage{flex:1 0 30rem;min-width:0;max-width:44rem;border:1px solid #d8dee8;border-radius:6px}
.stage h3{margin:0;padding:.4rem .8rem;background:#f2f5fa;font-size:13px}
.stage pre{margin:0;padding:.6rem .8rem;font:11px/1.45 ui-monospace,monospace;overflow:auto;max-height:36rem}
mark.c{background:#ffe3a3}
[data-at]{cursor:pointer}.stage .on,tr.on{background:#cfe3ff}rect.on{stroke:#c02020;stroke-width:2}
svg.time .computes{fill:#3f6fd8}svg.time .moves{fill:#e08a20}
svg.time polyline{fill:none;stroke:#3a9a5a;stroke-width:1.5}
.values{display:flex;flex-wrap:wrap;gap:1.2rem}
.value{font-size:12px;max-width:22rem;overflow-wrap:anywhere}
.summary{font-size:15px}
svg text{font:10px ui-monospace,monospace}
@media (prefers-color-scheme:dark){body{background:#14181f;color:#dde3ec}.stage h3{background:#222936}
table.comm th,table.comm td{border-color:#2c3442}.stage{border-color:#2c3442}mark.c{background:#6b5310;color:#fff}.why{color:#9aa5b5}
.stage .on,tr.on{background:#234a7a}}
"""


_NUMBERS = frozenset(("sent", "trips", "time", "measured"))  # columns that hold them


def table_html(report: CommReport) -> str:
    """Return the table and its summary, for notebooks."""
    return _collectives(report) + _summary(report)


def _summary(report: CommReport) -> str:
    return f'<p class="summary">{"<br>".join(map(escape, report.summary().splitlines()))}</p>'


def _collectives(report: CommReport) -> str:
    header = report.header()
    classes = ["num" if h in _NUMBERS else "why" if h == "why" else "" for h in header]
    head = "<th></th>" + "".join(
        f'<th class="num">{escape(h)}</th>' if h in _NUMBERS else f"<th>{escape(h)}</th>"
        for h in header
    )
    most = max((c.total_bytes for c in report.collectives), default=1) or 1
    body = []
    for row, c in zip(report.rows(), report.collectives, strict=True):
        width = max(1, round(120 * c.total_bytes / most))
        bar = f'<div class="bar" style="width:{width}px;height:8px;background:#3f6fd8"></div>'
        cells = "".join(
            f'<td class="{kind}">{escape(v)}</td>' for kind, v in zip(classes, row, strict=True)
        )
        body.append(f'<tr data-at="{_key(row[-2])}"><td>{bar}</td>{cells}</tr>')
    return (
        f'<div class="wide"><table class="comm"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def page_html(report: CommReport, before: CommReport | None = None) -> str:
    """Return the whole page, with what differs from a report before."""
    alike: dict[tuple, list[str]] = {}
    for name, shape, dims in (*report.arguments, *report.results):
        alike.setdefault((shape, dims), []).append(name)
    values = "".join(value_html(v, report.mesh, names) for v, names in alike.items())
    stages = "".join(
        f'<div class="stage"><h3>{escape(name)}</h3><pre>{_marked(text)}</pre></div>'
        for name, text in _panels(report)
    )
    compared = ""
    if before is not None:
        compared = f"<h2>Compared</h2><pre>{escape(report.diff(before))}</pre>"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>weft: communication report</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>
<h1>Communication report</h1>
{_summary(report)}
{_totals(report)}
{compared}
<h2>Collectives</h2>{_collectives(report)}
{_time_html(report)}
{_measured_html(report)}
<h2>Mesh</h2>{mesh_svg(report.mesh)}
<h2>Arguments and results by shard</h2><div class="values">{values}</div>
<h2>Stages</h2><p>Click a line, a bar or a row: what comes from the same line of yours is marked in all.</p>
<div class="stages">{stages}</div>
<p>Times are estimates for {escape(report.hardware.name)}: {escape(report.hardware.source)}</p>
<script>{_LINKS}</script></body></html>
"""


_LINKS = """
const at = x => (x.dataset.at || "").split(", ");
addEventListener("click", e => {
  const chosen = e.target.closest("[data-at]");
  if (!chosen) return;
  const places = new Set(at(chosen));
  for (const x of document.querySelectorAll("[data-at]")) x.classList.toggle("on", at(x).some(p => places.has(p)));
  for (const pre of document.querySelectorAll(".stage pre")) {
    const first = pre.querySelector(".on");
    if (first && !pre.contains(chosen)) pre.scrollTop = first.offsetTop - pre.offsetTop - pre.clientHeight / 3;
  }
});
"""
_PLACE = re.compile(r"(?://|  #) (\S+:\d+)[^/]*$")  # of the user's line, behind a line of a stage


def _panels(report: CommReport) -> list[tuple[str, str]]:
    """Return the user's lines that stages come from, and the stages, XLA's form last."""
    panels = list(report.stages)
    if report.program is not None:
        panels.append(("hlo", hlo_with_lines(to_hlo_text(report.program.local, metadata=True))))
    locations = {m[1] for _, text in panels for m in map(_PLACE.search, text.splitlines()) if m}
    numbers: dict[str, set[int]] = {}
    for file, _, line in (location.rpartition(":") for location in locations):
        if os.path.exists(file):  # a jaxpr has names of files without their folders
            numbers.setdefault(file, set()).add(int(line))
    lines = []
    for file, used in sorted(numbers.items()):
        source = linecache.getlines(file)
        near = {n + d for n in used for d in (-1, 0, 1)} & set(range(1, len(source) + 1))
        lines += [f"{source[n - 1].rstrip():<80}  # {file}:{n}" for n in sorted(near)]
    return [("your lines", "\n".join(lines)), *panels] if lines else panels


def _time_html(report: CommReport) -> str:
    """Draw bars of computing and communicating over time, and what one device holds meanwhile."""
    steps = report.timeline()
    total = sum(s.seconds for s in steps)
    if not total:
        return ""
    peak = max(steps, key=lambda s: s.live)
    width, bars, points = 900, [], []
    for s in sorted(steps, key=lambda s: -s.seconds)[:2000]:
        x, w = width * s.start / total, max(width * s.seconds / total, 1)
        title = escape(
            f"{s.name} {s.source}: {format_seconds(s.seconds)}, {format_bytes(s.live)} held"
        )
        bars.append(
            f'<g><title>{title}</title><rect class="{"moves" if s.communicates else "computes"}" '
            f'data-at="{_key(s.source)}" x="{x:.1f}" y="{24 if s.communicates else 2}" width="{w:.1f}" height="18"/></g>'
        )
    for s in steps:
        y = 118 - 70 * s.live / max(peak.live, 1)
        points += [f"{width * t / total:.1f},{y:.1f}" for t in (s.start, s.start + s.seconds)]
    largest_values = "".join(f"<li>{escape(v)}</li>" for v in peak.largest)
    busy = sum(s.seconds for s in steps if not s.communicates)
    return (
        f"<h2>Time and memory of one device</h2><p>computing {format_seconds(busy)} (upper bars), communicating "
        f"{format_seconds(total - busy)} (lower bars), one after the other, by the model; below, the bytes held.</p>"
        f'<div class="wide"><svg class="time" width="{width}" height="122" role="img" aria-label="timeline">'
        f'{"".join(bars)}<polyline points="{" ".join(points)}"/></svg></div>'
        f"<p>The peak of {format_bytes(peak.live)} is at {escape(peak.name)} {escape(peak.source)}; the largest "
        f"values held there:</p><ul>{largest_values}</ul>"
    )


def _measured_html(report: CommReport) -> str:
    """Return the measured times of a run beside the estimates, by the user's line."""
    if not report.measured:
        return ""
    columns = ("line", "computing", "measured", "communicating", "measured", "operations, by time")
    head = "".join(
        f'<th class="{"num" if 0 < i < 5 else ""}">{c}</th>' for i, c in enumerate(columns)
    )
    body = []
    for line, seconds in by_line(report).items():
        cells = "".join(f'<td class="num">{format_seconds(s) if s else "–"}</td>' for s in seconds)
        rows = [row for row in report.measured if row.source == line]
        told = [f"{row.kind} {row.name} {format_seconds(row.seconds_of_a_run)}" for row in rows]
        body.append(
            f'<tr data-at="{_key(line)}"><td>{escape(line) or "of no line"}</td>{cells}<td class="why">{escape(", ".join(told))}</td></tr>'
        )
    return (
        "<h2>Measured</h2><p>Times of one run on the average device, from the trace, beside the estimates. A "
        "fusion counts at the line of its last operation; a collective waits for the last device.</p>"
        f'<div class="wide"><table class="comm measured"><tr>{head}</tr>{"".join(body)}</table></div>'
    )


_COLLECTIVE = re.compile(rf"(sdy|stablehlo)\.({'|'.join([*KINDS.values(), 'all_slice'])})\b")


def _key(places: str) -> str:
    """Return files without their folders, by which lines of all panels find each other."""
    return escape(", ".join(map(os.path.basename, with_cells(places).split(", "))))


def _marked(text: str) -> str:
    """Program text with its collectives highlighted."""
    lines = []
    for line in text.splitlines():
        shown = escape(line)
        if location := _PLACE.search(line):
            shown = f'<span data-at="{_key(location[1])}">{shown}</span>'
        if _COLLECTIVE.search(line):
            shown = f'<mark class="c">{shown}</mark>'
        lines.append(shown)
    return "\n".join(lines)


def _totals(report: CommReport) -> str:
    """Return calls, bytes and time of each kind of collective, the most bytes first."""
    by_kind: dict[str, list[float]] = {}
    for c in report.collectives:
        entry = by_kind.setdefault(c.kind, [0, 0, 0.0])
        for i, more in enumerate((c.trips, c.total_bytes, report.hardware.estimate(c))):
            entry[i] += more
    rows = "".join(
        f'<tr><td>{kind}</td><td class="num">{int(n)}</td><td class="num">{format_bytes(b)}</td>'
        f'<td class="num">{format_seconds(t)}</td></tr>'
        for kind, (n, b, t) in sorted(by_kind.items(), key=lambda item: -item[1][1])
    )
    head = "<th>kind</th>" + "".join(f'<th class="num">{h}</th>' for h in ("calls", "sent", "time"))
    return f'<table class="comm"><tr>{head}</tr>{rows}</table>' if rows else ""
