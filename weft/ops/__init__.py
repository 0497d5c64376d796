"""The ops: one definition each, with all its rules. Public here: reductions of segments."""

from importlib import import_module
from typing import Any

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("weft.ops.segments"), name)
    raise AttributeError(f"module 'weft.ops' has no attribute {name!r}")
