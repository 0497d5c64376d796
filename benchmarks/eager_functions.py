"""`python -m benchmarks.eager_functions`: the latency of every public eager function, beside JAX's.

Each function of the rooms below is called with the first of some small arguments that
it accepts in both libraries. The libraries run in a process each and take turns; the least time of
all rounds counts, since a machine that does something else only adds to it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.table import write_between_markers

ROOMS = (
    *("numpy", "numpy.linalg", "numpy.fft", "lax", "nn", "random", "image"),
    *("scipy.special", "scipy.linalg", "scipy.signal", "scipy.stats"),
    *(f"scipy.stats.{d}" for d in ("norm", "gamma", "beta", "t", "poisson")),
)
SKIPPED = ("save", "savez", "set_printoptions", "load", "fromfile", "printoptions", "infeed")
MARKERS = "<!-- eager functions: written by make bench -->", "<!-- end of eager functions -->"
CALL = 0.002
"""Seconds that a sample takes, or one call."""


def arguments(xx: ModuleType, room: str) -> list[tuple]:
    """What functions are tried with, all 4 × 4 but for lists of two arrays and scalars."""
    jnp = xx.numpy
    x = jnp.linspace(0.1, 0.9, 16).reshape(4, 4)
    i = jnp.arange(16).reshape(4, 4) % 4
    b = i > 1
    if room == "random":
        key = xx.random.key(0)
        return [(key, (4, 4)), (key, x), (key, x, x), (key, 0.5, (4, 4)), (key,), (key, 3), (0,)]
    return [
        (x,), (x, x), (i, i), (i,), (x, 1), (b, x, x), (x, x, x), (x, i), (x, i, x), (x[0], x[0]),
        (x[0],), (x[0], 3), ([x, x],), (x, (4, 4)), (x, (0, 1)), (x, (4, 4), (0, 1)), (x, 0, 1),
        (x, x[0, 0]), ((4, 4),), ((4, 4), 1.0), (4,), (0, 4), (jnp.float32, 4), ("ij,jk->ik", x, x),
        (x, jnp.float32), (x, (1, 1), (3, 3)), (x, 0, 3), (b,),
    ]  # fmt: skip


def public(module: ModuleType) -> dict[str, Callable]:
    found = {}
    for name in dir(module):
        value = None if name.startswith("_") or name in SKIPPED else getattr(module, name, None)
        if callable(value) and not inspect.isclass(value) and not inspect.ismodule(value):
            found[name] = value
    return found


def child(library: str) -> None:
    """Answers lines [room, name, index of arguments]: seconds of a call, or None."""
    xx = importlib.import_module(library)
    modules = {r: importlib.import_module(f"{library}.{r}") for r in ROOMS}
    rooms = {r: (public(module), arguments(xx, r)) for r, module in modules.items()}
    print(json.dumps({r: [list(f), len(a)] for r, (f, a) in rooms.items()}), flush=True)
    for line in sys.stdin:
        room, name, index = json.loads(line)
        functions, tried = rooms[room]
        print(json.dumps(sample(xx, functions[name], tried[index])), flush=True)


def sample(xx: ModuleType, function: Callable, operands: tuple) -> float | None:
    def once() -> Any:
        return xx.block_until_ready(function(*operands))

    try:
        if not xx.tree.leaves(once()):
            return None
        once()
        start = time.perf_counter()
        once()
        calls = max(1, int(CALL / (time.perf_counter() - start)))
        best = math.inf
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(calls):
                once()
            best = min(best, (time.perf_counter() - start) / calls)
        return best
    except Exception:
        return None


class Side:
    """The process of a library."""

    def __init__(self, library: str) -> None:
        module = [sys.executable, "-W", "ignore", "-m", "benchmarks.eager_functions"]
        self.process = subprocess.Popen(
            [*module, "--child", library],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.functions = json.loads(self.process.stdout.readline())

    def ask(self, room: str, name: str, index: int) -> float | None:
        self.process.stdin.write(json.dumps([room, name, index]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def measure(patterns: list[str], rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds in weft and in JAX by name."""
    side, other = Side("weft"), Side("jax")
    times: dict[str, tuple[float, float]] = {}
    for room in ROOMS:
        names, candidates = side.functions[room]
        for name in sorted({*names} & {*other.functions[room][0]}):
            if patterns and not any(p in f"{room}.{name}" for p in patterns):
                continue
            for index in range(candidates):
                ours = side.ask(room, name, index)
                theirs = other.ask(room, name, index) if ours is not None else None
                if ours is None or theirs is None:
                    continue
                for _ in range(rounds - 1):
                    ours = min(ours, side.ask(room, name, index) or ours)
                    theirs = min(theirs, other.ask(room, name, index) or theirs)
                times[f"{room}.{name}"] = ours, theirs
                break
    for each in (side, other):
        each.process.stdin.close()
        each.process.wait()
    return times


def as_markdown(times: dict[str, tuple[float, float]], shown: int | None) -> str:
    """The functions with the largest ratios, and how many there are."""
    ratios = {name: ours / theirs for name, (ours, theirs) in times.items()}
    worst = sorted(ratios, key=lambda name: -ratios[name])[:shown]
    lines = ["| function | weft | JAX | ratio |", "|---|---|---|---|"]
    for name in worst:
        ours, theirs = (1e6 * t for t in times[name])
        lines.append(f"| `{name}` | {ours:.1f} µs | {theirs:.1f} µs | {ratios[name]:.2f} |")
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    within = sum(r <= 1 for r in ratios.values())
    lines += ["", f"{len(ratios)} functions, geometric mean {mean:.2f}; {within} are ≤ 1.0."]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eager_functions")
    parser.add_argument("pattern", nargs="*", help="parts of names, as nn.soft; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="print all functions, not the ten worst")
    parser.add_argument("--write", type=Path, help="also write the ten worst into this page")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return 0
    times = measure(options.pattern, options.rounds)
    print(as_markdown(times, None if options.all else 10))
    if options.write and not options.pattern:
        write_between_markers(options.write, as_markdown(times, 10), MARKERS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
