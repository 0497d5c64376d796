"""`python -m benchmarks.partition_corpus`: weft's partitioner against XLA's on the whole corpus.

Both get the same lowered module. Bytes are counted in the optimized HLO of both, loops multiplied
by their trip counts. Times are CPU time of this process.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")

MARKERS = ("<!-- corpus: written by benchmarks.partition_corpus -->", "<!-- end of corpus -->")


@dataclass(frozen=True, slots=True)
class Row:
    """One program with one layout."""

    name: str
    mesh: str
    ours: int
    theirs: int
    partition: float
    compile: float
    fell_back: bool

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.theirs else float(self.ours > 0) or 1.0


def measure(pattern: str = "", every: bool = True) -> Iterator[Row]:
    """Compiles every program of the corpus with both partitioners."""
    import weft
    from benchmarks.hlo_bytes import count_bytes
    from tests.partition import corpus
    from weft._xla import mlir
    from weft.partition import partition

    for case in corpus.cases(every):
        if pattern not in case.name:
            continue
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            lowered = case.function(weft, partitioner="auto").lower(*case.args)
        fell_back = any("partitioned by XLA" in str(w.message) for w in said)
        with mlir.context(), mlir.unknown_location():
            began = time.process_time()
            if not fell_back:
                partition(lowered._program.module, keep_stages=False)
            seconds = time.process_time() - began
        began = time.process_time()
        ours = lowered.compile().as_text()
        compiled = time.process_time() - began
        lowered = case.function(weft, partitioner="auto").lower(*case.args)
        lowered._program.stages = None  # the same module, to XLA
        theirs = lowered.compile().as_text()
        mesh = " × ".join(f"{k}={v}" for k, v in case.sizes.items())
        sent = (sum(count_bytes(text).values()) for text in (ours, theirs))
        yield Row(case.name, mesh, *sent, seconds, compiled, fell_back)


def scaling(shapes: tuple[tuple[int, int], ...] = ((4, 2), (1024, 4))) -> list[float]:
    """CPU seconds to partition and cost a GPT's training step on abstract meshes."""
    import numpy as np

    import weft
    from benchmarks import gpt, training
    from weft._xla import mlir
    from weft.partition import partition
    from weft.partition.report.communication import report

    out = []
    for shape in shapes:
        mesh = weft.sharding.AbstractMesh(shape, ("data", "model"), (weft.AxisType.Auto,) * 2)
        small = training.SIZES
        sizes = gpt.Sizes(
            layers=small.layers,
            width=small.width,
            heads=small.heads,
            length=small.length,
            batch=2 * shape[0],
            vocabulary=small.vocabulary,
        )
        _, loss = gpt.make_model(weft, sizes, scan=False)
        start, step = gpt.make_step(weft, loss)
        params = gpt.parameters(sizes, stacked=False)
        place = lambda spec, mesh=mesh: weft.NamedSharding(mesh, spec)
        specs = training.parameter_specs(weft, params)
        each = weft.tree.map(place, specs, is_leaf=lambda leaf: isinstance(leaf, weft.P))
        layout = {"params": each, "first": each, "second": each, "count": place(weft.P())}

        def typed(x, sharding):
            return weft.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=sharding)

        state = weft.tree.map(typed, start(params), layout)
        rows = place(weft.P("data"))
        data = weft.tree.map(lambda x, rows=rows: typed(x, rows), gpt.batch(sizes))
        step = weft.jit(step, out_shardings=(layout, place(weft.P())))
        module = step.lower(state, *data)._program.module
        times = []
        for _ in range(3):
            with mlir.context(), mlir.unknown_location():
                began = time.process_time()
                report(partition(module, keep_stages=False))
                times.append(time.process_time() - began)
        out.append(min(times))
    return out


def summary(rows: list[Row], sizes: list[float]) -> list[str]:
    """The figures that have targets, one a line."""
    worse = [r for r in rows if r.ratio > 1]
    less = [r for r in rows if r.ratio < 0.9]
    n = len(rows)
    partition, compiled = sum(r.partition for r in rows), sum(r.compile for r in rows)
    return [
        f"{n} cases of {len({r.name.rpartition('-')[0] for r in rows})} programs",
        f"bytes sent, weft ÷ XLA: below 0.9 in {len(less)} ({len(less) / n:.0%}), "
        f"at most 1.0 in {n - len(worse)} ({1 - len(worse) / n:.1%}), "
        f"in sum {sum(r.ours for r in rows) / sum(r.theirs for r in rows):.2f}",
        f"cases that need XLA's partitioner: {sum(r.fell_back for r in rows)}",
        f"partitioning ÷ compiling, CPU time: {partition / compiled:.1%}",
        f"partition and cost a GPT's step, 4096 devices ÷ 8: {sizes[1] / sizes[0]:.2f} "
        f"({sizes[1] * 1e3:.0f} ms ÷ {sizes[0] * 1e3:.0f} ms)",
    ]


def markdown(rows: list[Row], lines: list[str]) -> str:
    """The summary, and each program's bytes with its layouts added up."""
    programs: dict[str, list[Row]] = {}
    for r in rows:
        programs.setdefault(r.name.rpartition("-")[0], []).append(r)
    table = [
        "| program | layouts | weft, B | XLA, B | ratio | largest |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, group in sorted(programs.items()):
        ours, theirs = sum(r.ours for r in group), sum(r.theirs for r in group)
        ratio = f"{ours / theirs:.2f}" if theirs else "–"
        most = max(r.ratio for r in group)
        table.append(
            f"| {name.replace('_', ' ')} | {len(group)} | {ours} | {theirs} | {ratio} |"
            f" {most:.2f} |"
        )
    return "\n".join([*(f"- {line}" for line in lines), "", *table])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partition_corpus")
    parser.add_argument("pattern", nargs="?", default="", help="part of the programs' names")
    parser.add_argument("--quick", action="store_true", help="one layout for each program")
    parser.add_argument("--write", type=Path, help="also write the table into this page")
    options = parser.parse_args()
    rows = []
    for row in measure(options.pattern, every=not options.quick):
        rows.append(row)
        flag = "  more than XLA" if row.ratio > 1 else ""
        print(f"{row.name:36} {row.mesh:24} {row.ours:8} {row.theirs:8} {row.ratio:5.2f}{flag}")
        sys.stdout.flush()
    lines = summary(rows, scaling())
    print("\n".join(lines))
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        before, _, rest = text.partition(MARKERS[0])
        after = rest.partition(MARKERS[1])[2]
        body = f"{before}{MARKERS[0]}\n{markdown(rows, lines)}\n{MARKERS[1]}{after}"
        options.write.write_text(body, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
