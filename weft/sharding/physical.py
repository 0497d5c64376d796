# Tests: tests/sharding/test_named.py
"""Shardings without a mesh, of one device or in XLA's own notation, and how they become named."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla import sharding as _xla
from weft._xla.shardings_lookup import answer_with
from weft.core import provided
from weft.core.caches import clearable, interned
from weft.core.errors import ArgumentError, NoMeshError
from weft.core.state import MEMORIES
from weft.sharding.mesh import Mesh, get_mesh
from weft.sharding.named import (
    IndivisibleError,
    NamedSharding,
    Sharding,
    default_memory_kind,
    hlo_of_spec,
    init_placement,
    placement_class,
)
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.runtime.backend import Device


@placement_class
class SingleDeviceSharding(_xla.SingleDeviceShardingBase):
    """The whole array on one device. Interned.

    Example:
        >>> import weft
        >>> weft.sharding.SingleDeviceSharding(weft.devices()[0]).num_devices
        1
    """

    _interned: dict[tuple, SingleDeviceSharding] = {}

    is_fully_replicated = True
    num_devices = 1

    def __new__(cls, device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
        try:
            return cls._interned[device, memory_kind]
        except (KeyError, TypeError):
            pass
        if not hasattr(device, "process_index"):
            raise TypeError(
                f"SingleDeviceSharding: device must be one of weft.devices(), got {device!r}"
            )
        default = default_memory_kind(device)
        if memory_kind is not None and memory_kind == default:
            cls._interned[device, memory_kind] = cls(device)
            return cls._interned[device, memory_kind]
        self: Any = _xla.SingleDeviceShardingBase.__new__(cls)
        _xla.SingleDeviceShardingBase.__init__(self, device, memory_kind)
        self.memory_kind, self.other_memory = memory_kind or default, memory_kind
        MEMORIES.in_use = MEMORIES.in_use or memory_kind is not None
        init_placement(self, (device,), self._internal_device_list)
        cls._interned[device, memory_kind] = self
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __reduce__(self) -> tuple:
        device = self._device
        return _rebuild_single, (device.platform, device.id, self.other_memory)

    def __repr__(self) -> str:
        memory = "" if self.other_memory is None else f", memory_kind={self.other_memory!r}"
        return f"SingleDeviceSharding(device={self._device!r}{memory})"

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(global_shape)

    def with_memory_kind(self, kind: str | None) -> SingleDeviceSharding:
        """Return the same device, another memory."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    def _to_xla_hlo_sharding(self, ndim: int) -> _xla.HloSharding:
        return _xla.REPLICATED


answer_with(SingleDeviceSharding)

on_device = clearable(functools.cache(SingleDeviceSharding))
"""The sharding of a whole array on a device, in its own memory."""


