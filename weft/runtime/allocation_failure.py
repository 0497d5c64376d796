"""Programs that do not fit into memory: the error says what they need, and for which values."""

from __future__ import annotations

import re
from typing import Any

from weft._xla.compile import XlaRuntimeError
from weft.partition.report.communication import format_bytes
from weft.runtime import backend
from weft.runtime.compile import LoadedExecutable

_SHOWN = 3
"""How many of the largest values are named."""
_REMEDY = "weft.comm(f, *args) reports memory and communication before a program runs"


def explained(error: BaseException, compiled: Any = None) -> BaseException:
    """Return the error of an allocation, with the program's need of memory if known.

    XLA's text may go on for thousands of lines of its allocator's state: the first is kept. It
    names no program, and may come where a result is read: the size tells which one it was.
    """
    first = str(error).split("\n", 1)[0][:500]
    if "YNNPACK" in first:  # quirks.MATMUL_ALLOCATION
        first += " (most often, no memory for a matrix product)"
    likely = [compiled] if compiled is not None else _programs_of(first)
    if len(likely) > 1:
        others = ", ".join(sorted({c.name for c in likely[1:9]}))
        first += f"\n(as many bytes are also what these programs allocate: {others})"
    if likely:
        first = f"{first}\n{memory_text(likely[0])}"
    else:
        first = f"{first}\n{_REMEDY}"
    return XlaRuntimeError(first).with_traceback(error.__traceback__)


def _programs_of(text: str) -> list[LoadedExecutable]:
    """List the programs that allocate the bytes of the error, the newest compiled first."""
    size = re.search(r"allocat\w* (\d+) bytes", text)
    if size is None:
        return []
    programs = []
    # The client's own list: a program runs on without weft when C++ alone remembers its function.
    for xla in backend.client().live_executables():
        stats = xla.get_compiled_memory_stats()
        if int(size[1]) in (
            stats.output_size_in_bytes,
            stats.output_size_in_bytes - stats.alias_size_in_bytes,
            stats.temp_size_in_bytes,
        ):
            name = xla.hlo_modules()[0].name.removeprefix("jit_")
            programs.append(LoadedExecutable(xla, (), name, 0.0, False, None))
    return programs


def memory_text(compiled: LoadedExecutable) -> str:
    """Return one device's memory for a program, and its largest values with their lines."""
    stats = compiled.memory_analysis()
    parts = {
        "arguments": stats.argument_size_in_bytes,
        "results": stats.output_size_in_bytes - stats.alias_size_in_bytes,
        "temporaries": stats.temp_size_in_bytes,
    }
    needs = ", ".join(f"{purpose} {format_bytes(size)}" for purpose, size in parts.items())
    lines = [f"{compiled.name} needs on each device: {needs}"]
    for size, purpose in largest_values(compiled.as_text())[:_SHOWN]:
        lines.append(f"  {format_bytes(size)}: {purpose}")
    lines.append(_REMEDY)
    return "\n".join(lines)


_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%\S+ = (\w+)\[([\d,]*)\]\S* ([\w-]+)\(")
_NO_MEMORY = frozenset(("bitcast", "constant", "get-tuple-element", "tuple"))


def largest_values(hlo: str) -> list[tuple[int, str]]:
    """Return the values of optimized HLO by size, the largest first: `type[shape] op (line)`."""
    frames = _frames(hlo)
    values: dict[tuple[int, str], None] = {}
    fused = False
    for line in hlo.split("\n"):
        if line.endswith("{") and not line.startswith(" "):
            fused = line.startswith("%fused")  # computed element by element, in no memory
        match = None if fused else _INSTRUCTION.match(line)
        if match is None or match[3] in _NO_MEMORY:
            continue
        dtype, shape, op = match.groups()
        bits = re.search(r"\d+", dtype)
        size = int(bits[0]) if bits else 8
        for n in filter(None, shape.split(",")):
            size *= int(n)
        name = re.search(r'op_name="([^"]*)"', line)
        frame = re.search(r"stack_frame_id=(\d+)", line)
        said = f"argument {name[1]}" if op == "parameter" and name else name[1] if name else op
        where = f" ({frames[frame[1]]})" if frame and frame[1] in frames else ""
        values[size // 8, f"{dtype}[{shape}], {said}{where}"] = None
    return sorted(values, key=lambda entry: -entry[0])


def _frames(hlo: str) -> dict[str, str]:
    """file:line by the number of a stack frame, from the tables in front of HLO's text."""
    files = dict(re.findall(r'^(\d+) "(.*)"$', hlo.split("FunctionNames")[0], re.M))
    places = {
        number: f"{files.get(file, '?')}:{line}"
        for number, file, line in re.findall(
            r"^(\d+) \{file_name_id=(\d+) .*?line=(\d+)", hlo, re.M
        )
    }
    frames = re.findall(r"^(\d+) \{file_location_id=(\d+)", hlo, re.M)
    return {number: places[location] for number, location in frames if location in places}
