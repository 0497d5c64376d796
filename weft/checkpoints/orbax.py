"""Orbax's layout of checkpoints, which `restore` reads and `save(layout="orbax")` writes.

    <checkpoint>/_METADATA           JSON: the tree's paths, kinds of keys and of values
    <checkpoint>/manifest.ocdbt      all arrays in one OCDBT database, or
    <checkpoint>/<name>/             a Zarr array each; names are the keys of a path, joined by dots
    <checkpoint>/_strings.json       strings by name
    <checkpoint>/_sharding           shardings by name (in base64) of arrays on devices
    <checkpoint>/array_metadatas/    JSON: chunks, and what keys of a random generator are

A step of Orbax's CheckpointManager holds this in a folder `default`, or in one of another name.

Source: Orbax's documentation, "Checkpoint format"; TensorStore's drivers zarr, zarr3 and ocdbt;
what Orbax 0.12.8 writes and reads.
"""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import weft.checkpoints.layout as layout
from weft.sharding import NamedSharding
from weft.tree_util import KeyPath, SequenceKey, keystr

METADATA = "_METADATA"
STRINGS = "_strings.json"
ARRAYS = "array_metadatas"
_SEQUENCE, _DICT = 1, 2
"""Kinds of keys: a position in a list or tuple, and a name or a field."""
_EMPTY = ("None", "Dict", "List", "Tuple", "NamedTuple")
_KEY_KIND = "random_key_impl"
_HANDLER = "orbax.checkpoint._src.handlers.standard_checkpoint_handler.StandardCheckpointHandler"
"""The class of Orbax that restores a tree of this layout."""


def find_checkpoint(root: Path) -> Path | None:
    """Return the folder of Orbax's checkpoint at `root`, None if there is none."""
    named = next((f for f in (root, root / "default") if (f / METADATA).is_file()), None)
    if named is not None:
        return named
    items = list(root.glob(f"*/{METADATA}")) if root.is_dir() else []
    return items[0].parent if len(items) == 1 else None


def read_manifest(root: Path) -> dict[str, Any]:
    """Read what a checkpoint of Orbax holds, as `layout.read_manifest` does.

    Raises:
      CheckpointError: its metadata is damaged, or has what weft does not read.
    """
    ts = layout.tensorstore()
    path = root / METADATA
    try:
        content = json.loads(path.read_text("utf-8"))
        leaves = [
            (leaf["key_metadata"], leaf["value_metadata"]["value_type"])
            for leaf in content["tree_metadata"].values()
        ]
        driver = "zarr3" if content.get("use_zarr3") else "zarr"
        names = [
            ("".join(map(_step, keys)), ".".join(k["key"] for k in keys)) for keys, _ in leaves
        ]
        path = root / STRINGS
        strings = json.loads(path.read_text("utf-8")) if path.exists() else {}
        key_kinds = {}
        for path in (root / ARRAYS).glob("*"):
            for entry in json.loads(path.read_text("utf-8"))["array_metadatas"]:
                array_metadata = entry["array_metadata"]
                key_kinds[array_metadata["param_name"]] = (
                    array_metadata["ext_metadata"] or {}
                ).get(_KEY_KIND)
        path = root / METADATA
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise layout.CheckpointError(
            f"restore: {path} is damaged, or of another version of Orbax ({error!r})"
        ) from None
    # Older versions do not say so in the metadata.
    as_database = content.get("use_ocdbt", (root / "manifest.ocdbt").exists())
    arrays: dict[str, Any] = {}
    values: dict[str, Any] = {}
    opening = []
    for (name, stored), (_, kind) in zip(names, leaves, strict=True):
        if kind in _EMPTY:  # an empty container is no leaf
            values[name] = None
            continue
        if kind == "string":
            if stored not in strings:
                raise layout.CheckpointError(
                    f"restore: {name} of {root} is missing in {root / STRINGS}; restore another "
                    "step"
                )
            values[name] = strings[stored]
            continue
        store: dict[str, Any] = {"driver": "file", "path": f"{root / stored}/"}
        if as_database:
            store = {"driver": "ocdbt", "base": f"file://{root.resolve()}/", "path": f"{stored}/"}
        # All arrays are opened at once, and waited for below.
        spec = {"driver": driver, "kvstore": store}
        opening.append((name, stored, kind, spec, ts.open({**spec, "open": True})))
    for name, stored, kind, spec, opened in opening:
        try:
            array = opened.result()
            if kind == "scalar":
                values[name] = array.read().result().item()
                continue
        except ValueError as error:
            text = " ".join(str(error).split())[:300]
            raise layout.CheckpointError(
                f"restore: {name} of {root} is damaged: {text}. Restore another step"
            ) from None
        arrays[name] = {"shape": list(array.shape), "dtype": array.dtype.name, "spec": spec}
        if key_kinds.get(stored):
            arrays[name]["key"] = key_kinds[stored]
    return {"arrays": arrays, "values": values}


def _step(key: dict[str, Any]) -> str:
    """Return a key as `weft.tree_util.keystr` writes it; a field is written as a name."""
    return f"[{int(key['key'])}]" if key["key_type"] == _SEQUENCE else f"[{key['key']!r}]"


def _keys(key_path: KeyPath) -> list[dict[str, Any]]:
    """Return a path of a tree as Orbax's metadata writes it."""
    return [
        {
            "key": keystr((key,), simple=True),
            "key_type": _SEQUENCE if isinstance(key, SequenceKey) else _DICT,
        }
        for key in key_path
    ]


