# Tests: tests/checkpoints/test_checkpoints.py
"""Restoring: each device's shard is read from the chunks that overlap it."""

from __future__ import annotations

import difflib
import functools
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
import weft.checkpoints.chunks as chunks
import weft.checkpoints.layout as layout
import weft.checkpoints.orbax as orbax
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
        (dtype(bfloat16), P('x',), 0.1)
    """
    root = Path(path)
    layout.tensorstore(), chunks.crc32c()  # what is not installed is said first
    foreign = None if (root / layout.MANIFEST).exists() else orbax.find_checkpoint(root)
    root = foreign or root
    manifest = layout.read_manifest(root) if foreign is None else orbax.read_manifest(root)
    arrays, values = manifest["arrays"], manifest["values"]
    if like is None:
        everything = [_Leaf(root, name, entry) for name, entry in arrays.items()]
        replicated = {leaf.name: value for leaf, value in _read(everything)}
        return replicated | values

    def planned(key_path: tuple, wanted: ArrayLike | str | ShapeDtypeStruct | None) -> Any:
        name = weft.tree_util.keystr(key_path) if foreign is None else orbax.name_of(key_path)
        if name in values:
            return _Value(values[name])
        if name not in arrays:
            close = difflib.get_close_matches(name, [*arrays, *values], n=1)
            raise layout.CheckpointError(
                f"restore: {root} has no {name}"
                + (f"; it has {close[0]}" if close else f" among its {len(arrays)} arrays")
            )
        return _Leaf(root, name, arrays[name], wanted)

    plan = weft.tree.map_with_path(planned, like, is_leaf=lambda x: x is None)
    leaves, tree = weft.tree.flatten(plan)
    read = _read([x for x in leaves if isinstance(x, _Leaf)])
    return tree.unflatten([x.value if isinstance(x, _Value) else next(read)[1] for x in leaves])


def holds_checkpoint(root: Path) -> bool:
    """Return whether a folder is a checkpoint that `restore` reads."""
    return (root / layout.MANIFEST).exists() or orbax.find_checkpoint(root) is not None


class _Value:
    """A value that the manifest itself holds."""

    def __init__(self, value: ArrayLike) -> None:
        self.value = value


class _Leaf:
    """An array to be read, with the counterpart that says how: None for a NumPy array.

    Raises CheckpointError where they do not fit.
    """

    def __init__(self, root: Path, name: str, entry: dict[str, Any], wanted: Any = None) -> None:
        self.root, self.name, self.entry, self.wanted = root, name, entry, wanted
        self.shape = tuple(entry["shape"])
        self.folder = root if "spec" in entry else layout.array_folder(root, entry["number"])
        self.dtype = np.dtype(entry["dtype"])
        self.sharding = None
        self.parts = [tuple(slice(0, n) for n in self.shape)]
        if wanted is None:
            return
        if "key" in entry:
            if not is_extended(getattr(wanted, "dtype", None)):
                raise layout.CheckpointError(
                    f"restore: {name} of {root} holds keys; `like` has none"
                )
            return
        shape = getattr(wanted, "shape", ())
        if tuple(shape) != self.shape:
            raise layout.CheckpointError(
                f"restore: {name} of {root} is {entry['dtype']}{list(self.shape)}, `like` has "
                f"{getattr(wanted, 'dtype', type(wanted).__name__)}{list(shape)}"
            )
        self.dtype = np.dtype(getattr(wanted, "dtype", self.dtype))
        if isinstance(wanted, np.ndarray | np.generic):
            return
        self.sharding = getattr(wanted, "sharding", None)
        if self.sharding is not None:
            # Replicas of a shard on several devices are read once.
            places = self.sharding.addressable_devices_indices_map(self.shape).values()
            self.parts = list({self.key(index): index for index in places}.values())

    def key(self, index: tuple) -> tuple:
        """Tell a part from the others, however its slices are written."""
        return tuple(s.indices(n)[:2] for s, n in zip(index, self.shape, strict=True))

    def tasks(self) -> Iterator[tuple[Callable[[], np.ndarray], int]]:
        """Yield a function that reads each part, and how many bytes it has."""
        try:
            if "spec" in self.entry:
                read: Callable = functools.partial(_read_store, self.entry)
            else:
                chunks.check_metadata(self.folder, self.entry)
                read = functools.partial(chunks.read_part, self.folder, self.entry)
        except ValueError as error:
            raise self.damaged(error) from None
        for index in self.parts:
            size = math.prod(stop - start for start, stop in self.key(index))
            yield functools.partial(self._read_part, read, index), size * self.dtype.itemsize

    def _read_part(self, read: Callable, index: tuple) -> np.ndarray:
        try:
            return read(index).astype(self.dtype, copy=False)
        except ValueError as error:
            shard = "" if len(self.parts) == 1 else f"shard {index}: "
            raise self.damaged(f"{shard}{error}") from None

    def damaged(self, error: object) -> layout.CheckpointError:
        """Return the error that names the array, its folder and what to do."""
        text = " ".join(str(error).split())[:300]
        return layout.CheckpointError(
            f"restore: {self.name} of {self.root} is damaged, in {self.folder}: {text}. Restore "
            "another step"
        )

    def assemble(self, parts: list[np.ndarray]) -> Any:
        """Return the array of what was read."""
        if "key" in self.entry:
            return weft.random.wrap_key_data(parts[0], impl=self.entry["key"])
        if self.sharding is not None:
            read = {self.key(i): x for i, x in zip(self.parts, parts, strict=True)}
            return weft.make_array_from_callback(
                self.shape, self.sharding, lambda index: read[self.key(index)], dtype=self.dtype
            )
        as_it_is = self.wanted is None or isinstance(self.wanted, np.ndarray)
        return parts[0] if as_it_is else weft.numpy.asarray(parts[0])


def _read(leaves: list[_Leaf]) -> Iterator[tuple[_Leaf, Any]]:
    """Read arrays in order, several parts at a time."""
    parts = chunks.read_all(task for leaf in leaves for task in leaf.tasks())
    for leaf in leaves:
        yield leaf, leaf.assemble([next(parts) for _ in leaf.parts])


def _read_store(entry: dict[str, Any], index: tuple) -> np.ndarray:
    """Read a part of an array that only TensorStore knows to read."""
    store = layout.tensorstore().open({**entry["spec"], "open": True}).result()
    if list(store.shape) != entry["shape"] or store.dtype.name != entry["dtype"]:
        raise ValueError(f"it is {store.dtype.name}{list(store.shape)}")
    return store[index].read().result()
