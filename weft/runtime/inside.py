"""What callback a thread runs, and how its copies avoid the threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from weft._xla import arrays as _xla


class _Inside(threading.local):
    """What callback this thread runs.

    pending: the tokens of the runs it started; None outside of callbacks. together: whether it
    belongs to a program over several CPU devices.
    """

    pending: list | None = None
    together = False


inside = _Inside()


def put_shards(
    aval: Any,
    sharding: Any,
    shards: Sequence[Any],
    devices: Sequence[Any],
    committed: bool,
    copy: bool = False,
) -> Any:
    """The array of these host arrays, one for each device.

    XLA:CPU copies large ones on its pool, whose threads callbacks may all hold: there, this thread
    copies.
    """
    if inside.pending is not None:
        now = _xla.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
        return _xla.batched_device_put(aval, sharding, shards, devices, committed, True, now)
    return _xla.batched_device_put(aval, sharding, shards, devices, committed, copy)
