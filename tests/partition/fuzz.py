"""`python -m tests.partition.fuzz 100000`: random programs × shardings against NumPy, by seed.

With `--spoil`, modules are spoiled at random, and must be partitioned or refused. Each worker is a
process of its own, so a crash costs one seed and is reported like a wrong result.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

BATCH = 200
HANGS = 1800  # seconds a batch may take


def spoil_seeds(first: int, last: int, steps: int) -> None:
    """Partitions spoiled modules of the seeds [first, last): none may end the process."""
    import numpy as np

    from tests.partition import mutate, programs
    from weft._xla import mlir
    from weft.partition import Unsupported, partition

    for seed in range(first, last):
        print(f"at {seed}", flush=True)
        rng = np.random.default_rng(seed)
        text = mutate.mutate(rng, programs.random_program(rng, steps)[0])
        try:
            partition(mlir.parse(text), keep_stages=False).local.operation.verify()
        except (ValueError, mlir.ir.MLIRError, Unsupported):
            pass
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:200]}", flush=True)


def run_seeds(first: int, last: int, steps: int) -> None:
    """Runs the seeds [first, last) and prints one line for each that fails."""
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")
    import numpy as np

    from tests.partition import harness, programs
    from weft._xla import mlir
    from weft.partition import partition
    from weft.partition.check import check

    for seed in range(first, last):
        print(f"at {seed}", flush=True)
        text, args, want = programs.random_program(np.random.default_rng(seed), steps)
        try:
            stages = partition(mlir.parse(text), keep_stages=False)
            check(stages)
            [got] = harness.execute(stages, *args)
            if not np.array_equal(got, want, equal_nan=True):
                print(f"seed {seed}: wrong values", flush=True)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:200]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.partition.fuzz", description=__doc__)
    parser.add_argument("cases", type=int, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=6, help="operations in a program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--spoil", action="store_true", help="spoiled modules, not run")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    last = options.first + options.cases
    if options.worker:
        (spoil_seeds if options.spoil else run_seeds)(options.first, last, options.steps)
        return 0
    began, failures, running = time.time(), [], []
    waiting = [(a, min(a + BATCH, last)) for a in range(options.first, last, BATCH)]
    while waiting or running:
        while waiting and len(running) < options.jobs:
            first, end = waiting.pop(0)
            command = [sys.executable, "-m", "tests.partition.fuzz", str(end - first), "--worker"]
            command += ["--first", str(first), "--steps", str(options.steps)]
            command += ["--spoil"] * options.spoil
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            running.append((process, end))
        process, end = running.pop(0)
        try:
            lines = process.communicate(timeout=HANGS)[0].splitlines()
        except subprocess.TimeoutExpired:
            process.kill()
            lines = process.communicate()[0].splitlines()
        found = [line for line in lines if line.startswith("seed ")]
        if process.returncode:
            seed = int(lines[-1].split()[-1]) if lines and lines[-1].startswith("at ") else end - 1
            found.append(f"seed {seed}: the process died with {process.returncode}")
            if seed + 1 < end:
                waiting.insert(0, (seed + 1, end))
        print("".join(line + "\n" for line in found), end="", flush=True)
        failures += found
    seconds = time.time() - began
    print(f"{options.cases - len(failures)} passed, {len(failures)} failed in {seconds:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
