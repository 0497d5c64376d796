"""Run cases in two child processes at a time, one for each library, and take medians.

In a round both processes are new. They take turns, a sample each, so that a slow spell of the
machine hits both; a round's value is the median of its samples, and a ratio the median over the
rounds of weft's value divided by JAX's. Who does not measure waits and takes no CPU time.

Processes differ by more than their samples do, by where memory lies and which core threads wake
on. So rows near their budgets get more rounds, and JAX can be run against itself as a control.
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
CONTROL = ("jax again", "jax")  # a side's first word is its library
CHILD_TIMEOUT = 600.0
SAMPLES = 15  # of each side in a round, fewer where they would take longer than:
CASE_SECONDS = 1.5
MOST_ROUNDS = 7  # of a case that is undecided: whose ratio, as a fraction of its budget, is in
UNDECIDED = 0.9, 1.5


@dataclass(slots=True)
class Row:
    """One case's values, a list per library with one entry a round, or why there is none."""

    case: Case
    sides: tuple[str, ...] = LIBRARIES
    values: dict[str, list[float]] = field(init=False)
    equations: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {side: [] for side in self.sides}

    def median(self, side: str) -> float | None:
        values = self.values[side]
        return statistics.median(values) if values else None

    @property
    def ratios(self) -> list[float]:
        if len(self.sides) < 2:
            return []
        pairs = zip(*self.values.values(), strict=False)
        return [ours / theirs for ours, theirs in pairs if theirs]

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def undecided(self) -> bool:
        """Whether another round may tell on which side of its budget the case is."""
        ratios, budget = self.ratios, self.case.budget
        if budget is None or not ratios or self.errors or len(ratios) >= MOST_ROUNDS:
            return False
        exact = len(ratios) > 1 and min(ratios) == max(ratios)
        low, high = UNDECIDED
        return not exact and low <= self.ratio / budget <= high

    @property
    def verdict(self) -> str:
        """✓ where the budget is met, ≈ where it is not, though by two rounds of seven, or ✗.

        A case that takes as long on both sides gets ✗ of seven rounds one time in 16.
        """
        ratios, budget = self.ratios, self.case.budget
        if budget is None or not ratios:
            return ""
        if self.ratio <= budget:
            return "✓"
        meeting = sum(ratio <= budget for ratio in ratios)
        return "≈" if meeting >= 2 / 7 * len(ratios) else "✗"


def child_environment() -> dict[str, str]:
    """Eight virtual CPU devices and no accelerator, caches or settings inherited from outside."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "WEFT_", "XLA_"))}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # who installs a package has its byte code
    env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    env["JAX_PLATFORMS"] = "cpu"
    env["WEFT_NUM_CPU_DEVICES"] = "8"
    return env


class Child:
    """A process that measures one side of case after case."""

    def __init__(self, side: str) -> None:
        self.side = side
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 — read when the child has died
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child", side.split()[0]],
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
            row.errors[child.side] = answer["error"]
        if "equations" in answer:
            row.equations[child.side] = answer["equations"]
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
                row.errors[child.side] = answer["error"]
                del samples[child]
                turns = [other for other in turns if other is not child]
                continue
            samples[child].append(answer["value"])
        turns.reverse()  # so that neither always comes first
    for child, values in samples.items():
        row.values[child.side].append(statistics.median(values))


def run_group(rows: list[Row], sides: tuple[str, ...]) -> None:
    """One round of the cases of a group that share a process; a dead child is replaced."""
    children: dict[str, Child] = {}
    for row in rows:
        for side in sides:
            if side not in children or not children[side].alive:
                children[side] = Child(side)
        measure([children[side] for side in sides if side not in row.errors], row)
    for child in children.values():
        child.close()


def run_script(side: str, row: Row) -> None:
    """A case that is a program of its own."""
    command = [sys.executable, "-c", row.case.script.replace("{lib}", side.split()[0])]
    try:
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=CHILD_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        row.errors[side] = "ran past its time limit"
        return
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        row.errors[side] = said[-1]
    else:
        row.values[side].append(float(done.stdout.strip().splitlines()[-1]))


def run(
    names: list[str],
    rounds: int,
    sides: tuple[str, ...] = LIBRARIES,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Measure the named cases in so many rounds, or up to `MOST_ROUNDS` where they are undecided.

    A case that fails on a side is not tried again there.
    """
    rows = {name: Row(CASES[name], sides) for name in names}
    groups: dict[str, list[Row]] = {}
    for row in rows.values():
        groups.setdefault(row.case.group, []).append(row)
    for group, members in groups.items():
        if any(row.case.script for row in members):
            for side in sides:  # byte code and the page cache, before anything is timed
                command = [sys.executable, "-c", f"import {side.split()[0]}"]
                subprocess.run(command, env=child_environment())
        left = members
        for number in range(max(rounds, MOST_ROUNDS)):
            if number >= rounds:
                left = [row for row in left if row.undecided]
            if not left:
                break
            progress(f"{group}: round {number + 1}, {len(left)} of {len(members)} cases")
            order = sides[:: -1 if number % 2 else 1]  # who is set up second runs 1 % faster
            run_group([row for row in left if row.case.setup], order)
            for row in left:
                for side in order if row.case.script else ():
                    if side not in row.errors:
                        run_script(side, row)
    return list(rows.values())
