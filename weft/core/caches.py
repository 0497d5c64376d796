# Tests: tests/runtime/test_cache_bounds.py
"""The caches that `weft.clear_caches` empties: each module lists those it keeps.

A cache over an open domain (shapes, names, programs) is bounded, or listed here, or both. One of
a finite domain (dtypes, ranks) is a plain `functools.cache`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C")

_clear: list[Callable[[], None]] = []
_interned: list[dict] = []


def clearable(cache: C) -> C:
    """List a mapping, or a function under `functools.cache` or `lru_cache`."""
    kept: Any = cache
    _clear.append(kept.cache_clear if hasattr(kept, "cache_clear") else kept.clear)
    return cache


def on_clear(forget: Callable[[], None]) -> Callable[[], None]:
    """List a function that `weft.clear_caches` calls."""
    _clear.append(forget)
    return forget


def interned(table: dict[Any, C]) -> dict[Any, C]:
    """List a table of values of which equal ones are one object.

    Values in use stay, since they are compared as pointers.
    """
    _interned.append(table)
    return table


def make_room(cache: dict, most: int) -> None:
    """Drop the oldest entries of a full cache."""
    while len(cache) >= most:
        cache.pop(next(iter(cache)), None)  # another thread may have dropped it


def clear_listed() -> None:
    for clear in _clear:
        clear()


def forget_unused() -> None:
    """Drop the interned values that only their tables, or values dropped before, refer to."""
    alone = sys.getrefcount(object()) + 1  # the table's own reference
    dropped = True
    while dropped:
        dropped = False
        for table in _interned:
            for key in list(table):
                if sys.getrefcount(table[key]) == alone:
                    del table[key]
                    dropped = True
