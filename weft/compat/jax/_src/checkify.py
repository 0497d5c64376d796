"""jax._src.checkify, for flax."""

from typing import Any


def __getattr__(name: str) -> Any:
    import importlib

    return getattr(importlib.import_module("jax.experimental.checkify"), name)
