"""Arrays from other libraries that share their memory: the DLPack protocol."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from weft._xla import arrays as _xla
from weft._xla.memory_layouts import is_laid_out
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.state import LAYOUTS
from weft.runtime import backend
from weft.runtime.array import deep_copy
from weft.runtime.callback_context import inside
from weft.runtime.device_put import device_put
from weft.sharding.physical import SingleDeviceSharding

__all__ = ["from_dlpack", "is_supported_dtype"]

# DLDeviceType of dlpack.h → platform.
_PLATFORMS = {1: "cpu", 2: "cuda", 3: "cuda", 10: "rocm"}
# DLDataTypeCode → the name of the dtype without its bits.
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}

_CAPSULE = b"dltensor"
# By index, ctypes makes functions of one's own, whose types nobody else sets.
_is_valid = ctypes.pythonapi["PyCapsule_IsValid"]
_pointer_of = ctypes.pythonapi["PyCapsule_GetPointer"]
_is_valid.argtypes = _pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer_of.restype = ctypes.c_void_p


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h, with which a DLManagedTensor begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


def _type_of(capsule: object) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of a capsule, which jaxlib's own array does not tell without jax."""
    if not _is_valid(capsule, _CAPSULE):
        raise TypeError(
            f"from_dlpack: __dlpack__ of external_array returned {capsule!r:.100}; it must return "
            "a new capsule named 'dltensor' at each call"
        )
    tensor = _Tensor.from_address(_pointer_of(capsule, _CAPSULE))
    kind = _KINDS.get(tensor.code)
    if kind is None or tensor.lanes != 1:
        raise TypeError(
            f"from_dlpack: no dtype for DLPack type code {tensor.code} with {tensor.bits} bits and "
            f"{tensor.lanes} lanes"
        )
    dtype = np.dtype(kind if kind == "bool" else f"{kind}{tensor.bits}")
    return tuple(tensor.shape[: tensor.ndim]), dtype


def is_supported_dtype(dtype: Any) -> bool:
    """Return whether arrays of a dtype can be shared through DLPack.

    >>> import weft
    >>> weft.dlpack.is_supported_dtype("float32"), weft.dlpack.is_supported_dtype("float8_e5m2")
    (True, False)
    """
    dtype = np.dtype(dtype)
    return dtype == dtypes.bfloat16 or (dtype.isbuiltin == 1 and dtype.kind in "biufc")


def from_dlpack(external_array: Any, device: object = None, copy: bool | None = None) -> Any:
    """Return an array over the memory of another library's array; no copy is made unless needed.

    external_array: has `__dlpack__` and `__dlpack_device__`, as NumPy's, PyTorch's and CuPy's do.
    device: where the result shall be; None leaves it where the memory is.
    copy: True always copies, False never does, None copies when it must.

    The other library must not change the memory while the array lives.

    Raises:
      TypeError: what is given does not have the protocol, or a dtype that weft does not have.
      BufferError: the memory cannot be shared: it is on a device of another kind, or has gaps or is
        read-only where no copy may be made.

    Source: the Python specification of DLPack.

    >>> import weft, numpy as np
    >>> weft.dlpack.from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    if not hasattr(external_array, "__dlpack__") or not hasattr(
        external_array, "__dlpack_device__"
    ):
        raise TypeError(
            "from_dlpack: external_array must have __dlpack__ and __dlpack_device__, got a "
            f"{type(external_array).__name__}; give the array itself, not a capsule of it"
        )
    home, platform = _home(external_array)
    stream = home.get_stream_for_external_ready_events() if platform != "cpu" else None
    try:
        capsule = external_array.__dlpack__(**({} if stream is None else {"stream": stream}))
        shape, dtype = _type_of(capsule)
        narrows = _narrows(dtype, copy is not False and platform == "cpu")
        # jaxlib copies what is not aligned on its pool; a callback may hold its threads.
        waits = inside.pending is not None and platform == "cpu" and dtype != dtypes.bfloat16
        if narrows or waits:
            return device_put(np.from_dlpack(external_array), device or home, may_alias=not copy)
        taken = _xla.from_dlpack(capsule, home, stream, copy)
    except (BufferError, _xla.XlaRuntimeError) as error:
        # Read-only memory, which the old capsules cannot tell of, and elements with gaps.
        value = None if copy is False or platform != "cpu" else _numpy_view(external_array)
        if value is None:
            raise BufferError(f"from_dlpack: the array cannot be shared: {error}") from None
        return device_put(value, device or home, may_alias=False)
    aval = ShapedArray(shape, dtype)
    # Also with copy=True, aligned memory is not copied yet: quirks.DLPACK_COPY.
    out = _xla.new_array(aval, SingleDeviceSharding(home), [taken], committed=True)
    if is_laid_out(taken):
        LAYOUTS.in_use = True
    if copy:
        out = deep_copy(out)
    if device is None or device == home or device == out.sharding:
        return out
    if copy is False:
        raise ValueError(f"from_dlpack: copy=False, but the array is on {home} and not on {device}")
    return device_put(out, device)


def _home(external_array: Any) -> tuple[Any, str]:
    """Return the device that holds an array, and its platform."""
    dlpack_device = external_array.__dlpack_device__()
    try:
        kind, number = (int(v) for v in dlpack_device)
    except (TypeError, ValueError):
        raise TypeError(
            "from_dlpack: __dlpack_device__ of external_array must return (device type, number), "
            f"got {dlpack_device!r:.100}"
        ) from None
    platform = _PLATFORMS.get(kind)
    if platform is None:
        raise BufferError(
            f"from_dlpack: the array is on DLPack device type {kind}; weft reads CPU, CUDA and ROCm"
        )
    devices = backend.local_devices(backend=platform)
    for device in devices:
        if (device.local_hardware_id or 0) == number:
            return device, platform
    if platform == "cpu":  # all its devices are this memory
        return devices[0], platform
    raise BufferError(
        f"from_dlpack: the array is on {platform} device {number}, and this process uses "
        f"{', '.join(map(str, devices))}"
    )


def _narrows(dtype: np.dtype, may_copy: bool) -> bool:
    """Return whether the values of an array must be converted, as types of 64 bits are off."""
    narrows = dtypes.canonicalize_dtype(dtype) != dtype
    if narrows and not may_copy:
        raise TypeError(
            f"from_dlpack: the array is {dtype}, and types of 64 bits are off; convert it first, "
            "or turn them on: weft.config.update('enable_x64', True)"
        )
    return narrows


def _numpy_view(external_array: np.ndarray) -> np.ndarray | None:
    """Return the array as NumPy reads it; None if NumPy cannot."""
    try:
        return np.from_dlpack(external_array)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
