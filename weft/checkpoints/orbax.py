"""Checkpoints that Orbax wrote, as `restore` reads them.

    <checkpoint>/_METADATA           JSON: the tree's paths, kinds of keys and of values
    <checkpoint>/manifest.ocdbt      all arrays in one OCDBT database, or
    <checkpoint>/<name>/             a Zarr array each; names are the keys of a path, joined by dots

A step of Orbax's CheckpointManager holds this in a folder `default`.

Source: Orbax's documentation, "Checkpoint format"; TensorStore's drivers zarr, zarr3 and ocdbt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft.checkpoints import layout

METADATA = "_METADATA"
_SEQUENCE, _DICT = 1, 2
"""Kinds of keys: a position in a list or tuple, and a name."""


def find_checkpoint(root: Path) -> Path | None:
    """Return the folder of Orbax's checkpoint at `root`, None if there is none."""
    return next((f for f in (root, root / "default") if (f / METADATA).is_file()), None)


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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise layout.CheckpointError(
            f"restore: {path} is damaged, or of another version of Orbax ({error!r})"
        ) from None
    # Older versions do not say so in the metadata.
    as_database = content.get("use_ocdbt", (root / "manifest.ocdbt").exists())
    arrays: dict[str, Any] = {}
    values: dict[str, Any] = {}
    opening = []
    for (name, stored), (_, kind) in zip(names, leaves, strict=True):
        if kind in ("None", "Dict", "List", "Tuple"):  # an empty container is no leaf
            values[name] = None
            continue
        if kind == "string":
            raise layout.CheckpointError(
                f"restore: {name} of {root} is a string, which weft does not read from Orbax's "
                "checkpoints; save it without, or name the other leaves in `like` of a copy"
            )
        store: dict[str, Any] = {"driver": "file", "path": f"{root / stored}/"}
        if as_database:
            store = {"driver": "ocdbt", "base": f"file://{root.resolve()}/", "path": f"{stored}/"}
        # All arrays are opened at once, and waited for below.
        place = {"driver": driver, "kvstore": store}
        opening.append((name, kind, place, ts.open({**place, "open": True})))
    for name, kind, place, opened in opening:
        try:
            found = opened.result()
            if kind == "scalar":
                values[name] = found.read().result().item()
                continue
        except ValueError as error:
            text = " ".join(str(error).split())[:300]
            raise layout.CheckpointError(
                f"restore: {name} of {root} is damaged: {text}. Restore another step"
            ) from None
        arrays[name] = {"shape": list(found.shape), "dtype": found.dtype.name, "spec": place}
    return {"arrays": arrays, "values": values}


def _step(key: dict[str, Any]) -> str:
    """Return a key as `weft.tree_util.keystr` writes it; fields of named tuples are attributes."""
    if key["key_type"] == _SEQUENCE:
        return f"[{int(key['key'])}]"
    return f"[{key['key']!r}]" if key["key_type"] == _DICT else f".{key['key']}"
