# Tests: tests/numpy/test_functions.py
"""Counting: bincount, digitize and histograms."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.trace import typeof
from weft.numpy.calculus import diff
from weft.numpy.common import (
    aval_of,
    cast,
    check_array,
    concrete,
    inexact,
    is_concrete,
    place,
    static_int,
    to_array,
)
from weft.numpy.creation import asarray
from weft.numpy.eager import as_one_program
from weft.numpy.filled import ones, zeros, zeros_like
from weft.numpy.formulas import clip
from weft.numpy.joining import column_stack, stack
from weft.numpy.reductions import max as max_
from weft.numpy.reductions import min as min_
from weft.numpy.selection import take, where
from weft.numpy.shaping import ravel
from weft.numpy.sorting import searchsorted
from weft.numpy.spaced_ranges import linspace
from weft.numpy.ufuncs import maximum, minimum
from weft.numpy.value_tests import isfinite
from weft.ops import joining
from weft.ops.control.loops import fori_loop

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: object = None,
) -> Any:
    """Return how often each of 0, 1, 2, … occurs, or the sum of weights there.

    length: a static number of results, which makes the function traceable; negative numbers count
    as 0, those of length and above are dropped. Source: numpy.bincount.

    >>> import weft
    >>> weft.numpy.bincount(weft.numpy.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int32)
    """
    aval = aval_of("bincount", x)
    if dtypes.is_bool(aval.dtype):
        x = cast(x, dtypes.uint8)
    elif not dtypes.is_integer(aval.dtype):
        raise ArgumentError(
            f"weft.numpy.bincount: x must be a vector of integers, got {aval.str_short()}"
        )
    if aval.ndim != 1:
        raise ArgumentError(
            f"weft.numpy.bincount: x must be a vector of integers, got {aval.str_short()}"
        )
    if weights is not None and aval_of("bincount", weights).shape != aval.shape:
        raise ArgumentError(
            f"weft.numpy.bincount: weights {typeof(weights).str_short()} must have the shape of x, "
            f"{aval.shape}"
        )
    minlength = operator.index(minlength)
    if length is None:
        values = concrete(x, "bincount: x (without length)")
        length = max(int(values.max()) + 1 if values.size else 0, minlength)
    index = maximum(to_array(x), 0)
    dtype = dtypes.canonicalize_dtype(int) if weights is None else typeof(weights).dtype
    out = zeros((operator.index(length),), dtype)
    if length:
        out = out.at[index].add(dtype.type(1) if weights is None else weights, mode="drop")
    return place(out, None, out_sharding)


def digitize(
    x: ArrayLike, bins: Any, right: builtins.bool = False, *, method: str | None = None
) -> Any:
    """Return the number of each x's bin; bins rise or fall. Source: numpy.digitize.

    >>> import weft.numpy as wnp
    >>> wnp.digitize(wnp.array([0.2, 1.0, 9.0]), wnp.array([0.0, 1.0, 2.0]))
    Array([1, 2, 3], dtype=int32)
    """
    bval = aval_of("digitize", bins)
    aval_of("digitize", x)
    if bval.ndim != 1:
        raise ArgumentError(f"weft.numpy.digitize: bins must be a vector, got {bval.str_short()}")
    n = bval.shape[0]
    if n == 0:
        return zeros_like(to_array(x), dtypes.canonicalize_dtype(int))
    side = "right" if not right else "left"
    method = method or "scan"
    bins = to_array(bins)
    up = searchsorted(bins, x, side=side, method=method)
    down = u.subtract(n, searchsorted(joining.rev(bins, (0,)), x, side=side, method=method))
    return where(u.greater_equal(bins[-1], bins[0]), up, cast(down, typeof(up).dtype))


def _limits(a: Array, range_: tuple | np.ndarray | None) -> tuple[Any, Any]:
    """Return the lowest and highest edge; of one value, half a unit to both sides."""
    if range_ is None:
        if typeof(a).size == 0:
            return np.float32(0), np.float32(1)
        lo, hi = min_(a), max_(a)
    elif isinstance(range_, Sequence):
        if len(range_) != 2:
            raise ArgumentError(
                f"weft.numpy.histogram: range must be (lowest, highest), got {range_}"
            )
        lo, hi = range_
        ends = [concrete(v, "histogram: range") for v in (lo, hi) if is_concrete(v)]
        if len(ends) == 2 and ends[0] > ends[1]:
            raise ArgumentError(f"weft.numpy.histogram: range {range_} must rise")
    else:
        if aval_of("histogram", range_).shape != (2,):
            shown = typeof(range_).str_short()
            raise ArgumentError(
                f"weft.numpy.histogram: range must be (lowest, highest), got {shown}"
            )
        lo, hi = range_[0], range_[1]
    lo, hi = inexact(lo), inexact(hi)
    flat = u.equal(lo, hi)
    return where(flat, u.subtract(lo, 0.5), lo), where(flat, u.add(hi, 0.5), hi)


def histogram_bin_edges(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None
) -> Any:
    """Return the edges of the bins of a histogram. Source: numpy.histogram_bin_edges.

    >>> import weft.numpy as wnp
    >>> wnp.histogram_bin_edges(wnp.array([0.0, 4.0]), bins=4)
    Array([0., 1., 2., 3., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise UnsupportedArgumentError(
            "weft.numpy.histogram: bins must be a number or an array of edges; rules such as "
            f"{bins!r} make the shape depend on the data"
        )
    aval_of("histogram", a)
    if isinstance(bins, list | tuple):
        bins = asarray(bins)
    bval = aval_of("histogram", bins)
    dtype = dtypes.to_inexact(typeof(a).dtype)
    if dtypes.is_complex(bval.dtype) or dtypes.is_complex(typeof(a).dtype):
        raise ArgumentError(
            f"weft.numpy.histogram: a and bins must be real numbers, got {typeof(a).str_short()} "
            f"and {bval.str_short()}"
        )
    if bval.ndim == 1:
        return cast(to_array(bins), dtypes.join_types([(bval.dtype, False), (dtype, False)])[0])
    n = static_int(bins, "histogram: bins")
    if n < 1:
        raise ArgumentError(f"weft.numpy.histogram: bins must be positive, got {n}")
    a = cast(ravel(a), dtype)
    lo, hi = _limits(a, range)
    return linspace(cast(lo, dtype), cast(hi, dtype), n + 1, dtype=dtype)


def histogram(
    a: ArrayLike,
    bins: object = 10,
    range: object = None,
    weights: ArrayLike | None = None,
    density: object = None,
) -> tuple[Any, Any]:
    """Return the number of elements in each bin, and the edges of the bins.

    bins: how many, or their edges. range: (lowest, highest) edge. weights: what each element
    counts. density: whether the counts are divided so that the integral is 1.
    Source: numpy.histogram.

    >>> import weft.numpy as wnp
    >>> wnp.histogram(wnp.array([1, 2, 2, 5]), bins=2)
    (Array([3., 1.], dtype=float32), Array([1., 3., 5.], dtype=float32))
    """
    from weft.numpy.reductions import sum

    edges = histogram_bin_edges(a, bins, range)
    shape = typeof(a).shape
    a = ravel(cast(a, dtypes.to_inexact(typeof(a).dtype)))
    if weights is None:
        weights = _ones(typeof(a).shape, typeof(edges).dtype)
    else:
        if aval_of("histogram", weights).shape != shape:
            raise ArgumentError(
                f"weft.numpy.histogram: weights must have the shape of a, {shape}, got "
                f"{typeof(weights).shape}"
            )
        weights = ravel(inexact(weights))
    n = typeof(edges).shape[0] - 1
    slot, outside = as_one_program(_bins_of, a, edges, even=np.ndim(bins) == 0)  # type: ignore[arg-type]
    slot = where(outside, n, slot)
    counts = _zeros((n,), typeof(weights).dtype).at[slot].add(weights, mode="drop")
    if density:
        counts = u.true_divide(u.true_divide(counts, diff(edges)), sum(counts))
    return counts, edges


def _bins_of(a: ArrayLike, edges: Any, even: builtins.bool) -> tuple[Array, Array]:
    """Return the bin of each element, the last with both edges; and whether it is in none.

    even: whether all bins are of one width. A quotient then tells an element's bin or the one
    beside it, which its edges decide; bins that are hardly wider than the rounding errors of
    their edges are searched.
    """
    a, edges = stop_gradient(a), stop_gradient(edges)
    n, dtype = typeof(edges).shape[0] - 1, typeof(edges).dtype
    low, high = edges[0], edges[-1]
    outside = u.logical_not(u.logical_and(u.greater_equal(a, low), u.less_equal(a, high)))
    if not even:
        slot = u.subtract(searchsorted(edges, a, side="right"), 1)
        return minimum(slot, n - 1), outside
    width = u.subtract(high, low)
    rounding = u.multiply(
        maximum(u.absolute(low), u.absolute(high)), 16 * n * float(dtypes.finfo(dtype).eps)
    )
    exact = u.logical_and(u.less(rounding, width), isfinite(width))
    position = u.multiply(u.subtract(a, low), u.true_divide(dtype.type(n), width))
    slot = cast(clip(position, 0, n - 1), dtypes.int32)
    slot = u.subtract(slot, cast(u.less(a, _at(edges, slot)), dtypes.int32))
    above = u.greater_equal(a, _at(edges, u.add(slot, 1)))
    slot = minimum(u.add(slot, cast(above, dtypes.int32)), n - 1)

    def halve(step: ArrayLike, slot: ArrayLike) -> Array:
        further = u.add(slot, u.left_shift(np.int32(1), u.subtract(steps - 1, step)))
        fits = u.logical_and(u.less(further, n), u.less_equal(_at(edges, further), a))
        return where(fits, further, slot)

    steps = np.int32((n - 1).bit_length())
    return fori_loop(0, where(exact, 0, steps), halve, where(exact, slot, 0)), outside


def _at(edges: ArrayLike, index: ArrayLike) -> Array:
    return take(edges, index, mode="clip")


def _zeros(shape: tuple, dtype: np.dtype) -> Any:
    return zeros(shape, dtype)


def _ones(shape: tuple, dtype: np.dtype) -> Any:
    return ones(shape, dtype)


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: object = 10,
    range: object = None,
    weights: ArrayLike | None = None,
    density: object = None,
) -> tuple[Any, Any, Any]:
    """Return counts of pairs in a grid of bins, and the edges in both directions.

    >>> import weft.numpy as wnp
    >>> counts, x, y = wnp.histogram2d(wnp.array([0, 1, 1]), wnp.array([0, 0, 1]), bins=2)
    >>> counts
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    edges = bins
    if (
        not isinstance(bins, Sequence)
        and typeof(bins).ndim == 1
        and typeof(bins).shape[0] > 2
        or isinstance(bins, Sequence)
        and len(bins) not in (1, 2)
    ):
        edges = [bins, bins]
    counts, (ex, ey) = histogramdd(stack([x, y], axis=1), edges, range, weights, density)
    return counts, ex, ey


def histogramdd(
    sample: Any,
    bins: object = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: object = None,
) -> tuple[Any, list]:
    """Return counts of points in a grid of bins of any dimension, and the list of edges.

    sample: an array of shape (points, dimensions), or a sequence of coordinates.
    Source: numpy.histogramdd.

    >>> import weft.numpy as wnp
    >>> counts, edges = wnp.histogramdd(wnp.array([[0, 0], [1, 1], [1, 1]]), bins=2)
    >>> counts
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    from weft.numpy.reductions import sum

    if isinstance(sample, Sequence):
        check_array("histogramdd", *sample)
        sample = column_stack([to_array(s) for s in sample])
    sample = to_array(sample)
    points, rank = typeof(sample).shape
    by_column = isinstance(bins, Sequence) or np.ndim(bins) == 1  # type: ignore[arg-type]
    per = list(bins) if by_column else [bins] * rank  # type: ignore[call-overload]
    if len(per) != rank:
        raise ArgumentError(
            f"weft.numpy.histogramdd: {len(per)} bins for {rank} dimensions; "
            "give one entry for each column of sample"
        )
    ranges = [None] * rank if range is None else list(range)
    if len(ranges) != rank:
        raise ArgumentError(
            f"weft.numpy.histogramdd: {len(ranges)} ranges for {rank} "
            "dimensions; give one (lowest, highest) or None for each column of sample"
        )
    # The bin of each point along each dimension; even bins need no search.
    edges, slots, outside = [], [], None
    for d, (b, r) in enumerate(zip(per, ranges, strict=True)):
        x = cast(sample[:, d], dtypes.to_inexact(typeof(sample).dtype))
        e = histogram_bin_edges(x, b, r)
        slot, bad = as_one_program(_bins_of, x, e, even=np.ndim(b) == 0)
        outside = bad if outside is None else u.logical_or(outside, bad)
        edges.append(e)
        slots.append(slot)
    shape = tuple(typeof(e).shape[0] - 1 for e in edges)
    # Points outside of any dimension go to a place that the update below drops.
    slots = [
        s if outside is None else where(outside, n, s) for s, n in zip(slots, shape, strict=True)
    ]
    if weights is None:
        one = dtypes.canonicalize_dtype(int).type(1)
        counts = (
            _zeros(shape, dtypes.canonicalize_dtype(int)).at[tuple(slots)].add(one, mode="drop")
        )
    else:
        if aval_of("histogramdd", weights).shape != (points,):
            raise ArgumentError(
                f"weft.numpy.histogramdd: weights must have the shape ({points},), one for each "
                f"point, got {typeof(weights).str_short()}"
            )
        weights = inexact(weights)
        counts = _zeros(shape, typeof(weights).dtype).at[tuple(slots)].add(weights, mode="drop")
    if density:
        # Densities are counts over the bins' volumes, which multiply out of the widths.
        volume: Any = 1.0
        for d, e in enumerate(edges):
            width = ops.reshape(diff(e), tuple(-1 if k == d else 1 for k in builtins.range(rank)))
            volume = u.multiply(volume, width)
        counts = u.true_divide(counts, u.multiply(volume, sum(counts)))
    return counts, edges
