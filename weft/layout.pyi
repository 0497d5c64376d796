"""Types of weft.layout, written by `make stubs` from the definitions."""

from typing import Any, Never, TypeVar, overload

from weft.sharding.memory_layout import Format as Format
from weft.sharding.memory_layout import Layout as Layout
from weft.typing import Array as Array
from weft.typing import ArrayLike

_T = TypeVar("_T")

@overload
def with_layout_constraint(x: Never, layouts: Any) -> Any:
    """Ask XLA to lay out arrays in memory in given orders, at this point of the program."""

@overload
def with_layout_constraint(x: ArrayLike, layouts: Any) -> Array:
    """Ask XLA to lay out arrays in memory in given orders, at this point of the program."""

@overload
def with_layout_constraint(x: _T, layouts: Any) -> _T:
    """Ask XLA to lay out arrays in memory in given orders, at this point of the program."""
