# Tests: tests/compat/test_other_modules.py
"""jax.extend.source_info_util: the user's lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from weft.compat.jax._src.traceback_util import register_exclusion as register_exclusion
from weft.core.source import UNKNOWN, Source, capture, named_scope
from weft.core.state import state

SourceInfo = Source


def current() -> Source:
    """Where the program is."""
    return capture()


def new_source_info() -> Source:
    return UNKNOWN


def summarize(source: Source, num_frames: int = 1) -> str:
    return str(source)


class NameStack(str):
    """Named scopes as a path; the sum of two is the path through both."""

    __slots__ = ()

    def __add__(self, other: str) -> NameStack:
        return NameStack("/".join(filter(None, (self, other))))


def current_name_stack() -> NameStack:
    """Return the named scopes around, as a path."""
    return NameStack("/".join(capture().scopes))


def set_name_stack(name_stack: str) -> AbstractContextManager[Any]:
    """Return a context in which operations are in this scope."""
    return named_scope(name_stack)


@contextmanager
def user_context(traceback: object, *, name_stack: str | None = None) -> Iterator[None]:
    """Return a context in which operations are in these scopes, as where an equation was made."""
    before = state.scopes
    if name_stack is not None:
        state.scopes = tuple(filter(None, name_stack.split("/")))
    try:
        yield
    finally:
        state.scopes = before


def extend_name_stack(name: str) -> AbstractContextManager[Any]:
    return named_scope(name)
