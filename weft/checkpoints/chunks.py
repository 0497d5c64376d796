# Tests: tests/checkpoints/test_checkpoints.py
"""Reading the chunks of a checkpoint's arrays straight into memory.

TensorStore takes three times as long as reading the file itself (0.1.78, from the page cache), so
weft's own layout is read here: a chunk is its elements in order, and their CRC-32C.

Source: the Zarr v3 specification, section "Chunk grids", and its codecs `bytes` and `crc32c`.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from weft.checkpoints.layout import in_flight

_ALIGNMENT = 64
"""Bytes to which XLA's arrays are aligned: what lies so is placed on the CPU without a copy."""
THREADS = 4


class Damage(ValueError):
    """A file does not hold what the manifest says; the text names it."""


def crc32c() -> Callable[[Any], int]:
    """Return the function that computes CRC-32C, which an extra installs."""
    try:
        from crc32c import crc32c as compute  # type: ignore[import-not-found]
    except ImportError:
        raise ImportError(
            "weft.checkpoints needs crc32c: pip install 'weft[checkpoints]'"
        ) from None
    return compute


def check_metadata(folder: Path, entry: dict[str, Any]) -> None:
    """Raise Damage if an array's own metadata is not what the manifest says of it."""
    file = folder / "zarr.json"
    try:
        metadata = json.loads(file.read_text("utf-8"))
        grid = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        stored = (
            metadata["shape"],
            metadata["data_type"],
            grid,
            [c["name"] for c in metadata["codecs"]],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damage(f"{file} cannot be read ({error!r:.200})") from None
    asked = entry["shape"], entry["dtype"], entry["chunk"], ["bytes", "crc32c"]
    if stored != asked:
        raise Damage(f"{file} says {stored}, the manifest {asked}")


def read_part(folder: Path, entry: dict[str, Any], index: tuple[slice, ...]) -> np.ndarray:
    """Read the part of an array at `index`, slices of all its dimensions.

    Raises:
      Damage: a chunk is missing, cut short, or does not match its checksum.
    """
    dtype, chunk = np.dtype(entry["dtype"]), entry["chunk"]
    bounds = [s.indices(n)[:2] for s, n in zip(index, entry["shape"], strict=True)]
    out = _aligned([stop - start for start, stop in bounds], dtype)
    if out.size == 0:
        return out
    for numbers in _overlapping(bounds, chunk):
        file = folder.joinpath("c", *map(str, numbers))
        lowest = [n * c for n, c in zip(numbers, chunk, strict=True)]
        if out.shape == tuple(chunk) and lowest == [start for start, _ in bounds]:
            _read_chunk(file, out)
            continue
        whole = np.empty(chunk, dtype)
        _read_chunk(file, whole)
        source, target = [], []
        for low, size, (start, stop) in zip(lowest, chunk, bounds, strict=True):
            first, last = max(low, start), min(low + size, stop)
            source.append(slice(first - low, last - low))
            target.append(slice(first - start, last - start))
        out[tuple(target)] = whole[tuple(source)]
    return out


def _aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _overlapping(bounds: list[tuple[int, int]], chunk: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of the chunks that a part overlaps."""
    return itertools.product(
        *(range(a // c, -(-b // c)) for (a, b), c in zip(bounds, chunk, strict=True))
    )


def _read_chunk(file: Path, out: np.ndarray) -> None:
    """Fill an array with a chunk, and compare its checksum."""
    content = out.reshape(-1).view(np.uint8).data
    try:
        with open(file, "rb", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != len(content) + 4:
                raise Damage(f"its chunk {file} has {size} bytes, not {len(content) + 4}")
            done = 0
            while done < len(content):
                read = stream.readinto(content[done:])
                if not read:
                    raise Damage(f"its chunk {file} ends early")
                done += read
            stored = int.from_bytes(stream.read(4), "little")
    except FileNotFoundError:
        raise Damage(f"its chunk {file} is missing") from None
    if crc32c()(content) != stored:
        raise Damage(f"its chunk {file} does not match its CRC-32C")


def read_all(tasks: Iterator[tuple[Callable[[], Any], int]]) -> Iterator[Any]:
    """Run tasks, each with the bytes that it reads, on some threads; yield results in order."""
    with ThreadPoolExecutor(THREADS, "weft checkpoint") as pool:
        futures: Iterator[tuple[Future, int]] = ((pool.submit(run), size) for run, size in tasks)
        for future, _ in in_flight(futures):
            yield future.result()
