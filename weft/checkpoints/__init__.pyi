"""Types of weft.checkpoints, written by `make stubs` from the definitions."""

from typing import Any

from weft.checkpoints.layout import CheckpointError as CheckpointError
from weft.checkpoints.manager import Manager as Manager
from weft.typing import Array as Array

def restore(path: Any, like: Any = ...) -> Any:
    """Read a checkpoint that `save`, or Orbax, wrote."""

def save(path: Any, tree: Any, *, layout: str = ...) -> None:
    """Write a pytree of arrays, and of numbers, strings and None, to a new folder."""
