"""Four processes on this machine that join one group: their start, first step, and collectives."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from benchmarks.case import script

PROCESSES = 4


def run_group(library: str, task: str, *args: object) -> list[dict[str, float]]:
    """Start `benchmarks.member` four times; return what each measured, by rank."""
    env = {**os.environ, "WEFT_NUM_CPU_DEVICES": "1"}
    env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=1"
    with socket.socket() as held, tempfile.TemporaryFile("w+") as errors:
        # The service may listen at a port that is bound so; nobody else is given it.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        words = [library, address, str(PROCESSES), str(time.time()), task, *map(str, args)]
        members = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.member", str(rank), *words],
                env=env,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            for rank in range(PROCESSES)
        ]
        said = [member.communicate()[0] for member in members]
        if any(member.returncode for member in members):
            errors.seek(0)
            raise RuntimeError(errors.read()[-2000:])
    # XLA's transport prints lines of its own.
    return [
        json.loads(next(line for line in text.splitlines() if line.startswith("{")))
        for text in said
    ]


def slowest(library: str, task: str, what: str, *args: object) -> float:
    """Return the largest of the members' figures."""
    return max(member[what] for member in run_group(library, task, *args))


def total(library: str, task: str, what: str, *args: object) -> float:
    """Return the sum of the members' figures."""
    return sum(member[what] for member in run_group(library, task, *args))


def declare(name: str, call: str, budget: float) -> None:
    script("processes", name, f"from benchmarks.processes import *\nprint({call})", budget=budget)


declare("start of 4 processes", "slowest('{lib}', 'step', 'start')", 1.0)
declare("start of 4 processes, CPU time", "total('{lib}', 'step', 'start_cpu')", 1.0)
declare("start and first step of 4 processes", "slowest('{lib}', 'step', 'step')", 0.7)
declare("start and first step of 4 processes, CPU time", "total('{lib}', 'step', 'step_cpu')", 0.7)
for _name in ("psum", "all_gather"):
    for _megabytes in (1, 64):
        declare(
            f"{_name} over 4 processes, {_megabytes} MB of each",
            f"slowest('{{lib}}', 'collective', 'seconds', '{_name}', {_megabytes})",
            1.0,
        )
