"""Arrays from other libraries that share their memory: the DLPack protocol."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from weft._xla import arrays as _xla
from weft._xla.arrays import ArrayImpl
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.runtime import backend
from weft.runtime.array import _deep_copy
from weft.runtime.device_put import device_put
from weft.runtime.inside import inside
from weft.sharding.named import SingleDeviceSharding

__all__ = ["from_dlpack", "is_supported_dtype"]

# DLDeviceType of dlpack.h → platform.
_PLATFORMS = {1: "cpu", 2: "cuda", 3: "cuda", 10: "rocm"}
# DLDataTypeCode → the name of the dtype without its bits.
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


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


def _type_of(capsule: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of a capsule, which jaxlib's own array does not tell without jax."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = ctypes.cast(get(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    kind = _KINDS.get(tensor.code)
    if kind is None or tensor.lanes != 1:
        raise TypeError(
            f"from_dlpack: no dtype for DLPack type code {tensor.code} with {tensor.bits} bits and "
            f"{tensor.lanes} lanes"
        )
    dtype = np.dtype(kind if kind == "bool" else f"{kind}{tensor.bits}")
    return tuple(tensor.shape[: tensor.ndim]), dtype


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be shared through DLPack.

    >>> import weft
    >>> weft.dlpack.is_supported_dtype("float32"), weft.dlpack.is_supported_dtype("float8_e5m2")
    (True, False)
    """
    dtype = np.dtype(dtype)
    return dtype == dtypes.bfloat16 or (dtype.isbuiltin == 1 and dtype.kind in "biufc")


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
    """An array over the memory of another library's array; no copy is made unless needed.

    external_array: has `__dlpack__` and `__dlpack_device__`, as NumPy's, PyTorch's and CuPy's do.
    device: where the result shall be; None leaves it where the memory is.
    copy: True always copies, False never does, None copies when it must.

    The other library must not change the memory while the array lives. Source: the Python
    specification of DLPack.

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
    kind, number = (int(v) for v in external_array.__dlpack_device__())
    platform = _PLATFORMS.get(kind)
    if platform is None:
        raise BufferError(
            f"from_dlpack: the array is on DLPack device type {kind}; weft reads CPU, CUDA and ROCm"
        )
    home = next(
        d for d in backend.local_devices(backend=platform) if (d.local_hardware_id or 0) == number
    )
    stream = home.get_stream_for_external_ready_events() if platform != "cpu" else None
    capsule = external_array.__dlpack__(**({} if stream is None else {"stream": stream}))
    shape, dtype = _type_of(capsule)
    if dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(
            f"from_dlpack: the array is {dtype}, and types of 64 bits are off; convert it first, "
            "or turn them on: weft.config.update('enable_x64', True)"
        )
    if inside.pending is not None and platform == "cpu" and dtype != dtypes.bfloat16:
        # jaxlib copies what is not aligned on its pool, of which this callback may hold a thread.
        return device_put(np.from_dlpack(external_array), device or home, may_alias=not copy)
    taken = _xla.from_dlpack(capsule, home, stream, copy)
    aval = ShapedArray(shape, dtype)
    # jaxlib copies only what is not aligned, even with copy=True (0.10.2).
    out = ArrayImpl(aval, SingleDeviceSharding(home), [taken], committed=True, _skip_checks=True)
    if copy:
        out = _deep_copy(out)
    if device is None or device == home or device == out.sharding:
        return out
    if copy is False:
        raise ValueError(f"from_dlpack: copy=False, but the array is on {home} and not on {device}")
    return device_put(out, device)
