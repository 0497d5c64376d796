"""NamedSharding, and what every sharding answers: which device holds which part of an array."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

from weft._xla import sharding as _xla
from weft._xla.client import XlaRuntimeError
from weft.core.caches import clearable, interned
from weft.core.errors import has_page
from weft.core.notebook import displayed
from weft.core.state import LAYOUTS, MEMORIES
from weft.sharding.mesh import AbstractMesh, AxisType, Mesh, axes_text
from weft.sharding.spec import UNCONSTRAINED, PartitionSpec

if TYPE_CHECKING:
    from weft.runtime.backend import Device
    from weft.sharding.memory_layout import Format

Sharding = _xla.Sharding
Index = tuple[slice, ...]
_Class = TypeVar("_Class", bound=type)


@has_page("weft.sharding")
class IndivisibleError(ValueError):
    """A dimension's size is not a multiple of the number of parts it is split into."""


def placement_class(cls: _Class) -> _Class:
    """Decorate a class: add what every sharding answers, written over ``shard_shape``.

    nanobind classes take one base only, so these are added rather than inherited.
    """

    def addressable_devices(self: Any) -> frozenset:
        """Return the devices of this process among those of the sharding."""
        return frozenset(self._internal_device_list.addressable_device_list)

    def devices_indices_map(self: Any, global_shape: tuple[int, ...]) -> Mapping[Any, Index]:
        """Return for each device, the slices of the global array that it holds."""
        return dict(zip(self._devices_in_order, indices(self, tuple(global_shape)), strict=True))

    def addressable_devices_indices_map(
        self: Any, global_shape: tuple[int, ...]
    ) -> Mapping[Any, Index]:
        """`devices_indices_map` for the devices of this process."""
        local = self.addressable_devices
        return {d: i for d, i in self.devices_indices_map(global_shape).items() if d in local}

    def has_addressable_devices(self: Any) -> bool:
        """Return whether a device of the sharding belongs to this process."""
        return bool(self.addressable_devices)

    def check_compatible_aval(self: object, aval_shape: tuple[int, ...]) -> None:
        """Raise ValueError unless arrays of this shape have a dimension for each split."""
        check = getattr(self, "check_rank", None)
        if check is not None:
            check(aval_shape)

    def is_equivalent_to(self: object, other: object, ndim: int) -> bool:
        """Return whether both put the same parts of a rank-``ndim`` array on the same devices."""
        return self is other or _equivalent(self, other, ndim)

    # Set one by one, with the class in their names, as if they were written there.
    for answer in (addressable_devices, has_addressable_devices):
        setattr(cls, answer.__name__, property(answer))
    for function in (
        devices_indices_map,
        addressable_devices_indices_map,
        check_compatible_aval,
        is_equivalent_to,
    ):
        function.__qualname__ = f"{cls.__name__}.{function.__name__}"
        setattr(cls, function.__name__, function)
    return displayed("weft.sharding.drawing", "sharding_html")(cls)


def default_memory_kind(device: Device) -> str | None:
    """Return the name of the memory that a device computes in; None for a model of a device."""
    memory = getattr(device, "default_memory", None)
    try:
        return None if memory is None else memory().kind
    except XlaRuntimeError:  # a device that is only described has no memories
        return "device"


def init_placement(self: Any, devices: tuple, device_list: Any) -> None:
    # Plain attributes: jaxlib and dispatch read them on every call.
    self.num_devices = len(devices)
    self.device_set = frozenset(devices)
    self._devices_in_order = devices
    self.is_fully_addressable = device_list.is_fully_addressable


@clearable
@functools.lru_cache(maxsize=4096)
def _equivalent(a: Any, b: NamedSharding, ndim: int) -> bool:
    if a.memory_kind != b.memory_kind:
        return False
    if is_abstract(a) or is_abstract(b):
        if not (is_abstract(a) and is_abstract(b)) or a.mesh.axis_sizes != b.mesh.axis_sizes:
            return False
    elif a._devices_in_order != b._devices_in_order:
        return a.is_fully_replicated and b.is_fully_replicated and a.device_set == b.device_set
    return _xla.same_placement(a._to_xla_hlo_sharding(ndim), b._to_xla_hlo_sharding(ndim))


