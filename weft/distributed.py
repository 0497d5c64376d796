# Tests: tests/runtime/test_distributed.py
"""Programs of several processes: joining and leaving the group that shares all devices."""

from weft.core.namespace import seal
from weft.runtime.distributed import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
seal(globals())
