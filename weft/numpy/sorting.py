# Tests: tests/numpy/test_functions.py, tests/native/test_sorting.py
"""Sorting, and searching in sorted arrays."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import (
    aval_of,
    canonical,
    cast,
    check_array,
    convert,
    fill,
    inexact,
    refuse_complex,
    to_array,
)
from weft.numpy.creation import arange
from weft.numpy.eager import as_one_program
from weft.numpy.filled import zeros
from weft.numpy.selection import take, take_along_axis
from weft.numpy.value_tests import isnan
from weft.ops import elementwise_api as ew
from weft.ops import joining
from weft.ops import sort as sorts
from weft.ops.compound import composite
from weft.ops.control.scan import scan
from weft.ops.promote import promote
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike


def _axis(name: str, a: ArrayLike, axis: int | None) -> tuple[Any, int]:
    aval = aval_of(name, a)
    x = to_array(a)
    if axis is None:
        return ops.reshape(x, (aval.size,)), 0
    return x, canonical_axis(axis, aval.ndim)


def _check_kind(name: str, kind: object, order: object, stable: bool) -> bool:
    """Return whether the sort must be stable; `kind` is NumPy's older way to say it."""
    if order is not None:
        raise ArgumentError(
            f"weft.numpy.{name}: order= is for structured dtypes, which do not exist"
        )
    if kind is not None:
        if kind not in ("quicksort", "mergesort", "heapsort", "stable"):
            raise ArgumentError(
                f"weft.numpy.{name}: unknown kind {kind!r}; use stable=True or False"
            )
        return kind in ("stable", "mergesort")
    return bool(stable)


