"""Keeps freed host memory for the next arrays, which the C library returns to the kernel.

The GNU C library maps each block above 32 MiB by itself and unmaps it when it is freed, so every
large result is pages that the kernel clears and maps anew: for `2 * x` of 40 MB, four fifths of the
time. Blocks that come from the heap are used again instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from weft.core.config import config

# Parameters of mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
COMPILED_LONG = 0.1
"""Seconds of a compilation after which its memory goes back, for a hundredth of that time."""
_returns: list[Callable[[int], int]] = []


def return_freed_memory() -> None:
    """Give the kernel the pages of freed blocks back, where malloc was made to keep them."""
    for trim in _returns:
        trim(0)


def keep_freed_memory() -> bool:
    """Make malloc keep up to `config.host_memory_kept` MiB, for blocks of at most a quarter.

    Larger blocks are still mapped by themselves, since they leave holes that stay resident: kept
    without a limit, a training step's temporaries took 1.7 times the memory. Threads keep arenas
    of their own: in one that they share, XLA's threads and the caller's wait for each other's small
    results, and a step with 600 of them took 1.5 times the time, as it did with an arena for each
    processor once the threads that compile had taken theirs. Each arena keeps a step's
    temporaries. The heaps of an arena, 64 MiB each, are unmapped once nothing is
    in them, however much is to be kept, but for those with less room than the padding
    (`heap_trim`, glibc's malloc/arena.c), whose pages take no memory before they are used.

    Return False where that is off, the C library is another one, or malloc is configured by the
    environment.
    """
    kept = min(config.host_memory_kept << 20, 2**31 - 1)
    configured = any(name.startswith("MALLOC_") for name in os.environ)
    if kept == 0 or configured or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    import ctypes

    process = ctypes.CDLL(None)
    if not hasattr(process, "gnu_get_libc_version"):
        return False
    settings = (
        (_TRIM_THRESHOLD, kept),
        (_MMAP_THRESHOLD, kept // 4),
        (_TOP_PAD, kept // 4),
        (_ARENA_MAX, 4 * (os.cpu_count() or 1)),
    )
    _returns[:] = [process.malloc_trim]
    return all([process.mallopt(*setting) for setting in settings])
