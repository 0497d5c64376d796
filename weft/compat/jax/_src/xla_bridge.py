# Tests: tests/compat/test_as_jax.py
"""jax._src.xla_bridge, for chex and flax: the backends that have been started."""

from weft.runtime.backend import _clients as _backends
from weft.runtime.backend import client as get_backend
from weft.runtime.backend import started as backends_are_initialized


def backends() -> dict:
    """Return the clients that have been started, by platform."""
    get_backend()
    return _backends


__all__ = ["_backends", "backends", "backends_are_initialized", "get_backend"]
