"""Callback threads: which callback each one runs, and copies that avoid threads waiting for it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import arrays as _xla
from weft._xla.client import is_compile_only
from weft.core.aval import ShapedArray
from weft.runtime.backend import refuse_forked
from weft.sharding.physical import SingleDeviceSharding

if TYPE_CHECKING:
    from weft.runtime.backend import Device


class _Inside(threading.local):
    """The callback that runs on this thread.

    pending: the tokens of the runs it started; None outside of callbacks. together: whether it
    belongs to a program over several CPU devices.
    """

    pending: list | None = None
    together = False


inside = _Inside()


def check_there(device: Device) -> None:
    """Raise ValueError for a device that is only described, which holds no arrays."""
    if is_compile_only(device.client):
        raise ValueError(
            f"device_put: {device.device_kind} {device.id} is a device that weft.topologies "
            "describes and this process does not have: programs are compiled for it, arrays live "
            "on weft.devices()"
        ) from None


def put_shards(
    aval: ShapedArray,
    sharding: Any,
    shards: Sequence[Any],
    devices: Sequence[Any],
    committed: bool,
    copy: bool = False,
) -> Any:
    """Return the array of these host arrays, one for each device.

    copy: it shares no memory with them.
    """
    refuse_forked()
    try:
        if inside.pending is not None or (copy and len(shards) > 1):
            return _copied_shards(aval, sharding, shards, devices, committed)
        return _xla.batched_device_put(aval, sharding, shards, devices, committed, copy)
    except _xla.XlaRuntimeError:
        check_there(devices[0])
        raise


def _copied_shards(
    aval: ShapedArray,
    sharding: SingleDeviceSharding,
    shards: Sequence[Any],
    devices: Sequence[Any],
    committed: bool,
) -> Any:
    """Act as `put_shards`, with copies.

    XLA:CPU copies large ones on its pool, whose threads callbacks may all hold
    (quirks.CALLBACK_POOL): there, this thread copies. And it cannot copy one piece of memory for
    some of the devices (quirks.SOME_DEVICES_PUT), only for all of them or for one.
    """
    kinds = _xla.HostBufferSemantics
    how = kinds.ZERO_COPY if inside.pending is None else kinds.IMMUTABLE_ONLY_DURING_CALL
    places = {s.__array_interface__["data"][0] for s in shards}
    if len(places) == len(shards) or sharding.is_fully_replicated:
        return _xla.batched_device_put(aval, sharding, shards, devices, committed, True, how)
    from weft.runtime.array import joined

    kind = sharding.memory_kind
    singles = [
        _xla.batched_device_put(
            ShapedArray(shard.shape, aval.dtype, aval.weak_type),
            SingleDeviceSharding(device, memory_kind=kind),
            (shard,),
            (device,),
            True,
            True,
            how,
        )
        for shard, device in zip(shards, devices, strict=True)
    ]
    return joined(aval, sharding, singles)
