# Tests: tests/api/test_custom_vmap.py
"""weft.custom_batching: functions with batching rules of their own."""

from weft.api.custom_vmap import custom_vmap as custom_vmap
from weft.api.custom_vmap import sequential_vmap as sequential_vmap
from weft.core.namespace import seal

__all__ = [
    "custom_vmap",
    "sequential_vmap",
]
seal(globals())
