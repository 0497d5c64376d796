# Tests: tests/collectives/test_async.py
"""The types of values in flight: what a start gives and its done, or receive, takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.jvp import cotangent_aval, tangent_aval
from weft.autodiff.shape import broadcast_to_dim, moveaxis
from weft.autodiff.vmap import AxisData, add_dim, remove_dim
from weft.autodiff.zeros import instantiate_zero
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.caches import interned
from weft.lowering.context import ir_type

if TYPE_CHECKING:
    from weft.collectives.groups import AxisGroup


class AsyncType:
    """A value being communicated. It has the value's shape and manual-axis type, but is no array.

    A subclass says how it is named; `finish` turns it into its value, and `wrap` back. Interned by
    what `_of` is given.
    """

    __slots__ = ("dtype", "key", "value")

    sharding = None
    weak_type = False
    remedy = "take it"
    _interned: dict[tuple, AsyncType] = interned({})

    value: ShapedArray
    dtype: np.dtype
    key: tuple

    @classmethod
    def _of(cls, name: str, value: ShapedArray, *key: str | tuple | AxisGroup) -> Any:
        """name: with the value's dtype it tells kinds apart, since compiled programs are found by
        shape and dtype."""
        self = cls._interned.get((cls, value, *key))
        if self is None:
            self = object.__new__(cls)
            self.value, self.key = value, key
            self.dtype = np.dtype([(name, value.dtype)])
            cls._interned[cls, value, *key] = self
        return self

    def __reduce__(self) -> tuple:
        return type(self), (*self.key, self.value)

    def of(self, value: ShapedArray) -> Any:
        """Make the same kind of type, of another value."""
        kind: Any = type(self)
        return kind(*self.key, value)

    def finish(self, x: object) -> Any:
        """Wait for the value of a future: the op that finishes the collective."""
        raise TypeError(self)

    def wrap(self, x: object) -> Any:
        """Wrap a value as a finished future, for a carry or branch that expects one."""
        raise TypeError(self)

    def str_short(self) -> str:
        raise TypeError(type(self))

    def __repr__(self) -> str:
        return self.str_short()

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    mat = property(lambda self: self.value.mat)

    def update(self, **changes: object) -> Any:
        return self.of(self.value.update(**changes))

    def strip_weak_type(self) -> Any:
        return self

    # What transformations ask of types that are no arrays.

    def to_tangent(self) -> Any:
        return self.of(tangent_aval(self.value))

    def to_cotangent(self) -> ShapedArray:
        """Pass cotangents on, which are here: they are sent the other way where the start was."""
        return cotangent_aval(self.value)

    def instantiate_zero(self) -> Any:
        return self.wrap(instantiate_zero(self.value))

    def ir_type(self) -> Any:
        return ir_type(self.value)

    def remove_dim(self, dim: int) -> Any:
        return self.of(remove_dim(self.value, dim))

    def add_dim(self, dim: int, size: int) -> Any:
        return self.of(add_dim(self.value, dim, AxisData(None, size)))

    def moveaxis(self, x: object, source: int, target: int) -> Any:
        return self.wrap(moveaxis(self.finish(x), source, target))

    def broadcast_to_dim(self, x: object, dim: int, size: int) -> Any:
        return self.wrap(broadcast_to_dim(self.finish(x), dim, size))


def no_keys(api: str, x: ShapedArray) -> None:
    """Say that values in flight have plain elements."""
    if dtypes.is_extended(x.dtype):
        raise TypeError(
            f"{api}: a value of type {x.str_short()} cannot be in flight; send the words of the "
            "keys, weft.random.key_data(keys), and wrap what arrives with weft.random.wrap_key_data"
        )
