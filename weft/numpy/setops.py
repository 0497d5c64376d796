"""Sets: unique elements, unions, intersections, membership. Sizes are static where given."""

from __future__ import annotations

import builtins
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axis
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import Tracer, typeof
from weft.numpy.common import (
    INEXACT,
    aval_of,
    cast,
    check_array,
    concrete,
    constant,
    fill,
    is_concrete,
    to_array,
)
from weft.numpy.creation import arange
from weft.numpy.filled import full, zeros
from weft.numpy.nonzero_positions import nonzero
from weft.numpy.scans import cumsum
from weft.numpy.selection import take, where
from weft.numpy.shaping import moveaxis
from weft.numpy.sorting import argsort, lexsort, searchsorted, sort
from weft.numpy.value_tests import isnan
from weft.ops import joining
from weft.ops.promote import promote

if TYPE_CHECKING:
    from weft.typing import ArrayLike


class _UniqueAll(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class _UniqueCounts(NamedTuple):
    values: Any
    counts: Any


class _UniqueInverse(NamedTuple):
    values: Any
    inverse_indices: Any


def unique(
    ar: Any,
    return_index: builtins.bool = False,
    return_inverse: builtins.bool = False,
    return_counts: builtins.bool = False,
    axis: int | None = None,
    *,
    equal_nan: builtins.bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: builtins.bool = True,
) -> Any:
    """Return the distinct elements, sorted, or the distinct slices along an axis.

    return_index, return_inverse, return_counts: also their first positions, the positions that
    rebuild the array, and how often each occurs. size: a static number of results, which makes
    the function traceable; missing ones are fill_value (the least element by default).
    Source: numpy.unique.

    >>> import weft
    >>> weft.numpy.unique(weft.numpy.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    aval = aval_of("unique", ar)
    x = to_array(ar)
    if axis is None:
        rows = ops.reshape(x, (aval.size,))
        at = 0
    else:
        at = canonical_axis(axis, aval.ndim)

        rows = moveaxis(x, at, 0)
    wanted = (return_index, return_inverse, return_counts)
    options = return_index or return_inverse, equal_nan
    if size is None and is_concrete(x):
        values, first, inverse, counts = _on_host(rows, *options, axis is not None)
    else:
        if size is None:
            concrete(x, "unique: ar (without size)")
        assert size is not None, "a traced array without size was refused"
        values, first, inverse, counts = _traced(rows, operator.index(size), fill_value, *options)
    if size is not None and values.shape[0] != size:
        raise ArgumentError(f"weft.numpy.unique: size must not be negative, got {size}")
    if axis is not None:
        values = moveaxis(values, 0, at)
        inverse = ops.reshape(inverse, (inverse.shape[0],))
    elif return_inverse:
        inverse = ops.reshape(inverse, aval.shape)
    extra = [v for v, want in zip((first, inverse, counts), wanted, strict=True) if want]
    return (values, *extra) if extra else values


def _on_host(
    rows: object, places: builtins.bool, equal_nan: builtins.bool, along_axis: builtins.bool
) -> tuple:
    host = concrete(rows, "unique: ar")
    index = dtypes.canonicalize_dtype(int)
    wide = host if host.dtype.isbuiltin == 1 else host.astype(np.float64)  # ml_dtypes
    as_rows = along_axis and equal_nan and host.size and host.dtype in INEXACT
    axis = 0 if along_axis else None
    if not (places or as_rows or isinstance(rows, Tracer)):
        values, counts = np.unique(wide, False, False, True, axis, equal_nan=equal_nan)
        none = constant(np.zeros(0, index))
        return constant(values.astype(host.dtype)), none, none, constant(counts.astype(index))
    of_rows = _ranks(wide) if as_rows else wide
    values, first, inverse, counts = np.unique(of_rows, True, True, True, axis, equal_nan=equal_nan)
    if as_rows:
        values = wide[first]
    if isinstance(rows, Tracer):  # it may be differentiated
        unique_rows = take(rows, constant(first.astype(index)), 0)
    else:
        unique_rows = constant(values.astype(host.dtype))
    return (
        unique_rows,
        constant(first.astype(index)),
        constant(inverse.reshape(-1).astype(index)),
        constant(counts.astype(index)),
    )


def _ranks(rows: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of the elements of each column; NaNs are equal and last."""
    columns = rows.reshape(rows.shape[0], -1).T
    return np.stack([np.unique(c, return_inverse=True)[1] for c in columns], axis=1)


def _traced(
    rows: Any, size: int, fill_value: object, places: builtins.bool, equal_nan: builtins.bool
) -> tuple:
    """Sort rows, mark where a new one starts, and number the groups."""
    from weft.numpy.reductions import any

    aval = typeof(rows)
    n = aval.shape[0]
    index = dtypes.canonicalize_dtype(int)
    if n == 0 or size == 0:
        if size and fill_value is None:
            raise ArgumentError("weft.numpy.unique: an empty array with size > 0 needs fill_value")
        shape = (size, *aval.shape[1:])
        values = fill(shape, 0, aval.dtype)
        if fill_value is not None:
            values = full(shape, cast(fill_value, aval.dtype))
        return values, zeros((size,), index), zeros((n,), index), zeros((size,), index)
    columns = ops.reshape(rows, (n, -1)) if aval.size else zeros((n, 1))
    if places or aval.ndim > 1 or aval.dtype in dtypes.COMPLEX:
        # The last key of lexsort is the first that counts.
        keys = [columns[:, i] for i in range(columns.shape[1])]
        order = lexsort(keys[::-1])
        ordered = take(columns, order, 0, mode="clip")
    else:
        rows, order = sort(rows), arange(n)
        ordered = ops.reshape(rows, (n, 1))
    differs = u.not_equal(ordered[1:], ordered[:-1])
    if equal_nan and aval.dtype in INEXACT:
        both = u.logical_and(isnan(ordered[1:]), isnan(ordered[:-1]))
        differs = u.logical_and(differs, u.logical_not(both))
    starts = joining.concatenate([fill((1,), True, dtypes.bool_), any(differs, axis=1)], 0)
    group = u.subtract(cumsum(starts), 1)
    # Groups beyond the last one repeat the first row, or are filled below.
    (heads,) = nonzero(starts, size=size, fill_value=0)
    count = u.add(group[-1], 1)
    slots = arange(size)
    present = u.less(slots, count)
    first = take(order, heads, mode="clip")
    values = take(rows, first, 0, mode="clip")
    if fill_value is not None:
        mask = ops.reshape(present, (size,) + (1,) * (aval.ndim - 1))
        values = where(mask, values, cast(fill_value, aval.dtype))
    inverse = zeros((n,), index).at[order].set(cast(group, index), unique_indices=True)
    counts = zeros((size,), index).at[group].add(index.type(1), mode="drop")
    return values, where(present, first, first[0]), inverse, counts


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """Distinct values, first indices, inverse and counts (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.unique_all(wnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return _UniqueAll(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """Distinct values and their counts (array API standard).

    >>> import weft.numpy as wnp
    >>> values, counts = wnp.unique_counts(wnp.array([3, 1, 3]))
    >>> counts
    Array([1, 2], dtype=int32)
    """
    return _UniqueCounts(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """Distinct values and the positions that rebuild x (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.unique_inverse(wnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    return _UniqueInverse(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """Distinct values (array API standard).

    >>> import weft.numpy as wnp
    >>> wnp.unique_values(wnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def _flat(name: str, *xs: ArrayLike) -> list:
    check_array(name, *xs)
    return [ops.reshape(to_array(x), (typeof(x).size,)) for x in promote(*xs)]


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """Return the sorted distinct elements of both.

    >>> import weft.numpy as wnp
    >>> wnp.union1d(wnp.array([3, 1]), wnp.array([2, 3]))
    Array([1, 2, 3], dtype=int32)
    """
    both = joining.concatenate(_flat("union1d", ar1, ar2), 0)
    return unique(both, size=size, fill_value=fill_value)


def _member(a: ArrayLike, b: object) -> Any:
    """Return whether each element of the vector a is in the vector b, by sorting b."""
    n = typeof(b).shape[0]
    if n == 0:
        return fill(typeof(a).shape, False, dtypes.bool_)
    ordered = sort(b)
    at = searchsorted(ordered, a)
    return u.equal(take(ordered, u.minimum(at, n - 1), mode="clip"), a)


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: builtins.bool = False,
    invert: builtins.bool = False,
    *,
    method: str = "auto",
) -> Any:
    """Return whether each element is among the test elements.

    method: 'compare_all' compares every pair, 'binary_search' and 'sort' sort the test elements;
    'auto' chooses by size. Source: numpy.isin.

    >>> import weft.numpy as wnp
    >>> wnp.isin(wnp.array([[1, 2], [3, 4]]), wnp.array([2, 4, 8]))
    Array([[False,  True],
           [False,  True]], dtype=bool)
    """
    from weft.numpy.reductions import any

    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ArgumentError(
            "weft.numpy.isin: method must be auto, compare_all, binary_search or sort, got "
            f"{method!r}"
        )
    shape = aval_of("isin", element).shape
    a, b = _flat("isin", element, test_elements)
    n = typeof(b).shape[0]
    if method == "compare_all" or (method == "auto" and n <= 32):
        pairs = u.equal(ops.reshape(a, (-1, 1)), ops.reshape(b, (1, n))) if typeof(a).size else None
        is_member = fill((0,), False, dtypes.bool_) if pairs is None else any(pairs, axis=1)
    else:
        is_member = _member(a, b)
    is_member = ops.reshape(is_member, shape)
    return u.logical_not(is_member) if invert else is_member


def _filtered(values: object, keep: Any, size: int | None, fill_value: Any) -> Any:
    n, dtype = typeof(values).shape[0], typeof(values).dtype
    (at,) = nonzero(keep, size=size, fill_value=n)
    out = take(values, at, mode="clip") if n else fill(typeof(at).shape, 0, dtype)
    if size is not None:
        filler = cast(0 if fill_value is None else fill_value, dtype)
        if fill_value is None and n and size:
            filler = where(at[0] < n, out[0], filler)
        out = where(at < n, out, filler)
    return out


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Return the distinct elements of the first that are not in the second.

    >>> import weft.numpy as wnp
    >>> wnp.setdiff1d(wnp.array([4, 1, 1, 2]), wnp.array([2, 3]))
    Array([1, 4], dtype=int32)
    """
    a, b = _flat("setdiff1d", ar1, ar2)
    first = None
    if not assume_unique:
        if size is None:
            a = unique(a)
        else:
            a, first = _distinct_sorted(a)
    keep = u.logical_not(_member(a, b))
    if first is not None:
        keep = u.logical_and(first, keep)
    if size is not None and fill_value is None:
        fill_value = 0
    return cast(_filtered(a, keep, size, fill_value), aval_of("setdiff1d", ar1).dtype)


def _distinct_sorted(a: Any) -> tuple[Any, Any]:
    """Return the sorted vector, and where an element differs from the one before."""
    a = sort(a)
    if typeof(a).shape[0] == 0:
        return a, fill((0,), True, dtypes.bool_)
    return a, joining.concatenate([fill((1,), True, dtypes.bool_), u.not_equal(a[1:], a[:-1])], 0)


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Return the sorted distinct elements that are in exactly one of both.

    >>> import weft.numpy as wnp
    >>> wnp.setxor1d(wnp.array([1, 2, 2]), wnp.array([2, 3]))
    Array([1, 3], dtype=int32)
    """
    from weft.numpy.reductions import any

    a, b = _flat("setxor1d", ar1, ar2)
    both, first = _distinct_sorted(joining.concatenate([a, b], 0))
    keep = u.logical_and(first, u.not_equal(_member(both, a), _member(both, b)))
    if typeof(both).dtype in INEXACT:  # NaNs equal none: one stays of each array that has some
        nans = isnan(both)
        wanted = u.add(cast(any(isnan(a)), np.int32), cast(any(isnan(b)), np.int32))
        keep = u.logical_or(keep, u.logical_and(nans, u.less_equal(cumsum(nans), wanted)))
    return _filtered(both, keep, size, fill_value)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = False,
    return_indices: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Return the sorted distinct elements of both; with return_indices, also their first places.

    >>> import weft.numpy as wnp
    >>> wnp.intersect1d(wnp.array([1, 3, 4, 3]), wnp.array([3, 1, 1]))
    Array([1, 3], dtype=int32)
    """
    a, b = _flat("intersect1d", ar1, ar2)
    order = argsort(a)
    ordered, first = _distinct_sorted(a)
    keep = u.logical_and(first, _member(ordered, b))
    values = _filtered(ordered, keep, size, fill_value)
    if not return_indices:
        return values
    (at,) = nonzero(keep, size=size, fill_value=typeof(a).shape[0])
    order_b = argsort(b)

    in_a = take(order, at, mode="fill", fill_value=typeof(a).shape[0])
    where_b = searchsorted(take(b, order_b, mode="clip"), values)
    in_b = take(order_b, where_b, mode="clip")
    if size is not None:
        in_b = where(at < typeof(a).shape[0], in_b, typeof(b).shape[0])
    return values, in_a, in_b
