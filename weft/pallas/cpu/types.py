"""Dtypes in LLVM: types in registers and in memory, constants."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from weft.core import dtypes

_FLOATS = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def is_supported(dtype: Any) -> bool:
    """Whether native code handles arrays of the dtype."""
    if dtypes.is_extended(dtype):
        return False
    return (
        dtype.name in _FLOATS or dtype.name == "bool" or (dtype.kind in "iu" and dtype.itemsize > 0)
    ) and dtype.name not in ("int2", "int4", "uint2", "uint4")


def register(dtype: Any) -> str:
    """The type of an element in a register."""
    if dtype.name == "bool":
        return "i1"
    return _FLOATS.get(dtype.name) or f"i{dtype.itemsize * 8}"


def memory(dtype: Any) -> str:
    """The type of an element in memory."""
    return "i8" if dtype.name == "bool" else register(dtype)


def is_float(dtype: Any) -> bool:
    return dtype.name in _FLOATS


def is_small_float(dtype: Any) -> bool:
    """Floats whose arithmetic is done in float32 and rounded."""
    return dtype.name in ("float16", "bfloat16")


def is_signed(dtype: Any) -> bool:
    return dtype.kind == "i"


def bits(dtype: Any) -> int:
    return 1 if dtype.name == "bool" else dtype.itemsize * 8


def constant(value: Any, dtype: Any) -> str:
    """A number as an operand of the dtype's register type."""
    if dtype.name == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return str(int(np.asarray(value).astype(dtype)))
    number = np.asarray(value).astype(dtype)
    if dtype.name == "float16":
        return f"0xH{number.view(np.uint16):04X}"
    if dtype.name == "bfloat16":
        return f"0xR{number.view(np.uint16):04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"


def float_constant(value: float, type_: str) -> str:
    """A number as a constant of a float type in a register."""
    kind = {"half": np.float16, "float": np.float32, "double": np.float64}.get(type_)
    if kind is None:
        return constant(value, dtypes.bfloat16)
    return constant(value, np.dtype(kind))
