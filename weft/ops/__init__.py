"""The ops: one definition each, with all its rules. Public here: reductions of segments."""

from importlib import import_module
from typing import Any

from weft.core.namespace import missing as _missing
from weft.core.namespace import public

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return public(getattr(import_module("weft.ops.segments"), name), "weft.ops")
    raise _missing(__name__, name)


def __dir__() -> list[str]:
    return __all__
