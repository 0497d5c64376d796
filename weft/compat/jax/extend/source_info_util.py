# Tests: tests/compat/test_other_modules.py
"""jax.extend.source_info_util: the user's lines."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from weft.compat.jax._src.traceback_util import register_exclusion as register_exclusion
from weft.core.source import UNKNOWN, Source, capture, named_scope

SourceInfo = Source


def current() -> Source:
    """Where the program is."""
    return capture()


def new_source_info() -> Source:
    return UNKNOWN


def summarize(source: Source, num_frames: int = 1) -> str:
    return str(source)


def current_name_stack() -> str:
    """Return the named scopes around, as a path."""
    return "/".join(capture().scopes)


def set_name_stack(name_stack: str) -> AbstractContextManager[Any]:
    """Return a context in which operations are in this scope."""
    return named_scope(name_stack)


def extend_name_stack(name: str) -> AbstractContextManager[Any]:
    return named_scope(name)
