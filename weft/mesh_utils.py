"""weft.mesh_utils: arrays of devices for meshes, also over several networks of different speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.namespace import seal
from weft.runtime import backend

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Return the devices as an array of a shape, for `weft.sharding.Mesh`, in their own order.

    Args:
      mesh_shape: the sizes of the axes; their product is the number of devices. Those that
        communicate most come last: neighbours among the devices are neighbours along them.
      devices: all of `weft.devices()` unless given.
      contiguous_submeshes, allow_split_physical_axes: about the tori of TPUs; CPUs and GPUs have
        no such form, so that nothing depends on them.

    Raises ValueError if the number of devices is another.

    >>> import weft
    >>> devices = weft.mesh_utils.create_device_mesh((1, 1), weft.devices()[:1])
    >>> weft.sharding.Mesh(devices, ("data", "model")).shape
    {'data': 1, 'model': 1}
    """
    devices = list(backend.devices() if devices is None else devices)
    shape = tuple(int(n) for n in mesh_shape)
    if math.prod(shape) != len(devices):
        raise ValueError(
            f"create_device_mesh: a mesh of shape {shape} has {math.prod(shape)} devices, but "
            f"there are {len(devices)}; give another shape, or some of the devices"
        )
    return _array(devices).reshape(shape)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Return the devices as an array whose axes are split between a slow and a fast network.

    A granule is a group of devices that a fast network connects: those with the same slice_index,
    or those of one process. Along each axis, granules follow one another, each with its part.

    Args:
      mesh_shape: the sizes of a granule's part along each axis.
      dcn_mesh_shape: how many granules there are along each axis; as long as mesh_shape.
      devices: all of `weft.devices()` unless given.
      process_is_granule: group by process also where devices have a slice_index.
      should_sort_granules_by_key: in the order of their numbers, else of their first devices.
      allow_split_physical_axes: see `create_device_mesh`.

    Returns an array whose shape is the product of both, entry by entry.

    Raises ValueError if the numbers of axes, granules or devices do not fit.

    >>> import weft
    >>> devices = weft.devices()[:1]
    >>> weft.mesh_utils.create_hybrid_device_mesh((1, 1), (1, 1), devices).shape
    (1, 1)
    """
    devices = list(backend.devices() if devices is None else devices)
    if len(mesh_shape) != len(dcn_mesh_shape):
        raise ValueError(
            f"create_hybrid_device_mesh: mesh_shape {tuple(mesh_shape)} and dcn_mesh_shape "
            f"{tuple(dcn_mesh_shape)} must have one entry for each axis"
        )
    by_process = process_is_granule or not hasattr(devices[0], "slice_index")
    granules: dict[int, list] = {}
    for device in devices:
        key = device.process_index if by_process else device.slice_index
        granules.setdefault(key, []).append(device)
    if len(granules) != math.prod(dcn_mesh_shape):
        granule_kind = "processes" if by_process else "slices"
        raise ValueError(
            f"create_hybrid_device_mesh: dcn_mesh_shape {tuple(dcn_mesh_shape)} has "
            f"{math.prod(dcn_mesh_shape)} granules, but there are {len(granules)} {granule_kind}"
        )
    keys = sorted(granules) if should_sort_granules_by_key else list(granules)
    parts = [create_device_mesh(mesh_shape, granules[key]) for key in keys]
    rank = len(mesh_shape)
    grid = np.stack(parts).reshape(*dcn_mesh_shape, *mesh_shape)
    # The granules' axis d stands before the part's axis d, and the two become one.
    grid = grid.transpose([i for d in range(rank) for i in (d, rank + d)])
    sizes = zip(dcn_mesh_shape, mesh_shape, strict=True)
    return grid.reshape([slow * fast for slow, fast in sizes])


def _array(devices: list) -> np.ndarray:
    array = np.empty(len(devices), object)
    array[:] = devices
    return array


seal(globals())
