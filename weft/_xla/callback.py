"""Host callbacks: the custom-call targets that call Python during an execution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# jaxlib finds a callback by its position in the `host_callbacks` list given to
# compile_and_load; the call carries it as the ui64 attribute `index` of its backend_config.
_TARGETS = {
    ("cpu", False): "xla_ffi_python_cpu_callback",
    ("cpu", True): "xla_ffi_partitioned_python_cpu_callback",
    ("cuda", False): "xla_ffi_python_gpu_callback",
    ("cuda", True): "xla_ffi_partitioned_python_gpu_callback",
    ("gpu", False): "xla_ffi_python_gpu_callback",
    ("gpu", True): "xla_ffi_partitioned_python_gpu_callback",
}

_BUFFER_TARGETS = {
    "cpu": "xla_buffer_python_cpu_callback",
    "cuda": "xla_buffer_python_gpu_callback",
    "gpu": "xla_buffer_python_gpu_callback",
}

API_VERSION = 4
"""The ``api_version`` attribute of the custom call: typed FFI."""


def target_name(platform: str, *, partitioned: bool = False) -> str:
    """Return the custom-call target of a callback. A partitioned one runs once on each shard."""
    try:
        return _TARGETS[platform, partitioned]
    except KeyError:
        raise ValueError(
            f"platform {platform!r} has no Python callbacks; supported: cpu, cuda, gpu"
        ) from None


def buffer_target_name(platform: str, *, command_buffer: bool = False) -> str:
    """Return the custom-call target of a callback on buffers; its index is an attribute."""
    try:
        name = _BUFFER_TARGETS[platform]
    except KeyError:
        raise ValueError(
            f"platform {platform!r} has no callbacks on buffers; supported: cpu, cuda, gpu"
        ) from None
    return f"{name}_cmd_buffer" if command_buffer and platform != "cpu" else name


def checked(function: Callable, result_avals) -> Callable:
    """Wrap ``function(*numpy_arrays) -> sequence`` so that wrong results raise in Python.

    The returned callable is what goes into ``host_callbacks``. A result of another shape or dtype
    would otherwise be read as raw memory.
    """
    expected = [(tuple(a.shape), np.dtype(a.dtype)) for a in result_avals]
    name = getattr(function, "__name__", repr(function))

    def call(*args):
        results = function(*args)
        results = tuple(results) if isinstance(results, list | tuple) else (results,)
        if len(results) != len(expected):
            raise RuntimeError(
                f"callback {name} returned {len(results)} values, "
                f"but its declared result has {len(expected)}"
            )
        out = []
        for i, (value, (shape, dtype)) in enumerate(zip(results, expected, strict=True)):
            if isinstance(value, np.ndarray) and hasattr(value, "_mask"):
                raise ValueError(
                    f"callback {name} returned a masked array as value {i}, whose mask would be "
                    "lost; return value.filled(...), or the data and the mask as two arrays"
                )
            array = np.asarray(value)
            if array.dtype != dtype and np.isscalar(value):
                array = array.astype(dtype)
            if array.shape != shape or array.dtype != dtype:
                raise RuntimeError(
                    f"callback {name} returned {array.dtype}{list(array.shape)} as value {i}, "
                    f"but its declared result is {dtype}{list(shape)}"
                )
            out.append(array)
        return tuple(out)

    return call
