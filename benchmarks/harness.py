"""Run cases in interleaved child processes, weft then JAX in every round, and take medians.

Interleaving makes a slow spell of the machine hit both sides; a ratio is the median over the rounds
of weft's value divided by the JAX value measured right after it.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.case import CASES, Case

LIBRARIES = ("weft", "jax")
CHILD_TIMEOUT = 600.0


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


def run_process(arguments: list[str]) -> tuple[str, str]:
    """The child's standard output and, when it failed, the last line of its standard error."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=CHILD_TIMEOUT,
        )
    except subprocess.TimeoutExpired as late:
        out = late.stdout or b""
        return (out.decode() if isinstance(out, bytes) else out), "ran past its time limit"
    if done.returncode == 0:
        return done.stdout, ""
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return done.stdout, lines[-1]


def run_group(library: str, cases: list[Case], rows: dict[str, Row]) -> None:
    """One child measures all cases of a group that share a process.

    A child that dies has died in the first case without an answer; another child goes on behind it.
    """
    names = [case.name for case in cases]
    while names:
        out, failure = run_process(["-m", "benchmarks.child", library, *names])
        results = [json.loads(line) for line in out.splitlines() if line.startswith('{"name"')]
        for result in results:
            row = rows[result["name"]]
            if "error" in result:
                row.errors[library] = result["error"]
                continue
            row.values[library].append(result["value"])
            if "equations" in result:
                row.equations[library] = result["equations"]
        names = names[len(results) :]
        if names:
            rows[names.pop(0)].errors[library] = failure or "no answer"


def run_script(library: str, case: Case, row: Row) -> None:
    """A case that is a program of its own."""
    out, failure = run_process(["-c", case.script.replace("{lib}", library)])
    if failure:
        row.errors[library] = failure
    else:
        row.values[library].append(float(out.strip().splitlines()[-1]))


def run(
    names: list[str],
    rounds: int,
    libraries: tuple[str, ...] = LIBRARIES,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Measure the named cases; a case that fails on a side is not tried again there."""
    rows = {name: Row(CASES[name]) for name in names}
    groups: dict[str, list[Case]] = {}
    for row in rows.values():
        groups.setdefault(row.case.group, []).append(row.case)
    for group, cases in groups.items():
        if any(case.script for case in cases):
            for library in libraries:  # byte code and the page cache, before anything is timed
                run_process(["-c", f"import {library}"])
        for number in range(rounds):
            for library in libraries:
                progress(f"{group}: round {number + 1} of {rounds}, {library}")
                alive = [case for case in cases if library not in rows[case.name].errors]
                shared = [case for case in alive if case.setup]
                if shared:
                    run_group(library, shared, rows)
                for case in alive:
                    if case.script:
                        run_script(library, case, rows[case.name])
    return list(rows.values())
