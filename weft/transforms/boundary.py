"""Public boundaries: exceptions leave with the user's frames, without weft's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from weft.core.config import config
from weft.core.source import is_internal_file

F = TypeVar("F", bound=Callable[..., Any])


def filter_traceback(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of weft's own files."""
    frames = []
    while tb is not None:
        if not is_internal_file(tb.tb_frame.f_code.co_filename):
            frames.append(tb)
        tb = tb.tb_next
    result: TracebackType | None = None
    for tb in reversed(frames):
        result = TracebackType(result, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return result


def reraise_filtered(e: BaseException) -> None:
    """Replaces the exception's traceback by the filtered one, unless filtering is off."""
    if config.traceback_filtering != "off":
        e.__traceback__ = filter_traceback(e.__traceback__)


def api_boundary(fun: F) -> F:
    """Wraps a public function: what it raises shows only frames outside weft."""

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as e:
            if config.traceback_filtering != "off":
                # The frame of this wrapper is added again on the way out; excepthook drops it.
                raise e.with_traceback(filter_traceback(e.__traceback__)) from e.__cause__
            raise

    return wrapped  # type: ignore[return-value]


def install_excepthook() -> None:
    """Filters weft's frames from uncaught exceptions' tracebacks."""
    previous = sys.excepthook

    def hook(kind: type, value: BaseException, tb: TracebackType | None) -> None:
        if config.traceback_filtering != "off":
            kept = filter_traceback(tb)
            tb = kept if kept is not None else tb
        previous(kind, value, tb)

    sys.excepthook = hook