def make_single_device_sharding(
    device: object, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """Return the whole array on one device: `SingleDeviceSharding(device)`.

    >>> import weft
    >>> sharding = weft.sharding.make_single_device_sharding(weft.devices()[-1])
    >>> weft.device_put(weft.numpy.ones(3), sharding).devices() == {weft.devices()[-1]}
    True
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def _rebuild_single(platform: str, device_id: int, memory_kind: str | None) -> Any:
    devices = provided.devices(platform)
    for device in devices:
        if device.id == device_id:
            return SingleDeviceSharding(device, memory_kind=memory_kind)
    raise ValueError(
        f"this process has no {platform} device {device_id}; it has {[d.id for d in devices]}"
    )


@placement_class
class GSPMDSharding(_xla.MultiDeviceShardingBase):
    """A placement that only XLA's notation can express (a compiled program's choice).

    Args:
      devices: the devices, in the order the sharding counts them.
      hlo_sharding: an `HloSharding`.
    """

    _interned: dict[tuple, GSPMDSharding] = interned({})

    def __new__(cls, devices: Any, hlo_sharding: Any, *, memory_kind: str | None = None) -> Any:
        devices = tuple(devices)
        key = (devices, hlo_sharding, memory_kind)
        self: Any = cls._interned.get(key)
        if self is None:
            default = default_memory_kind(devices[0])
            if memory_kind is not None and memory_kind == default:
                self = cls._interned[key] = cls(devices, hlo_sharding)
                return self
            self = _xla.MultiDeviceShardingBase.__new__(cls)
            device_list = _xla.DeviceList(devices)
            _xla.MultiDeviceShardingBase.__init__(self, device_list, hlo_sharding, memory_kind)
            self.memory_kind, self.other_memory = memory_kind or default, memory_kind
            MEMORIES.in_use = MEMORIES.in_use or memory_kind is not None
            init_placement(self, devices, device_list)
            self.is_fully_replicated = len(devices) == 1 or _xla.is_replicated(hlo_sharding)
            cls._interned[key] = self
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __reduce__(self) -> tuple:
        devices = [(d.platform, d.id) for d in self._internal_device_list]
        proto = self._hlo_sharding.to_proto().SerializeToString()
        return _rebuild_gspmd, (devices, proto, self.other_memory)

    def __repr__(self) -> str:
        return f"GSPMDSharding({self._hlo_sharding!r}, {self.num_devices} devices)"

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        shape = tuple(global_shape)
        if not self._hlo_sharding.is_tiled():
            return shape
        tiles = tuple(self._hlo_sharding.tile_assignment_dimensions())[: len(shape)]
        for dim, (size, parts) in enumerate(zip(shape, tiles, strict=True)):
            if size % parts:
                raise IndivisibleError(
                    f"dimension {dim} of shape {shape} is not divisible by its {parts} parts"
                )
        return tuple(size // parts for size, parts in zip(shape, tiles, strict=True))

    def with_memory_kind(self, kind: str | None) -> GSPMDSharding:
        """Return the same placement in another memory."""
        return GSPMDSharding(self._internal_device_list, self._hlo_sharding, memory_kind=kind)

    def _to_xla_hlo_sharding(self, ndim: int) -> _xla.HloSharding:
        return self._hlo_sharding


def _rebuild_gspmd(devices: list, proto: bytes, memory_kind: str | None) -> Any:
    by_id = {(d.platform, d.id): d for d in provided.devices(devices[0][0])}
    message = _xla.OpSharding()
    message.ParseFromString(proto)
    chosen = [by_id[d] for d in devices]
    return GSPMDSharding(chosen, _xla.from_proto(message), memory_kind=memory_kind)


def spec_from_hlo(hlo: Any, mesh: Any, ndim: int) -> PartitionSpec | None:
    """Return the `P` over ``mesh`` that means the HLO sharding, or None when no `P` does.

    Inverse of `hlo_sharding`: moving one step along a mesh axis moves the tile along at most one
    dimension, by a stride that gives the axis's place among those of the dimension.
    """
    if _xla.is_replicated(hlo):
        return PartitionSpec()
    if hlo.is_unreduced():
        return PartitionSpec(unreduced=mesh.axis_names)
    if not hlo.is_tiled():
        return None
    dims = tuple(hlo.tile_assignment_dimensions())
    tile_of = np.zeros((mesh.size, len(dims)), np.int64)
    order = np.asarray(hlo.tile_assignment_devices()).reshape(-1)
    tile_of[order] = np.indices(dims).reshape(len(dims), -1).T
    by_coordinate = tile_of.reshape(*mesh.axis_sizes, len(dims))
    origin = (0,) * len(mesh.axis_sizes)
    entries: list[list[tuple[int, Any]]] = [[] for _ in range(ndim)]
    for i, name in enumerate(mesh.axis_names):
        if mesh.axis_sizes[i] == 1:
            continue
        # How the tile moves along one step of this axis; its stride orders axes of a dimension.
        step = by_coordinate[origin[:i] + (1,) + origin[i + 1 :]] - by_coordinate[origin]
        moved = np.flatnonzero(step[:ndim])
        if len(moved) == 1:
            entries[moved[0]].append((int(step[moved[0]]), name))
    kinds = list(hlo.subgroup_types())
    spec = PartitionSpec(*(tuple(n for _, n in sorted(f, key=lambda x: -x[0])) for f in entries))
    if _xla.SubgroupType.UNREDUCED in kinds:
        left = [n for n in mesh.axis_names if n not in spec.used_axes()]
        choices = itertools.chain.from_iterable(
            itertools.combinations(left, k) for k in range(1, len(left) + 1)
        )
        candidates = [spec.update(unreduced=c) for c in choices]
    else:
        candidates = [spec]
    for candidate in candidates:
        if _xla.same_placement(hlo_of_spec(mesh, candidate, ndim), hlo):
            return _trimmed(candidate)
    return None


def without_trailing_nones(sharding: object) -> Any:
    """Return the one form of shardings that differ in `None`s at the end of their specs only."""
    if type(sharding) is not NamedSharding:
        return sharding
    parts = sharding.spec.partitions
    return sharding.with_spec(_trimmed(sharding.spec)) if parts and parts[-1] is None else sharding


def _trimmed(spec: PartitionSpec) -> PartitionSpec:
    parts = list(spec.partitions)
    while parts and parts[-1] is None:
        parts.pop()
    return spec.update(partitions=parts)


def from_hlo(hlo: object, mesh: Mesh | None, devices: tuple, ndim: int) -> Any:
    """Return a sharding of these devices that means ``hlo``: named if the mesh expresses it."""
    devices = tuple(devices)
    if len(devices) == 1 and mesh is None:
        return SingleDeviceSharding(devices[0])
    if mesh is not None:
        spec = spec_from_hlo(hlo, mesh, ndim)
        if spec is not None:
            return NamedSharding(mesh, spec)
    return GSPMDSharding(devices, hlo)


@clearable
@functools.lru_cache(maxsize=4096)
def in_device_order(sharding: NamedSharding, devices: tuple, ndim: int) -> Any:
    """Return the same placement, counting its devices in the order of ``devices``."""
    old = sharding._devices_in_order
    if old == devices:
        return sharding
    hlo = sharding._to_xla_hlo_sharding(ndim)
    if hlo.is_tiled():
        position = {d: i for i, d in enumerate(devices)}
        dims = tuple(hlo.tile_assignment_dimensions())
        tiles = np.array([position[old[i]] for i in hlo.tile_assignment_devices()], np.int64)
        kinds = list(hlo.subgroup_types())
        if not kinds and hlo.replicate_on_last_tile_dim():
            kinds = [_xla.SubgroupType.REPLICATED]
        hlo = _xla.tile_with_devices(tiles.reshape(dims), kinds)
    return GSPMDSharding(devices, hlo, memory_kind=sharding.memory_kind)


def as_sharding(target: Device | NamedSharding, label: str = "sharding") -> Any:
    """Return a sharding from a sharding, a device, or a `P` over the mesh in context."""
    if isinstance(target, Sharding):
        return target
    if isinstance(target, PartitionSpec):
        mesh = get_mesh()
        if mesh is None:
            raise NoMeshError(
                f"{label} is {target!r} but no mesh is in context; call weft.set_mesh(mesh), or "
                "give NamedSharding(mesh, spec)"
            )
        return NamedSharding(mesh, target)
    if hasattr(target, "process_index"):
        return SingleDeviceSharding(target)
    remedy = "; on a mesh, give NamedSharding(mesh, spec)" if isinstance(target, Mesh) else ""
    raise ArgumentError(
        f"{label} must be a device, a sharding or a PartitionSpec, got {type(target).__name__}: "
        f"{target!r}{remedy}"
    )
