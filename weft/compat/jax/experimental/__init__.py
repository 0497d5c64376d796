"""jax.experimental"""

from typing import Any

from weft import Ref as MutableArray
from weft import freeze, io_callback, new_ref

mutable_array = new_ref

__all__ = [
    "MutableArray",
    "cur_qdd",
    "freeze",
    "io_callback",
    "mutable_array",
    "new_ref",
    "primal_tangent_dtype",
]


def primal_tangent_dtype(primal: object, tangent: object, name: str | None = None) -> Any:
    raise NotImplementedError("weft has no dtypes whose tangents are of another given dtype")


def cur_qdd(x: Any) -> Any:
    """Return the part of a value's type that depends on the value it has now."""
    return x.cur_qdd()
