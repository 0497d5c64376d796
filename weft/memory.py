# Tests: tests/runtime/test_memories.py
"""The memories of a device, as `device_put` takes them: jax.memory."""

from weft.core.memory_space import Space
from weft.core.namespace import seal

__all__ = ["Space"]
seal(globals())
