"""Types of weft.ref, written by `make stubs` from the definitions."""

from typing import Any

from weft.core.ref import AbstractRef as AbstractRef
from weft.refs.api import Ref as Ref
from weft.typing import Array as Array
from weft.typing import ArrayLike

def addupdate(ref: Any, idx: Any, x: ArrayLike) -> None:
    """Add to a ref at an index in one op; where indices repeat, each addition counts."""

def empty_ref(ty: Any, memory_space: Any = ...) -> Ref:
    """Return a ref to an array that need not have any particular value yet."""

def free_ref(ref: Any) -> None:
    """Give up a ref: any later use of it is an error, and its memory is free."""

def freeze(ref: Any) -> Any:
    """Return the value of a ref, which cannot be used from then on."""

def get(ref: Any, idx: Any = ...) -> Any:
    """Return the value of a ref at an index, `ref[idx]`; without an index all of it."""

def new_ref(init_val: Any, *, memory_space: Any = ..., kind: Any = ...) -> Ref:
    """Return a mutable array that starts with the value of init_val."""

def set(ref: Any, idx: Any, value: Any) -> None:
    """Write a value to a ref at an index, as `ref[idx] = value`; None: to all of it."""

def swap(ref: Any, idx: Any, value: Any) -> Any:
    """Write a value to a ref at an index and return the one before."""
