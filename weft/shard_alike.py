# Tests: tests/api/test_shard_alike.py
"""weft.shard_alike: values that partitioners split alike."""

from weft.api.shard_alike import shard_alike as shard_alike
from weft.core.namespace import seal

__all__ = ["shard_alike"]
seal(globals())
