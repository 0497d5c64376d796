"""Arrays put together and taken apart along axes: concatenate, stack, split, repeat, insert."""

from __future__ import annotations

import builtins
import math
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
    canonical,
    cast,
    check_array,
    concrete,
    convert,
    fill,
    is_concrete,
    place,
    refuse_out,
    static_int,
    to_array,
)
from weft.numpy.creation import arange
from weft.numpy.scans import cumsum
from weft.numpy.selection import take, take_known, where
from weft.numpy.shaping import atleast_1d, atleast_2d, atleast_3d, moveaxis, ravel
from weft.numpy.sorting import argsort, searchsorted, sort
from weft.ops import joining
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.promote import promote
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike


def _arrays(name: str, arrays: object, dtype: DTypeLike | None, axis: object = 0) -> list:
    """Return the elements of a sequence (or the rows of an array), in one dtype."""
    if getattr(axis, "ndim", 0):
        raise ArgumentError(
            f"weft.numpy.{name}: axis must be an integer, got an array; give the arrays to join as "
            f"one sequence: {name}([a, b])"
        )
    if isinstance(arrays, str) or not isinstance(arrays, Sequence):
        aval = aval_of(name, arrays)
        if aval.ndim == 0:
            raise ArgumentError(f"weft.numpy.{name}: takes a sequence of arrays, got a scalar")
        arrays = unstack(arrays)
    if not arrays:
        raise ArgumentError(f"weft.numpy.{name}: needs at least one array, got none")
    check_array(name, *arrays)
    if dtype is not None:
        dtype = canonical(dtype, name)
        return [cast(a, dtype) for a in arrays]
    return list(promote(*arrays))


def concatenate(
    arrays: Sequence[ArrayLike] | Array, axis: int | None = 0, dtype: DTypeLike | None = None
) -> Any:
    """Join arrays along an existing axis; None flattens them first.

    Raises TypeError if other dimensions differ. Source: numpy.concatenate.

    >>> import weft
    >>> weft.numpy.concatenate([weft.numpy.ones(1), weft.numpy.zeros(2)])
    Array([1., 0., 0.], dtype=float32)
    """
    xs = _arrays("concatenate", arrays, dtype, axis)
    if axis is None:
        xs = [ops.reshape(to_array(x), (typeof(x).size,)) for x in xs]
        axis = 0
    rank = typeof(xs[0]).ndim
    if rank == 0:
        raise ArgumentError("weft.numpy.concatenate: scalars have no axis to join along; use stack")
    axis = canonical_axis(axis, rank)
    return to_array(xs[0]) if len(xs) == 1 else joining.concatenate_p.bind(*xs, dimension=axis)


def concat(arrays: Sequence[ArrayLike] | Array, /, *, axis: int | None = 0) -> Any:
    """Join arrays along an existing axis (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.concat([wnp.ones((1, 2)), wnp.zeros((1, 2))], axis=1)
    Array([[1., 1., 0., 0.]], dtype=float32)
    """
    return concatenate(arrays, axis)


def stack(
    arrays: Sequence[ArrayLike] | Array,
    axis: int = 0,
    out: object = None,
    dtype: DTypeLike | None = None,
) -> Any:
    """Join arrays of one shape along a new axis.

    >>> import weft
    >>> weft.numpy.stack([weft.numpy.ones(2), weft.numpy.zeros(2)], axis=1)
    Array([[1., 0.],
           [1., 0.]], dtype=float32)
    """
    refuse_out("stack", out)
    xs = _arrays("stack", arrays, dtype, axis)
    shape = typeof(xs[0]).shape
    for i, x in enumerate(xs):
        if typeof(x).shape != shape:
            raise ArgumentError(
                f"weft.numpy.stack: array {i} has shape {typeof(x).shape} but array 0 has {shape}; "
                "all must be equal"
            )
    axis = canonical_axis(axis, len(shape) + 1)
    new = (*shape[:axis], 1, *shape[axis:])
    xs = [ops.reshape_p.bind(x, new_sizes=new) for x in xs]
    return xs[0] if len(xs) == 1 else joining.concatenate_p.bind(*xs, dimension=axis)


