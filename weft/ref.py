"""weft.ref: mutable arrays, and functions that read and write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core.namespace import seal
from weft.core.ref import AbstractRef
from weft.driver.staging import aval_of_spec
from weft.ops.compound import empty
from weft.refs.api import Ref, freeze, new_ref
from weft.refs.api import addupdate as _addupdate
from weft.refs.api import load as _load
from weft.refs.api import store as _store
from weft.refs.api import swap as _swap

if TYPE_CHECKING:
    from weft.typing import ArrayLike

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]


def get(ref: object, idx: object = None) -> Any:
    """Return the value of a ref at an index, `ref[idx]`; without an index all of it.

    >>> import weft
    >>> weft.ref.get(weft.new_ref(weft.numpy.arange(3)), 1)
    Array(1, dtype=int32)
    """
    return _load(ref, ... if idx is None else idx)


def set(ref: object, idx: object, value: object) -> None:
    """Write a value to a ref at an index, as `ref[idx] = value`; None: to all of it.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.zeros(2))
    >>> weft.ref.set(ref, 0, 3.0); ref[...]
    Array([3., 0.], dtype=float32)
    """
    _store(ref, ... if idx is None else idx, value)


def swap(ref: object, idx: object, value: object) -> Any:
    """Write a value to a ref at an index and return the one before.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.arange(3))
    >>> weft.ref.swap(ref, 2, 7), ref[2]
    (Array(2, dtype=int32), Array(7, dtype=int32))
    """
    return _swap(ref, ... if idx is None else idx, value)


def addupdate(ref: object, idx: object, x: ArrayLike) -> None:
    """Add to a ref at an index in one op; where indices repeat, each addition counts.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.zeros(2))
    >>> weft.ref.addupdate(ref, weft.numpy.array([1, 1]), 2.0); ref[...]
    Array([0., 4.], dtype=float32)
    """
    _addupdate(ref, ... if idx is None else idx, x)


def empty_ref(ty: object, memory_space: object = None) -> Ref:
    """Return a ref to an array that need not have any particular value yet.

    ty: an array, a `ShapeDtypeStruct` or anything with shape and dtype that describes it.

    >>> import weft
    >>> ref = weft.ref.empty_ref(weft.ShapeDtypeStruct((2,), "float32"))
    >>> ref[...] = 1.0; ref[...]
    Array([1., 1.], dtype=float32)
    """
    aval = aval_of_spec(ty)
    return new_ref(empty(aval.shape, aval.dtype), memory_space=memory_space)


def free_ref(ref: object) -> None:
    """Give up a ref: any later use of it is an error, and its memory is free.

    Raises TypeError if it is not a whole ref made by `new_ref` in the same function.

    >>> import weft
    >>> ref = weft.new_ref(0.0)
    >>> weft.ref.free_ref(ref)
    """
    freeze(ref)


seal(globals())
