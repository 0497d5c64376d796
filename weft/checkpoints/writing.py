# Tests: tests/checkpoints/test_checkpoints.py
"""Saving: shards are copied to the host, written as chunks, and committed by a rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import weft
import weft.checkpoints.layout as layout
import weft.checkpoints.orbax as orbax
from weft.core.dtypes import is_extended
from weft.runtime import backend
from weft.runtime.meeting import meet

_BARRIER_SECONDS = 600
_barriers = 0


def save(path: str | os.PathLike, tree: object, *, layout: str = "weft") -> None:
    """Write a pytree of arrays, and of numbers, strings and None, to a new folder.

    Every process calls it with the same path, on a disk that all of them see; each writes the
    shards of its own devices, one copy of each. Until all is written and durable nothing stands
    at `path`: a process that dies leaves no half a checkpoint.

    Args:
      path: the folder to make; its parents are made, too.
      tree: arrays of any sharding, NumPy arrays, keys of `weft.random`, and values of JSON.
      layout: "weft", or "orbax" for a checkpoint that Orbax restores too (its PyTree layout with
        Zarr v3).

    Raises:
      ValueError: layout is neither, or two leaves would have one name in Orbax's layout.
      FileExistsError: there is something at `path` already.
      TypeError: a leaf is none of these; the message names it.
      ImportError: TensorStore is not installed.

    Example:
        >>> import tempfile, weft
        >>> folder = tempfile.mkdtemp() + "/step"
        >>> weft.checkpoints.save(folder, {"w": weft.numpy.arange(3), "step": 7})
        >>> weft.checkpoints.restore(folder)
        {"['w']": array([0, 1, 2], dtype=int32), "['step']": 7}
    """
    prepare(Path(path), tree, copy=False, layout_name=layout)()


def check_layout(function: str, name: str) -> None:
    """Raise ValueError unless checkpoints have a layout of this name."""
    if name not in ("weft", "orbax"):
        raise ValueError(f"{function}: layout must be 'weft' or 'orbax', got {name!r}")


def prepare(
    path: Path,
    tree: object,
    progress: Callable[[int], None] = lambda size: None,
    *,
    copy: bool = True,
    layout_name: str = "weft",
    is_step: bool = False,
) -> Callable:
    """Bring a tree to the host; the result writes and commits it, on any thread.

    progress: is called with the number of bytes that were written since the last call.
    copy: the program may change or donate the arrays before they are written.
    is_step: the checkpoint is a step of a Manager.
    """
    check_layout("save", layout_name)
    ts = layout.tensorstore()
    if path.exists():
        raise FileExistsError(
            f"save: {path} exists; save to another folder (a Manager makes one for each step)"
        )
    saved: layout.Saved = orbax.Saved() if layout_name == "orbax" else layout.Saved()
    entries: list[dict[str, Any]] = []
    shards: list[list[tuple[tuple, np.ndarray]]] = []
    # Values are copied now, as the caller may donate or change them before they are written.
    for key_path, leaf in weft.tree.leaves_with_path(tree, is_leaf=saved.is_leaf):
        if saved.add_value(key_path, leaf):
            continue
        entry, parts = _snapshot(weft.tree_util.keystr(key_path), leaf, copy)
        saved.add_array(key_path, leaf, entry)
        entries.append(entry)
        shards.append(parts)
    # A folder of another name until all is written: a checkpoint is whole or not there.
    partial = path.with_name(path.name + saved.partial)
    root = partial / saved.item if is_step else partial
    folders = saved.folders(root)
    tag = _next_barrier()

    def write() -> None:
        first = backend.process_index() == 0
        # Left over from a run that was stopped.
        if first:
            shutil.rmtree(partial, ignore_errors=True)
            root.mkdir(parents=True)
        _barrier(f"{tag}/made")
        # Metadata is written by one process, and read by the others with the barrier between.
        if first:
            for folder, entry in zip(folders, entries, strict=True):
                _create(ts, folder, entry)
        _barrier(f"{tag}/created")
        for done, size in layout.in_flight(_writes(ts, folders, shards)):
            done.result()
            progress(size)
        _barrier(f"{tag}/written")
        if first:
            saved.write(root)
            os.rename(partial, path)
            layout.sync_folder(path.parent)
        _barrier(f"{tag}/committed")

    return write


def _writes(ts: Any, folders: list[Path], shards: list[list]) -> Iterator[tuple[Any, int]]:
    """Begin to write each shard; yields its future and its size in bytes."""
    for folder, parts in zip(folders, shards, strict=True):
        if not parts:
            continue
        # Chunks of zeros are written too: one that is missing is then known to be lost.
        spec = layout.spec(folder)
        store = ts.open({**spec, "store_data_equal_to_fill_value": True}).result()
        for index, data in parts:
            # Nobody changes the data before it is written: TensorStore need not copy it.
            yield store[index].write(data, can_reference_source_data_indefinitely=True), data.nbytes


def _snapshot(
    name: str, leaf: object, copy: bool
) -> tuple[dict[str, Any], list[tuple[tuple, np.ndarray]]]:
    """Return the manifest's entry of an array, and the shards that this process writes."""
    entry: dict[str, Any] = {}
    if is_extended(getattr(leaf, "dtype", None)):
        entry["key"] = str(weft.random.key_impl(leaf))
        leaf = weft.random.key_data(leaf)
    if isinstance(leaf, weft.Array):
        shards = [s for s in leaf.addressable_shards if s.replica_id == 0]
        parts = [(tuple(s.index), np.array(s.data, copy=copy or None)) for s in shards]
        shard = leaf.sharding.shard_shape(leaf.shape)
    elif isinstance(leaf, np.ndarray | np.generic | bool | int | float):
        leaf = np.asarray(leaf)
        parts = [((), np.array(leaf, copy=copy or None))] if backend.process_index() == 0 else []
        shard = leaf.shape
    else:
        raise TypeError(
            f"save: {name} is of type {type(leaf).__name__}; a checkpoint holds arrays, numbers, "
            "strings and None"
        )
    dtype = np.dtype(leaf.dtype)
    if dtype.kind in "OUSV" and not dtype.name.startswith(("float", "int", "uint", "bfloat")):
        raise TypeError(f"save: {name} is an array of dtype {dtype}, which is no dtype of weft")
    entry |= {
        "shape": list(leaf.shape),
        "dtype": dtype.name,
        "chunk": layout.chunk_shape(shard, dtype.itemsize),
    }
    return entry, parts


def _create(ts: Any, folder: Path, entry: dict[str, Any]) -> None:
    metadata = {
        "shape": entry["shape"],
        "data_type": entry["dtype"],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": entry["chunk"]}},
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "crc32c"},
        ],
    }
    ts.open({**layout.spec(folder), "metadata": metadata, "create": True}).result()


def _next_barrier() -> int:
    global _barriers
    _barriers += 1
    return _barriers


def _barrier(name: str) -> None:
    """Wait for all processes; there is nothing to wait for in one."""
    client = backend.distributed_state["client"]
    if client is not None:
        count = backend.distributed_state["num_processes"]
        meet(client, f"weft/checkpoint/{name}", count, _BARRIER_SECONDS)