def _raised(name: str, tup: Any, raise_rank: Any) -> list:
    if isinstance(tup, str) or not isinstance(tup, Sequence):
        tup = unstack(tup)
    check_array(name, *tup)
    return [raise_rank(a) for a in tup]


def vstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = None) -> Any:
    """Join arrays along rows; vectors are rows.

    >>> import weft.numpy as wnp
    >>> wnp.vstack([wnp.array([1, 2]), wnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return concatenate(_raised("vstack", tup, atleast_2d), 0, dtype)


def hstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = None) -> Any:
    """Join arrays along columns; vectors along their one axis.

    >>> import weft.numpy as wnp
    >>> wnp.hstack([wnp.array([1, 2]), wnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    xs = _raised("hstack", tup, atleast_1d)
    return concatenate(xs, 0 if typeof(xs[0]).ndim == 1 else 1, dtype)


def dstack(tup: Sequence[ArrayLike] | Array, dtype: DTypeLike | None = None) -> Any:
    """Join arrays along the third axis.

    >>> import weft.numpy as wnp
    >>> wnp.dstack([wnp.ones((2, 3)), wnp.zeros((2, 3))]).shape
    (2, 3, 2)
    """
    return concatenate(_raised("dstack", tup, atleast_3d), 2, dtype)


def column_stack(tup: Sequence[ArrayLike] | Array) -> Any:
    """Join vectors as the columns of a matrix, matrices along columns.

    >>> import weft.numpy as wnp
    >>> wnp.column_stack([wnp.array([1, 2]), wnp.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """

    def column(a: ArrayLike) -> Any:
        aval = aval_of("column_stack", a)
        return to_array(a) if aval.ndim > 1 else ops.reshape(to_array(a), (aval.size, 1))

    return concatenate(_raised("column_stack", tup, column), 1)


def block(arrays: Sequence[ArrayLike] | Array) -> Any:
    """Return an array from nested lists of blocks. Source: numpy.block.

    >>> import weft.numpy as wnp
    >>> wnp.block([[wnp.eye(2), wnp.zeros((2, 1))], [wnp.ones((1, 3))]])
    Array([[1., 0., 0.],
           [0., 1., 0.],
           [1., 1., 1.]], dtype=float32)
    """

    def depth(x: object) -> int:
        if not isinstance(x, list):
            if isinstance(x, tuple):
                raise ArgumentError("weft.numpy.block: blocks are nested in lists, got a tuple")
            return 0
        if not x:
            raise ArgumentError(
                "weft.numpy.block: got an empty list; give each list at least one array"
            )
        depths = {depth(v) for v in x}
        if len(depths) > 1:
            raise ArgumentError(
                "weft.numpy.block: lists are nested to different depths, "
                f"{sorted(depths)}; put each single array in as many brackets as its neighbours"
            )
        return 1 + depths.pop()

    levels = depth(arrays)

    def leaves(x: object) -> list:
        return [leaf for v in x for leaf in leaves(v)] if isinstance(x, list) else [x]

    rank = max(levels, *(typeof(x).ndim for x in leaves(arrays)))

    def join(x: Any, level: int) -> Any:
        if isinstance(x, list):
            return concatenate([join(v, level - 1) for v in x], axis=-level)
        return ops.broadcast_to_rank(to_array(x), rank)

    return join(arrays, levels)


def append(arr: object, values: object, axis: int | None = None) -> Any:
    """Append values to the end of an axis; None flattens both first.

    >>> import weft.numpy as wnp
    >>> wnp.append(wnp.array([1, 2]), wnp.array([[3], [4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    check_array("append", arr, values)
    return concatenate([arr, values], axis)


def tile(A: ArrayLike, reps: object) -> Any:
    """Return the array repeated as a whole along each dimension. Source: numpy.tile.

    >>> import weft.numpy as wnp
    >>> wnp.tile(wnp.array([1, 2]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    aval = aval_of("tile", A)
    reps = (
        tuple(reps)
        if isinstance(reps, Sequence) or (isinstance(reps, np.ndarray) and reps.ndim)
        else (reps,)
    )
    reps = tuple(operator.index(r) for r in reps)
    if any(r < 0 for r in reps):
        raise ArgumentError(f"weft.numpy.tile: reps must not be negative, got {reps}")
    rank = max(aval.ndim, len(reps))
    shape = (1,) * (rank - aval.ndim) + aval.shape
    reps = (1,) * (rank - len(reps)) + reps
    if all(r == 1 for r in reps):
        return ops.reshape(to_array(A), shape)
    pairs = tuple(n for r, d in zip(reps, shape, strict=True) for n in (r, d))
    first = rank - aval.ndim
    dims = tuple(2 * (first + i) + 1 for i in range(aval.ndim))
    spread = ops.broadcast_in_dim_p.bind(A, shape=pairs, broadcast_dimensions=dims)
    return ops.reshape(spread, tuple(r * d for r, d in zip(reps, shape, strict=True)))


def repeat(
    a: ArrayLike,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: object = None,
) -> Any:
    """Each element repeated along an axis, or of the flat array.

    repeats: an int or one for each element; traced ones need total_repeat_length, to which the
    result is cut or filled with its last element. Source: numpy.repeat.

    >>> import weft
    >>> weft.numpy.repeat(weft.numpy.array([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    aval = aval_of("repeat", a)
    if repeats is None:
        raise ArgumentError("weft.numpy.repeat: repeats must be integers, got None")
    a = to_array(a)
    if axis is None:
        a, axis = ops.reshape(a, (aval.size,)), 0
    elif not aval.ndim:
        a = ops.reshape(a, (1,))
    shape = typeof(a).shape
    axis = canonical_axis(axis, len(shape))
    n = shape[axis]
    if is_concrete(repeats):
        counts = concrete(repeats, "repeat: repeats")
        if counts.size and counts.dtype.kind not in "biu":
            raise ArgumentError(f"weft.numpy.repeat: repeats must be integers, got {repeats!r}")
        if (counts < 0).any():
            raise ArgumentError(
                f"weft.numpy.repeat: repeats must not be negative, got {int(counts.min())}"
            )
        if counts.size == 1 and total_repeat_length is None:
            # One count for all elements needs no index.
            r = int(counts.reshape(()))
            new = (*shape[: axis + 1], r, *shape[axis + 1 :])
            dims = tuple(i + (i > axis) for i in range(len(shape)))
            spread = ops.broadcast_in_dim_p.bind(a, shape=new, broadcast_dimensions=dims)
            out = ops.reshape(spread, (*shape[:axis], n * r, *shape[axis + 1 :]))
            return place(out, None, out_sharding)
        counts = np.broadcast_to(counts, (n,))
        index = np.repeat(np.arange(n, dtype=np.int32), counts)
        if total_repeat_length is not None:
            last = index[-1] if index.size else 0
            missing = max(total_repeat_length - index.size, 0)
            index = np.concatenate([index, np.full(missing, last, np.int32)])
            index = index[:total_repeat_length]
        return place(take(a, to_array(index), axis), None, out_sharding)
    if total_repeat_length is None:
        concrete(repeats, "repeat: repeats without total_repeat_length")
    assert total_repeat_length is not None, "traced repeats were refused"
    # Position i repeats the first element whose repetitions end behind i.
    ends = cumsum(_broadcast_to(repeats, (n,)))
    index = searchsorted(ends, arange(total_repeat_length), side="right")
    return place(take(a, index, axis, mode="clip"), None, out_sharding)


def unstack(x: Any, /, *, axis: int = 0) -> tuple:
    """Return the slices along an axis, without it.

    >>> import weft.numpy as wnp
    >>> wnp.unstack(wnp.array([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    aval = aval_of("unstack", x)
    if aval.ndim == 0:
        raise ArgumentError("weft.numpy.unstack: a scalar has no axis to take apart")
    x, axis = to_array(x), canonical_axis(axis, aval.ndim)
    shape = (*aval.shape[:axis], *aval.shape[axis + 1 :])
    return tuple(
        ops.reshape(slice_in_dim(x, i, i + 1, axis=axis), shape) for i in range(aval.shape[axis])
    )


def _split(name: str, ary: ArrayLike, indices_or_sections: ArrayLike | list, axis: int) -> list:
    aval = aval_of(name, ary)
    axis = canonical_axis(axis, aval.ndim)
    n = aval.shape[axis]
    sections = indices_or_sections
    if isinstance(sections, Sequence) or (hasattr(sections, "ndim") and sections.ndim):
        points = [static_int(i, f"{name}: indices") for i in concrete(sections, f"{name}: indices")]
        bounds = [0, *(max(min(p + n if p < 0 else p, n), 0) for p in points), n]
    else:
        parts = static_int(sections, f"{name}: sections")
        if parts <= 0:
            raise ArgumentError(
                f"weft.numpy.{name}: the number of sections must be positive, got {parts}"
            )
        size, rest = divmod(n, parts)
        if rest and name != "array_split":
            raise ArgumentError(
                f"weft.numpy.{name}: axis {axis} of size {n} does not divide into {parts} equal "
                "parts; use array_split"
            )
        bounds = [0]
        for i in range(parts):
            bounds.append(bounds[-1] + size + (i < rest))
    x = to_array(ary)
    return [
        slice_in_dim(x, a, max(a, b), axis=axis)
        for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    ]


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list:
    """Split along an axis: into a number of equal parts, or cut at indices. Source: numpy.split.

    >>> import weft.numpy as wnp
    >>> wnp.split(wnp.arange(6), [2, 3])
    [Array([0, 1], dtype=int32), Array([2], dtype=int32), Array([3, 4, 5], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list:
    """As `split`, with parts that may differ in size by one.

    >>> import weft.numpy as wnp
    >>> wnp.array_split(wnp.arange(5), 2)
    [Array([0, 1, 2], dtype=int32), Array([3, 4], dtype=int32)]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list:
    """Split along the first axis.

    >>> import weft.numpy as wnp
    >>> [x.shape for x in wnp.vsplit(wnp.ones((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list:
    """Split along the second axis, or the first of a vector.

    >>> import weft.numpy as wnp
    >>> wnp.hsplit(wnp.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _split("hsplit", ary, indices_or_sections, 0 if aval_of("hsplit", ary).ndim == 1 else 1)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list:
    """Split along the third axis.

    >>> import weft.numpy as wnp
    >>> [x.shape for x in wnp.dsplit(wnp.ones((2, 2, 4)), 2)]
    [(2, 2, 2), (2, 2, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2)


def resize(a: ArrayLike, new_shape: object) -> Any:
    """Return the elements, repeated or cut to fill a new shape. Source: numpy.resize.

    >>> import weft.numpy as wnp
    >>> wnp.resize(wnp.array([1, 2, 3]), (2, 4))
    Array([[1, 2, 3, 1],
           [2, 3, 1, 2]], dtype=int32)
    """
    shape = ops.check_shape(new_shape, "new_shape")
    flat, total = ravel(a), math.prod(shape)
    n = typeof(flat).shape[0]
    if n == 0:
        return fill(shape, 0, typeof(flat).dtype)
    if total > n:
        flat = tile(flat, -(-total // n))
    return ops.reshape(slice_in_dim(flat, 0, total), shape)


# Insertion and deletion: positions on the host unless stated ------------------------------------


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
