"""Positions as arrays: of what is nonzero, and between flat and multi-dimensional indices."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.division as division
import weft.numpy.formulas as formulas
import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import (
    aval_of,
    cast,
    concrete,
    constant,
    fill,
    is_concrete,
    is_free,
    to_array,
)
from weft.numpy.creation import arange
from weft.numpy.eager import as_one_program
from weft.numpy.filled import zeros
from weft.numpy.joining import stack
from weft.numpy.scans import cumsum
from weft.numpy.selection import index_array, where
from weft.numpy.shaping import atleast_1d, ravel
from weft.ops.compound import composite

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike

_bool = dtypes.bool_


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> tuple:
    """Return for each dimension the indices of the nonzero elements.

    size: a static number of indices, which makes the function traceable; missing ones are
    fill_value (0 by default), extra ones are dropped. Source: numpy.nonzero.

    >>> import weft
    >>> weft.numpy.nonzero(weft.numpy.array([0, 3, 4]))
    (Array([1, 2], dtype=int32),)
    """
    aval = aval_of("nonzero", a)
    if aval.ndim == 0:
        raise ArgumentError(
            "weft.numpy.nonzero: a scalar has no indices; use weft.numpy.atleast_1d first"
        )
    index = dtypes.canonicalize_dtype(int)
    fills = fill_value if isinstance(fill_value, tuple | list) else (fill_value,) * aval.ndim
    if len(fills) != aval.ndim:
        raise ArgumentError(
            f"weft.numpy.nonzero: {len(fills)} fill values for {aval.ndim} "
            "dimensions; give one number, or one for each dimension"
        )
    if size is None:
        positions = np.nonzero(concrete(a, "nonzero: a (without size)"))
        return tuple(constant(i.astype(index)) for i in positions)
    size = operator.index(size)
    # Values on the host are looked at there, also inside of jit.
    if is_free(a):
        positions = np.nonzero(concrete(a, "nonzero: a"))
        if all(is_concrete(f) for f in fills if f is not None):
            out = []
            for i, f in zip(positions, fills, strict=True):
                full = np.full((size,), 0 if f is None else np.asarray(f), index)
                full[: min(size, i.size)] = i[:size]
                out.append(constant(full))
            return tuple(out)
    flat = ops.reshape(u.as_bool("nonzero", to_array(a)), (aval.size,))
    if size == 0 or aval.size == 0:
        flat_index = fill((size,), 0, index)
        count = cast(np.int32(0), index)
    else:
        flat_index, count = as_one_program(_positions, flat, size=size)
    present = u.less(arange(size), count)
    # Flat positions to one index for each dimension.
    strides = [math.prod(aval.shape[d + 1 :]) for d in range(aval.ndim)]
    out = []
    for d, f in enumerate(fills):
        i = flat_index
        if strides[d] > 1:
            i = division.floor_divide(i, strides[d])
        if d:
            i = division.remainder(i, max(aval.shape[d], 1))
        out.append(where(present, i, cast(0 if f is None else f, index)))
    return tuple(out)


def _positions(flat: ArrayLike, *, size: int) -> tuple[ArrayLike, ArrayLike]:
    """Return the places of truths, as many as there is room for, and how many there are."""
    return composite(_slots, "weft_native.positions")(flat, size=size)


def _slots(flat: ArrayLike, *, size: int) -> tuple[ArrayLike, ArrayLike]:
    index = dtypes.canonicalize_dtype(int)
    n = typeof(flat).shape[0]
    ranks = cumsum(cast(flat, index))
    # The i-th truth goes to slot i; others to none.
    slots = where(flat, u.subtract(ranks, 1), size)
    base = fill((size,), 0, index)
    return base.at[slots].set(arange(n, dtype=index), mode="drop"), ranks[-1]


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """Return the indices of nonzero elements in the flat array.

    >>> import weft.numpy as wnp
    >>> wnp.flatnonzero(wnp.array([[0, 1], [2, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Any:
    """Return the indices of nonzero elements, a row for each.

    >>> import weft.numpy as wnp
    >>> wnp.argwhere(wnp.array([[0, 1], [2, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    rank = aval_of("argwhere", a).ndim
    positions = nonzero(atleast_1d(a), size=size, fill_value=fill_value)
    if rank == 0:
        return zeros((positions[0].shape[0], 0), dtypes.canonicalize_dtype(int))
    return stack(list(positions), axis=1)


def unravel_index(indices: ArrayLike, shape: int | Sequence[int]) -> tuple:
    """Return indices into the flat array as indices of each dimension. Source: numpy.unravel_index.

    >>> import weft.numpy as wnp
    >>> wnp.unravel_index(wnp.array([2, 5]), (2, 3))
    (Array([0, 1], dtype=int32), Array([2, 2], dtype=int32))
    """
    shape = ops.check_shape(shape)
    indices = to_array(indices)
    if not dtypes.is_integer(typeof(indices).dtype):
        raise ArgumentError(
            f"weft.numpy.unravel_index: indices must be integers, got {typeof(indices).str_short()}"
        )
    total = math.prod(shape)
    # Out of bounds indices are moved to the nearest in bounds.
    index = formulas.clip(
        where(u.less(indices, 0), u.add(indices, total), indices), 0, max(total - 1, 0)
    )
    out = []
    for d in builtins.reversed(shape):
        out.append(division.remainder(index, max(d, 1)))
        index = division.floor_divide(index, max(d, 1))
    return tuple(out[::-1])


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: object = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """Turn indices of each dimension to flat ones. Source: numpy.ravel_multi_index.

    >>> import weft.numpy as wnp
    >>> wnp.ravel_multi_index((wnp.array([0, 1]), wnp.array([2, 0])), (2, 3))
    Array([2, 3], dtype=int32)
    """
    if len(multi_index) != len(dims):
        raise ArgumentError(
            f"weft.numpy.ravel_multi_index: {len(multi_index)} index arrays for {len(dims)} "
            "dimensions"
        )
    dims = ops.check_shape(dims, "dims")
    modes = mode if isinstance(mode, tuple) else (mode,) * len(dims)
    parts = []
    for i, n, m in zip(multi_index, dims, modes, strict=True):
        i = index_array("ravel_multi_index", i)
        i = i if dtype is None else cast(i, np.dtype(dtype))
        if m == "raise":
            index_values = concrete(i, "ravel_multi_index: indices (with mode='raise')")
            if index_values.size and (index_values.min() < 0 or index_values.max() >= n):
                raise ArgumentError(
                    f"weft.numpy.ravel_multi_index: an index is out of bounds for size {n}; "
                    "use mode 'wrap' or 'clip'"
                )
        elif m == "wrap":
            i = division.remainder(i, n)
        elif m == "clip":
            i = formulas.clip(i, 0, n - 1)
        else:
            raise ArgumentError(
                f"weft.numpy.ravel_multi_index: mode must be 'raise', 'wrap' or 'clip', got {m!r}"
            )
        parts.append(i)
    if order not in ("C", "F"):
        raise ArgumentError(
            f"weft.numpy.ravel_multi_index: order must be 'C' or 'F', got {order!r}"
        )
    sizes = dims if order == "C" else dims[::-1]
    parts = parts if order == "C" else parts[::-1]
    out: Any = 0
    for i, n in zip(parts, sizes, strict=True):
        out = i if out.__class__ is int else u.add(u.multiply(out, n), i)
    return cast(out, typeof(out).dtype)
