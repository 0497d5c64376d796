# Tests: tests/numpy/test_functions.py
"""Arrays put together and taken apart along axes: concatenate, stack, split, repeat."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axis
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import (
    aval_of,
    canonical,
    cast,
    check_array,
    concrete,
    fill,
    is_concrete,
    place,
    refuse_out,
    static_int,
    to_array,
)
from weft.numpy.creation import arange
from weft.numpy.scans import cumsum
from weft.numpy.selection import take
from weft.numpy.shaping import atleast_1d, atleast_2d, atleast_3d, ravel
from weft.numpy.sorting import searchsorted
from weft.ops import joining
from weft.ops.compound import split_p
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
    """Repeat each element along an axis, or of the flat array.

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
    pairs = list(itertools.pairwise(bounds))
    if all(a <= b for a, b in pairs):
        return split_p.bind(x, sizes=tuple(b - a for a, b in pairs), axis=axis)
    return [slice_in_dim(x, a, max(a, b), axis=axis) for a, b in pairs]


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list:
    """Split along an axis: into a number of equal parts, or cut at indices. Source: numpy.split.

    >>> import weft.numpy as wnp
    >>> wnp.split(wnp.arange(6), [2, 3])
    [Array([0, 1], dtype=int32), Array([2], dtype=int32), Array([3, 4, 5], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list:
    """Act as `split`, with parts that may differ in size by one.

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
