# Tests: tests/numpy/test_functions.py
"""Shapes and orders of dimensions: reshape, transpose, broadcast, flip, roll."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axes, canonical_axis
from weft.autodiff.shape import check_shape
from weft.core.errors import ArgumentError
from weft.core.trace import Tracer, array_method, stands_for_array, typeof
from weft.numpy.common import aval_of, axes_of, check_array, place, to_array
from weft.numpy.creation import asarray
from weft.numpy.ufuncs import subtract
from weft.ops import joining
from weft.ops.dynamic_slicing import dynamic_slice_in_dim
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.slicing import slice_in_dim
from weft.runtime.array import ArrayImpl

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def iterable(y: ArrayLike) -> builtins.bool:
    """Return whether iter(y) works.

    >>> import weft.numpy as wnp
    >>> wnp.iterable(wnp.arange(3)), wnp.iterable(3)
    (True, False)
    """
    return y.ndim > 0 if isinstance(y, ArrayImpl | Tracer) else np.iterable(y)


def ndim(a: ArrayLike) -> int:
    """Return the number of dimensions.

    >>> import weft.numpy as wnp
    >>> wnp.ndim([[1, 2], [3, 4]]), wnp.ndim(5)
    (2, 0)
    """
    return len(shape(a))


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the shape, a tuple of int.

    >>> import weft.numpy as wnp
    >>> wnp.shape([[1, 2, 3], [4, 5, 6]])
    (2, 3)
    """
    if isinstance(a, list | tuple):
        a = asarray(a)
    elif stands_for_array(a):
        a = array_method(a)()
    sizes = getattr(a, "shape", None)
    return sizes if isinstance(sizes, tuple) else np.shape(a)


def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """Return the number of elements, in all or along axes.

    >>> import weft.numpy as wnp
    >>> wnp.size(wnp.ones((2, 3))), wnp.size(wnp.ones((2, 3)), axis=1)
    (6, 3)
    """
    sizes = shape(a)
    return math.prod(sizes if axis is None else (sizes[i] for i in axes_of(axis, len(sizes))))


