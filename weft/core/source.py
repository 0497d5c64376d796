"""Source locations: which line of the user's program made a value.

A location is captured for every equation, so capturing keeps only the code object and the
instruction offset (0.3 µs); file, line and column are worked out when somebody asks.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from types import CodeType, FrameType
from typing import Any, TypeVar

from weft.core.state import state

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
GENERATED = "<weft>"
"""The file name of functions that weft writes itself."""

F = TypeVar("F", bound=Callable)

_is_internal: dict[str, bool] = {GENERATED: True}


class Source:
    """One line of the user's program, and the named scopes it was traced under."""

    __slots__ = ("code", "lasti", "scopes")

    def __init__(self, code: CodeType | None, lasti: int, scopes: tuple[str, ...]) -> None:
        self.code = code
        self.lasti = lasti
        self.scopes = scopes

    @property
    def file(self) -> str:
        return self.code.co_filename if self.code else "<unknown>"

    @property
    def function(self) -> str:
        return self.code.co_qualname if self.code else "<unknown>"

    def position(self) -> tuple[int, int]:
        """(line, column), both from 1; (0, 0) when unknown."""
        if self.code is None:
            return 0, 0
        positions = islice(self.code.co_positions(), self.lasti // 2, None)
        line, _, column, _ = next(positions, (None, None, None, None))
        return line or self.code.co_firstlineno, (column or 0) + 1

    @property
    def line(self) -> int:
        return self.position()[0]

    def __str__(self) -> str:
        return f"{with_cells(self.file)}:{self.line} ({self.function})"

    def short(self) -> str:
        return f"{os.path.basename(with_cells(self.file))}:{self.line}"


UNKNOWN = Source(None, 0, ())


_CELL = re.compile(r"<ipython-input-[^>]*>|[^\s,()]*ipykernel_\d+[/\\]\d+\.py")


def with_cells(text: str) -> str:
    """Name a notebook's cells in a text as IPython shows them, `In[3]`, not by their files.

    Source: IPython's documentation, `core.compilerop.CachingCompiler.format_code_name`.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return text

    def name(match: re.Match[str]) -> str:
        named = shell.compile.format_code_name(match[0])
        return named[1] if named else match[0]

    return _CELL.sub(name, text)


def function_name(fun: Callable) -> str:
    """Return the function's name, or its class's for callable objects or other than text."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) else type(fun).__name__


def wraps(fun: Callable) -> Callable[[F], F]:
    """`functools.wraps`, also of callable objects whose names are no text."""

    def wrap(inner: F) -> F:
        for name in functools.WRAPPER_ASSIGNMENTS:
            with suppress(AttributeError, TypeError):
                setattr(inner, name, getattr(fun, name))
        functools.update_wrapper(inner, fun, assigned=())
        return inner

    return wrap


def is_internal_file(filename: str) -> bool:
    """Return whether a file belongs to weft (examples and tests do not)."""
    cached = _is_internal.get(filename)
    if cached is None:
        cached = _is_internal[filename] = os.path.abspath(filename).startswith(_PACKAGE) or (
            filename.startswith("<frozen")
        )
    return cached


def capture() -> Source:
    """Return the innermost frame outside weft, or the source of the equation being re-evaluated."""
    if state.source is not None:
        return state.source
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        internal = _is_internal.get(code.co_filename)
        if internal is None:
            internal = is_internal_file(code.co_filename)
        if not internal:
            return Source(code, frame.f_lasti, state.scopes)
        frame = frame.f_back
    return UNKNOWN


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside weft."""
    import warnings

    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal_file(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def own_lines() -> Iterator[None]:
    """Trace a rule that the user wrote, at its own lines, in the scopes of what it is the rule of.

    Other operations of a derivative are at the line of the operation they derive from.
    """
    source, scopes = state.source, state.scopes
    if source is not None:
        state.source, state.scopes = None, source.scopes
    try:
        yield
    finally:
        state.source, state.scopes = source, scopes


def named_scope(name: str) -> AbstractContextManager[None]:
    """Name the operations traced inside, in jaxprs' sources and in compiled programs.

    >>> import weft
    >>> with weft.named_scope("attention"):
    ...     y = weft.numpy.ones(3)
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope: name must be a string, got {type(name).__name__}")
    return _scope(name)


@contextmanager
def _scope(name: str) -> Iterator[None]:
    before = state.scopes
    state.scopes = (*before, name)
    try:
        yield
    finally:
        state.scopes = before


def named_call(fun: Callable, *, name: str | None = None) -> Callable:
    """Return the function with its operations traced under a `named_scope` of its name.

    >>> import weft
    >>> f = weft.named_call(lambda x: x + 1, name="increment")
    >>> f(1)
    2
    """
    scope = name or function_name(fun)

    @wraps(fun)
    def named(*args: object, **kwargs: object) -> Any:
        with named_scope(scope):
            return fun(*args, **kwargs)

    return named
