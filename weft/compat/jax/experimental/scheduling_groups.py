# Tests: tests/compat/test_other_modules.py
"""jax.experimental.scheduling_groups: groups of operations, named for profiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.compat.jax.experimental.xla_metadata import set_xla_metadata

__all__ = ["attr_get", "scheduling_group", "xla_metadata_call"]


def attr_get(x: object) -> str:
    """A note as XLA's attributes write it."""
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, int | float | str):
        return str(x)
    raise NotImplementedError(f"attr_get: notes are numbers and strings, got {type(x).__name__}")


def xla_metadata_call(f: Callable | None = None, **meta: object) -> Any:
    """A function whose operations carry notes; see `set_xla_metadata`."""
    if f is None:
        return lambda g: xla_metadata_call(g, **meta)
    return set_xla_metadata(f, **{k: attr_get(v) for k, v in meta.items()})


def scheduling_group(name: object) -> Callable:
    """A decorator of functions whose operations are named as a group; XLA does not read it."""
    return functools.partial(xla_metadata_call, scheduling_group=name)
