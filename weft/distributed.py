"""Programs of several processes: joining and leaving the group that shares all devices."""

from weft.runtime.distributed import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
