"""The caches that `weft.clear_caches` empties: each module lists those it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C")

_clear: list[Callable[[], None]] = []


def clearable(cache: C) -> C:
    """Lists a mapping, or a function under `functools.cache` or `lru_cache`."""
    kept: Any = cache
    _clear.append(kept.cache_clear if hasattr(kept, "cache_clear") else kept.clear)
    return cache


def make_room(cache: dict, most: int) -> None:
    """Drops the oldest entries of a cache, so that one more fits."""
    while len(cache) >= most:
        cache.pop(next(iter(cache)), None)  # another thread may have dropped it


def clear_listed() -> None:
    for clear in _clear:
        clear()
