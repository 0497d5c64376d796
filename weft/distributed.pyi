"""Types of weft.distributed, written by `make stubs` from the definitions."""

from collections.abc import Sequence

from weft.typing import Array as Array

def initialize(
    coordinator_address: str | None = ...,
    num_processes: int | None = ...,
    process_id: int | None = ...,
    local_device_ids: int | Sequence[int] | None = ...,
    cluster_detection_method: str | None = ...,
    initialization_timeout: int = ...,
    heartbeat_timeout_seconds: float | None = ...,
    shutdown_timeout_seconds: int = ...,
    coordinator_bind_address: str | None = ...,
    slice_index: int | None = ...,
    partition_index: int | None = ...,
    *,
    hang_timeout_seconds: float | None = ...,
) -> None:
    """Make this process one of several that run the same program on all their devices …"""

def is_initialized() -> bool:
    """Return whether this process has joined a group."""

def shutdown() -> None:
    """Leave the group, after all processes have come to this point. Runs at exit by …"""
