"""Saving a pytree of arrays so that a killed run goes on where it was."""

import os
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
    """The saved arrays in the structure, and with the shardings, of `like`."""
    with np.load(path) as file:

        def restore(p: tuple, x: Any) -> Any:
            value = file[weft.tree_util.keystr(p)]
            if value.shape != x.shape or value.dtype != x.dtype:
                raise ValueError(
                    f"{path}: {weft.tree_util.keystr(p)} is {value.dtype}{value.shape}, the model "
                    f"has {x.dtype}{x.shape}; remove the file, or use the sizes it was made with"
                )
            return weft.device_put(value, x.sharding)

        return weft.tree.map_with_path(restore, like)
