"""Says of compilations that take long that they go on, so that nobody takes one for a hang.

One thread looks at all of them, and ends once there are none: starting one for each takes 0.1 ms.
"""

from __future__ import annotations

import itertools
import threading
import time

LONG = 30.0
"""Seconds after which, and from then on every so many, a compilation is told of."""

_lock = threading.Lock()
_running: dict[int, tuple[str, float]] = {}
_watcher: threading.Thread | None = None
_numbers = itertools.count()


def begin(name: str) -> int:
    """Note that a compilation begins; return its number, for `end`."""
    global _watcher
    number = next(_numbers)
    with _lock:
        _running[number] = name, time.monotonic()
        if _watcher is None:
            _watcher = threading.Thread(target=_watch, name="weft compilations", daemon=True)
            _watcher.start()
    return number


def end(number: int) -> None:
    """Note that the compilation of this number has ended."""
    _running.pop(number, None)


def _watch() -> None:
    global _watcher
    told: dict[int, float] = {}
    while True:
        with _lock:
            running = dict(_running)
            if not running:
                _watcher = None
                return
        now = time.monotonic()
        told = {number: told.get(number, start) for number, (_, start) in running.items()}
        for number, last in told.items():
            if now >= last + LONG:
                told[number] = now
                _tell(*running[number])
        # What begins meanwhile is due later than all of these.
        time.sleep(min(told.values()) + LONG - now)


def _tell(name: str, start: float) -> None:
    import logging

    seconds = time.monotonic() - start
    logging.getLogger("weft").warning("XLA is compiling %s, %.0f s so far", name, seconds)
