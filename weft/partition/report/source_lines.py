# Tests: tests/driver/test_program_stages.py
"""Puts the user's source line behind each line of a program's text."""

from __future__ import annotations

import os
import re

from weft.core.source import with_cells

COLUMN = 100  # where short lines' comments start


def mlir_with_lines(text: str) -> str:
    """MLIR printed with locations → the same without them, `// file:line` behind each operation.

    >>> text = '#loc1 = loc("a.py":3:1)\\n%0 = stablehlo.abs %x loc(#loc1)'
    >>> mlir_with_lines(text).split()
    ['%0', '=', 'stablehlo.abs', '%x', '//', 'a.py:3']
    """
    places: dict[str, str] = {}
    for name, inner in re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE):
        places[name] = inner
    out = []
    for line in text.splitlines():
        if re.match(r"#loc\d* = loc\(", line):
            continue
        body, tail = line, ""
        match = re.search(r" loc\((#loc\d*|\"[^\n]*?\"(?::\d+:\d+)?|unknown)\)$", line)
        if match:
            body, tail = line[: match.start()], _place(match[1], places)
        body = re.sub(r' loc\((?:#loc\d*|"[^"]*"(?:\(#loc\d*\)|:\d+:\d+)?|unknown)\)', "", body)
        out.append(_line(body, tail))
    return "\n".join(out) + "\n"


def hlo_with_lines(text: str) -> str:
    """HLO with metadata → the same with `// file:line` behind each instruction instead."""
    files = _table(text, "FileNames", r'(\d+) "(.*)"')
    where = {
        key: f"{files.get(file, '')}:{line}"
        for key, (file, line) in _table(
            text, "FileLocations", r"(\d+) \{file_name_id=(\d+) .*?line=(\d+)"
        ).items()
    }
    frames = _table(text, "StackFrames", r"(\d+) \{file_location_id=(\d+)")
    head = re.split(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)$", text, flags=re.M)
    rest = head[-1].split("\n\n", 1)[-1].lstrip("\n") if len(head) > 1 else ""
    out = []
    for line in (head[0] + rest).splitlines():
        match = re.search(r", metadata=\{([^}]*)\}", line)
        if not match:
            out.append(line)
            continue
        frame = re.search(r"stack_frame_id=(\d+)", match[1])
        tail = where.get(frames.get(frame[1], ""), "") if frame else ""
        if not tail and (file := re.search(r'source_file="([^"]*)" source_line=(\d+)', match[1])):
            tail = f"{file[1]}:{file[2]}"
        out.append(_line(line[: match.start()] + line[match.end() :], short(tail)))
    return "\n".join(out) + "\n"


def short(location: str) -> str:
    """Shorten places in files below the working directory; ", " is between several."""
    folder = os.getcwd() + os.sep
    return with_cells(", ".join(part.removeprefix(folder) for part in location.split(", ")))


def _place(location: str, places: dict[str, str], depth: int = 0) -> str:
    """`file:line` of a location, through aliases and names."""
    direct = re.search(r'"([^"]*)":(\d+):\d+', location)
    if direct:
        if direct[1] == "-":  # text that was parsed from memory
            return ""
        return short(f"{direct[1]}:{direct[2]}")
    alias = re.search(r"#loc\d*", location)
    if alias and depth < 20:
        return _place(places.get(alias[0], ""), places, depth + 1)
    return ""


def _line(body: str, tail: str) -> str:
    return f"{body:<{COLUMN}}  // {tail}" if tail else body


def _table(text: str, name: str, row: str) -> dict:
    """Return a table in front of an HLO module: number → the row's captures."""
    match = re.search(rf"^{name}\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(row, match[1]) if match else []
    return {r[0]: r[1] if len(r) == 2 else r[1:] for r in rows}
