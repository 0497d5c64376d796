"""Runs the partitioner's corpus over several processes, and compares with NumPy.

    weft launch -n 2 --devices-per-process 4 -m tests.partition.over_processes [--every 10]

Each process compares the shards that it holds.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

import weft
from tests.partition import corpus


def compare(case: corpus.Case) -> int:
    """Run one program; return the number of shards that were compared."""
    got = case.function(weft, partitioner="weft")(*case.args)
    scale, count = case.entry.tolerance, 0
    for a, b in zip(weft.tree.leaves(got), case.entry.expected(*case.args), strict=True):
        for shard in a.addressable_shards:
            own = np.asarray(b)[shard.index]
            np.testing.assert_allclose(np.asarray(shard.data), own, rtol=scale, atol=scale / 10)
            count += 1
    return count


def main() -> None:
    """Run every n-th program and print how many were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    weft.distributed.initialize()
    assert weft.device_count() == 8, weft.device_count()
    right, shards, wrong = 0, 0, []
    for case in list(corpus.cases(False))[:: options.every]:
        try:
            shards += compare(case)
            right += 1
        except weft.errors.DistributedError:
            raise
        except Exception as error:
            wrong.append(f"{case.name}: {type(error).__name__}: {str(error).splitlines()[0]:.200}")
    for line in wrong:
        print("WRONG", line, flush=True)
    print(f"RIGHT {right} of {right + len(wrong)} programs, {shards} shards here", flush=True)
    weft.distributed.shutdown()
    os._exit(bool(wrong))  # without waiting for XLA's threads


if __name__ == "__main__":
    main()
