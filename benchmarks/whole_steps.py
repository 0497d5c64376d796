"""`python -m benchmarks.whole_steps`: steps in weft, JAX and PyTorch, their CPU time and memory.

Each step runs in a process of its own in each library, and the processes take turns; PyTorch also
compiled. `--torch PYTHON` names the interpreter of an environment with PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.steps import STEPS
from benchmarks.table import format_value, write_between_markers

MARKERS = "<!-- whole steps: written by make operations -->", "<!-- end of whole steps -->"
SIDES = ("weft", "JAX", "PyTorch", "PyTorch, compiled")
SAMPLE_SECONDS = 0.2
SETUP_SECONDS = 600
NOT_COMPILED = ("LSTM, training", "particle filter")
"""Steps whose loops torch.compile unrolls, for a quarter of an hour."""


def prepared(side: str, name: str) -> Callable[[], Any]:
    """A call of a step of that library."""
    if side.startswith("PyTorch"):
        from benchmarks import steps_torch

        return steps_torch.prepared(name, compiled=side != "PyTorch")
    xx = importlib.import_module(side.lower())
    step, state, data = STEPS[name](xx)
    step, data = xx.jit(step), xx.device_put(data, xx.devices()[0])

    def once() -> float:
        nonlocal state
        state, value = step(state, *data)
        return float(value)

    return once


def child(side: str, name: str) -> None:
    """Prints the first value and the peak memory of three steps, then a sample for each line."""
    once = prepared(side, name)
    first = once()
    once()
    start = time.perf_counter()
    once()
    calls = max(1, int(SAMPLE_SECONDS / (time.perf_counter() - start)))
    with open("/proc/self/status", encoding="utf-8") as status:
        peak = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps({"answer": [first, peak]}), flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        for _ in range(calls):
            once()
        print(json.dumps({"answer": (time.process_time() - start) / calls}), flush=True)


class Side:
    """The process of a library that runs a step."""

    def __init__(self, side: str, name: str, python: str) -> None:
        command = [python, "-m", "benchmarks.whole_steps", "--child", side, name]
        # Threads of PyTorch that wait for work take no CPU time.
        env = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        if side == SIDES[3]:
            command = ["timeout", str(SETUP_SECONDS), *command]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=env,
        )  # fmt: skip

    def answer(self) -> Any:
        for line in self.process.stdout:
            if line.startswith('{"answer"'):
                return json.loads(line)["answer"]
        return None

    def sample(self) -> float | None:
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.answer()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def measure(name: str, pythons: dict[str, str], samples: int) -> dict[str, tuple[float, float]]:
    """The median CPU time and the peak memory of each library that runs the step."""
    sides = {
        s: Side(s, name, python)
        for s, python in pythons.items()
        if s != SIDES[3] or name not in NOT_COMPILED
    }
    begun = {s: side.answer() for s, side in sides.items()}
    ready = [s for s in sides if begun[s] is not None]
    times: dict[str, list[float]] = {s: [] for s in ready}
    for _ in range(samples):
        for s in ready:
            seconds = sides[s].sample()
            if seconds is not None:
                times[s].append(seconds)
        ready.reverse()
    for side in sides.values():
        side.close()
    values = ", ".join(f"{s} {begun[s][0]:.6g}" for s in ready)
    print(f"{name}: first values {values}", file=sys.stderr)
    return {s: (statistics.median(t), begun[s][1]) for s, t in times.items() if t}


def ratio(values: dict[str, float], others: tuple[str, ...]) -> float:
    return values["weft"] / min((values[s] for s in others if s in values), default=math.nan)


def as_markdown(rows: dict[str, dict[str, tuple[float, float]]]) -> str:
    columns = [*SIDES, "weft ÷ JAX", "weft ÷ PyTorch", "memory", "÷ JAX", "÷ PyTorch"]
    lines = [f"| step | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    ratios: list[list[float]] = []
    for name, measured in rows.items():
        times = {s: t for s, (t, _) in measured.items()}
        peaks = {s: peak for s, (_, peak) in measured.items()}
        new = [ratio(v, other) for v in (times, peaks) for other in (SIDES[1:2], SIDES[2:])]
        ratios.append(new)
        a, b, c, d = (f"{r:.2f}×" for r in new)
        shown = [format_value(times.get(s), "s") for s in SIDES]
        cells = [name, *shown, a, b, format_value(peaks["weft"], "B"), c, d]
        lines.append(f"| {' | '.join(cells)} |")
    means = [
        f"{math.exp(statistics.fmean(math.log(r) for r in column if not math.isnan(r))):.2f}"
        for column in zip(*ratios, strict=True)
        if not all(map(math.isnan, column))
    ]
    return "\n".join([*lines, "", f"Geometric means of the ratios: {', '.join(means)}."])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole_steps", description=__doc__)
    parser.add_argument("pattern", nargs="*", help="parts of names of steps; default: all")
    parser.add_argument("--torch", help="the Python of an environment with PyTorch")
    parser.add_argument("--samples", type=int, default=7)
    parser.add_argument("--write", type=Path, help="also write the table into this page")
    parser.add_argument("--rows", type=Path, help="a file that keeps what was measured before")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    pythons = dict.fromkeys(SIDES[:2], sys.executable)
    if options.torch:
        pythons |= dict.fromkeys(SIDES[2:], options.torch)
    kept = json.loads(options.rows.read_text()) if options.rows and options.rows.exists() else {}
    for name in STEPS:
        if not options.pattern or any(p in name for p in options.pattern):
            kept[name] = measure(name, pythons, options.samples)
            print(as_markdown({name: kept[name]}).splitlines()[2], file=sys.stderr)
            if options.rows:
                options.rows.write_text(json.dumps(kept))
    rows = {name: kept[name] for name in STEPS if name in kept}
    print(as_markdown(rows))
    if options.write and len(rows) == len(STEPS):
        write_between_markers(options.write, as_markdown(rows), MARKERS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
