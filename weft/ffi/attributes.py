"""Attributes of a call: Python values that a native handler reads by name."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

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
    "float32": "f32",
    "float64": "f64",
}
_DENSE = frozenset(["int8", "int16", "int32", "int64", "float32", "float64"])


def freeze_all(what: str, given: Mapping[str, Any]) -> Frozen:
    """A hashable form of a call's attributes; raises TypeError or ValueError naming call and
    attribute if there is none."""
    try:
        return "dict", tuple((k, freeze(k, v)) for k, v in sorted(given.items()))
    except (TypeError, ValueError) as e:
        raise type(e)(f"{what}: {e}") from None


def freeze(name: str, value: Any) -> Frozen:
    """A hashable form of an attribute."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool | np.bool_):
        return "bool", bool(value)
    if isinstance(value, str):
        return "string", str(value)
    if isinstance(value, np.generic):
        # XLA decodes no narrower floats and no complex numbers (jaxlib 0.10.2).
        if value.dtype.name in _TYPES:
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
    raise TypeError(
        f"attribute {name!r} of type {type(value).__name__} cannot be passed to native code; use a "
        "bool, int, float, string, NumPy integer or float of 32 or 64 bits (its width is kept), "
        "1-D array of numbers, enum, or a dict of these. Arrays of the program are operands, not "
        "attributes"
    )


def _freeze_array(name: str, array: np.ndarray) -> Frozen:
    if array.ndim != 1 or array.dtype.name not in _DENSE:
        raise TypeError(
            f"attribute {name!r}: an array attribute must be 1-D with dtype "
            f"{', '.join(sorted(_DENSE))}, got {array.dtype}{list(array.shape)}"
        )
    return "array", array.dtype.name, tuple(array.tolist())


def text(value: Frozen) -> str:
    """The attribute as MLIR text."""
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
    return "{" + ", ".join(f"{quoted(k)} = {text(v)}" for k, v in rest[0]) + "}"


def _number(dtype: str, value: float | int) -> str:
    if "float" not in dtype:
        return str(value)
    if np.isfinite(value):
        return f"{value:.17e}"
    width = {"float32": np.uint32, "float64": np.uint64}[dtype]
    return hex(int(np.asarray(value, dtype).view(width)))


def quoted(value: str) -> str:
    """A string as MLIR writes it."""
    out = []
    for byte in value.encode():
        ok = 32 <= byte < 127 and byte not in (34, 92)
        out.append(chr(byte) if ok else f"\\{byte:02X}")
    return '"' + "".join(out) + '"'
