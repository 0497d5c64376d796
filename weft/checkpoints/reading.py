"""Restoring: each device's shard is read from the chunks that overlap it."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft.checkpoints import layout, orbax
from weft.core.dtypes import is_extended

if TYPE_CHECKING:
    from weft.driver.staging import ShapeDtypeStruct
    from weft.typing import ArrayLike


def restore(path: str | os.PathLike, like: object = None) -> Any:
    """Read a checkpoint that `save`, or Orbax, wrote.

    Args:
      path: the folder; of Orbax's, that of a checkpoint or of a CheckpointManager's step.
      like: the tree to read: arrays, or `weft.ShapeDtypeStruct`s with shardings. An array comes
        with the sharding and the dtype of its counterpart, on any mesh and any number of processes;
        a tree with fewer leaves reads only those. None: everything, as NumPy arrays by name.

    Returns:
      The tree, or with `like=None` a dict from names such as "['params']['w']" to values.

    Raises:
      FileNotFoundError: there is no checkpoint at `path`.
      CheckpointError: an array is missing, of another shape, or damaged; the message names it,
        the file and what to do.

    Example:
        >>> import tempfile, weft
        >>> folder = tempfile.mkdtemp() + "/step"
        >>> weft.checkpoints.save(folder, {"w": weft.numpy.arange(4.0), "lr": 0.1})
        >>> mesh = weft.make_mesh((2,), ("x",))
        >>> split = weft.NamedSharding(mesh, weft.P("x"))
        >>> like = {"w": weft.ShapeDtypeStruct((4,), "bfloat16", sharding=split), "lr": 0.0}
        >>> state = weft.checkpoints.restore(folder, like)
        >>> state["w"].dtype, state["w"].sharding.spec, state["lr"]
        (dtype(bfloat16), P('x'), 0.1)
    """
    root = Path(path)
    ts = layout.tensorstore()
    foreign = None if (root / layout.MANIFEST).exists() else orbax.find_checkpoint(root)
    root = foreign or root
    manifest = layout.read_manifest(root) if foreign is None else orbax.read_manifest(root)
    arrays, values = manifest["arrays"], manifest["values"]
    if like is None:
        found = {name: _whole(ts, root, name, entry) for name, entry in arrays.items()}
        return found | values

    def leaf(key_path: tuple, wanted: ArrayLike | str | ShapeDtypeStruct | None) -> Any:
        name = weft.tree_util.keystr(key_path)
        if name in values:
            return values[name]
        if name not in arrays:
            close = difflib.get_close_matches(name, [*arrays, *values], n=1)
            raise layout.CheckpointError(
                f"restore: {root} has no {name}"
                + (f"; it has {close[0]}" if close else f" among its {len(arrays)} arrays")
            )
        return _placed(ts, root, name, arrays[name], wanted)

    return weft.tree.map_with_path(leaf, like, is_leaf=lambda x: x is None)


def _open(ts: Any, root: Path, name: str, entry: dict[str, Any]) -> Any:
    folder = _folder(root, entry)
    place = entry.get("spec") or layout.spec(folder)
    try:
        store = ts.open({**place, "open": True}).result()
    except ValueError as error:
        raise _damaged(root, name, folder, error) from None
    if list(store.shape) != entry["shape"] or store.dtype.name != entry["dtype"]:
        raise _damaged(root, name, folder, f"it is {store.dtype.name}{list(store.shape)}")
    return store


def _folder(root: Path, entry: dict[str, Any]) -> Path:
    """Where an array is: the folder of its own that weft gives it, or the checkpoint."""
    return root if "spec" in entry else layout.array_folder(root, entry["number"])


def _damaged(root: Path, name: str, folder: Path, error: object) -> layout.CheckpointError:
    text = " ".join(str(error).split())[:300]
    return layout.CheckpointError(
        f"restore: {name} of {root} is damaged, in {folder}: {text}. Restore another step"
    )


def _read(
    ts: object, root: Path, name: str, entry: dict[str, Any], store: Any, index: tuple
) -> Any:
    """A part of an array. Chunks that are not there are lost, not zeros."""
    view = store[index] if index else store
    folder = _folder(root, entry)
    try:
        found = view.read().result()
    except ValueError as error:
        raise _damaged(root, name, folder, f"shard {_text(index)}: {error}") from None
    _check_chunks(root, name, entry, view, folder)
    return found


def _check_chunks(root: Path, name: str, entry: dict[str, Any], view: Any, folder: Path) -> None:
    if 0 in entry["shape"] or "spec" in entry:  # Orbax leaves out chunks that are zero
        return
    domain, chunk = view.domain, entry["chunk"]
    starts = [int(a) // c for a, c in zip(domain.inclusive_min, chunk, strict=True)]
    ends = [-(-int(b) // c) for b, c in zip(domain.exclusive_max, chunk, strict=True)]
    for offset in np.ndindex(*(b - a for a, b in zip(starts, ends, strict=True))):
        numbers = [str(a + o) for a, o in zip(starts, offset, strict=True)]
        file = folder.joinpath("c", *numbers)
        if not file.exists():
            raise _damaged(root, name, folder, f"its chunk {file} is missing")


def _text(index: tuple) -> str:
    return "whole" if not index else str(tuple(index))


def _whole(ts: object, root: Path, name: str, entry: dict[str, Any]) -> Any:
    value = _read(ts, root, name, entry, _open(ts, root, name, entry), ())
    if "key" in entry:
        return weft.random.wrap_key_data(value, impl=entry["key"])
    return value


def _placed(ts: object, root: Path, name: str, entry: dict[str, Any], wanted: object) -> Any:
    """An array with the sharding and dtype of its counterpart in the tree."""
    if "key" in entry:
        if not is_extended(getattr(wanted, "dtype", None)):
            raise layout.CheckpointError(f"restore: {name} of {root} holds keys; `like` has none")
        return _whole(ts, root, name, entry)
    shape = tuple(entry["shape"])
    own = getattr(wanted, "shape", ())
    if tuple(own) != shape:
        raise layout.CheckpointError(
            f"restore: {name} of {root} is {entry['dtype']}{list(shape)}, `like` has "
            f"{getattr(wanted, 'dtype', type(wanted).__name__)}{list(own)}"
        )
    dtype = np.dtype(getattr(wanted, "dtype", entry["dtype"]))
    store = _open(ts, root, name, entry)
    sharding = getattr(wanted, "sharding", None)
    if isinstance(wanted, np.ndarray | np.generic) or sharding is None:
        value = _read(ts, root, name, entry, store, ()).astype(dtype, copy=False)
        return value if isinstance(wanted, np.ndarray) else weft.numpy.asarray(value)
    read: dict[str, np.ndarray] = {}

    def part(index: tuple) -> np.ndarray:
        # Replicas of a shard on several devices are read once.
        key = repr(index)
        if key not in read:
            data = _read(ts, root, name, entry, store, index)
            read[key] = data.astype(dtype, copy=False)
        return read[key]

    return weft.make_array_from_callback(shape, sharding, part, dtype=dtype)
