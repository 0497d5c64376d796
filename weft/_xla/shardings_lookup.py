# Tests: tests/runtime/test_make_array.py
"""Calls of jaxlib that ask `jax._src.sharding_impls` for shardings: weft's own are the answer.

For each array on one device that jaxlib makes by itself it imports that module, for which Python
first searches the path for the package `jax`: 10 µs an array (quirks.JAX_SHARDINGS_LOOKUP). C code
imports by the `__import__` among the builtins of the Python function that called it, and takes the
module from `sys.modules` afterwards. So the functions of this file, and only they, have builtins of
their own, whose `__import__` knows that module.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import Any

from jaxlib import _jax

from weft._xla import stands_for_jax

_NAME = "jax._src.sharding_impls"


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    loaded = sys.modules.get(name) if name == _NAME else None
    return builtins.__import__(name, *args, **kwargs) if loaded is None else loaded


def answer_with(sharding_of: Callable[..., Any]) -> None:
    """Let jaxlib take shardings from `sharding_of(device, memory_kind=...)`."""
    if not stands_for_jax():  # there, the module is weft's and has the function
        module: Any = sys.modules.setdefault(_NAME, types.ModuleType(_NAME))
        module.make_single_device_sharding = sharding_of


__builtins__ = {**vars(builtins), "__import__": _import}  # type: ignore[assignment]


def parts_of(array: Any) -> list[Any]:
    """Return the parts of an array in this process, each an array on one device without an aval."""
    return array._arrays


def from_dlpack(
    capsule: Any, device: _jax.Device, stream: int | None = None, copy: bool | None = None
) -> Any:
    """Return an array without an aval over the memory of a DLPack capsule."""
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device, stream, copy)