@clearable
@functools.lru_cache(maxsize=4096)
def indices(sharding: Any, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """Return the slices each device holds, in device order. Raises like ``shard_shape``."""
    shard = sharding.shard_shape(shape)
    if sharding.is_fully_replicated or not shape:
        return ((slice(None),) * len(shape),) * sharding.num_devices
    tile = tile_indices(sharding, len(shape))
    whole = slice(None)
    return tuple(
        tuple(
            whole if part == size else slice(int(t) * part, (int(t) + 1) * part)
            for t, part, size in zip(position, shard, shape, strict=True)
        )
        for position in tile
    )


def tile_indices(sharding: Any, ndim: int) -> np.ndarray:
    """Return each device's position in the grid of tiles, in order: int[devices, ndim].

    Devices with the same row hold the same data.
    """
    if isinstance(sharding, NamedSharding):
        mesh, spec = sharding.mesh, sharding.spec
        coordinates = np.indices(mesh.axis_sizes).reshape(len(mesh.axis_names), -1)
        position = np.zeros((mesh.size, ndim), np.int64)
        for dim in range(ndim):
            for axis in spec.axes_of(dim):
                along = coordinates[mesh.axis_names.index(axis)]
                position[:, dim] = position[:, dim] * mesh.shape[axis] + along
        return position
    hlo = sharding._to_xla_hlo_sharding(ndim)
    if not hlo.is_tiled():
        return np.zeros((sharding.num_devices, ndim), np.int64)
    dims = tuple(hlo.tile_assignment_dimensions())
    order = np.asarray(hlo.tile_assignment_devices()).reshape(-1)
    position = np.zeros((sharding.num_devices, ndim), np.int64)
    position[order] = np.indices(dims).reshape(len(dims), -1).T[:, :ndim]
    return position


@placement_class
class NamedSharding(_xla.MultiDeviceShardingBase):
    """Splits each dimension of an array over the mesh axes that a `P` names. Interned.

    Args:
      mesh: a Mesh, or an AbstractMesh (then it types arrays, but places none).
      spec: a `PartitionSpec`.
      memory_kind: a memory of the devices such as "pinned_host"; None is their default, which the
        attribute then names.

    Raises:
      ValueError: the spec names an axis that the mesh does not have, one of type Auto as unreduced
        or reduced, or leaves a dimension UNCONSTRAINED where no axis is Auto.

    Example:
        >>> import weft
        >>> mesh = weft.make_mesh((1,), ("x",))
        >>> weft.sharding.NamedSharding(mesh, weft.P("x")).shard_shape((8, 2))
        (8, 2)
    """

    _interned: dict[tuple, NamedSharding] = interned({})

    mesh: Any
    spec: PartitionSpec

    def __new__(
        cls, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None
    ) -> NamedSharding:
        key = (mesh, spec, memory_kind)
        try:
            return NamedSharding._interned[key]
        except (KeyError, TypeError):
            pass
        _check_named(mesh, spec)
        default = default_memory_kind(mesh._flat[0]) if isinstance(mesh, Mesh) else None
        if memory_kind is not None and memory_kind == default:
            NamedSharding._interned[key] = NamedSharding(mesh, spec)
            return NamedSharding._interned[key]
        self: Any = _xla.MultiDeviceShardingBase.__new__(cls)
        self.mesh, self.spec, self.memory_kind = mesh, spec, memory_kind or default
        self.other_memory = memory_kind
        MEMORIES.in_use = MEMORIES.in_use or memory_kind is not None
        parts = math.prod(mesh.shape[a] for a in spec.used_axes())
        self.is_fully_replicated = mesh.size == 1 or (parts == 1 and not spec.unreduced)
        self.num_devices = mesh.size
        if isinstance(mesh, Mesh):
            hlo = hlo_of_spec(mesh, spec, len(spec))
            _xla.MultiDeviceShardingBase.__init__(self, mesh._device_list, hlo, memory_kind)
            init_placement(self, mesh._flat, mesh._device_list)
        # Over an abstract mesh the C++ part stays empty: such a sharding never reaches dispatch.
        NamedSharding._interned[key] = self
        return self

    # __new__ has made the instance, or returned one made before: nothing is left to initialize.
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name in ("device_set", "is_fully_addressable", "_devices_in_order"):
            raise ValueError(
                f"{self!r} has no devices: its mesh is abstract. Use a weft.sharding.Mesh"
            )
        raise AttributeError(f"NamedSharding has no attribute {name!r}")

    def __reduce__(self) -> tuple:
        return _rebuild_named, (self.mesh, self.spec, self.other_memory)

    def __repr__(self) -> str:
        memory = "" if self.other_memory is None else f", memory_kind={self.other_memory!r}"
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r}{memory})"

    def update(self, **changes: object) -> NamedSharding:
        """Return a copy with ``mesh``, ``spec`` or ``memory_kind`` replaced."""
        fields = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self.other_memory, **changes}
        unknown = set(fields) - {"mesh", "spec", "memory_kind"}
        if unknown:
            raise TypeError(f"NamedSharding has no field {sorted(unknown)[0]!r}")
        return NamedSharding(fields["mesh"], fields["spec"], memory_kind=fields["memory_kind"])

    def with_spec(self, spec: PartitionSpec) -> NamedSharding:
        """Return the same mesh and memory with another spec."""
        return self.update(spec=spec)

    def with_memory_kind(self, kind: str | None) -> NamedSharding:
        """Return the same mesh and spec in another memory."""
        return self.update(memory_kind=kind)

    def spec_of(self, dim: int) -> tuple:
        """Return the mesh axes that split dimension ``dim``."""
        return self.spec.axes_of(dim)

    def without_dim(self, dim: int) -> NamedSharding:
        """Return the sharding of one slice along dimension ``dim``."""
        entries = list(self.spec.partitions)
        del entries[dim : dim + 1]
        return self.with_spec(self.spec.update(partitions=entries))

    def with_dim(self, dim: int, entry: object = None) -> NamedSharding:
        """Return the sharding of arrays stacked along a new dimension ``dim``, split by ``entry``.

        A sharding of types keeps to the mesh's Explicit axes: others in ``entry`` are left out.
        """
        if isinstance(self.mesh, AbstractMesh) and entry is not None and entry is not UNCONSTRAINED:
            explicit = self.mesh.explicit_axes
            axes = entry if isinstance(entry, tuple) else (entry,)
            entry = tuple(a for a in axes if a in explicit)
        entries = list(self.spec.padded(dim).partitions)
        entries.insert(dim, entry)
        return self.with_spec(self.spec.update(partitions=entries))

    @property
    def replicated_axes(self) -> frozenset:
        """The mesh axes that the spec does not use."""
        spec = self.spec
        return frozenset(self.mesh.axis_names) - spec.used_axes() - spec.unreduced - spec.reduced

    def num_parts(self, dim: int) -> int:
        """Return how many parts dimension ``dim`` is split into."""
        return math.prod(self.mesh.shape[a] for a in self.spec.axes_of(dim))

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the part on each device.

        Raises:
          ValueError: the array has fewer dimensions than the spec has entries.
          IndivisibleError: a dimension cannot be split evenly (names dimension, sizes and fix).
        """
        return _shard_shape(self, tuple(global_shape))

    def check_rank(self, shape: tuple[int, ...], label: str = "an array") -> None:
        """Raise ValueError when the spec has more entries than ``shape`` has dimensions."""
        if len(self.spec) > len(shape):
            raise ValueError(
                f"{self.spec!r} has {len(self.spec)} entries, but {label} of shape {tuple(shape)} "
                f"has {len(shape)} dimension{'s' * (len(shape) != 1)}; use at most {len(shape)} "
                f"entr{'y' if len(shape) == 1 else 'ies'}"
                + (": P() for a scalar" if not shape else "")
            )

    def _to_xla_hlo_sharding(self, ndim: int) -> _xla.HloSharding:
        return hlo_sharding(self, ndim)


_meshes_of_types: weakref.WeakValueDictionary[tuple, Mesh] = weakref.WeakValueDictionary()


def concrete_meshes(mesh: Mesh | AbstractMesh) -> list[Mesh]:
    """Return the meshes with devices of which types have been made, of the same axes and sizes."""
    return [m for (axes, _), m in list(_meshes_of_types.items()) if axes == mesh.shape_tuple]


def type_sharding(sharding: object, ndim: int) -> NamedSharding | None:
    """Return the sharding in types: over the mesh's Explicit axes, or None without any."""
    if type(sharding) is not NamedSharding:
        return None
    return _type_sharding(sharding, ndim)


