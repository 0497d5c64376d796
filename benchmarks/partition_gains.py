"""`python -m benchmarks.partition_gains`: what each optimization of the partitioner saves.

Every program of the corpus is partitioned with all optimizations and with all but one; nothing is
compiled. Bytes and collectives are those of one call, loops counted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")


def switches() -> dict[str, Callable[[], AbstractContextManager]]:
    """For each optimization, a context that leaves it out."""
    names = ("optimize", "plan", "propagate", "reshard", "partitioner", "window", "replicate")
    # By name, since the package gives functions the names of some of these.
    modules = (*names, "localize_rules.indexing")
    optimize, plan, propagate, reshard, partitioner, window, replicate, indexing = (
        importlib.import_module(f"weft.partition.{name}") for name in modules
    )

    nothing = lambda *args, **options: 0

    def without_others(summed: bool) -> AbstractContextManager:
        """Leaves operations that sum over dimensions, or all others, in their first layout."""
        others = plan.Planner._others
        kept = lambda self: iter(()) if bool(self.summed) == summed else others(self)
        return patch.object(plan.Planner, "_others", kept)

    return {
        "all_reduce + slice → reduce_scatter": lambda: patch.object(
            reshard, "scatter_partial", lambda e, x, target: x
        ),
        "equal collectives once": lambda: patch.object(optimize, "_merge_equal", nothing),
        "loop-invariant collectives in front of the loop": lambda: patch.object(
            optimize, "_hoist", nothing
        ),
        "what a loop adds up reduced behind it": lambda: patch.object(
            optimize, "reduce_behind_loops", nothing
        ),
        "sums of sums over devices reduced once": lambda: patch.object(
            optimize, "join_sums", nothing
        ),
        "small collectives in one": lambda: patch.object(optimize, "combine", nothing),
        "slices of pads as one exchange": lambda: patch.object(propagate, "simplify", nothing),
        "chains of reshards by the cheapest way": lambda: patch.object(
            reshard,
            "_route",
            lambda e, x, target, via, route=reshard._route: route(e, x, target, ()),
        ),
        "moves between layouts by the way that sends least": lambda: patch.object(
            reshard, "cheapest", lambda *args: ()
        ),
        "sums move operands where cheaper": lambda: without_others(True),
        "operations where their results are wanted": lambda: without_others(False),
        "indices of lookups stay split": lambda: patch.object(
            indexing, "chain_of", lambda lz, op: []
        ),
        "windows in rounds": lambda: patch.object(
            window, "_by_rounds", lambda *args: window._Rounds([], 1 << 60)
        ),
        "stacks moved once, in front of or behind their loop": lambda: patch.object(
            partitioner, "gather_small_stacks", nothing
        ),
        "small programs whole": lambda: patch.object(replicate, "LARGEST", -1),
    }


def totals(cases: list) -> list[tuple[int, int]]:
    """Bytes and collectives of each lowered case."""
    from weft._xla import mlir
    from weft.partition import partition
    from weft.partition.collect import collect

    out = []
    for module in cases:
        with mlir.context(), mlir.unknown_location():
            stages = partition(module, keep_stages=False)
        found = collect(stages.local, stages.mesh)
        out.append((sum(c.total_bytes for c in found), sum(c.trips for c in found)))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partition_gains")
    parser.add_argument("pattern", nargs="?", default="", help="part of the optimizations' names")
    parser.add_argument("--quick", action="store_true", help="one layout for each program")
    options = parser.parse_args()
    import weft
    from tests.partition import corpus

    modules = [
        case.function(weft, partitioner="xla").lower(*case.args)._program.module
        for case in corpus.cases(not options.quick)
    ]
    print("| without | cases that change | their bytes | their collectives |\n|---|--:|--:|--:|")
    everything = totals(modules)
    for name, switch in switches().items():
        if options.pattern not in name:
            continue
        with switch():
            without = totals(modules)
        pairs = [(a, b) for a, b in zip(without, everything, strict=True) if a != b]
        if pairs:
            sent = sum(a[0] for a, _ in pairs) / max(sum(b[0] for _, b in pairs), 1)
            calls = sum(a[1] for a, _ in pairs) / max(sum(b[1] for _, b in pairs), 1)
            print(f"| {name} | {len(pairs)} | × {sent:.2f} | × {calls:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
