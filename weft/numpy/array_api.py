"""Devices, dtypes and capabilities of the namespace, as the array API standard has them told.

Source: https://data-apis.org/array-api/latest/API_specification/inspection.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.runtime.backend import devices as _devices

__array_api_version__ = "2024.12"
"""The version of the standard that weft.numpy follows."""

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_ALL = _KINDS["bool"] + _KINDS["numeric"]


class ArrayNamespaceInfo:
    """The namespace's devices, dtypes and capabilities, under the standard's names."""

    def capabilities(self) -> dict[str, Any]:
        """Tell whether masks may index and shapes depend on data (not under jit), and the rank."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Any:
        """None: where new arrays are put depends on the configuration and on operands."""
        return None

    def devices(self) -> list:
        """Return the devices that arrays can be put on, and None for no choice."""
        return [None, *_devices()]

    def default_dtypes(self, *, device: object = None) -> dict[str, np.dtype]:
        """Return the dtypes of new arrays by kind, which x64 decides."""
        kinds = {"real floating": float, "complex floating": complex, "integral": int}
        return {
            name: np.dtype(dtypes.canonicalize_dtype(kind))
            for name, kind in (*kinds.items(), ("indexing", int))
        }

    def dtypes(self, *, device: object = None, kind: object = None) -> dict[str, np.dtype]:
        """Return the standard's dtypes of a kind or kinds, by name; those of 64 bits only with x64.

        Raises ValueError for a kind that the standard does not have.
        """
        names = _ALL if kind is None else _named(kind)
        by_name = {name: np.dtype(name) for name in names}
        return {k: d for k, d in by_name.items() if dtypes.canonicalize_dtype(d) == d}


def _named(kind: object) -> tuple[str, ...]:
    if isinstance(kind, tuple):
        return tuple(dict.fromkeys(name for k in kind for name in _named(k)))
    if kind not in _KINDS:
        raise ArgumentError(
            f"__array_namespace_info__().dtypes: kind must be one of {', '.join(_KINDS)} or a "
            f"tuple of them, got {kind!r}"
        )
    return _KINDS[kind]


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Tell what the namespace can do, for programs written to the array API standard.

    >>> import weft.numpy as wnp
    >>> wnp.__array_namespace_info__().dtypes(kind="bool")
    {'bool': dtype('bool')}
    """
    return ArrayNamespaceInfo()