def name_of(key_path: KeyPath) -> str:
    """Return the name by which `read_manifest` knows a leaf."""
    return "".join(map(_step, _keys(key_path)))


class Saved(layout.Saved):
    """Collects what one checkpoint holds, and writes its metadata in Orbax's layout."""

    partial = ".orbax-checkpoint-tmp"
    item = "default"

    def __init__(self) -> None:
        super().__init__()
        self.begun = time.time_ns()
        self.tree: dict[str, Any] = {}
        self.shardings: dict[str, str] = {}

    @staticmethod
    def is_leaf(node: object) -> bool:
        """Return whether a node of the tree is saved though it has no leaves."""
        return node is None or isinstance(node, dict | list | tuple) and not node

    def _add(self, key_path: KeyPath, kind: str, **more: object) -> str:
        """Keep what the metadata says of a leaf; return the leaf's name."""
        keys = _keys(key_path)
        names = tuple(key["key"] for key in keys)
        name = ".".join(names)
        taken = name in self.arrays or name in self.values
        if taken or not name or "/" in name or name in (METADATA, STRINGS, ARRAYS, "_sharding"):
            why = (
                "has the name of another leaf"
                if taken
                else "is the whole tree; wrap it in a dict"
                if not name
                else "has a key that is no name of a folder; rename it"
            )
            raise ValueError(f"save: in Orbax's layout {keystr(key_path) or 'the array'} {why}")
        value = {"value_type": kind, "skip_deserialize": kind in _EMPTY, **more}
        self.tree[str(names)] = {"key_metadata": keys, "value_metadata": value}
        return name

    def add_value(self, key_path: KeyPath, leaf: object) -> bool:
        """Keep a leaf that the metadata holds; return whether it does."""
        if self.is_leaf(leaf):
            kinds: dict[type, str] = {dict: "Dict", list: "List", tuple: "Tuple"}
            self.values[self._add(key_path, kinds.get(type(leaf), "None"))] = None
            return True
        if isinstance(leaf, str):
            self.values[self._add(key_path, "string")] = leaf
            return True
        return False

    def add_array(self, key_path: KeyPath, leaf: object, entry: dict[str, Any]) -> None:
        """Keep what the metadata says of an array, or of a number, which is one here."""
        sharding = getattr(leaf, "sharding", None)
        if sharding is not None:
            name = self._add(key_path, "jax.Array", write_shape=entry["chunk"])
            text = _describe(sharding)
            if text is not None:
                self.shardings[base64.b64encode(name.encode()).decode()] = text
        else:
            name = self._add(key_path, "np.ndarray" if hasattr(leaf, "shape") else "scalar")
        self.arrays[name] = entry

    def folders(self, root: Path) -> list[Path]:
        """Return the arrays' folders below the one that becomes the checkpoint."""
        return [root / name for name in self.arrays]

    def write(self, root: Path) -> None:
        """Write the metadata, and make it and the folders that lead to it durable."""
        arrays = [
            {
                "array_metadata": {
                    "param_name": name,
                    "write_shape": entry["chunk"],
                    "chunk_shape": entry["chunk"],
                    "ext_metadata": {_KEY_KIND: entry["key"]} if "key" in entry else None,
                }
            }
            for name, entry in self.arrays.items()
        ]
        (root / ARRAYS).mkdir()
        layout.write_json(root / ARRAYS / "process_0", {"array_metadatas": arrays})
        strings = {name: value for name, value in self.values.items() if value is not None}
        if strings:
            layout.write_json(root / STRINGS, strings)
        layout.write_json(root / "_sharding", self.shardings)
        tree = {
            "tree_metadata": self.tree,
            "use_ocdbt": False,
            "use_zarr3": True,
            "store_array_data_equal_to_fill_value": True,
            "custom_metadata": None,
        }
        layout.write_json(root / METADATA, tree)
        as_step = root.name == self.item
        checkpoint = {
            "item_handlers": {self.item: _HANDLER} if as_step else _HANDLER,
            "metrics": {},
            "performance_metrics": {},
            "init_timestamp_nsecs": self.begun,
            "commit_timestamp_nsecs": time.time_ns(),
            "custom_metadata": {},
        }
        top = root.parent if as_step else root
        layout.write_json(top / "_CHECKPOINT_METADATA", checkpoint)
        for folder in {root / ARRAYS, root, top}:
            layout.sync_folder(folder)


def _describe(sharding: Any) -> str | None:
    """Return a sharding as Orbax writes it, None for those that it has no words for."""
    if not isinstance(sharding, NamedSharding):
        [device, *others] = sharding.device_set
        if others:
            return None
        return json.dumps({"sharding_type": "SingleDeviceSharding", "device_str": str(device)})
    mesh = sharding.mesh
    return json.dumps(
        {
            "sharding_type": "NamedSharding",
            "shape": list(mesh.devices.shape),
            "axis_names": list(mesh.axis_names),
            "axis_types": [f"AxisType.{kind.name}" for kind in mesh.axis_types],
            "partition_spec": list(sharding.spec),
            "device_mesh": {"mesh": _ids(mesh.devices.tolist())},
        }
    )


def _ids(devices: Any) -> Any:
    return [_ids(d) for d in devices] if isinstance(devices, list) else {"id": devices.id}
