"""Run cases in two child processes at a time, one for each library, and take medians.

In a round both processes are new. They take turns, a sample each, so that a slow spell of the
machine hits both; a round's value is the median of its samples, and a ratio the median over the
rounds of weft's value divided by JAX's. Who does not measure waits and takes no CPU time.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.case import CASES, Case

LIBRARIES = ("weft", "jax")
CHILD_TIMEOUT = 600.0
SAMPLES = 15  # of each side in a round, fewer where they would take longer than:
CASE_SECONDS = 2.0


@dataclass(slots=True)
class Row:
    """One case's values, a list per library with one entry a round, or why there is none."""

    case: Case
    values: dict[str, list[float]] = field(default_factory=lambda: {lib: [] for lib in LIBRARIES})
    equations: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def median(self, library: str) -> float | None:
        values = self.values[library]
        return statistics.median(values) if values else None

    @property
    def ratios(self) -> list[float]:
        pairs = zip(self.values["weft"], self.values["jax"], strict=False)
        return [ours / theirs for ours, theirs in pairs if theirs]

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def met(self) -> bool | None:
        if self.case.budget is None or self.ratio is None:
            return None
        return self.ratio <= self.case.budget


def child_environment() -> dict[str, str]:
    """Eight virtual CPU devices and no accelerator, caches or settings inherited from outside."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "WEFT_", "XLA_"))}
    env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    env["JAX_PLATFORMS"] = "cpu"
    env["WEFT_NUM_CPU_DEVICES"] = "8"
    return env


class Child:
    """A process that measures one library's side of case after case."""

    def __init__(self, library: str) -> None:
        self.library = library
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 — read when the child has died
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child", library],
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, line: str) -> dict[str, Any]:
        """The answer to a line (`benchmarks/child.py`); an error where the process dies of it."""
        late = threading.Timer(CHILD_TIMEOUT, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            for said in self._process.stdout:
                if said.startswith('{"answer"'):
                    return json.loads(said)["answer"]
        except BrokenPipeError:
            pass
        finally:
            late.cancel()
        self.close()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return {"error": lines[-1] if lines else f"exit status {self._process.returncode}"}

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()


def measure(children: list[Child], row: Row) -> None:
    """One round of a case: both sides are set up, then take turns, and each gives its median."""
    answers = {child: child.ask(row.case.name) for child in children}
    for child, answer in answers.items():
        if "error" in answer:
            row.errors[child.library] = answer["error"]
        if "equations" in answer:
            row.equations[child.library] = answer["equations"]
    samples: dict[Child, list[float]] = {
        child: [answer["value"]] if "value" in answer else []
        for child, answer in answers.items()
        if "error" not in answer
    }
    turns = [child for child, values in samples.items() if not values]
    slowest = max((answers[child]["seconds"] for child in turns), default=1.0)
    for _ in range(max(3, min(SAMPLES, int(CASE_SECONDS / slowest)))):
        for child in turns:
            answer = child.ask("")
            if "error" in answer:
                row.errors[child.library] = answer["error"]
                del samples[child]
                turns = [other for other in turns if other is not child]
                continue
            samples[child].append(answer["value"])
        turns.reverse()  # so that neither always comes first
    for child, values in samples.items():
        row.values[child.library].append(statistics.median(values))


def run_group(libraries: tuple[str, ...], rows: list[Row]) -> None:
    """One round of the cases of a group that share a process; a dead child is replaced."""
    children: dict[str, Child] = {}
    for row in rows:
        for library in libraries:
            if library not in children or not children[library].alive:
                children[library] = Child(library)
        measure([children[lib] for lib in libraries if lib not in row.errors], row)
    for child in children.values():
        child.close()


def run_script(library: str, case: Case, row: Row) -> None:
    """A case that is a program of its own."""
    command = [sys.executable, "-c", case.script.replace("{lib}", library)]
    try:
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=CHILD_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        row.errors[library] = "ran past its time limit"
        return
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        row.errors[library] = said[-1]
    else:
        row.values[library].append(float(done.stdout.strip().splitlines()[-1]))


def run(
    names: list[str],
    rounds: int,
    libraries: tuple[str, ...] = LIBRARIES,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Measure the named cases; a case that fails on a side is not tried again there."""
    rows = {name: Row(CASES[name]) for name in names}
    groups: dict[str, list[Row]] = {}
    for row in rows.values():
        groups.setdefault(row.case.group, []).append(row)
    for group, members in groups.items():
        scripts = [row for row in members if row.case.script]
        if scripts:
            for library in libraries:  # byte code and the page cache, before anything is timed
                subprocess.run([sys.executable, "-c", f"import {library}"], env=child_environment())
        for number in range(rounds):
            progress(f"{group}: round {number + 1} of {rounds}")
            run_group(libraries, [row for row in members if row.case.setup])
            for row in scripts:
                for library in libraries:
                    if library not in row.errors:
                        run_script(library, row.case, row)
    return list(rows.values())
