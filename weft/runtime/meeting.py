# Tests: tests/runtime/test_rendezvous.py, tests/runtime/test_watchdog.py
"""A barrier of all processes that ends when the group has failed."""

from __future__ import annotations

import time

from weft._xla.distributed import DistributedRuntimeClient
from weft.core.errors import DistributedError
from weft.runtime import calls


def meet(client: DistributedRuntimeClient, name: str, count: int, seconds: float) -> None:
    """Wait until all `count` processes have come to the point of this name, once.

    Raises:
      DistributedError: the group has failed (it says who), or somebody did not come in time.
    """
    if client.key_value_increment(f"{name}/count", 1) == count:
        client.key_value_set(f"{name}/done", "")
        return
    end = time.monotonic() + seconds
    while True:
        try:
            client.blocking_key_value_get(f"{name}/done", 500)
            return
        except (RuntimeError, ValueError):  # not yet
            calls.check()
        if time.monotonic() > end:
            raise DistributedError(f"not all {count} processes came to {name} in {seconds:.0f} s")
