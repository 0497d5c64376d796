# Tests: tests/pallas/test_cpu_dtypes.py
"""Dtypes in LLVM: types in registers and in memory, constants."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from weft.core import dtypes

_FLOATS = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}


def is_supported(dtype: np.dtype) -> bool:
    """Return whether native code handles arrays of the dtype."""
    if dtypes.is_extended(dtype):
        return False
    return dtype.name in _FLOATS or is_float8(dtype) or dtype.kind in "biu"


def register(dtype: np.dtype) -> str:
    """Return the type of an element in a register."""
    if dtype.name == "bool":
        return "i1"
    return _FLOATS.get(dtype.name) or f"i{bits(dtype)}"


def memory(dtype: np.dtype) -> str:
    """Return the type of an element in memory."""
    return "i8" if dtype.name == "bool" else register(dtype)


def is_float8(dtype: np.dtype) -> bool:
    return dtype.name.startswith("float8")


def is_small_float(dtype: np.dtype) -> bool:
    """Tell whether arithmetic of a float is done in float32 and rounded."""
    return dtype.name in ("float16", "bfloat16") or is_float8(dtype)


def bits(dtype: np.dtype) -> int:
    return 1 if dtype.name == "bool" else dtype.itemsize * 8


def poison(dtype: np.dtype) -> Any:
    """NaN, or the largest integer: what memory holds that nobody wrote."""
    if dtypes.is_float(dtype):
        return np.nan
    return True if dtype.name == "bool" else dtypes.iinfo(dtype).max


def constant(value: object, dtype: np.dtype) -> str:
    """Return a number as an operand of the dtype's register type."""
    if dtype.name == "bool":
        return "true" if value else "false"
    if not dtypes.is_float(dtype):
        return str(int(np.asarray(value).astype(dtype)))
    number = np.asarray(value).astype(dtype)
    if is_float8(dtype):
        return str(int(number.view(np.uint8)))
    if dtype.name == "float16":
        return f"0xH{number.view(np.uint16):04X}"
    if dtype.name == "bfloat16":
        return f"0xR{number.view(np.uint16):04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"
