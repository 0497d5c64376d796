# Tests: tests/core/test_namespace.py
"""Public boundaries: exceptions leave with the user's frames, without weft's."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from weft.core.config import WeftConfig, config
from weft.core.source import is_internal_file

F = TypeVar("F", bound=Callable[..., Any])


def _is_own(tb: TracebackType) -> bool:
    return is_internal_file(tb.tb_frame.f_code.co_filename)


hidden_paths: list[str] = []
"""Files and folders of libraries that ask that users do not see their frames either."""


class UnfilteredStackTrace(Exception):
    """The cause that shows all frames of an exception: `traceback_filtering="remove_frames"`."""


def is_hidden(filename: str) -> bool:
    """Return whether tracebacks leave out the frames of a file."""
    return is_internal_file(filename) or any(
        filename == path or filename.startswith(path.rstrip(os.sep) + os.sep)
        for path in hidden_paths
    )


def _entries(tb: TracebackType | None) -> list[TracebackType]:
    entries = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    return entries


def _chained(
    entries: list[TracebackType], end: TracebackType | None = None
) -> TracebackType | None:
    for tb in reversed(entries):
        end = TracebackType(end, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return end


def filter_traceback(tb: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of weft's own files."""
    return _chained([t for t in _entries(tb) if not is_hidden(t.tb_frame.f_code.co_filename)])


def _keep_unfiltered(e: BaseException) -> None:
    """Make the whole traceback that of the exception's cause.

    A boundary further out adds the frames between the two: those that the inner one has not seen.
    """
    whole = e.__cause__
    if not isinstance(whole, UnfilteredStackTrace):
        whole = UnfilteredStackTrace("the traceback with the frames that were left out")
        whole.__cause__, whole.__context__ = e.__cause__, e.__context__
        whole.__suppress_context__ = e.__suppress_context__
    inner = {t.tb_frame for t in _entries(whole.__traceback__)}
    outer = [t for t in _entries(e.__traceback__) if t.tb_frame not in inner]
    whole.__traceback__ = _chained(outer, whole.__traceback__)
    e.__cause__ = whole


def _came_from_weft(e: BaseException) -> bool:
    """Tell whether an exception left one of weft's own frames last, as a failed cache lookup."""
    tb = e.__traceback__
    if tb is None:
        return False
    while tb.tb_next is not None:
        tb = tb.tb_next
    return _is_own(tb)


_KEYS = "Comparator raised exception while sorting pytree dictionary keys"


def reword(e: BaseException) -> None:
    """Reword an exception of jaxlib that names neither the fault nor the remedy."""
    if type(e) is ValueError and e.args and str(e.args[0]).startswith(_KEYS):
        e.args = ("the keys of a dict in a pytree must be ordered, so of one type, such as str",)


def show_user_frames(e: BaseException) -> None:
    """Take weft's frames out of an exception that is about to leave weft.

    Operators and methods of arrays call it in an `except` clause of their own, which costs nothing
    until something is raised; functions that are called less often are an `api_boundary`.
    """
    reword(e)
    if config.traceback_filtering == "off":
        return
    _note_raise(e)
    if config.traceback_filtering == "tracebackhide":  # pytest and IPython leave the frames out
        for t in _entries(e.__traceback__):
            if is_hidden(t.tb_frame.f_code.co_filename):
                t.tb_frame.f_locals["__tracebackhide__"] = True
        return
    if config.traceback_filtering == "remove_frames":
        _keep_unfiltered(e)
        e.__traceback__ = filter_traceback(e.__traceback__)
        return
    e.__traceback__ = filter_traceback(e.__traceback__)
    cause = e.__cause__
    while cause is not None:
        cause.__traceback__ = filter_traceback(cause.__traceback__)
        cause = cause.__cause__
    context = e.__context__
    if context is not None and e.__cause__ is None and _came_from_weft(context):
        e.__suppress_context__ = True


def _note_raise(e: BaseException) -> None:
    """Note whether weft raised it on purpose, for `argument_errors.explain` further out."""
    tb = e.__traceback__
    if tb is None or hasattr(e, "_weft_raised"):
        return
    while tb.tb_next is not None:
        tb = tb.tb_next
    from weft.core.argument_errors import is_library, is_raise

    if _is_own(tb):
        e._weft_raised = is_raise(tb)  # type: ignore[attr-defined]
    elif is_library(tb.tb_frame.f_code.co_filename):
        e._weft_raised = False  # type: ignore[attr-defined]


def explain_and_show(label: str, e: Exception, fun: Callable) -> None:
    """Add the called function's name to an exception; raise a clearer one where there is one."""
    try:
        if label:
            from weft.core.argument_errors import explain  # where nothing fails it is not needed

            explain(label, e, fun)
        show_user_frames(e)
    except Exception as other:
        show_user_frames(other)
        raise


def api_boundary(fun: F) -> F:
    """Wrap a public function: what it raises shows only frames outside weft."""
    label = getattr(fun, "__qualname__", "<")
    named = "<" not in label  # functions made by others, such as those of jit, have no public name

    @functools.wraps(fun)
    def wrapped(*args: object, **kwargs: object) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as e:
            explain_and_show(label if named else "", e, fun)
            raise  # bare, so that Python does not add this frame again

    return cast(F, wrapped)


# The configuration stands below the boundaries, which ask it whether to filter.
setattr(WeftConfig, "update", api_boundary(WeftConfig.update))  # noqa: B010


def install_excepthook() -> None:
    """Filter weft's frames from the tracebacks of uncaught exceptions of eager operations."""
    previous = sys.excepthook

    def hook(kind: type, value: BaseException, tb: TracebackType | None) -> None:
        reword(value)
        if config.traceback_filtering != "off":
            kept = filter_traceback(tb)
            tb = kept if kept is not None else tb
            value.__traceback__ = tb
        previous(kind, value, tb)

    sys.excepthook = hook


install_excepthook()
