# Tests: tests/compat/test_other_modules.py
"""jax.extend.source_info_util: the user's lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from weft.compat.jax._src.traceback_util import register_exclusion as register_exclusion
from weft.core.source import UNKNOWN, Source, capture, is_internal_file, named_scope
from weft.core.state import state

SourceInfo = Source


def current() -> Source:
    """Return where the program is."""
    return capture()


class Frame(NamedTuple):
    """A line of the user's program, as the traceback of an equation has it."""

    file_name: str
    function_name: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int

    @property
    def line_num(self) -> int:
        return self.start_line


class Traceback:
    """Where an equation was made: the user's line, of which alone weft keeps the place."""

    __slots__ = ("source",)

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def frames(self) -> list[Frame]:
        line, column = self.source.position()
        file, function = self.source.file, self.source.function
        return [Frame(file, function, line, column, line, column)]


def user_frames(traceback: Any) -> Iterator[Frame]:
    """Iterate over the user's lines of a traceback, or of what has one."""
    traceback = getattr(traceback, "traceback", traceback)
    return iter(() if traceback is None else traceback.frames)


def user_frame(traceback: Any) -> Frame | None:
    return next(user_frames(traceback), None)


def is_user_filename(filename: str) -> bool:
    return not is_internal_file(filename)


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
