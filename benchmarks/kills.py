"""Kills processes that write checkpoints at random moments, and reads what is left.

    python -m benchmarks.kills --count 100 --processes 4 [--layout orbax]

Each run saves steps one after the other; one process is killed (SIGKILL), and soon after the rest.
Every step that is listed must be whole, and the last one that was committed must be there.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import weft
import weft.checkpoints.layout
from weft import P

SHAPE = (64, 4096)


def save_steps(folder: Path, layout: str, count: int, me: int, address: str) -> None:
    """Save steps until somebody kills this process."""
    if count > 1:
        weft.distributed.initialize(address, count, me)
    mesh = weft.make_mesh((count,), ("x",))
    split = weft.NamedSharding(mesh, P("x"))
    manager = weft.checkpoints.Manager(folder / "steps", max_to_keep=3, layout=layout)
    for step in range(100_000):
        w = weft.make_array_from_callback(
            SHAPE, split, lambda index, s=step: np.full(SHAPE, s, np.float32)[index]
        )
        manager.save(step, {"w": w, "step": step})
        manager.wait()
        if me == 0:  # only after the commit
            (folder / "committed.new").write_text(str(step))
            os.replace(folder / "committed.new", folder / "committed")


def check(folder: Path, layout: str) -> str:
    """Return what is wrong with what is left, "" if nothing is."""
    committed = int((folder / "committed").read_text())
    manager = weft.checkpoints.Manager(folder / "steps", layout=layout)
    steps = manager.all_steps()
    if not steps or steps[-1] < committed:
        return f"step {committed} was committed, and {steps} are left"
    for step in steps:
        found = manager.restore(step)
        if found["['step']"] != step or not (found["['w']"] == step).all():
            return f"step {step} holds something else"
    return ""


def run(layout: str, count: int, choose: random.Random) -> str:
    """Start a group, kill it, and check."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as held:
        folder = Path(name)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        pids = []
        for me in range(count):
            pid = os.fork()
            if pid == 0:
                log = os.open(folder / f"{me}.log", os.O_WRONLY | os.O_CREAT)
                os.dup2(log, 1)
                os.dup2(log, 2)
                save_steps(folder, layout, count, me, address)
                os._exit(0)
            pids.append(pid)
        end = time.monotonic() + 120
        while not (folder / "committed").exists():
            if time.monotonic() > end:
                return "no step was committed in 120 s"
            time.sleep(0.01)
        time.sleep(choose.random())
        choose.shuffle(pids)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            time.sleep(choose.choice((0.0, 0.02)))
        for pid in pids:
            os.waitpid(pid, 0)
        checker = os.fork()
        if checker == 0:
            problem = check(folder, layout)
            (folder / "problem").write_text(problem)
            os._exit(0)
        os.waitpid(checker, 0)
        problem = folder / "problem"
        return problem.read_text() if problem.exists() else "what is left cannot be read"


def main() -> None:
    """Kill groups and count what was lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--layout", choices=("weft", "orbax"), default="weft")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    weft.config.update("num_cpu_devices", 1)
    choose = random.Random(options.seed)
    lost = 0
    for i in range(options.count):
        problem = run(options.layout, options.processes, choose)
        lost += bool(problem)
        if problem:
            print(f"# kill {i}: {problem}", file=sys.stderr, flush=True)
    kills = f"{options.count} kills of {options.processes} processes"
    print(f"{kills}, {options.layout}'s layout: {lost} lost or torn")


if __name__ == "__main__":
    main()