def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: object = None,
    order: object = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
) -> Any:
    """Return the array sorted along an axis; NaN last, complex numbers by real then imaginary part.

    Source: numpy.sort.

    >>> import weft
    >>> weft.numpy.sort(weft.numpy.array([3, 1, 2]), descending=True)
    Array([3, 2, 1], dtype=int32)
    """
    stable = _check_kind("sort", kind, order, stable)
    x, axis = _axis("sort", a, axis)
    out = sorts.sort(x, axis, stable)
    return joining.rev(out, (axis,)) if descending else out


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: object = None,
    order: object = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
    dtype: DTypeLike | None = None,
) -> Any:
    """Return the indices that sort along an axis; equal elements keep their order if stable.

    dtype: an integer type for the indices, by default the widest that is on.

    >>> import weft
    >>> weft.numpy.argsort(weft.numpy.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    stable = _check_kind("argsort", kind, order, stable)
    x, axis = _axis("argsort", a, axis)
    if descending:
        x = joining.rev(x, (axis,))
    n = typeof(x).shape[axis]
    index = _positions(typeof(x).shape, axis, dtype)
    out = sorts.sort((x, index), axis, stable, 1)[1]
    if descending:
        # Sorted backwards from the reversed array, equal elements come out in order.
        out = ew.sub_p.bind(typeof(out).dtype.type(n - 1), joining.rev(out, (axis,)))
    return out


def _positions(shape: tuple, axis: int, dtype: DTypeLike | None = None) -> Any:
    dtype = dtypes.canonicalize_dtype(int) if dtype is None else canonical(dtype, "argsort")
    return ops.iota_p.bind(dtype=dtype, shape=shape, dimension=axis)


def lexsort(keys: object, axis: int = -1) -> Any:
    """Return the indices that sort by several keys, the last one first. Source: numpy.lexsort.

    >>> import weft.numpy as wnp
    >>> last, first = wnp.array([1, 1, 0]), wnp.array([2, 1, 3])
    >>> wnp.lexsort((first, last))
    Array([2, 1, 0], dtype=int32)
    """
    from weft.numpy.joining import unstack

    keys = list(keys) if isinstance(keys, Sequence) else list(unstack(keys))
    if not keys:
        raise ArgumentError("weft.numpy.lexsort: needs at least one key")
    check_array("lexsort", *keys)
    keys = [to_array(k) for k in keys]
    shape = typeof(keys[0]).shape
    for i, k in enumerate(keys):
        if typeof(k).shape != shape:
            raise ArgumentError(
                f"weft.numpy.lexsort: key {i} has shape {typeof(k).shape}, key 0 has {shape}"
            )
    if not shape:
        return to_array(dtypes.canonicalize_dtype(int).type(0))
    axis = canonical_axis(axis, len(shape))
    return sorts.sort((*keys[::-1], _positions(shape, axis)), axis, True, len(keys))[-1]


def sort_complex(a: ArrayLike) -> Any:
    """Sorted along the last axis, as complex numbers.

    >>> import weft.numpy as wnp
    >>> wnp.sort_complex(wnp.array([2, 1 + 2j, 1 - 1j]))
    Array([1.-1.j, 1.+2.j, 2.+0.j], dtype=complex64)
    """
    out = inexact(sort(a))
    dtype = typeof(out).dtype
    if dtypes.is_complex(dtype):
        return out
    wide = dtypes.complex128 if dtype == dtypes.float64 else dtypes.complex64
    return cast(out, wide)


def _kth(kth: Any, n: int, name: str) -> int:
    kth = operator.index(kth)
    if not -n <= kth < n:
        raise ArgumentError(
            f"weft.numpy.{name}: kth {kth} is out of bounds for an axis of size {n}"
        )
    return kth + n if kth < 0 else kth


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Any:
    """Partition an array around its kth smallest element: smaller ones before, others behind.

    >>> import weft.numpy as wnp
    >>> wnp.partition(wnp.array([5, 1, 4, 2]), 1)[:2]
    Array([1, 2], dtype=int32)
    """
    x, axis = _axis("partition", a, axis)
    rank = _kth(kth, typeof(x).shape[axis], "partition")
    if axis < typeof(x).ndim - 1:
        return sorts.sort(x, axis, False)
    return as_one_program(_partition, x, name="partition", number=rank)


def _partition(x: ArrayLike, *, name: str, number: int) -> ArrayLike:
    """Sort rows, or their indices; kernels do no more than the rank asks for."""

    def by_sorting(x: ArrayLike, *, number: int) -> ArrayLike:
        return sorts.sort(x, -1, False) if name == "partition" else argsort(x)

    return composite(by_sorting, f"weft_native.{name}")(x, number=number)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Any:
    """Return the indices by which `partition` orders the array.

    >>> import weft.numpy as wnp
    >>> x = wnp.array([5, 1, 4, 2])
    >>> x[wnp.argpartition(x, 1)][:2]
    Array([1, 2], dtype=int32)
    """
    x, axis = _axis("argpartition", a, axis)
    rank = _kth(kth, typeof(x).shape[axis], "argpartition")
    if axis < typeof(x).ndim - 1:
        return argsort(x, axis)
    return as_one_program(_partition, x, name="partition_indices", number=rank)


def top_k(
    a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: builtins.bool = True
) -> tuple[Any, Any]:
    """Return the k largest elements along an axis, best first, and their indices.

    mode: 'largest', or 'smallest'. Of equal elements the one with the lower index comes first, if
    `sorted`; without it, the order is open. NaNs are larger than all numbers.
    Source: numpy.top_k (NumPy 2.5).

    >>> import weft.numpy as wnp
    >>> wnp.top_k(wnp.array([5, 1, 4, 2]), 2, mode="smallest")
    (Array([1, 2], dtype=int32), Array([1, 3], dtype=int32))
    """
    x, axis = _axis("top_k", a, axis)
    refuse_complex("top_k", x)
    if mode not in ("largest", "smallest"):
        raise ArgumentError(f"weft.numpy.top_k: mode must be 'largest' or 'smallest', got {mode!r}")
    if mode == "largest":
        values, indices = sorts.top_k(x, k, axis=axis)
        return values, indices
    size = typeof(x).shape[axis]
    if not 0 <= k <= size:
        raise ArgumentError(f"weft.numpy.top_k: k={k} is not between 0 and the axis's size {size}")
    indices = slice_in_dim(argsort(x, axis, stable=sorted), 0, k, axis=axis)
    return take_along_axis(x, indices, axis), convert(indices, dtypes.int32)


def searchsorted(
    a: Any, v: ArrayLike, side: str = "left", sorter: object = None, *, method: str = "scan"
) -> Any:
    """Return the positions in the sorted vector a before which each v keeps the order.

    side: 'left' gives the first such position, 'right' the last. sorter: indices that sort a.
    method: 'scan' and 'scan_unrolled' halve the range, 'sort' sorts a and v together,
    'compare_all' compares every pair. Source: numpy.searchsorted.

    >>> import weft
    >>> weft.numpy.searchsorted(weft.numpy.array([1, 3, 5]), weft.numpy.array([3, 4]))
    Array([1, 2], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ArgumentError(
            f"weft.numpy.searchsorted: side must be 'left' or 'right', got {side!r}"
        )
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ArgumentError(
            "weft.numpy.searchsorted: method must be scan, scan_unrolled, sort or compare_all, got "
            f"{method!r}"
        )
    aval, vval = aval_of("searchsorted", a), aval_of("searchsorted", v)
    if aval.ndim != 1:
        raise ArgumentError(f"weft.numpy.searchsorted: a must be a vector, got {aval.str_short()}")
    if sorter is not None:
        a = take(a, sorter)
    a, v = (to_array(x) for x in promote(a, v))
    n = aval.shape[0]
    if n == 0:
        return fill(vval.shape, 0, dtypes.canonicalize_dtype(int))
    return as_one_program(_searchsorted, a, v, side=side, method=method)


def _searchsorted(a: ArrayLike, v: ArrayLike, *, side: str, method: str) -> Any:
    """Return the positions in an a that is not empty."""
    vval, n, index = typeof(v), typeof(a).shape[0], dtypes.canonicalize_dtype(int)
    if method == "compare_all":
        from weft.numpy.reductions import sum

        below = _precedes(side)
        flat = ops.reshape(v, (1, vval.size))
        hits = below(ops.reshape(a, (n, 1)), flat)
        return cast(ops.reshape(sum(hits, axis=0), vval.shape), index)
    if method == "sort":
        return _by_sorting(a, v, side, index)
    halving = composite(_by_halving, "weft_native.search")
    return halving(a, v, method=method, number=int(side == "right"))


def _by_halving(a: ArrayLike, v: ArrayLike, *, method: str, number: int) -> Any:
    n, shape, index = typeof(a).shape[0], typeof(v).shape, dtypes.canonicalize_dtype(int)
    below = _precedes("right" if number else "left")
    # Binary search: after each step the answer is in (low, low + size].
    sizes = 2 ** np.arange(n.bit_length())[::-1].astype(index)
    low = np.full(shape, -1, index)
    a, v = stop_gradient(a), stop_gradient(v)

    def halve(low: ArrayLike, size: ArrayLike) -> tuple:
        at = u.add(low, size)
        inside = u.less(at, n)
        value = take(a, at, mode="clip")
        return ew.select(u.logical_and(inside, below(value, v)), at, low), None

    # The first step stands before the loop, which gives low the type that the others keep.
    low, _ = halve(low, sizes[0])
    if method == "scan_unrolled":
        for size in sizes[1:]:
            low, _ = halve(low, size)
    elif len(sizes) > 1:
        low, _ = scan(halve, low, sizes[1:])
    return u.add(low, 1)


def _precedes(side: str) -> Any:
    """Return whether an element of a stands before v: a < v, or a <= v; NaN is the greatest."""

    def below(x: ArrayLike, v: ArrayLike) -> Any:
        if not dtypes.is_inexact(typeof(x).dtype):
            return u.less(x, v) if side == "left" else u.less_equal(x, v)
        if side == "left":
            return u.logical_or(u.less(x, v), u.logical_and(isnan(v), u.logical_not(isnan(x))))
        return u.logical_or(u.less_equal(x, v), isnan(v))

    return below


def _by_sorting(a: object, v: object, side: str, index: object) -> Any:
    """Rank among both: the position in a is the rank less the rank among v alone."""
    n, shape = typeof(a).shape[0], typeof(v).shape
    flat = ops.reshape(v, (-1,))
    m = typeof(flat).shape[0]
    both = [flat, a] if side == "left" else [a, flat]
    order = argsort(joining.concatenate(both, 0))
    rank = _inverse(order, n + m, index)
    rank_of_v = rank[:m] if side == "left" else rank[n:]
    alone = _inverse(argsort(flat), m, index)
    return ops.reshape(u.subtract(rank_of_v, alone), shape)


def _inverse(order: object, n: int, index: Any) -> Any:
    return zeros((n,), index).at[order].set(arange(n, dtype=index), unique_indices=True)