def reshape(
    a: Any,
    shape: Any,
    order: str = "C",
    *,
    copy: builtins.bool | None = None,
    out_sharding: object = None,
) -> Any:
    """Return the same elements in another shape; one size may be -1.

    order: 'C' reads and writes rows first, 'F' columns first. Raises TypeError if the number of
    elements differs. Source: numpy.reshape.

    >>> import weft
    >>> weft.numpy.reshape(weft.numpy.arange(4), (2, -1))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    aval = aval_of("reshape", a)
    if shape.__class__ is not tuple:
        several = hasattr(shape, "__iter__") and getattr(shape, "ndim", 1) > 0
        shape = tuple(shape) if several else (shape,)
    if order != "C":
        if order != "F":
            raise ArgumentError(f"weft.numpy.reshape: order must be 'C' or 'F', got {order!r}")
        sizes = tuple(operator.index(d) for d in shape)
        flat = ops.reshape(transpose(a), sizes[::-1])
        return place(transpose(flat), None, out_sharding)
    if not builtins.all(d.__class__ is int for d in shape):
        shape = tuple(operator.index(d) for d in shape)
    if shape == aval.shape and out_sharding is None:
        return to_array(a)
    if -1 not in shape and out_sharding is None:
        return ops.reshape_p.bind(a, new_sizes=shape)
    out = ops.reshape(a, shape, out_sharding=out_sharding)
    return to_array(out) if out is a else out


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: object = None) -> Any:
    """Return the elements as a vector.

    >>> import weft.numpy as wnp
    >>> wnp.ravel(wnp.array([[1, 2], [3, 4]]), order="F")
    Array([1, 3, 2, 4], dtype=int32)
    """
    if order == "K":
        raise ArgumentError(
            "weft.numpy.ravel: order 'K' depends on the memory layout, which arrays do not "
            "have; use 'C'"
        )
    return reshape(a, (aval_of("ravel", a).size,), order, out_sharding=out_sharding)


def transpose(a: ArrayLike, axes: Any = None) -> Any:
    """Return the dimensions reversed, or in the order given. Source: numpy.transpose.

    >>> import weft
    >>> weft.numpy.transpose(weft.numpy.ones((2, 3))).shape
    (3, 2)
    """
    aval = aval_of("transpose", a)
    if axes is None:
        order = tuple(range(aval.ndim - 1, -1, -1))
    else:
        order = canonical_axes(tuple(axes), aval.ndim, "axes")
        if len(order) != aval.ndim:
            raise ArgumentError(
                f"weft.numpy.transpose: axes {tuple(axes)} must name every dimension of "
                f"{aval.str_short()}"
            )
    if aval.ndim < 2 or order == tuple(range(aval.ndim)):
        return to_array(a)
    return ops.transpose_p.bind(a, permutation=order)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Any:
    """Return the dimensions in the order given (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.permute_dims(wnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Any:
    """Return the last two dimensions exchanged.

    >>> import weft.numpy as wnp
    >>> wnp.matrix_transpose(wnp.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    aval = aval_of("matrix_transpose", x)
    if aval.ndim < 2:
        raise ArgumentError(
            "weft.numpy.matrix_transpose: x must have two dimensions or more, got "
            f"{aval.str_short()}"
        )
    n = aval.ndim
    return ops.transpose_p.bind(x, permutation=(*range(n - 2), n - 1, n - 2))


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Any:
    """Exchange two dimensions.

    >>> import weft.numpy as wnp
    >>> wnp.swapaxes(wnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    n = aval_of("swapaxes", a).ndim
    i, j = canonical_axis(axis1, n, "axis1"), canonical_axis(axis2, n, "axis2")
    order = list(range(n))
    order[i], order[j] = order[j], order[i]
    return to_array(a) if i == j else ops.transpose_p.bind(a, permutation=tuple(order))


def moveaxis(a: ArrayLike, source: object, destination: object) -> Any:
    """Move dimensions to new positions; the others keep their order. Source: numpy.moveaxis.

    >>> import weft.numpy as wnp
    >>> wnp.moveaxis(wnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    n = aval_of("moveaxis", a).ndim
    source = canonical_axes(
        tuple(source) if isinstance(source, Sequence | range) else source, n, "source"
    )
    destination = canonical_axes(
        tuple(destination) if isinstance(destination, Sequence | range) else destination,
        n,
        "destination",
    )
    if len(source) != len(destination):
        raise ArgumentError(
            f"weft.numpy.moveaxis: source {source} and destination {destination} differ in number"
        )
    order = [i for i in range(n) if i not in source]
    for to, come in sorted(zip(destination, source, strict=True)):
        order.insert(to, come)
    if order == list(range(n)):
        return to_array(a)
    return ops.transpose_p.bind(a, permutation=tuple(order))


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Any:
    """Return a dimension moved before position `start`. Source: numpy.rollaxis.

    >>> import weft.numpy as wnp
    >>> wnp.rollaxis(wnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    n = aval_of("rollaxis", a).ndim
    axis = canonical_axis(axis, n)
    if not -n <= start <= n:
        raise ArgumentError(
            f"weft.numpy.rollaxis: start {start} is out of bounds for rank {n}; it "
            f"lies in [{-n}, {n}]"
        )
    start = start + n if start < 0 else start
    return moveaxis(a, axis, start - 1 if start > axis else start)


def expand_dims(a: ArrayLike, axis: int | Sequence[int] = 0) -> Any:
    """Add dimensions of size 1 at these positions of the result.

    >>> import weft
    >>> weft.numpy.expand_dims(weft.numpy.ones(3), 0).shape
    (1, 3)
    """
    aval = aval_of("expand_dims", a)
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    rank = aval.ndim + len(axes)
    dims = canonical_axes(axes, rank, "axis")
    old = iter(aval.shape)
    return ops.reshape_p.bind(
        a, new_sizes=tuple(1 if i in dims else next(old) for i in range(rank))
    )


def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Any:
    """Drop dimensions of size 1: those named, or all. Source: numpy.squeeze.

    >>> import weft.numpy as wnp
    >>> wnp.squeeze(wnp.ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    aval = aval_of("squeeze", a)
    if axis is None:
        dims = tuple(i for i, d in enumerate(aval.shape) if d == 1)
    else:
        dims = canonical_axes(tuple(axis) if isinstance(axis, list) else axis, aval.ndim, "axis")
    return ops.squeeze(to_array(a), dims)


def broadcast_shapes(*shapes: object) -> tuple[int, ...]:
    """Return the shape to which NumPy's rules broadcast the given shapes.

    >>> import weft.numpy as wnp
    >>> wnp.broadcast_shapes((3, 1), (2,), ())
    (3, 2)
    """
    return ops.broadcast_shapes(*(check_shape(s, "shapes") for s in shapes))


def broadcast_to(
    array: ArrayLike, shape: int | Sequence[int], *, out_sharding: object = None
) -> Any:
    """Return the array repeated along dimensions to fill a shape. Source: numpy.broadcast_to.

    >>> import weft
    >>> weft.numpy.broadcast_to(weft.numpy.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    old = aval_of("broadcast_to", array).shape
    shape = check_shape(shape)
    if len(old) > len(shape) or builtins.any(
        a not in (1, b) for a, b in zip(old[::-1], shape[::-1], strict=False)
    ):
        raise ArgumentError(
            f"weft.numpy.broadcast_to: an array of shape {old} does not broadcast to {shape}; "
            "dimensions must be equal or 1, counted from the last"
        )
    return place(to_array(_broadcast_to(array, shape)), None, out_sharding)


def broadcast_arrays(*args: Any) -> tuple:
    """Return the arrays repeated to one shape, in a tuple as the array API standard has it.

    >>> import weft.numpy as wnp
    >>> [x.shape for x in wnp.broadcast_arrays(wnp.ones((3, 1)), wnp.ones(2))]
    [(3, 2), (3, 2)]
    """
    check_array("broadcast_arrays", *args)
    shape = ops.broadcast_shapes(*(typeof(a).shape for a in args))
    return tuple(to_array(_broadcast_to(a, shape)) for a in args)


def _at_least(n: int, arys: tuple) -> Any:
    out = []
    for a in arys:
        a = to_array(a)
        s = typeof(a).shape
        if len(s) < n:
            if n == 3 and len(s) == 2:
                a = ops.reshape(a, (*s, 1))
            elif n == 3 and len(s) == 1:
                a = ops.reshape(a, (1, *s, 1))
            else:
                a = ops.reshape(a, (1,) * (n - len(s)) + s)
        out.append(a)
    return out[0] if len(out) == 1 else out


def atleast_1d(*arys: object) -> Any:
    """Give arrays at least one dimension.

    >>> import weft.numpy as wnp
    >>> wnp.atleast_1d(3.0).shape
    (1,)
    """
    check_array("atleast_1d", *arys)
    return _at_least(1, arys)


def atleast_2d(*arys: object) -> Any:
    """Give arrays at least two dimensions; new ones come first.

    >>> import weft.numpy as wnp
    >>> wnp.atleast_2d(wnp.arange(3)).shape
    (1, 3)
    """
    check_array("atleast_2d", *arys)
    return _at_least(2, arys)


def atleast_3d(*arys: object) -> Any:
    """Give arrays at least three dimensions; a vector becomes (1, n, 1). As numpy.atleast_3d.

    >>> import weft.numpy as wnp
    >>> wnp.atleast_3d(wnp.ones((2, 3))).shape
    (2, 3, 1)
    """
    check_array("atleast_3d", *arys)
    return _at_least(3, arys)


def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Any:
    """Return the order of elements reversed along axes, or along all.

    >>> import weft.numpy as wnp
    >>> wnp.flip(wnp.array([[1, 2], [3, 4]]))
    Array([[4, 3],
           [2, 1]], dtype=int32)
    """
    aval = aval_of("flip", m)
    return joining.rev(to_array(m), axes_of(axis, aval.ndim))


def flipud(m: ArrayLike) -> Any:
    """Reverse the order of rows.

    >>> import weft.numpy as wnp
    >>> wnp.flipud(wnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return flip(m, 0)


def fliplr(m: ArrayLike) -> Any:
    """Reverse the order of columns.

    >>> import weft.numpy as wnp
    >>> wnp.fliplr(wnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(m, 1)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Rotated by k quarter turns in the plane of two axes. Source: numpy.rot90.

    >>> import weft.numpy as wnp
    >>> wnp.rot90(wnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    n = aval_of("rot90", m).ndim
    i, j = canonical_axes(tuple(axes), n, "axes")
    k = operator.index(k) % 4
    if k == 0:
        return to_array(m)
    if k == 2:
        return flip(m, (i, j))
    return flip(swapaxes(m, i, j), i) if k == 1 else swapaxes(flip(m, i), i, j)


def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Move elements along axes, those past the end coming back at the start.

    shift: an int, a traced integer, or one for each axis. Source: numpy.roll.

    >>> import weft
    >>> weft.numpy.roll(weft.numpy.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    aval = aval_of("roll", a)
    a = to_array(a)
    if axis is None:
        return reshape(roll(reshape(a, (aval.size,)), shift, 0), aval.shape)
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    axes = tuple(canonical_axis(i, aval.ndim) for i in axes)
    if isinstance(shift, Tracer) or (hasattr(shift, "ndim") and shift.ndim):
        shift_aval = aval_of("roll", shift)
        parts = [shift] if shift_aval.ndim == 0 else [shift[i] for i in range(shift_aval.shape[0])]
        shifts = parts if len(parts) != 1 else parts * len(axes)
    else:
        shifts = list(shift) if isinstance(shift, Sequence) else [shift] * len(axes)
    if len(axes) == 1 and len(shifts) != 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ArgumentError(
            f"weft.numpy.roll: {len(shifts)} shifts for {len(axes)} axes; give one "
            "shift, or one for each axis"
        )
    for i, s in zip(axes, shifts, strict=True):
        n = aval.shape[i]
        if n == 0:
            continue
        if isinstance(s, Tracer):
            from weft.numpy.division import remainder

            # A traced shift: a window of the array beside its copy.
            twice = joining.concatenate([a, a], i)
            start = remainder(subtract(0, s), n)
            a = dynamic_slice_in_dim(twice, start, n, axis=i)
        else:
            k = operator.index(s) % n
            if k:
                a = joining.concatenate(
                    [slice_in_dim(a, n - k, n, axis=i), slice_in_dim(a, 0, n - k, axis=i)], i
                )
    return a