@clearable
@functools.lru_cache(maxsize=8192)
def _type_sharding(sharding: NamedSharding, ndim: int) -> NamedSharding | None:
    mesh = sharding.mesh
    if AxisType.Explicit not in mesh.axis_types:
        return None
    if isinstance(mesh, Mesh):
        _meshes_of_types[mesh.shape_tuple, mesh._flat] = mesh
    import weft.sharding.factors  # noqa: F401  (from now on, ops join the shardings of types)

    others = [n for n, t in mesh.shape.items() if mesh.axis_type(n) is not AxisType.Explicit]
    spec = sharding.spec.without(others).padded(ndim)
    parts = tuple(None if p is UNCONSTRAINED else p for p in spec.partitions)
    return NamedSharding(mesh.abstract_mesh, spec.update(partitions=parts))


def is_over_nothing(sharding: object) -> bool:
    """Tell whether a sharding is over the mesh without axes, and so asks for nothing."""
    return type(sharding) is NamedSharding and sharding.mesh.empty


def is_abstract(sharding: object) -> bool:
    """Return true for a NamedSharding over an AbstractMesh."""
    return isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh)


def is_format(value: object) -> TypeGuard[Format]:
    """Tell whether a sharding was given with a layout in memory."""
    if not LAYOUTS.in_use:
        return False
    from weft.sharding.memory_layout import Format

    return isinstance(value, Format)


def _rebuild_named(mesh: Mesh, spec: PartitionSpec, memory_kind: str | None) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


