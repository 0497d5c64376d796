"""Checkpoints beside raw files of the same bytes: what saving and restoring cost.

    python -m benchmarks.checkpoints --megabytes 1024 --rounds 5 [--layout orbax]

Raw is one file for each array, written from memory, made durable, and read into new arrays. Rounds
take turns; the figures are medians of seconds, and of the ratio within a round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import weft

ARRAYS = 16


def seconds(run: Callable[[], object]) -> float:
    """Time one run on the clock."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def write_raw(folder: Path, tree: dict[str, weft.Array]) -> None:
    """Write every array to a file of its own, and wait until it is durable."""
    folder.mkdir()
    for name, x in tree.items():
        with open(folder / name, "wb", buffering=0) as file:
            file.write(memoryview(np.asarray(x)).cast("B"))
            os.fsync(file.fileno())


def read_raw(folder: Path, tree: dict[str, weft.Array]) -> dict[str, weft.Array]:
    """Read every file to an array on the device."""
    found = {n: np.fromfile(folder / n, x.dtype).reshape(x.shape) for n, x in tree.items()}
    return weft.block_until_ready(weft.device_put(found))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layout", choices=("weft", "orbax"), default="weft")
    parser.add_argument("--folder", help="on the disk to measure; a temporary one unless given")
    options = parser.parse_args()
    size = (options.megabytes << 20) // ARRAYS // 4
    keys = weft.random.split(weft.random.key(0), ARRAYS)
    tree = {f"w{i}": weft.random.normal(k, (size // 1024, 1024)) for i, k in enumerate(keys)}
    weft.block_until_ready(tree)
    root = Path(tempfile.mkdtemp(dir=options.folder))
    columns: dict[str, list[float]] = {n: [] for n in ("raw write", "save", "raw read", "restore")}
    try:
        for i in range(options.rounds + 1):
            raw, own = root / f"raw{i}", root / f"own{i}"
            row = [
                seconds(lambda raw=raw: write_raw(raw, tree)),
                seconds(lambda own=own: weft.checkpoints.save(own, tree, layout=options.layout)),
                seconds(lambda raw=raw: read_raw(raw, tree)),
                seconds(
                    lambda own=own: weft.block_until_ready(weft.checkpoints.restore(own, tree))
                ),
            ]
            if i:  # the first round sets up threads and memory
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
            shutil.rmtree(raw)
            shutil.rmtree(own)
    finally:
        shutil.rmtree(root)
    for name, column in columns.items():
        print(f"{name:10} {statistics.median(column):6.2f} s")
    for name, base in (("save", "raw write"), ("restore", "raw read")):
        ratios = [a / b for a, b in zip(columns[name], columns[base], strict=True)]
        print(f"{name} ÷ {base}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
