"""Reads the Shardy dialect's attributes: meshes, axes, shardings, sharding rules."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir._mlir_libs import _sdy

TensorSharding = _sdy.TensorShardingAttr
Mesh = _sdy.MeshAttr

AxisRef = tuple[str, int, int | None]


def mesh_axes(mesh: Any) -> dict[str, int]:
    """Axis names and sizes of a MeshAttr, major first."""
    axes = (_sdy.MeshAxisAttr(a) for a in _sdy.MeshAttr(mesh).axes)
    return {a.name: a.size for a in axes}


def mesh_device_ids(mesh: Any) -> list[int]:
    """Device ids of a MeshAttr; empty when they are 0, 1, 2, …."""
    return list(_sdy.MeshAttr(mesh).device_ids)


def axis_ref(axis: Any) -> AxisRef:
    """(name, pre-size, size) of an AxisRefAttr; size None for a whole axis."""
    ref = _sdy.AxisRefAttr(axis)
    info = ref.sub_axis_info
    if info is None:
        return ref.name, 1, None
    piece = _sdy.SubAxisInfoAttr(info)
    return ref.name, piece.pre_size, piece.size


def dim_axes(dim: Any) -> list[AxisRef]:
    """The axes of one DimensionShardingAttr."""
    return [axis_ref(a) for a in _sdy.DimensionShardingAttr(dim).axes]
