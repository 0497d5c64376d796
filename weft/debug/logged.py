# Tests: tests/api/test_callback.py
"""debug.log: lines from compiled programs, in Python's log."""

from __future__ import annotations

import functools
import logging
from typing import Any

from weft.api.callback import check_format, debug_callback


def log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Log values when the program runs, formatted as by `fmt.format(*args, **kwargs)`.

    As `weft.debug.print`, but the line goes to the logger "weft" with level INFO.

    >>> import weft, logging
    >>> logging.getLogger("weft").setLevel(logging.INFO)
    >>> weft.jit(lambda x: weft.debug.log("x = {x}", x=x))(2)
    """
    options: dict[str, Any] = {"ordered": ordered, "partitioned": partitioned}
    if fmt is None:
        return functools.partial(log, skip_format_check=skip_format_check, **options)
    check_format("debug.log", fmt, len(args), kwargs, skip=skip_format_check)
    debug_callback(_Logger(fmt), *args, **options, **kwargs)
    return None


class _Logger:
    """Logs a formatted line."""

    __slots__ = ("fmt",)
    __name__ = "log"

    def __init__(self, fmt: str) -> None:
        self.fmt = fmt

    def __call__(self, *args: object, **kwargs: object) -> None:
        logger = logging.getLogger("weft")
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s", self.fmt.format(*args, **kwargs))
