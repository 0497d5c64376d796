# Tests: tests/checkpoints/test_checkpoints.py
"""The layout of a checkpoint on disk: a manifest, and a Zarr v3 array in a folder for each leaf.

    <checkpoint>/manifest.json       names, shapes, dtypes, values that are no arrays, a digest
    <checkpoint>/arrays/<number>/    zarr.json and chunks, each with its CRC-32C

Chunks are the shards that were saved, or equal parts of them: each process writes whole chunks.
A folder without a manifest is not a checkpoint: the manifest is written last, before the folder
takes its name.

Source: the Zarr v3 specification (codecs `bytes` and `crc32c`), written and read by TensorStore.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.core.errors import has_page
from weft.tree_util import KeyPath, keystr

FORMAT = "weft-checkpoint"
VERSION = 1
MANIFEST = "manifest.json"
IN_FLIGHT_BYTES = 256 << 20
"""So much is read or written at the same time."""
CHUNK_BYTES = 64 << 20
"""Shards above this size are written as several chunks, so that a part can be read alone."""


@has_page("weft.checkpoints")
class CheckpointError(ValueError):
    """A checkpoint is damaged, foreign or does not fit; the text names the array and the file."""


def tensorstore() -> Any:
    """Return the module `tensorstore`, which an extra installs."""
    try:
        import tensorstore as ts  # type: ignore[import-untyped, import-not-found]
    except ImportError:
        raise ImportError(
            "weft.checkpoints needs TensorStore: pip install 'weft[checkpoints]'"
        ) from None
    return ts


def array_folder(root: Path, number: int) -> Path:
    """Return the folder of the array with this number in the manifest."""
    return root / "arrays" / str(number)


def spec(folder: Path) -> dict[str, Any]:
    """Return the part of a TensorStore spec that says where an array is."""
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder)}}


def chunk_shape(shard: Sequence[int], itemsize: int) -> list[int]:
    """Return a shape that cuts a shard into equal chunks of CHUNK_BYTES at most, if sizes allow."""
    chunk = [max(1, n) for n in shard]
    while math.prod(chunk) * itemsize > CHUNK_BYTES:
        largest = max(range(len(chunk)), key=chunk.__getitem__)
        divisor = next((d for d in (2, 3, 5, 7) if chunk[largest] % d == 0), None)
        if divisor is None:
            break
        chunk[largest] //= divisor
    return chunk


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Saved:
    """Collects what one checkpoint holds, and writes its metadata in weft's own layout."""

    partial = ".partial"
    """The suffix of a folder that is not whole."""
    item = ""
    """The folder, in a Manager's step, that holds the tree."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.values: dict[str, Any] = {}

    @staticmethod
    def is_leaf(node: object) -> bool:
        """Return whether a node of the tree is saved though it has no leaves."""
        return node is None

    def add_value(self, key_path: KeyPath, leaf: object) -> bool:
        """Keep a leaf that the metadata holds; return whether it does."""
        held = leaf is None or isinstance(leaf, bool | int | float | str)
        if held:
            self.values[keystr(key_path)] = leaf
        return held

    def add_array(self, key_path: KeyPath, leaf: object, entry: dict[str, Any]) -> None:
        """Keep what the metadata says of an array."""
        self.arrays[keystr(key_path)] = {"number": len(self.arrays), **entry}

    def folders(self, root: Path) -> list[Path]:
        """Return the arrays' folders below the one that becomes the checkpoint."""
        return [array_folder(root, entry["number"]) for entry in self.arrays.values()]

    def write(self, root: Path) -> None:
        """Write the manifest, and make it and the folders that lead to it durable."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "arrays": self.arrays,
            "values": self.values,
        }
        write_json(root / MANIFEST, {**content, "digest": _digest(content)}, indent=1)
        sync_folder(root)


def write_json(path: Path, content: object, indent: int | None = None) -> None:
    """Write a file and make its content durable."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=indent)
        file.flush()
        os.fsync(file.fileno())


def read_manifest(root: Path) -> dict[str, Any]:
    """Return the manifest of a checkpoint.

    Raises:
      FileNotFoundError: there is no checkpoint.
      CheckpointError: its manifest is damaged, or of another program or version.
    """
    path = root / MANIFEST
    if not path.exists():
        problem = (
            "is no checkpoint (it has no manifest.json)" if root.exists() else "does not exist"
        )
        raise FileNotFoundError(f"restore: {root} {problem}")
    try:
        content = json.loads(path.read_text("utf-8"))
        digest = content.pop("digest")
        arrays, values = content["arrays"], content["values"]
        known, version = content["format"] == FORMAT, content["version"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"restore: {path} is damaged or foreign ({error}); "
            "restore another step, or delete this folder"
        ) from None
    if not known or version != VERSION:
        raise CheckpointError(
            f"restore: {path} is of format {content['format']!r}, version {version}; "
            f"this weft reads {FORMAT!r}, version {VERSION}"
        )
    if _digest(content) != digest:
        raise CheckpointError(
            f"restore: {path} is damaged (its digest does not fit); "
            "restore another step, or delete this folder"
        )
    return {"arrays": arrays, "values": values}


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def in_flight(futures: Iterable[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    """Yield pairs of a future and its bytes in order, with later ones begun in the meantime."""
    begun: deque[tuple[Any, int]] = deque()
    total = 0
    for pair in futures:
        begun.append(pair)
        total += pair[1]
        while total > IN_FLIGHT_BYTES and len(begun) > 1:
            total -= begun[0][1]
            yield begun.popleft()
    yield from begun


def files_under(folder: Path) -> Iterator[Path]:
    """Return every file below a folder."""
    for base, _, names in os.walk(folder):
        for name in names:
            yield Path(base, name)