def _check_named(mesh: AbstractMesh | Mesh, spec: PartitionSpec) -> None:
    if not isinstance(mesh, Mesh | AbstractMesh):
        raise TypeError(
            f"NamedSharding: mesh must be a Mesh or AbstractMesh, got {type(mesh).__name__}"
        )
    if not isinstance(spec, PartitionSpec):
        raise TypeError(
            f"NamedSharding: spec must be a PartitionSpec such as P('x'), got "
            f"{type(spec).__name__}: {spec!r}"
        )
    if isinstance(mesh, Mesh) and mesh.size == 0:
        raise ValueError(
            f"NamedSharding: the mesh {mesh!r} has no devices; give one with at least one device, "
            "such as weft.make_mesh((1,), ('x',))"
        )
    for dim, axes in enumerate(spec.axes):
        for axis in axes:
            _check_axis(mesh, spec, axis, f"dimension {dim}")
    for name in ("unreduced", "reduced"):
        for axis in getattr(spec, name):
            _check_axis(mesh, spec, axis, name)
            if mesh.axis_type(axis) is AxisType.Auto:
                raise ValueError(
                    f"{spec!r}: {name} uses mesh axis {axis!r}, which is of type Auto; only types "
                    f"say what is {name}: give the mesh Explicit axes, as weft.make_mesh does"
                )
    if UNCONSTRAINED in spec.partitions and AxisType.Auto not in mesh.axis_types:
        raise ValueError(
            f"{spec!r} leaves a dimension UNCONSTRAINED, but {mesh!r} has no axis of type Auto to "
            "split it over; use None or axis names"
        )


def _check_axis(mesh: AbstractMesh | Mesh, spec: PartitionSpec, axis: str, where: str) -> None:
    if axis not in mesh.shape:
        raise ValueError(
            f"{spec!r}: {where} uses axis {axis!r}, which the mesh does not have; its axes are "
            f"{axes_text(mesh) or 'none'}"
        )


@clearable
@functools.lru_cache(maxsize=8192)
def _shard_shape(sharding: NamedSharding, shape: tuple[int, ...]) -> tuple[int, ...]:
    sharding.check_rank(shape)
    result = list(shape)
    for dim, axes in enumerate(sharding.spec.axes):
        parts = sharding.num_parts(dim)
        if shape[dim] % parts:
            raise IndivisibleError(_indivisible_text(sharding, shape, dim, axes, parts))
        result[dim] = shape[dim] // parts
    return tuple(result)


def _indivisible_text(
    sharding: NamedSharding, shape: tuple[int, ...], dim: int, axes: tuple, parts: int
) -> str:
    sizes = " x ".join(f"{a!r} of size {sharding.mesh.shape[a]}" for a in axes)
    padded = -(-shape[dim] // parts) * parts
    return (
        f"dimension {dim} of shape {shape} has size {shape[dim]}, which {sharding.spec!r} splits "
        f"into {parts} parts over mesh axis {sizes}; {shape[dim]} is not divisible by {parts}. Pad "
        f"the dimension to {padded}, or leave it unsplit with None"
    )


def hlo_sharding(sharding: NamedSharding, ndim: int) -> _xla.HloSharding:
    """Return XLA's form of the sharding for an array of rank ``ndim``."""
    return hlo_of_spec(sharding.mesh, sharding.spec, ndim)


@clearable
@functools.lru_cache(maxsize=8192)
def hlo_of_spec(mesh: Mesh, spec: PartitionSpec, ndim: int) -> _xla.HloSharding:
    position = {name: i for i, name in enumerate(mesh.axis_names)}
    tiles = [math.prod(mesh.shape[a] for a in spec.axes_of(d)) for d in range(ndim)]
    order = [position[a] for d in range(ndim) for a in spec.axes_of(d)]
    manual = set(mesh.manual_axes)
    groups: dict[Any, list[int]] = {}
    for name, i in position.items():
        if i in order:
            continue
        if name in manual:
            kind = _xla.SubgroupType.MANUAL
        elif name in spec.unreduced:
            kind = _xla.SubgroupType.UNREDUCED
        else:
            kind = _xla.SubgroupType.REPLICATED
        groups.setdefault(kind, []).append(i)
    kinds = sorted(groups, key=lambda k: k.value)
    if math.prod(tiles) == 1 and set(kinds) <= {_xla.SubgroupType.REPLICATED}:
        return _xla.REPLICATED
    if len(groups) == 1 and not order and kinds[0] == _xla.SubgroupType.MANUAL:
        return _xla.MANUAL
    for kind in kinds:
        tiles.append(math.prod(mesh.axis_sizes[i] for i in groups[kind]))
        order += groups[kind]
    return _xla.tile(tiles, mesh.axis_sizes, order, kinds)
