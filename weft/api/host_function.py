# Tests: tests/api/test_callback.py
"""A Python function as a compiled program calls it: flat arrays in, flat results out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.config import config, options
from weft.core.source import function_name
from weft.core.state import state
from weft.core.trace import EVAL
from weft.core.tree import flatten
from weft.ops.as_array import as_array
from weft.runtime.transfers import put_host
from weft.sharding.mesh import use_context_mesh

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


class HostFunction:
    """A Python function on flat arrays; equal only to itself."""

    __slots__ = ("__name__", "fmt", "fun", "in_tree", "label", "out_tree", "x64")

    def __init__(self, kind: str, fun: Callable, in_tree: PyTreeDef, out_tree: PyTreeDef) -> None:
        self.label = kind
        self.fmt: str | None = None  # of debug.print
        self.fun = fun
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.x64 = bool(config.enable_x64)
        self.__name__ = function_name(fun)

    def __call__(self, *leaves: Any) -> list:
        """Return the flat results, from arrays or NumPy arrays."""
        with eager(self.x64):
            args, kwargs = self.in_tree.unflatten([_owned(x) for x in leaves])
            result = self.fun(*args, **kwargs)
        if self.out_tree is None:  # results are not looked at
            return []
        outs, tree = flatten(result)
        # Containers may differ, as a list from the tuple that was asked for.
        if len(outs) != self.out_tree.num_leaves:
            raise RuntimeError(
                f"{self.label} {self.__name__} returned the structure {tree}, but its "
                f"result_shape_dtypes has {self.out_tree}"
            )
        return outs if self.x64 else [_narrowed(x) for x in outs]

    def __repr__(self) -> str:
        return self.__name__


_NARROW = {
    np.dtype(order + wide): np.dtype(narrow)
    for order in "<>"
    for wide, narrow in (("f8", "f4"), ("i8", "i4"), ("u8", "u4"), ("c16", "c8"))
}


def _narrowed(x: ArrayLike) -> Any:
    """NumPy computes with 64 bits; without 64-bit mode its results are as weft's of that value."""
    if isinstance(x, np.ndarray | np.generic) and x.dtype in _NARROW:
        return x.astype(_NARROW[x.dtype])
    return x


def _owned(x: ArrayLike) -> Any:
    """Return an array with memory of its own: what XLA passes is valid during the call only."""
    if type(x) is np.ndarray:
        return put_host(x, copy=True)

    return as_array(x)


class eager:
    """Around a callback: ops run at once, whatever this thread is tracing, and in one surrounding.

    A callback runs on threads of XLA's or on the caller's. Neither the mesh in context nor 64-bit
    mode, which belong to threads, may depend on that: there is no mesh, and the mode is the one in
    which the call was traced.
    """

    __slots__ = ("before", "mesh", "mode", "x64")

    def __init__(self, x64: bool) -> None:
        self.x64 = x64

    def __enter__(self) -> None:
        self.before = state.trace, state.axes
        state.trace, state.axes = EVAL, {}
        self.mesh = use_context_mesh(None)
        self.mesh.__enter__()
        self.mode = None
        if bool(config.enable_x64) != self.x64:
            self.mode = options["enable_x64"](self.x64)
            self.mode.__enter__()

    def __exit__(self, *exception: object) -> None:
        if self.mode is not None:
            self.mode.__exit__(None, None, None)
        self.mesh.__exit__(None, None, None)
        state.trace, state.axes = self.before
