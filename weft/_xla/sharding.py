# Tests: tests/sharding/test_named.py
"""Sharding base classes the C++ dispatch knows, and builders of HLO shardings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxlib import _hlo, _jax

HloSharding = _hlo.HloSharding
OpSharding = _hlo.OpSharding
DeviceList = _jax.DeviceList

Sharding = _jax.Sharding
"""Base of every sharding: ``isinstance(s, Sharding)``."""

# jaxlib dispatches without Python only when it knows the number of devices of a sharding, which it
# does for its own subclasses: not `_jax.NamedSharding` (quirks.NAMED_SHARDING), but these two.
# Subclasses must define `_to_xla_hlo_sharding(ndim)` and `memory_kind`.
SingleDeviceShardingBase = _jax.SingleDeviceSharding
MultiDeviceShardingBase = _jax.GSPMDSharding

REPLICATED = HloSharding.replicate()
MANUAL = HloSharding.manual()
UNREDUCED = HloSharding.unreduced()
SubgroupType = OpSharding.Type


def tile(
    dimension_sizes: Sequence[int],
    reshape_dims: Sequence[int],
    transpose_perm: Sequence[int],
    subgroups: Sequence = (),
) -> HloSharding:
    """Return a tiling of the iota device list.

    ``dimension_sizes`` counts tiles for each array dimension, followed by one entry for each of
    ``subgroups`` (REPLICATED, MANUAL, UNREDUCED). ``reshape_dims`` is the mesh shape and
    ``transpose_perm`` the order in which mesh axes are consumed.
    """
    return HloSharding.iota_tile(
        tuple(dimension_sizes),
        reshape_dims=tuple(reshape_dims),
        transpose_perm=tuple(transpose_perm),
        subgroup_types=list(subgroups),
    )


def tile_with_devices(tiles: np.ndarray, subgroups: Sequence = ()) -> HloSharding:
    """Return a tiling by the device number of every tile: int[tiles of each dim, subgroups]."""
    return HloSharding.subgroup_with_device_ordering(tiles, subgroup_types=list(subgroups))


def from_proto(proto: OpSharding) -> HloSharding:
    """Return the HLO sharding of an ``OpSharding`` message."""
    return HloSharding.from_proto(proto)


def same_placement(a: HloSharding, b: HloSharding) -> bool:
    """Return whether both place every tile on the same devices, however they are written."""
    if a == b:
        return True
    if is_replicated(a) and is_replicated(b):
        return True
    if not (a.is_tiled() and b.is_tiled()):
        return False
    return tile_key(a) == tile_key(b)


def is_replicated(sharding: HloSharding) -> bool:
    """Return whether every device holds the whole array."""
    if sharding.is_replicated():
        return True
    if not sharding.is_tiled() or sharding.is_unreduced():
        return False
    types = sharding.subgroup_types()
    tiles = sharding.tile_assignment_dimensions()
    data_dims = len(tiles) - len(types)
    if sharding.replicate_on_last_tile_dim():
        data_dims = len(tiles) - 1
    elif any(t != SubgroupType.REPLICATED for t in types):
        return False
    return all(t == 1 for t in tiles[:data_dims])


def tile_key(sharding: HloSharding) -> tuple:
    """Return a hashable normal form of a tiled sharding: tiles, subgroup kinds, devices by tile."""
    dims = tuple(sharding.tile_assignment_dimensions())
    types = tuple(sharding.subgroup_types())
    if not types and sharding.replicate_on_last_tile_dim():
        types = (SubgroupType.REPLICATED,)
    devices = np.asarray(sharding.tile_assignment_devices()).reshape(dims)
    # The order of devices inside a replicated subgroup does not matter.
    for axis, kind in enumerate(types, start=len(dims) - len(types)):
        if kind == SubgroupType.REPLICATED:
            devices = np.sort(devices, axis=axis)
    return dims, types, devices.tobytes()
