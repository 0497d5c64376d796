# Tests: tests/compat/test_other_modules.py
"""jax.experimental.multihost_utils: names beside those of weft.multihost_utils."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from weft.errors import DistributedError as ProcessFailureError

__all__ = ["ProcessFailureError", "live_devices", "reached_preemption_sync_point"]


@contextlib.contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list]:
    """Return the devices, all of which live: a process that fails ends weft's others."""
    yield list(devices)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Return whether the processes shall save their state before they are stopped: never.

    Raises RuntimeError where the program is one process that joined no group.
    """
    from weft import process_count

    if process_count() == 1:
        raise RuntimeError(
            "reached_preemption_sync_point: call weft.distributed.initialize first, as one of "
            "several processes"
        )
    return False
