"""Runs the table of collectives over several processes, and compares with the reference machine.

    weft launch -n 2 --devices-per-process 4 -m tests.collectives.over_processes [--contexts all]

Each case gives its value, its derivatives forwards and backwards, and its value inside a
transformation. Programs hold several cases, since compiling one for each takes minutes. Each
process compares the shards that it holds.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

import weft
from tests.collectives.cases import CASES, MACHINE, SHAPE, Case
from tests.collectives.harness import COMPILER_OPTIONS, draw, mesh_of, program
from tests.collectives.table import CONTEXTS, INSIDE

OVER_ALL = [name for name, context in CONTEXTS.items() if len(context.mesh_axes) == 2]
"""Contexts whose mesh has all devices, and so those of every process."""
TOGETHER = 12
"""Cases in a program."""


def compare(cases: list[Case], context_name: str, seed: int) -> tuple[int, list[str]]:
    """Run cases as one program; return how many shards were compared, and what is wrong."""
    context = CONTEXTS[context_name]
    rng = np.random.default_rng(seed)  # the same numbers in all processes
    mesh = mesh_of(MACHINE, context.mesh_axes, axis_type=context.axis_type)
    split = weft.NamedSharding(mesh, weft.P(*context.mesh_axes))

    def spread(values: np.ndarray) -> Any:
        return weft.make_array_from_callback(values.shape, split, lambda index: values[index])

    x, t = draw(rng, MACHINE, SHAPE, np.float32), draw(rng, MACHINE, SHAPE, np.float32)
    value = {c.name: MACHINE.stack(c.meaning(x)) for c in cases}
    push = {c.name: MACHINE.stack(c.push(x, t) if c.push else c.meaning(t)) for c in cases}
    cotangent = {n: rng.integers(-4, 4, v.shape).astype(np.float32) for n, v in value.items()}
    transformed = {
        c.name: list(INSIDE.values())[(i + seed) % len(INSIDE)] for i, c in enumerate(cases)
    }

    def everything(x: Any, t: Any, cotangents: dict[str, Any]) -> dict[str, Any]:
        out = {}
        for case in cases:
            plain = program(MACHINE, case.fun, context)
            y, tangent = weft.jvp(plain, (x,), (t,))
            pulled = weft.vjp(plain, x)[1](cotangents[case.name])[0]
            inside = program(MACHINE, case.fun, context, inside=transformed[case.name])(x)
            out[case.name] = y, tangent, inside, (pulled * t).sum()
        return out

    run = weft.jit(everything, compiler_options=COMPILER_OPTIONS)
    got = run(spread(MACHINE.stack(x)), spread(MACHINE.stack(t)),
              {n: spread(c) for n, c in cotangent.items()})  # fmt: skip
    count, wrong = 0, []
    for name, (y, tangent, inside, product) in got.items():
        for what, array, want in (
            ("value", y, value[name]),
            ("jvp", tangent, push[name]),
            ("inside", inside, value[name]),
            ("vjp", product, np.sum(cotangent[name] * push[name])),
        ):
            for shard in array.addressable_shards:
                count += 1
                here, there = np.asarray(shard.data), np.asarray(want)[shard.index]
                rounding = (1e-4, 1e-2) if what == "vjp" else (1e-5, 1e-5)
                if here.shape != there.shape or not np.allclose(here, there, *rounding):
                    wrong.append(f"{name}, {context_name}: {what} on {shard.device}")
    return count, wrong


def main() -> None:
    """Run the table and print how much was right."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contexts", choices=("one", "all"), default="one")
    options = parser.parse_args()
    weft.distributed.initialize()
    assert weft.device_count() == 8, weft.device_count()
    cases, shards, wrong = 0, 0, []
    for seed, begin in enumerate(range(0, len(CASES), TOGETHER)):
        group = CASES[begin : begin + TOGETHER]
        # Of one context each: the next for the next group.
        names = OVER_ALL if options.contexts == "all" else [OVER_ALL[seed % len(OVER_ALL)]]
        for name in names:
            count, faults = compare(group, name, seed)
            cases, shards, wrong = cases + len(group), shards + count, wrong + faults
    for line in wrong:
        print("WRONG", line, flush=True)
    print(f"COMPARED {cases} cases, {shards} shards here, {len(wrong)} wrong", flush=True)
    weft.distributed.shutdown()
    os._exit(bool(wrong))  # without waiting for XLA's threads


if __name__ == "__main__":
    main()
