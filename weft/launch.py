"""`weft launch`: start a program as several processes that join one group.

On one machine the command starts the processes itself: it picks a free port for the coordinator,
gives each process its number and a secret of the group through the environment that
`weft.distributed.initialize` reads, prefixes what they print, forwards signals, and ends all
of them when one fails. Under Slurm, Open MPI, torchrun or a Kubernetes indexed job, which start a
command once for each process, it runs the program in place; `initialize` finds the rest itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import IO, NamedTuple

from weft.runtime import clusters

GRACE = 10.0
"""Seconds between asking processes to end and killing them."""
_KEPT = 200
"""Lines of standard error kept of each process, to show the first failure's last."""


class Failure(NamedTuple):
    """The process that failed first: its number, its exit status, the end of its standard error."""

    rank: int
    status: int
    errors: list[str]

    def describe(self) -> str:
        """Return the failure in a line: an exit status, or the signal that ended the process."""
        if self.status < 0:
            return f"process {self.rank} was ended by {signal.Signals(-self.status).name}"
        return f"process {self.rank} failed with exit status {self.status}"


class Group:
    """The processes of one attempt on this machine."""

    def __init__(self, command: Sequence[str], count: int, devices: int | None, attempt: int):
        self.errors: list[deque[str]] = [deque(maxlen=_KEPT) for _ in range(count)]
        self.processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        address = f"127.0.0.1:{free_port()}"
        secret = os.environ.get("WEFT_COORDINATOR_TOKEN") or secrets.token_hex(32)
        for rank in range(count):
            variables = {
                "WEFT_COORDINATOR_ADDRESS": address,
                "WEFT_COORDINATOR_TOKEN": secret,
                "WEFT_NUM_PROCESSES": str(count),
                "WEFT_PROCESS_ID": str(rank),
                "WEFT_RESTART": str(attempt),
                "PYTHONUNBUFFERED": "1",
            }
            if devices is not None:
                variables["WEFT_NUM_CPU_DEVICES"] = str(devices)
            process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
                start_new_session=True,  # signals of the terminal come through the launcher only
            )
            self.processes.append(process)
            assert process.stdout is not None and process.stderr is not None
            self._read(rank, process.stdout, sys.stdout, None)
            self._read(rank, process.stderr, sys.stderr, self.errors[rank])

    def _read(self, rank: int, source: IO[str], target: IO[str], kept: deque[str] | None) -> None:
        def copy() -> None:
            for line in source:
                if kept is not None:
                    kept.append(line)
                print(f"[{rank}] {line}", end="" if line.endswith("\n") else "\n", file=target)
                target.flush()

        reader = threading.Thread(target=copy, daemon=True)
        reader.start()
        self._readers.append(reader)

    def wait(self) -> Failure | None:
        """Wait for all to end; end all when one fails, and return the first failure."""
        first: Failure | None = None
        running = dict(enumerate(self.processes))
        deadline = None
        while running:
            ended = {r: s for r, p in running.items() if (s := p.poll()) is not None}
            for rank, status in ended.items():
                del running[rank]
                if status and first is None:
                    first = Failure(rank, status, [])
                    self.send(signal.SIGTERM)
                    deadline = time.monotonic() + GRACE
            if deadline is not None and time.monotonic() > deadline:
                self.send(signal.SIGKILL)
                deadline = None
            if running:
                time.sleep(0.02)
        for reader in self._readers:
            # A grandchild may hold a pipe open; what it prints later is not waited for.
            reader.join(timeout=1.0)
        return first and first._replace(errors=list(self.errors[first.rank]))

    def send(self, number: int) -> None:
        """Send a signal to every process that still runs, and to what it started."""
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)


def free_port() -> int:
    """Return a TCP port that nobody listens at on this machine's loopback address."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def launch(
    program: Sequence[str],
    *,
    processes: int | None = None,
    devices_per_process: int | None = None,
    restarts: int = 0,
    elastic: int | None = None,
) -> int:
    """Run a Python program as several processes; returns the exit status for a shell.

    Args:
      program: arguments of Python: a script's path, or "-m" and a module, with its arguments.
      processes: how many to start on this machine. None: this process is one that Slurm, Open MPI,
        torchrun or Kubernetes started, and becomes the program.
      devices_per_process: virtual CPU devices of each; as the environment says unless given.
      restarts: how often to start all again after a failure; a program continues from its last
        checkpoint, and finds the number of the attempt in WEFT_RESTART.
      elastic: restarts with one process fewer each time, down to this many.

    Raises:
      ValueError: no number of processes is given and no launcher is found, or numbers below 1.

    Example:
        >>> from weft.launch import launch
        >>> launch(["-c", "print('hello')"], processes=1)
        [0] hello
        0
    """
    command = [sys.executable, *program]
    if processes is None:
        if not clusters.detect(None):
            raise ValueError(
                "weft launch: say how many processes to start with -n, or start the command by "
                "Slurm, Open MPI, torchrun or a Kubernetes indexed job"
            )
        if devices_per_process is not None:
            os.environ["WEFT_NUM_CPU_DEVICES"] = str(devices_per_process)
        sys.stdout.flush()
        os.execv(sys.executable, command)
    for name, value, least in (
        ("-n", processes, 1),
        ("--devices-per-process", devices_per_process or 1, 1),
        ("--restarts", restarts, 0),
        ("--elastic", elastic or 1, 1),
    ):
        if value < least:
            raise ValueError(f"weft launch: {name} must be at least {least}, got {value}")
    status = 0
    for attempt in range(restarts + 1):
        failure, received = _run(command, processes, devices_per_process, attempt)
        if failure is None:
            return 0
        _report(failure)
        status = failure.status if failure.status > 0 else 128 - failure.status
        if received is not None:
            return 128 + received
        if attempt < restarts:
            if elastic is not None:
                processes = max(elastic, processes - 1)
            print(
                f"weft launch: starting {processes} processes again "
                f"(restart {attempt + 1} of {restarts})",
                file=sys.stderr,
            )
    return status


def _run(
    command: Sequence[str], count: int, devices: int | None, attempt: int
) -> tuple[Failure | None, int | None]:
    """Run one attempt; return its first failure and the signal that the launcher was sent."""
    group = Group(command, count, devices, attempt)
    received: list[int] = []

    def forward(number: int, frame: object) -> None:
        received.append(number)
        group.send(number)

    # Handlers can be set on the main thread only; elsewhere signals come to the caller.
    on_main = threading.current_thread() is threading.main_thread()
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if on_main else ()
    before = {name: signal.signal(name, forward) for name in names}
    try:
        failure = group.wait()
    finally:
        group.send(signal.SIGKILL)
        for name, handler in before.items():
            signal.signal(name, handler)
    return failure, received[-1] if received else None


def _report(failure: Failure) -> None:
    """Print the first failure's last lines behind those of all others."""
    print(f"weft launch: {failure.describe()}; the others were ended", file=sys.stderr)
    # The traceback, if there is one, without what was logged before it.
    lines = failure.errors
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent")]
    for line in lines[starts[-1] if starts else max(0, len(lines) - 20) :]:
        print(line.rstrip("\n"), file=sys.stderr)
