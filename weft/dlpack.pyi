"""Types of weft.dlpack, written by `make stubs` from the definitions."""

from typing import Any

from weft.typing import Array as Array
from weft.typing import DTypeLike

def from_dlpack(external_array: Any, device: Any = ..., copy: bool | None = ...) -> Array:
    """Return an array over the memory of another library's array; no copy is made unless …"""

def is_supported_dtype(dtype: DTypeLike | None) -> bool:
    """Return whether arrays of a dtype can be shared through DLPack."""
