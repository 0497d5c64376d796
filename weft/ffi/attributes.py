"""Attributes of a call: Python values that a native handler reads by name."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import ml_dtypes  # noqa: F401  (names its types for NumPy)
import numpy as np

Frozen = tuple
"""A hashable form: (kind, value…), with arrays and dicts as nested tuples."""

_TYPES = {
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "ui8",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
    "bool": "i1",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
_WIDER = {"int": "int8", "uint": "uint8", "float": "float32"}
"""What holds the values of narrower numbers: 2- and 4-bit integers, 8-bit floats and less."""
_FLAT = frozenset(["int8", "int16", "int32", "int64", "float32", "float64"])
"""Of these a 1-D array is MLIR's dense array, which handlers read as a span."""


def freeze_all(label: str, attributes: Mapping[str, Any]) -> Frozen:
    """Return a hashable form of a call's attributes; raises TypeError or ValueError naming call and
    attribute if there is none."""
    try:
        return "dict", tuple((k, freeze(k, v)) for k, v in sorted(attributes.items()))
    except (TypeError, ValueError) as e:
        raise type(e)(f"{label}: {e}") from None


def freeze(name: str, value: object) -> Frozen:
    """Return a hashable form of an attribute."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool | np.bool_):
        return "bool", bool(value)
    if isinstance(value, str):
        return "string", str(value)
    if isinstance(value, np.generic):
        if value.dtype.name in _TYPES and value.dtype.kind != "c":
            return "scalar", value.dtype.name, value.item()
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"attribute {name!r}: {value} does not fit in 64 bits")
        return "scalar", "int64", value
    elif isinstance(value, float):
        return "scalar", "float64", value
    elif isinstance(value, np.ndarray | list | tuple):
        return _freeze_array(name, np.asarray(value))
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"attribute {name!r}: keys of a dict must be strings, got {key!r}")
        return "dict", tuple((k, freeze(f"{name}.{k}", v)) for k, v in sorted(value.items()))
    elif isinstance(value, bytes):
        raise TypeError(
            f"attribute {name!r}: bytes are no attribute; pass numpy.frombuffer(value, 'uint8')"
        )
    if isinstance(value, np.generic) and (remedy := _wider(value.dtype)):
        raise TypeError(f"attribute {name!r}: a scalar cannot be of type {value.dtype}; {remedy}")
    raise TypeError(
        f"attribute {name!r} of type {type(value).__name__} cannot be passed to native code; use a "
        "bool, int, float, string, NumPy integer or float (its width is kept), array of numbers, "
        "enum, or a dict of these. Arrays of the program are operands, not attributes"
    )


def _wider(dtype: np.dtype) -> str:
    """Say how to pass numbers of a dtype that attributes do not have; "" if they are none."""
    name = dtype.name
    if name == "complex64" or name == "complex128":
        return "pass an array of one, numpy.array([value]), or its two parts"
    wide = next((w for n, w in _WIDER.items() if name.startswith(n)), None)
    return f"widen it: value.astype({wide!r}), and narrow it in the handler" if wide else ""


def _freeze_array(name: str, array: np.ndarray) -> Frozen:
    if array.dtype.name not in _TYPES:
        remedy = _wider(array.dtype)
        raise TypeError(
            f"attribute {name!r}: an array attribute must have a dtype among "
            f"{', '.join(_TYPES)}, got {array.dtype}{list(array.shape)}"
            + (f"; {remedy}" if remedy else "")
        )
    if array.ndim == 1 and array.dtype.name in _FLAT:
        return "array", array.dtype.name, tuple(array.tolist())
    return "tensor", array.dtype.name, array.shape, np.ascontiguousarray(array).tobytes()


def text(value: Frozen) -> str:
    """Return the attribute as MLIR text."""
    kind, *rest = value
    if kind == "bool":
        return "true" if rest[0] else "false"
    if kind == "scalar":
        dtype, number = rest
        return f"{_number(dtype, number)} : {_TYPES[dtype]}"
    if kind == "string":
        return quoted(rest[0])
    if kind == "array":
        dtype, items = rest
        body = ", ".join(_number(dtype, i) for i in items)
        return f"array<{_TYPES[dtype]}{': ' + body if items else ''}>"
    if kind == "tensor":
        dtype, shape, data = rest
        sizes = "".join(f"{d}x" for d in shape)
        return f"{_elements(dtype, shape, data)} : tensor<{sizes}{_TYPES[dtype]}>"
    return "{" + ", ".join(f"{quoted(k)} = {text(v)}" for k, v in rest[0]) + "}"


def _elements(dtype: str, shape: tuple[int, ...], data: bytes) -> str:
    """Return the elements of a tensor, as MLIR's hexadecimal literal."""
    array = np.frombuffer(data, np.dtype(dtype)).reshape(shape)
    if not array.size:
        return "dense<>"
    if dtype == "bool":
        return f"dense<{str(array.tolist()).lower()}>"
    return f'dense<"0x{data.hex().upper()}">'


def _number(dtype: str, value: float | int) -> str:
    if "float" not in dtype:
        return str(value)
    if np.isfinite(value):
        return f"{value:.17e}"
    return "0x" + np.asarray(value, np.dtype(dtype)).byteswap().tobytes().hex()


def quoted(value: str) -> str:
    """Return a string as MLIR writes it."""
    out = []
    for byte in value.encode():
        ok = 32 <= byte < 127 and byte not in (34, 92)
        out.append(chr(byte) if ok else f"\\{byte:02X}")
    return '"' + "".join(out) + '"'
