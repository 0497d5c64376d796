# Tests: tests/compat/test_other_modules.py
"""jax.experimental.buffer_callback: Python functions that write into the results' buffers."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import tree

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]


class ExecutionStage(enum.IntEnum):
    """When a callback runs; those of weft run at EXECUTE."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class ExecutionContext:
    """The execution, as a callback is told of it."""

    stage = ExecutionStage.EXECUTE
    stream = 0

    def __repr__(self) -> str:
        return "ExecutionContext(stage=EXECUTE)"


class Buffer:
    """Memory of an argument, which is read only, or of a result, as NumPy and DLPack see it."""

    def __init__(self, array: np.ndarray, writeable: bool) -> None:
        self._array, self.writeable = array, writeable
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    @property
    def unsafe_buffer_pointer(self) -> int:
        """The address."""
        return self._array.ctypes.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype) if copy or dtype is not None else self._array

    @property
    def __array_interface__(self) -> dict:
        return self._array.__array_interface__

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __len__(self) -> int:
        return len(self._array)


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: object,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: dict[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable:
    """Return a function that calls callback(context, out, *args, **kwargs) on the host.

    out: the results as `Buffer`s, in the structure of result_shape_dtypes, which the callback
    writes into; args: the arguments as buffers. input_output_aliases: argument -> result that
    begins with its content. Other options are those of `weft.pure_callback`.
    """
    aliases = dict(input_output_aliases or {})
    structs, out_tree = tree.flatten(result_shape_dtypes)

    def on_host(*args: object, **kwargs: object) -> Any:
        leaves = tree.leaves((args, kwargs))
        outs = [np.zeros(s.shape, s.dtype) for s in structs]
        for source, target in aliases.items():
            outs[target][...] = leaves[source]
        arguments = tree.map(lambda x: Buffer(np.asarray(x), False), (args, kwargs))
        buffers = tree.unflatten(out_tree, [Buffer(o, True) for o in outs])
        callback(ExecutionContext(), buffers, *arguments[0], **arguments[1])
        return tree.unflatten(out_tree, outs)

    def call(*args: object, **kwargs: Any) -> Any:
        if has_side_effect:
            return weft.io_callback(on_host, result_shape_dtypes, *args, **kwargs)
        # A callback fills buffers of one example.
        method = "sequential" if vmap_method else None
        return weft.pure_callback(on_host, result_shape_dtypes, *args, vmap_method=method, **kwargs)

    return call
