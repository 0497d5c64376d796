"""Saving a pytree of arrays so that a killed run goes on where it was.

`save` and `load` keep a state in one file. `save_shards` and `load_shards` keep it in a folder,
where each process writes and reads only the parts of its own devices: no array is ever whole
anywhere, and what is loaded may be split over another mesh than what was saved.
"""

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import weft


def save(path: Path, state: Any) -> None:
    """Writes the leaves to a file that is either the old or the new one, whole, at every moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [weft.tree_util.keystr(p) for p, _ in weft.tree.leaves_with_path(state)]
    arrays = dict(zip(names, weft.device_get(weft.tree.leaves(state)), strict=True))
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load(path: Path, like: Any) -> Any:
    """The saved arrays in the structure, and with the shardings, of `like`.

    Raises ValueError for a file that is damaged, or of another model.
    """
    names = [weft.tree_util.keystr(p) for p, _ in weft.tree.leaves_with_path(like)]
    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()  # all checksums, before anything is believed
        if damaged:
            raise zipfile.BadZipFile(f"{damaged} has another checksum")
        with np.load(path) as file:
            values = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{path} is damaged: {error}. Put a copy in its place, or remove it to start anew"
        ) from error

    def restore(x: Any, name: str) -> Any:
        value = values.get(name)
        if value is None or value.shape != x.shape or value.dtype != x.dtype:
            found = "not there" if value is None else f"{value.dtype}{value.shape}"
            raise ValueError(
                f"{path}: {name} is {found}, the model has {x.dtype}{x.shape}; remove the file, or "
                "use the sizes it was made with"
            )
        return weft.device_put(value, x.sharding)

    return weft.tree.map(restore, like, weft.tree.unflatten(weft.tree.structure(like), names))


def save_shards(folder: Path, state: Any) -> None:
    """Writes each array's parts as files of raw bytes, copies of a part once.

    Every process calls it with the same folder, new and on a disk that all of them see. An index
    file for each process, written last, says where a part belongs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    process = weft.process_index()
    index = {}
    for number, (path, x) in enumerate(weft.tree.leaves_with_path(state)):
        parts = []
        for shard in x.addressable_shards:
            if shard.replica_id != 0:
                continue
            name = f"{number}-{process}-{len(parts)}.bin"
            np.asarray(shard.data).tofile(folder / name)
            parts.append({"file": name, "place": _place(shard.index, x.shape)})
        index[weft.tree_util.keystr(path)] = {
            "shape": list(x.shape),
            "dtype": str(x.dtype),
            "parts": parts,
        }
    temporary = folder / f"index-{process}.tmp"
    temporary.write_text(json.dumps(index))
    temporary.replace(folder / f"index-{process}.json")


def load_shards(folder: Path, like: Any) -> Any:
    """The saved state in the structure and with the shardings of `like`: arrays or their types.

    A device's part is put together from the saved parts that overlap it, read through memory maps.
    """
    indices = [json.loads(f.read_text()) for f in sorted(folder.glob("index-*.json"))]
    if not indices:
        raise ValueError(f"{folder} holds no saved state: it has no index")

    def restore(path: tuple, x: Any) -> Any:
        name = weft.tree_util.keystr(path)
        saved = indices[0].get(name)
        if saved is None or tuple(saved["shape"]) != x.shape or saved["dtype"] != str(x.dtype):
            found = f"{saved['dtype']}{tuple(saved['shape'])}" if saved else "not there"
            raise ValueError(f"{folder}: {name} is {found}, asked for {x.dtype}{x.shape}")
        parts = [part for index in indices for part in index[name]["parts"]]

        def part_of(where: tuple[slice, ...]) -> np.ndarray:
            place = _place(where, x.shape)
            out = np.empty([stop - start for start, stop in place], x.dtype)
            filled = 0
            for part in parts:
                common = [
                    (max(a, c), min(b, d))
                    for (a, b), (c, d) in zip(place, part["place"], strict=True)
                ]
                if any(a >= b for a, b in common):
                    continue
                size = [b - a for a, b in part["place"]]
                stored = np.memmap(folder / part["file"], x.dtype, "r", shape=tuple(size) or (1,))
                into = tuple(
                    slice(a - s, b - s) for (a, b), (s, _) in zip(common, place, strict=True)
                )
                from_ = tuple(
                    slice(a - s, b - s)
                    for (a, b), (s, _) in zip(common, part["place"], strict=True)
                )
                out[into] = stored.reshape(size)[from_]
                filled += out[into].size
            if filled != out.size:
                raise ValueError(f"{folder}: parts of {name} are missing; a process did not save")
            return out

        return weft.make_array_from_callback(x.shape, x.sharding, part_of)

    return weft.tree.map_with_path(restore, like)


def _place(index: tuple[slice, ...], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Start and stop of a part in each dimension."""
    return [s.indices(size)[:2] for s, size in zip(index, shape, strict=True)]
