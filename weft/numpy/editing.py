"""Elements of arrays inserted, deleted and trimmed: positions on the host unless stated."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axis
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import Tracer, typeof
from weft.numpy.common import (
    aval_of,
    axes_of,
    check_array,
    concrete,
    convert,
    is_concrete,
    to_array,
)
from weft.numpy.creation import arange
from weft.numpy.joining import concatenate
from weft.numpy.selection import take, take_known, where
from weft.numpy.shaping import moveaxis
from weft.numpy.sorting import argsort, sort
from weft.ops import joining
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _flat(arr: Any, axis: int | None) -> tuple[Any, int]:
    x = to_array(arr)
    if axis is None:
        return ops.reshape(x, (typeof(x).size,)), 0
    return x, canonical_axis(axis, typeof(x).ndim)


def _position(name: str, i: Array, n: int, end: int) -> int:
    i = operator.index(i)
    if not -n <= i < n + end:
        raise IndexError(f"weft.numpy.{name}: index {i} is out of bounds for an axis of size {n}")
    return i + n if i < 0 else i


def delete(
    arr: ArrayLike,
    obj: object,
    axis: int | None = None,
    *,
    assume_unique_indices: builtins.bool = False,
) -> Any:
    """Return the array without the slices at the positions; None flattens it first.

    Traced positions must be unique and assume_unique_indices set: the size depends on it.
    Source: numpy.delete.

    >>> import weft
    >>> weft.numpy.delete(weft.numpy.arange(4), 1)
    Array([0, 2, 3], dtype=int32)
    """
    aval_of("delete", arr)
    x, axis = _flat(arr, axis)
    n = typeof(x).shape[axis]
    if isinstance(obj, slice):
        gone = np.arange(n)[obj]
    elif not is_concrete(obj):
        return _delete_traced(x, obj, axis, n, assume_unique_indices)
    else:
        gone = concrete(obj, "delete: obj")
        if gone.dtype == bool:
            if gone.shape != (n,):
                raise ArgumentError(
                    f"weft.numpy.delete: a boolean mask of shape {gone.shape} for an axis of "
                    f"size {n}; give one boolean for each of its elements"
                )
            gone = np.flatnonzero(gone)
        gone = np.array([_position("delete", i, n, 0) for i in gone.ravel()], int)
    return take_known(x, np.setdiff1d(np.arange(n), gone), axis)


def _delete_traced(x: object, obj: Any, axis: int, n: int, unique: builtins.bool) -> Any:
    """Count the positions that are kept past each deleted one, in ascending order."""
    from weft.numpy.reductions import sum

    aval = typeof(obj)
    if aval.dtype == dtypes.bool_ or (aval.size > 1 and not unique):
        concrete(obj, "delete: obj (unless unique integers with assume_unique_indices=True)")
    positions = sort(ops.reshape(where(u.less(obj, 0), u.add(obj, n), obj), (aval.size,)))
    count = aval.size
    slots = arange(n - count)
    shifted = u.subtract(positions, arange(count))
    skipped = sum(u.greater_equal(slots[:, None], shifted[None, :]), axis=1)
    return take(x, u.add(slots, skipped), axis)


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Any:
    """Insert values before positions of an axis; None flattens the array first.

    Source: numpy.insert.

    >>> import weft
    >>> weft.numpy.insert(weft.numpy.arange(3), 1, 9)
    Array([0, 9, 1, 2], dtype=int32)
    """
    check_array("insert", arr)
    x, axis = _flat(arr, axis)
    aval = typeof(x)
    n = aval.shape[axis]
    vals = convert(to_array(values), aval.dtype, aval.weak_type)
    if isinstance(obj, slice):
        obj = np.arange(n)[obj]
    scalar = np.ndim(obj) == 0 if not isinstance(obj, Tracer) else obj.ndim == 0
    vals = ops.broadcast_to_rank(vals, aval.ndim) if typeof(vals).ndim < aval.ndim else vals
    if scalar and typeof(to_array(values)).ndim:
        vals = moveaxis(vals, 0, axis)
    traced = isinstance(obj, Tracer) and not is_concrete(obj)
    if not traced:
        obj = concrete(obj, "insert: obj")
        if obj.dtype == bool:
            obj = np.flatnonzero(obj)
        at = np.array([_position("insert", i, n, 1) for i in obj.ravel()], int)
    count = typeof(vals).shape[axis] if scalar else max(obj.size, 1)
    if not scalar and obj.size == 0:
        return x
    shape = list(aval.shape)
    shape[axis] = count
    vals = _broadcast_to(vals, tuple(shape))
    if traced:
        return _insert_traced(x, obj, vals, axis, n, count)
    at = np.repeat(at, count) if scalar or at.size == 1 and count > 1 else at
    order = np.argsort(at, kind="stable")
    slots = np.empty(count, int)
    slots[order] = at[order] + np.arange(count)
    source = np.empty(n + count, np.int32)
    mask = np.ones(n + count, bool)
    mask[slots] = False
    source[mask] = np.arange(n)
    source[slots] = n + np.arange(count)
    return take_known(joining.concatenate([x, vals], axis), source, axis)


def _insert_traced(x: object, obj: object, vals: object, axis: int, n: int, count: int) -> Any:
    """Insert at traced positions: sort all elements by their final position."""
    at = _broadcast_to(ops.reshape(obj, (-1,)), (count,))
    at = where(u.less(at, 0), u.add(at, n), at)
    # An inserted value comes before the element at its position: keys 2p and 2p + 1.
    keys = concatenate([u.add(u.multiply(arange(n), 2), 1), u.multiply(at, 2)])
    return take(joining.concatenate([x, vals], axis), argsort(keys), axis)


def trim_zeros(filt: Any, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Any:
    """Return the array without leading ('f') and trailing ('b') zeros; its values must be known.

    >>> import weft.numpy as wnp
    >>> wnp.trim_zeros(wnp.array([0, 0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    aval = aval_of("trim_zeros", filt) if not isinstance(filt, list | tuple) else None
    x = to_array(np.asarray(filt)) if aval is None else to_array(filt)
    if not set(trim.lower()) <= {"f", "b"}:
        raise ArgumentError(f"weft.numpy.trim_zeros: trim must be 'f', 'b' or 'fb', got {trim!r}")
    nonzero = np.argwhere(concrete(x, "trim_zeros: filt"))
    shape = typeof(x).shape
    for i in axes_of(axis, len(shape)):
        if nonzero.size == 0:
            x = slice_in_dim(x, 0, 0, axis=i)
            continue
        lo = int(nonzero[:, i].min()) if "f" in trim.lower() else 0
        hi = int(nonzero[:, i].max()) + 1 if "b" in trim.lower() else shape[i]
        x = slice_in_dim(x, lo, hi, axis=i)
    return x
