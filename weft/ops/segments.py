"""Reductions of segments: elements that share a number, along the first dimension."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import scalar
from weft.autodiff.shape import reshape
from weft.core import dtypes
from weft.core.errors import ArgumentError, BadIndexError
from weft.core.trace import Tracer, typeof
from weft.ops.compound import full
from weft.ops.joining import concatenate
from weft.ops.reduce import highest, lowest, reduce_max, reduce_min, reduce_prod, reduce_sum
from weft.ops.scatter import (
    ScatterDimensionNumbers,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
)
from weft.sharding.explicit import placed

if TYPE_CHECKING:
    from weft.sharding.spec import PartitionSpec
    from weft.typing import ArrayLike

# name → (scatter, reduction of buckets, identity of a dtype)
_KINDS: dict[str, tuple[Callable, Callable, Callable[[Any], Any]]] = {
    "segment_sum": (scatter_add, reduce_sum, lambda dtype: 0),
    "segment_prod": (scatter_mul, reduce_prod, lambda dtype: 1),
    "segment_max": (scatter_max, reduce_max, lowest),
    "segment_min": (scatter_min, reduce_min, highest),
}


def _segments(name: str) -> Callable:
    scatter, reduce, identity = _KINDS[name]

    def function(
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: object = None,
        out_sharding: PartitionSpec | None = None,
    ) -> Any:
        ids = segment_ids
        if typeof(ids).ndim == typeof(data).ndim == 0:  # one element
            ids, data = reshape(ids, (1,)), reshape(data, (1,))
        count = _count(name, data, ids, num_segments)
        if typeof(data).ndim == 0:  # the same value for all
            data = full(typeof(ids).shape, data, typeof(data).dtype)
        parts = 1
        # Sums over buckets first: fewer additions one after another round less.
        if bucket_size is not None:
            if bucket_size <= 0:
                raise ValueError(f"{name}: bucket_size must be positive, got {bucket_size}")
            parts = max(1, -(-typeof(data).shape[0] // bucket_size))

        def reduced(data: ArrayLike, ids: ArrayLike) -> Any:
            shape, dtype = typeof(data).shape, typeof(data).dtype
            n = shape[0]
            places = reshape(ids, (n, 1))
            if parts > 1:
                kind = typeof(ids).dtype
                bucket = (np.arange(n) // bucket_size).astype(kind).reshape(n, 1)
                places = concatenate([bucket, places], 1)
            # Each bucket scatters into a row of its own.
            lead = (parts, count) if parts > 1 else (count,)
            numbers = ScatterDimensionNumbers(
                tuple(range(1, len(shape))), tuple(range(len(lead))), tuple(range(len(lead)))
            )
            start = full((*lead, *shape[1:]), scalar(identity(dtype), dtype), dtype)
            out = scatter(
                start,
                places,
                data,
                numbers,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
            )
            return reduce(out, (0,)) if parts > 1 else out

        if out_sharding is None:
            return reduced(data, ids)

        return placed(reduced, out_sharding, data, ids)

    function.__name__ = function.__qualname__ = name
    return function


def _count(name: str, data: ArrayLike, ids: ArrayLike, num_segments: int | None) -> int:
    kind, shape = typeof(ids), typeof(data).shape
    if not dtypes.is_integer(kind.dtype):
        raise BadIndexError(f"{name}: segment_ids must be integers, got {kind.str_short()}")
    if kind.ndim != 1 or shape and shape[0] != kind.shape[0]:
        raise ArgumentError(
            f"{name}: segment_ids must have one number for each element of data's first "
            f"dimension, got {kind.str_short()} for {typeof(data).str_short()}"
        )
    if num_segments is None:
        if isinstance(ids, Tracer):
            raise TypeError(
                f"{name}: num_segments sets the result's size, so it must be given while tracing"
            )
        return int(np.max(np.asarray(ids), initial=-1)) + 1
    try:
        num_segments = operator.index(num_segments)
    except TypeError:
        raise TypeError(
            f"{name}: num_segments must be an int known while tracing, got {num_segments!r}"
        ) from None
    if num_segments < 0:
        raise ValueError(f"{name}: num_segments must not be negative, got {num_segments}")
    return num_segments


segment_sum = _segments("segment_sum")
segment_sum.__doc__ = """Sum the elements of each segment: `[num_segments, *data.shape[1:]]`.

    segment_ids: integers `[data.shape[0]]`, the segment of each element; those outside
    [0, num_segments) are left out. num_segments: max(segment_ids) + 1 by default; it must be given
    under jit. bucket_size: sums of so many elements are made first, which rounds less. mode: as
    `scatter`'s. out_sharding: of the result.

    >>> import weft, numpy as np
    >>> weft.ops.segment_sum(np.arange(5), np.array([0, 0, 1, 1, 2]))
    Array([1, 5, 4], dtype=int32)
    """
segment_prod = _segments("segment_prod")
segment_prod.__doc__ = """Multiply the elements of each segment; arguments as `segment_sum`'s.

    >>> import weft, numpy as np
    >>> weft.ops.segment_prod(np.arange(1, 5), np.array([0, 0, 1, 1]))
    Array([ 2, 12], dtype=int32)
    """
segment_max = _segments("segment_max")
segment_max.__doc__ = """Return the greatest element of each segment; arguments as `segment_sum`'s.

    An empty segment gives the least number of the dtype.

    >>> import weft, numpy as np
    >>> weft.ops.segment_max(np.arange(4), np.array([0, 0, 1, 1]))
    Array([1, 3], dtype=int32)
    """
segment_min = _segments("segment_min")
segment_min.__doc__ = """Return the least element of each segment; arguments as `segment_sum`'s.

    An empty segment gives the greatest number of the dtype.

    >>> import weft, numpy as np
    >>> weft.ops.segment_min(np.arange(4), np.array([0, 0, 1, 1]))
    Array([0, 2], dtype=int32)
    """
