"""Injects faults into groups of four processes, and counts how many are named rightly.

    python -m benchmarks.faults --count 200 --seed 0 [--held-out]

Each fault is a group of its own: one process, at a random step, skips a call, makes two in another
order, passes another shape, gets stuck in Python, is killed, or is stopped. All others must raise
DistributedError that names this process alone, and their dumps must replay to the same verdict.
--held-out takes two programs for which nothing was tuned.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NoReturn

import numpy as np

import weft
from weft import P
from weft.runtime.replay import describe

KINDS = ("skipped", "swapped", "other shape", "stuck", "asleep", "killed", "stopped")
PROCESSES, STEPS = 4, 8
HEARTBEAT, TIMEOUT = 4.0, 6.0
"""Seconds. On a busy machine a process takes several to import what its first program needs, for
which the others wait."""
SLACK = 20.0
"""Seconds within which a process on a busy machine must end after its fault is due to be named."""


def inject(kind: str, rank: int, step: int, me: int, address: str, held_out: bool) -> None:
    """Run one process of a group, which makes the fault if it is its rank."""
    weft.distributed.initialize(
        address,
        PROCESSES,
        me,
        heartbeat_timeout_seconds=HEARTBEAT,
        hang_timeout_seconds=TIMEOUT,
    )
    mesh = weft.make_mesh((PROCESSES,), ("x",))

    def over_all(name, function, out):
        function.__name__ = name
        return weft.jit(weft.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=out))

    split = weft.NamedSharding(mesh, P("x"))

    def array(n):
        return weft.make_array_from_callback(
            (PROCESSES, n), split, lambda index: np.ones((1, n), np.float32)
        )

    if held_out:
        first = weft.jit(lambda x: weft.numpy.tanh(x).sum(axis=0) @ weft.numpy.ones(x.shape[1]))
        second = over_all(
            "exchanged", lambda x: weft.lax.all_to_all(x, "x", 1, 1, tiled=True), P("x")
        )
    else:
        first = over_all("summed", lambda x: weft.lax.psum(x, "x"), P())
        ring = [(i, (i + 1) % PROCESSES) for i in range(PROCESSES)]
        second = over_all("shifted", lambda x: weft.lax.ppermute(x, "x", ring), P("x"))
    small, large = array(8), array(64)
    for _ in range(2):
        np.asarray(first(small))
        second(small).block_until_ready()
    for now in range(STEPS):
        faulty = now == step and me == rank
        if faulty and kind == "stuck":
            while True:  # STUCK
                pass
        if faulty and kind == "asleep":
            time.sleep(600)  # ASLEEP
        if faulty and kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if faulty and kind == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if faulty and kind == "swapped":
            second(small).block_until_ready()
            np.asarray(first(small))
            continue
        if not (faulty and kind == "skipped"):
            np.asarray(first(large if faulty and kind == "other shape" else small))
        second(small).block_until_ready()


def child(
    kind: str, rank: int, step: int, me: int, address: str, folder: Path, held_out: bool
) -> NoReturn:
    """Run one process to its end, and write what it raised."""
    os.environ["WEFT_DUMP_DIR"] = str(folder)
    log = os.open(folder / f"{me}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    begin = time.monotonic()
    said = {"error": "", "seconds": 0.0}
    try:
        inject(kind, rank, step, me, address, held_out)
        weft.distributed.shutdown()
    except weft.errors.DistributedError as error:
        said["error"] = str(error)
    except Exception as error:
        said["error"] = f"OTHER {error!r}"
    said["seconds"] = time.monotonic() - begin
    (folder / f"{me}.json").write_text(json.dumps(said))
    os._exit(0)


def line_of(mark: str) -> int:
    """Return the number of the line in this file that has a mark as its comment."""
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def run(kind: str, rank: int, step: int, held_out: bool = False) -> tuple[bool, bool, str]:
    """Run one group with a fault; return whether all named it, all dumps replayed, and why not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{held.getsockname()[1]}"
            pids = {}
            for me in range(PROCESSES):
                pid = os.fork()
                if pid == 0:
                    child(kind, rank, step, me, address, folder, held_out)
                pids[me] = pid
            end = time.monotonic() + 60.0 + SLACK
            others = [me for me in range(PROCESSES) if me != rank]
            left = set(others)
            while left and time.monotonic() < end:
                for me in list(left):
                    if os.waitpid(pids[me], os.WNOHANG)[0]:
                        left.discard(me)
                time.sleep(0.05)
            for me in (rank, *left):
                try:
                    os.kill(pids[me], signal.SIGKILL)
                    os.waitpid(pids[me], 0)
                except (ProcessLookupError, ChildProcessError):
                    pass
        return judge(kind, rank, others, folder)


def preload() -> None:
    """Import what a first program needs, which takes seconds on a busy machine, once for all."""
    program = (
        "import sys, weft; mesh = weft.make_mesh((1,), ('x',))\n"
        "f = weft.shard_map(weft.numpy.tanh, mesh=mesh, in_specs=weft.P(), out_specs=weft.P())\n"
        "weft.jit(f)(weft.numpy.ones(3))\n"
        "print(*(name for name in sys.modules if name.startswith('weft.')))"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    for name in done.stdout.split():
        importlib.import_module(name)


def judge(kind: str, rank: int, others: list[int], folder: Path) -> tuple[bool, bool, str]:
    """Compare what the others said with the fault that was made."""
    named, replayed, why = True, True, ""
    for me in others:
        path = folder / f"{me}.json"
        if not path.exists():
            log = (folder / f"{me}.log").read_text(errors="replace")[-300:]
            return False, False, f"process {me} did not end by itself: {log}"
        error = json.loads(path.read_text())["error"]
        dump = re.search(r"weft replay (\S+?)`", error)
        if dump is None:
            return False, False, f"process {me}: {error[:300] or 'no error'}"
        text, same = describe(dump[1])
        ranks = json.loads(Path(dump[1]).read_text())["verdict"]["ranks"]
        right = ranks == [rank] and f"process {rank} " in error
        if kind == "asleep":
            right = right and f"faults.py:{line_of('ASLEEP')}" in error
        if kind == "stuck":
            first = line_of("STUCK")
            right = right and any(f"faults.py:{n}" in error for n in (first, first + 1))
        if not right:
            named, why = False, f"process {me}: {error[:400]}"
        if not same:
            replayed, why = False, why or text[-400:]
    return named, replayed, why


def main() -> None:
    """Inject faults and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--held-out", action="store_true", help="the programs nobody tuned for")
    options = parser.parse_args()
    weft.config.update("num_cpu_devices", 1)
    preload()
    choose = random.Random(options.seed)
    total: Counter[str] = Counter()
    named: Counter[str] = Counter()
    replayed: Counter[str] = Counter()
    kinds = options.kind or KINDS
    for i in range(options.count):
        kind = kinds[i % len(kinds)]
        rank, step = choose.randrange(PROCESSES), choose.randrange(STEPS)
        right, same, why = run(kind, rank, step, options.held_out)
        total[kind] += 1
        named[kind] += right
        replayed[kind] += same
        if why:
            print(f"# {kind}, process {rank}, step {step}: {why}", file=sys.stderr, flush=True)
    print("| fault | injected | named by all | replayed by all |\n|---|---|---|---|")
    for kind in kinds:
        print(f"| {kind} | {total[kind]} | {named[kind]} | {replayed[kind]} |")
    print(f"| all | {total.total()} | {named.total()} | {replayed.total()} |")


if __name__ == "__main__":
    main()
