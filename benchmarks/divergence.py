"""The cost of comparing programs between processes, before each runs for the first time.

    weft launch -n 4 --devices-per-process 1 -m benchmarks.divergence [--held-out]

Each program is called for the first time twice, with a constant of its own: compared, and with the
comparison switched off, in turns. All processes begin a call together. The figures are medians over
programs: of the differences of elapsed and CPU time, and of the time spent in the comparison: that
of the caller, with what it waits for other processes, and the CPU time of it and of the thread that
compares. The sum of elapsed time and of that thread's CPU time is the most that a program pays; the
differences say anything on an idle machine only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import P, lax
from weft.runtime import divergence

FAMILIES: dict[str, Callable[[Any, float], Any]] = {
    "a sum": lambda x, c: lax.psum(x * c, "x"),
    "a maximum": lambda x, c: lax.pmax(wnp.sin(x) + c, "x"),
    "a shift": lambda x, c: lax.ppermute(x - c, "x", [(i, (i + 1) % 4) for i in range(4)]),
    "softmax": lambda x, c: lax.psum(weft.nn.softmax(x * c), "x"),
    "a loop": lambda x, c: lax.fori_loop(0, 4, lambda _, v: lax.psum(v, "x") * 0 + v + c, x),
    "a gradient": lambda x, c: weft.grad(lambda v: lax.psum(wnp.tanh(v * c), "x").sum())(x),
    "twenty steps": lambda x, c: _repeat(x, c, 20),
    "sixty steps": lambda x, c: _repeat(x, c, 60),
    "a product": lambda x, c: lax.psum(x @ (x.T * c), "x"),
    "a gather": lambda x, c: lax.all_gather(x + c, "x"),
}
HELD_OUT: dict[str, Callable[[Any, float], Any]] = {
    "a scatter": lambda x, c: lax.psum_scatter(wnp.concatenate([x * c] * 2), "x", tiled=True),
    "an exchange": lambda x, c: lax.all_to_all(wnp.concatenate([x + c] * 2), "x", 0, 0, tiled=True),
    "an average": lambda x, c: lax.pmean(wnp.exp(x * c), "x"),
    "layer norm": lambda x, c: lax.psum((x - x.mean(1, keepdims=True)) / (x.std() + c), "x"),
    "a scan": lambda x, c: lax.scan(lambda s, v: (s + v * c, s), lax.psum(x[0], "x") + x[0], x)[1],
    "a branch": lambda x, c: lax.cond(lax.psum(x.sum(), "x") > c, lambda v: v + 1, wnp.sin, x),
    "sorted": lambda x, c: lax.pmin(wnp.sort(x * c), "x"),
    "a hessian": lambda x, c: weft.hessian(lambda v: lax.psum((v * v * c).sum(), "x"))(x[0, :2]),
    "a while": lambda x, c: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * c), (0, lax.psum(x, "x"))
    )[1],
    "a hundred steps": lambda x, c: _repeat(x, c, 100),
}


def _repeat(x: Any, c: float, count: int) -> Any:
    for i in range(count):
        x = wnp.sin(x) * (c + i)
    return lax.psum(x, "x")


def main() -> None:
    """Print the medians, by process 0."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--held-out", action="store_true", help="the programs nobody tuned for")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    weft.distributed.initialize()
    count = weft.process_count()
    mesh = weft.make_mesh((count,), ("x",))
    split = weft.NamedSharding(mesh, P("x"))
    x = weft.make_array_from_callback(
        (2 * count, 8), split, lambda index: np.ones((2 * count, 8), np.float32)[index]
    )

    def over_all(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return weft.jit(weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"),
                                       check_vma=False))  # fmt: skip

    meet = over_all(lambda v: lax.psum(v[:1], "x"))
    publish = divergence.publish_program
    compare_programs = divergence._Comparison.run
    spent = {"publish": 0.0, "check": 0.0, "CPU": 0.0}
    helper: list[float] = []

    def timed(*args: Any) -> Any:
        begin, cpu = time.perf_counter(), time.thread_time()
        check = publish(*args)
        spent["publish"] += time.perf_counter() - begin
        spent["CPU"] += time.thread_time() - cpu

        def timed_check() -> str:
            begin, cpu = time.perf_counter(), time.thread_time()
            label = check()
            spent["check"] += time.perf_counter() - begin
            spent["CPU"] += time.thread_time() - cpu
            return label

        return timed_check

    def timed_comparison(comparison: Any) -> None:
        begin = time.thread_time()
        compare_programs(comparison)
        helper.append(time.thread_time() - begin)

    divergence._Comparison.run = timed_comparison  # type: ignore[method-assign]

    def first_call(
        body: Callable[[Any, float], Any], constant: float, compare: bool
    ) -> list[float]:
        divergence.publish_program = timed if compare else lambda name, *_: lambda: name
        f = over_all(lambda v: body(v, constant))
        spent.update(dict.fromkeys(spent, 0.0))
        for _ in range(3):
            meet(x).block_until_ready()
        begin, cpu = time.perf_counter(), time.process_time()
        f(x).block_until_ready()
        return [time.perf_counter() - begin, time.process_time() - cpu, *spent.values()]

    rows = []
    number = 0
    for i in range(options.rounds + 1):
        if i == 1:
            helper.clear()
        for body in (HELD_OUT if options.held_out else FAMILIES).values():
            pair = {}
            for compare in (True, False) if number % 2 else (False, True):
                pair[compare] = first_call(body, 1.0 + 2**-12 * (number := number + 1), compare)
            number += i % 2  # whose turn is first changes from round to round
            if i:  # the first round loads what the programs need
                rows.append((pair[True], pair[False]))
    divergence.publish_program = publish
    if weft.process_index() == 0:
        load = os.getloadavg()[0]
        print(f"{len(rows)} programs, {count} processes, load {load:.1f}, in milliseconds:")
        for at, name in enumerate(("elapsed", "CPU of process 0")):
            on, off = ([1e3 * pair[k][at] for pair in rows] for k in (0, 1))
            more = statistics.median(a - b for a, b in zip(on, off, strict=True))
            print(f"  {name}: {statistics.median(on):.2f} compared, {statistics.median(off):.2f} "
                  f"not, median difference {more:.2f}")  # fmt: skip
        names = ("elapsed, before compiling", "elapsed, after it", "CPU of the caller")
        spans = {name: [a[at] for a, _ in rows] for at, name in enumerate(names, 2)}
        for name, seconds in {**spans, "CPU of the comparing thread": helper}.items():
            print(f"  in the comparison, {name}: {1e3 * statistics.median(seconds):.3f}")
    weft.distributed.shutdown()


if __name__ == "__main__":
    main()
