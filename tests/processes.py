"""Programs that tests run in processes of their own, alone or in pairs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HANGS = 400
"""Seconds after which a program hangs: many times what any takes on a slow, busy machine."""


def start(program: str, *args: object, **variables: str) -> subprocess.Popen:
    """Starts a program on eight virtual devices, unless the variables say otherwise."""
    env = {k: v for k, v in os.environ.items() if k not in ("PJRT_NPROC", "XLA_FLAGS")}
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", program, *map(str, args)],
        cwd=Path(__file__).parents[1],
        env=env | {"WEFT_NUM_CPU_DEVICES": "8"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(*runs: subprocess.Popen) -> list[tuple[str, str]]:
    """Output and errors of each. Those that hang are ended, and tell where their threads are."""
    said = []
    for run in runs:
        try:
            out, errors = run.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            for left in runs:
                left.send_signal(signal.SIGABRT)
            out, errors = run.communicate()
        said.append((out, errors))
    return said


def python(program: str, *args: object, **variables: str) -> str:
    """What a program prints; it must not fail."""
    run = start(program, *args, **variables)
    [(out, errors)] = end(run)
    assert run.returncode == 0, out + errors[-5000:]
    return out


@contextlib.contextmanager
def free_address() -> Iterator[str]:
    """An address for a server that is to be started, which nobody else is given meanwhile.

    A socket is bound to it and does not listen: one that is shared by SO_REUSEADDR still can.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("localhost", 0))
        yield f"localhost:{held.getsockname()[1]}"


def run_pair(program: str, devices: int) -> list[tuple[int, str]]:
    """Exit status and words of two processes, which are given their rank and an address."""
    with free_address() as address:
        count = str(devices)
        runs = [start(program, rank, address, WEFT_NUM_CPU_DEVICES=count) for rank in range(2)]
        said = end(*runs)
    return [(run.returncode, "".join(words)) for run, words in zip(runs, said, strict=True)]
