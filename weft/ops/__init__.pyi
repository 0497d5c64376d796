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
    """The greatest element of each segment; arguments as `segment_sum`'s."""

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
    """The least element of each segment; arguments as `segment_sum`'s."""

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
    """The product of the elements of each segment; arguments as `segment_sum`'s."""

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
    """The sum of the elements of each segment: `[num_segments, *data.shape[1:]]`."""
