# Tests: tests/compat/test_other_modules.py
"""jax.experimental.scheduling_groups: groups of operations, named for profiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.compat.jax.experimental.xla_metadata import attr_get, set_xla_metadata

__all__ = ["attr_get", "scheduling_group", "xla_metadata_call"]


def xla_metadata_call(f: Callable | None = None, **meta: object) -> Any:
    """Return a function whose operations carry notes; see `set_xla_metadata`."""
    if f is None:
        return lambda g: xla_metadata_call(g, **meta)
    return set_xla_metadata(f, **meta)


def scheduling_group(name: object) -> Callable:
    """Decorate functions whose operations are named as a group; XLA does not read it."""
    return functools.partial(xla_metadata_call, scheduling_group=name)
