# Tests: tests/compat/test_as_jax.py
"""jax._src.xla_bridge, for chex: the backends that have been started."""

from weft.runtime.backend import _clients as _backends
from weft.runtime.backend import client as get_backend

__all__ = ["_backends", "get_backend"]
