# Tests: tests/runtime/test_array.py
"""jaxlib's array: construction from host data, result handlers, host copies, dlpack."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib import _jax

from weft._xla import shardings_lookup

Array = _jax.Array
"""The abstract array type; ``isinstance`` also accepts tracers once `set_tracer_class` ran."""

ArrayImpl = _jax.ArrayImpl
"""The concrete type of device arrays."""

ArrayCopySemantics = _jax.ArrayCopySemantics
HostBufferSemantics = _jax.HostBufferSemantics
ResultHandler = _jax.ResultHandler

from_dlpack = shardings_lookup.from_dlpack
parts_of = shardings_lookup.parts_of

batched_device_put = _jax.batched_device_put
"""``(aval, sharding, shards, devices, committed)`` -> array; shards are host arrays or arrays."""


def _unchecked(make: Callable[..., Any], text: str | None) -> Callable[..., Any]:
    """`make` without its checks, which not every version of jaxlib makes (its text says so)."""
    return functools.partial(make, _skip_checks=True) if "_skip_checks" in (text or "") else make


new_array = _unchecked(ArrayImpl, ArrayImpl.__init__.__doc__)
"""``(aval, sharding, arrays, committed)`` -> array of the parts, in the sharding's order."""

result_handler = _unchecked(_jax.array_result_handler, _jax.array_result_handler.__doc__)
"""``(aval, sharding, committed)`` -> callable that wraps an executable's buffers."""


batched_copy = _jax.batched_copy_array_to_devices_with_sharding
"""``(arrays, device_lists, shardings, semantics)`` -> copies with the same shards elsewhere."""

XlaRuntimeError = _jax.JaxRuntimeError
batched_block_until_ready = _jax.batched_block_until_ready
reorder_shards = _jax.reorder_shards
set_tracer_class = _jax.set_tracer_class
live_arrays = _jax.Client.live_arrays


def to_numpy(array: ArrayImpl) -> np.ndarray:
    """Return a single-device array's data as a read-only NumPy array, uncopied on the CPU."""
    try:
        # The buffer protocol: 1 us, zero-copy. It knows neither ml_dtypes nor other platforms.
        return np.asarray(memoryview(array))
    except (BufferError, TypeError):
        value = array._single_device_array_to_np_array_did_copy()[0]
        value.flags.writeable = False
        return value


def to_dlpack(array: ArrayImpl, stream: int | None = None):
    """Return a DLPack capsule that shares the buffer of a single-device array."""
    return _jax.buffer_to_dlpack_managed_tensor(array, stream=stream)
