# Tests: tests/compat/test_other_modules.py
"""jax.experimental.compilation_cache.compilation_cache: the folder of compiled programs."""

from __future__ import annotations

import weft

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path: str) -> None:
    """Keep compiled programs in a folder: `config.compilation_cache_dir`."""
    weft.config.update("compilation_cache_dir", path)


def reset_cache() -> None:
    """Forget compiled programs in memory; those on disk stay."""
    weft.clear_caches()
