# Tests: tests/compat/test_other_modules.py
"""Types of arrays as JAX tells them: always with a sharding, and dtypes by their whole names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.core.aval import ShapedArray
from weft.driver.staging import typeof as weft_typeof
from weft.sharding.mesh import EMPTY_ABSTRACT_MESH
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec


class JaxType(ShapedArray):
    """Equals the type that it tells, whose sharding is None where no axis is Explicit."""

    __slots__ = ("_told",)
    _told: ShapedArray

    def __eq__(self, other: object) -> bool:
        return self._told is (other._told if isinstance(other, JaxType) else other)

    def __hash__(self) -> int:
        return hash(self._told)

    def __reduce__(self) -> tuple:
        return as_jax_type, (self._told,)

    def update(self, **changes: object) -> ShapedArray:
        return self._told.update(**changes)

    def __str__(self) -> str:
        _, _, dims = self._told.str_short().partition("[")
        return f"{self.dtype}[{dims}"

    str_short = __str__

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self}{weak})"


hitypes: dict[type, Callable] = {}
"""Classes of values that programs define, each with the function that tells a value's type."""


@functools.lru_cache(4096)
def as_jax_type(aval: ShapedArray) -> JaxType:
    """Return the type as JAX tells it."""
    told: JaxType = object.__new__(JaxType)
    for name in ("shape", "dtype", "weak_type", "sharding", "mat", "ndim", "size"):
        setattr(told, name, getattr(aval, name))
    if told.sharding is None:
        told.sharding = NamedSharding(EMPTY_ABSTRACT_MESH, PartitionSpec(*[None] * aval.ndim))
    told._told = aval
    return told


def typeof(x: object) -> Any:
    """Return the type of a value as JAX tells it; see weft.typeof.

    Raises TypeError if x is no array.

    >>> typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    >>> typeof(1.0).sharding.is_fully_replicated
    True
    """
    if hitypes and type(x) in hitypes:
        return hitypes[type(x)](x)
    aval = weft_typeof(x)
    return as_jax_type(aval) if type(aval) is ShapedArray else aval
