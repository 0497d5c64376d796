"""Types of weft.mesh_utils, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.typing import Array as Array

def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = ...,
    *,
    contiguous_submeshes: bool = ...,
    allow_split_physical_axes: bool = ...,
) -> np.ndarray:
    """Return the devices as an array of a shape, for `weft.sharding.Mesh`, in their own …"""

def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = ...,
    *,
    process_is_granule: bool = ...,
    should_sort_granules_by_key: bool = ...,
    allow_split_physical_axes: bool = ...,
) -> np.ndarray:
    """Return the devices as an array whose axes are split between a slow and a fast …"""
