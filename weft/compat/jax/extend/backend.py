# Tests: tests/compat/test_other_modules.py
"""jax.extend.backend"""

from __future__ import annotations

from typing import Any


def get_backend(platform: str | None = None) -> Any:
    """Return the client of a platform."""
    from weft import devices

    return devices(platform)[0].client


def backends() -> dict[str, Any]:
    """Return the clients by platform."""
    from weft import default_backend, devices

    names = dict.fromkeys(("cpu", default_backend()))
    return {name: devices(name)[0].client for name in names}


def clear_in_memory_compilation_cache() -> None:
    """Forget compiled programs in memory."""
    from weft import clear_caches

    clear_caches()


def clear_backends() -> None:
    from weft import clear_caches

    clear_caches()


def get_default_device() -> Any:
    from weft import config, devices

    return config.default_device or devices()[0]
