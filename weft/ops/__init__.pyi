"""Types of weft.ops, written by `make stubs` from the definitions."""

from typing import Any

from weft.typing import Array as Array
from weft.typing import ArrayLike

def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = ...,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    bucket_size: int | None = ...,
    mode: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return the greatest element of each segment; arguments as `segment_sum`'s."""

def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = ...,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    bucket_size: int | None = ...,
    mode: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Return the least element of each segment; arguments as `segment_sum`'s."""

def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = ...,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    bucket_size: int | None = ...,
    mode: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Multiply the elements of each segment; arguments as `segment_sum`'s."""

def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = ...,
    indices_are_sorted: bool = ...,
    unique_indices: bool = ...,
    bucket_size: int | None = ...,
    mode: Any = ...,
    out_sharding: Any = ...,
) -> Array:
    """Sum the elements of each segment: `[num_segments, *data.shape[1:]]`."""
