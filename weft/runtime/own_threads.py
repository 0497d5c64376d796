"""Threads of weft itself, which read no arrays, and whether another thread can."""

from __future__ import annotations

import threading
from _thread import _count as running  # threads that Python started, the main one left out
from collections.abc import Callable
from typing import Any

_own = 0
_lock = threading.Lock()


class OwnThread(threading.Thread):
    """A daemon that no one has to wait for, and that touches no array."""

    def __init__(self, target: Callable[[], Any], name: str) -> None:
        super().__init__(target=self._counted, name=name, daemon=True)
        self._function = target

    def _counted(self) -> None:
        # Counted while it runs, not from its start on: a count that is too high would tell a thread
        # that reads arrays from none.
        global _own
        with _lock:
            _own += 1
        try:
            self._function()
        finally:
            with _lock:
                _own -= 1


def alone() -> bool:
    """Return whether no other thread of Python can be reading an array."""
    return running() == _own
