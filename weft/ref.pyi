"""Types of weft.ref, written by `make stubs` from the definitions."""

from typing import Any

from weft.core.ref import AbstractRef as AbstractRef
from weft.refs.api import Ref as Ref
from weft.typing import Array as Array
from weft.typing import ArrayLike

def addupdate(ref: Any, idx: Any, x: ArrayLike) -> None:
    """Adds to a ref at an index in one op; where indices repeat, each addition counts."""

def empty_ref(ty: Any, memory_space: Any = ...) -> Ref:
    """A ref to an array that need not have any particular value yet."""

def free_ref(ref: Any) -> None:
    """Gives up a ref: any later use of it is an error, and its memory is free."""

def freeze(ref: Any) -> Any:
    """The value of a ref, which cannot be used from then on."""

def get(ref: Any, idx: Any = ...) -> Any:
    """The value of a ref at an index, `ref[idx]`; without an index all of it."""

def new_ref(init_val: Any, *, memory_space: Any = ..., kind: Any = ...) -> Ref:
    """A mutable array that starts with the value of init_val."""

def set(ref: Any, idx: Any, value: Any) -> None:
    """Writes a value to a ref at an index, as `ref[idx] = value`; None: to all of it."""

def swap(ref: Any, idx: Any, value: Any) -> Any:
    """Writes a value to a ref at an index and returns the one before."""
