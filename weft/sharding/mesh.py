"""Meshes: devices (or only sizes) with named, typed axes, and the mesh in context."""

from __future__ import annotations

import enum
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft._xla import config as _xla_config
from weft._xla.sharding import DeviceList
from weft.core import provided
from weft.core.caches import interned
from weft.core.errors import ArgumentError
from weft.core.notebook import displayed
from weft.core.source import wraps
from weft.core.state import State, state
from weft.sharding.abstract_device import AbstractDevice


class AxisType(enum.Enum):
    """Kinds of mesh axes, by who decides how arrays are split along them.

    Auto: the partitioner. Explicit: the types of the program. Manual: the body of a shard_map.
    """

    Auto = 0
    Explicit = 1
    Manual = 2

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.name


@displayed("weft.sharding.drawing", "mesh_html")
class _AxisQueries:
    """The base of concrete and abstract meshes: sizes, names and types of axes."""

    __slots__ = ()

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]
    shape: dict[Any, int]
    size: int

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """The pairs (axis name, size)."""
        return tuple(self.shape.items())

    @property
    def ndim(self) -> int:
        return len(self.axis_names)

    @property
    def is_scalar(self) -> bool:
        """True for a single device without axes."""
        return self.size == 1 and not self.axis_names

    @property
    def empty(self) -> bool:
        """Tell whether the mesh has no axes; such a mesh means "no mesh"."""
        return not self.axis_names

    def axes_of_type(self, axis_type: AxisType) -> tuple:
        """Return the names of the axes of one type, in mesh order."""
        return tuple(
            n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is axis_type
        )

    @property
    def auto_axes(self) -> tuple:
        return self.axes_of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple:
        return self.axes_of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple:
        return self.axes_of_type(AxisType.Manual)

    def all_axes_are(self, axis_type: AxisType) -> bool:
        """Return whether there is an axis and every axis has the given type."""
        return bool(self.axis_names) and all(t is axis_type for t in self.axis_types)

    @property
    def are_all_axes_auto(self) -> bool:
        return self.all_axes_are(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        return self.all_axes_are(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        return self.all_axes_are(AxisType.Manual)

    def axis_type(self, name: str) -> AxisType:
        """Return the type of one axis."""
        self.check_axis(name)
        return self.axis_types[self.axis_names.index(name)]

    def check_axis(self, name: str, label: str = "axis") -> None:
        """Raise ValueError, listing the mesh's axes, when ``name`` is not one of them."""
        if name not in self.shape:
            raise ValueError(
                f"{label} {name!r} is not an axis of the mesh; its axes are "
                f"{axes_text(self) or 'none (the mesh is empty)'}"
            )

    def changed_types(self, types: dict | tuple) -> tuple[AxisType, ...]:
        """Return the axis types after ``types`` (a dict by name, or a full tuple) is applied."""
        if not isinstance(types, dict):
            return tuple(types)
        for name in types:
            self.check_axis(name)
        old = zip(self.axis_names, self.axis_types, strict=True)
        return tuple(types.get(n, t) for n, t in old)


def axes_text(mesh: Any) -> str:
    """Return the axes for people: ``'x': 4, 'y': 2``."""
    return ", ".join(f"{n!r}: {s}" for n, s in mesh.shape.items())


def _types_text(mesh: AbstractMesh | Mesh) -> str:
    if not mesh.axis_names or mesh.all_axes_are(AxisType.Auto):
        return ""
    names = ", ".join(t.name for t in mesh.axis_types)
    return f", axis_types=({names}{',' * (mesh.ndim == 1)})"


def _names(axis_names: Any) -> tuple:
    return (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)


def _types(axis_types: Any, names: tuple) -> tuple[AxisType, ...]:
    if axis_types is None:
        return (AxisType.Auto,) * len(names)
    types = (axis_types,) * len(names) if isinstance(axis_types, AxisType) else tuple(axis_types)
    bad = [t for t in types if not isinstance(t, AxisType)]
    if bad:
        raise TypeError(f"axis_types must hold AxisType.Auto, .Explicit or .Manual, got {bad[0]!r}")
    if len(types) != len(names):
        raise ArgumentError(
            f"axis_types has {len(types)} entries for {len(names)} axes {names}; give one for "
            "each axis"
        )
    return types


def _sizes(sizes: Any, label: str) -> tuple[int, ...]:
    """Return the sizes of axes as ints; raises unless they are whole and at least 1."""
    listed = sizes if isinstance(sizes, Sequence | np.ndarray) else (sizes,)
    try:
        whole = tuple(operator.index(s) for s in listed)
    except TypeError:
        raise ArgumentError(f"{label} must hold whole numbers, got {sizes!r}") from None
    _check_sizes(whole, label)
    return whole


def _check_sizes(sizes: tuple[int, ...], label: str) -> None:
    if sizes and min(sizes) < 1:
        raise ValueError(f"{label} must be 1 or more along every axis, got {sizes}")


def _check_names(names: tuple, sizes: tuple, label: str) -> None:
    if len(names) != len(sizes):
        raise ValueError(
            f"{label} has {len(sizes)} dimensions {tuple(sizes)} but {len(names)} axis names "
            f"{names}; give one name for each dimension"
        )
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"mesh axis name {name!r} is used twice in {names}; names must differ")
        if not isinstance(name, str) or not name:
            raise TypeError(f"mesh axis names must be strings that are not empty, got {name!r}")


class AbstractMesh(_AxisQueries):
    """A mesh without devices: sizes, names and types of axes. Interned.

    abstract_device: the kind of device that it is for, an `AbstractDevice`, if it is known.

    Example:
        >>> from weft.sharding.mesh import AbstractMesh
        >>> AbstractMesh((4, 2), ("x", "y")).shape
        {'x': 4, 'y': 2}
    """

    __slots__ = (
        "__weakref__",
        "abstract_device",
        "axis_names",
        "axis_sizes",
        "axis_types",
        "shape",
        "size",
    )
    abstract_device: AbstractDevice | None
    _interned: dict[tuple, AbstractMesh] = interned({})

    def __new__(
        cls,
        axis_sizes: Sequence[int],
        axis_names: Sequence[Any] | str,
        axis_types: Sequence[AxisType] | None = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        names = _names(axis_names)
        sizes = _sizes(axis_sizes, "axis_sizes")
        if not isinstance(abstract_device, AbstractDevice | None):
            raise ArgumentError(
                f"AbstractMesh: abstract_device must be an AbstractDevice or None, got "
                f"{abstract_device!r}; give AbstractDevice(device_kind, num_cores, platform)"
            )
        key = (sizes, names, _types(axis_types, names), abstract_device)
        self = cls._interned.get(key)
        if self is None:
            _check_names(names, sizes, "axis_sizes")
            self = object.__new__(cls)
            self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device = key
            self.shape = dict(zip(names, sizes, strict=True))
            self.size = math.prod(sizes)
            cls._interned[key] = self
        return self

    def __reduce__(self) -> tuple:
        axes = (self.axis_sizes, self.axis_names, self.axis_types)
        if self.abstract_device is None:
            return AbstractMesh, axes
        return functools.partial(AbstractMesh, abstract_device=self.abstract_device), axes

    def __repr__(self) -> str:
        device = "" if self.abstract_device is None else f", {self.abstract_device}"
        return f"AbstractMesh({axes_text(self)}{_types_text(self)}{device})"

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None
    ) -> AbstractMesh:
        """Return a copy with sizes, names or types replaced (types may be a dict by axis name)."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else self.changed_types(axis_types),
            abstract_device=self.abstract_device,
        )

    def update_axis_types(self, name_to_type: dict[Any, AxisType]) -> AbstractMesh:
        """Return a copy with the types of some axes changed."""
        return self.update(axis_types=name_to_type)


class Mesh(_AxisQueries):
    """An array of devices whose dimensions are named, typed axes. Interned.

    ``devices``: array (or nested sequence) of devices, one dimension for each axis name.
    ``axis_types``: AxisType for each axis, Auto unless given.

    As a context manager it is the mesh in context, as with `set_mesh`.

    Raises:
      ValueError: names and dimensions differ in number, a name or a device appears twice.

    Example:
        >>> import weft, numpy as np
        >>> mesh = weft.sharding.Mesh(np.array(weft.devices()[:1]), ("x",))
        >>> mesh.shape
        {'x': 1}
    """

    _interned: dict[tuple, Mesh] = interned({})

    devices: np.ndarray
    _flat: tuple
    _device_list: Any
    _entered: list

    def __new__(
        cls,
        devices: Any,
        axis_names: Sequence[Any] | str,
        axis_types: Sequence[AxisType] | None = None,
    ) -> Mesh:
        if not isinstance(devices, np.ndarray):
            devices = np.array(devices, dtype=object)
        names = _names(axis_names)
        # An array of no dimensions that holds None, as numpy.empty gives it, is of no device.
        flat = () if devices.shape == () and devices[()] is None else tuple(devices.flat)
        key = (flat, devices.shape, names, _types(axis_types, names))
        self = cls._interned.get(key)
        if self is None:
            _check_sizes(devices.shape, "devices: the array's shape")
            _check_names(names, devices.shape, "the devices array")
            _check_devices(flat)
            self = object.__new__(cls)
            self.devices = devices.copy()
            self.devices.flags.writeable = False
            self._flat, self.axis_sizes, self.axis_names, self.axis_types = key
            self.shape = dict(zip(names, devices.shape, strict=True))
            self.size = len(flat)
            self._entered = []
            self._device_list = DeviceList(flat)
            cls._interned[key] = self
        return self

    def __reduce__(self) -> tuple:
        if not self._flat:
            return Mesh, (self.devices, self.axis_names, self.axis_types)
        ids = np.vectorize(lambda d: d.id, otypes=[np.int64])(self.devices)
        return _unpickle_mesh, (self._flat[0].platform, ids, self.axis_names, self.axis_types)

    def __repr__(self) -> str:
        return f"Mesh({axes_text(self)}{_types_text(self)})"

    @functools.cached_property
    def device_ids(self) -> np.ndarray:
        """Return the device ids, an int array of the mesh's shape."""
        return np.array([d.id for d in self._flat], np.int64).reshape(self.devices.shape)

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @functools.cached_property
    def _named(self) -> NamedMesh:
        return NamedMesh(self)

    @functools.cached_property
    def local_devices(self) -> list:
        """Return the devices of this process, in mesh order."""
        return [d for d in self._flat if d.process_index == d.client.process_index()]

    @functools.cached_property
    def is_multi_process(self) -> bool:
        return len({d.process_index for d in self._flat}) > 1

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that this process holds; it must be a block."""
        if not self.is_multi_process:
            return self
        local = set(self.local_devices)
        is_local = np.array([d in local for d in self._flat]).reshape(self.devices.shape)
        block = np.ix_(*(np.unique(where) for where in np.nonzero(is_local)))
        if not is_local[block].all():
            raise ValueError(f"the devices of this process are no block of {self!r}")
        return Mesh(self.devices[block], self.axis_names, self.axis_types)

    def update(
        self, devices: object = None, axis_names: Any = None, axis_types: Any = None
    ) -> Mesh:
        """Return a copy with devices, names or types (perhaps a dict by axis name) replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else self.changed_types(axis_types),
        )

    def __enter__(self) -> Mesh:
        self._entered.append(_swap(None if self.empty else self._named))
        return self

    def __exit__(self, *exception: object) -> None:
        CONTEXT.set_local(self._entered.pop())

    def __call__(self, fun: Callable) -> Callable:
        """Return a function in whose calls this mesh is in context: `@mesh`."""
        if not callable(fun):
            raise TypeError(f"a mesh decorates functions, got {type(fun).__name__}: {fun!r:.100}")

        @wraps(fun)
        def in_context(*args: object, **kwargs: object) -> Any:
            with self:
                return fun(*args, **kwargs)

        return in_context


def _check_devices(flat: tuple) -> None:
    seen = set()
    for device in flat:
        if not hasattr(device, "process_index"):
            raise TypeError(
                f"a mesh holds devices (weft.devices()), got {type(device).__name__}: {device!r}"
            )
        if device in seen:
            raise ValueError(f"device {device} appears twice in the mesh; each may appear once")
        seen.add(device)


def _unpickle_mesh(platform: str, ids: np.ndarray, names: tuple, types: tuple) -> Mesh:
    by_id = {d.id: d for d in provided.devices(platform)}
    missing = [i for i in ids.flat if int(i) not in by_id]
    if missing:
        raise ValueError(
            f"the pickled mesh needs {platform} device {missing[0]}, which this process does not "
            f"have; it has devices {sorted(by_id)}"
        )
    flat = np.empty(ids.size, dtype=object)
    flat[:] = [by_id[int(i)] for i in ids.flat]
    return Mesh(flat.reshape(ids.shape), names, types)


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[Any] | str,
    axis_types: Sequence[AxisType] | None = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """Return a mesh of the given shape over the first devices.

    Args:
      axis_shapes: sizes of the axes; their product is at most the number of devices.
      axis_names: one name for each axis.
      axis_types: one AxisType for each axis; Explicit unless given.
      devices: the devices to use, all of the default platform unless given.

    Raises:
      ValueError: more devices are needed than there are (both numbers and the fix are named).

    Example:
        >>> import weft
        >>> weft.make_mesh((1, 1), ("x", "y")).axis_names
        ('x', 'y')
    """
    shape = _sizes(axis_shapes, "axis_shapes")
    names = _names(axis_names)
    _check_names(names, shape, "axis_shapes")
    if devices is None:
        devices = provided.devices()
    needed = math.prod(shape)
    if needed > len(devices):
        raise ValueError(
            f"a mesh of shape {shape} needs {needed} devices, but there are {len(devices)}; use a "
            f"smaller axis_shapes, or set WEFT_NUM_CPU_DEVICES={needed} for virtual CPU devices"
        )
    chosen = np.empty(needed, dtype=object)
    chosen[:] = list(devices[:needed])
    types = (AxisType.Explicit,) * len(shape) if axis_types is None else axis_types
    return Mesh(chosen.reshape(shape), names, types)


class NamedMesh:
    """The mesh in context inside `with mesh:`, where it says what a bare `P` means.

    Unlike a mesh that is set, it places nothing: what names no sharding stays on one device, and
    is free to go where a program asks for it.
    """

    __slots__ = ("mesh",)

    def __init__(self, mesh: Mesh):
        self.mesh = mesh


EMPTY_ABSTRACT_MESH = AbstractMesh((), ())

# The mesh in context: None, a Mesh, an AbstractMesh (inside shard_map and use_abstract_mesh), or a
# NamedMesh.
# Being a traced state, it is part of every trace and dispatch key.
CONTEXT = _xla_config.state("mesh_context", None, traced=True)


def _swap(mesh: object) -> Any:
    return CONTEXT.swap_local(mesh)


class set_mesh:  # noqa: N801  (a function to its users, as in JAX)
    """Set the mesh in context: for good when called, for a block as a context manager.

    Shardings given as a bare `P` refer to the mesh in context. None removes it.

    Example:
        >>> import weft
        >>> with weft.set_mesh(weft.make_mesh((1,), ("x",))):
        ...     weft.sharding.get_abstract_mesh().axis_names
        ('x',)
    """

    __slots__ = ("_previous",)

    def __init__(self, mesh: Mesh | None):
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ArgumentError(
                f"set_mesh takes a weft.sharding.Mesh or None, got {type(mesh).__name__}"
            )
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                f"set_mesh: axes {mesh.manual_axes} of {mesh!r} are Manual; enter Manual axes "
                "with weft.shard_map"
            )
        if state.trace is not State.trace:
            raise ValueError(
                "set_mesh: a function being transformed cannot change the mesh that its caller is "
                "in; set it outside, or use weft.sharding.use_abstract_mesh(mesh.abstract_mesh)"
            )
        self._previous = _swap(mesh)

    def __enter__(self) -> Any:
        return context_mesh()

    def __exit__(self, *exception: object) -> None:
        CONTEXT.set_local(self._previous)


use_mesh = set_mesh


class use_abstract_mesh:  # noqa: N801
    """Context manager: the given AbstractMesh is the one in context."""

    __slots__ = ("_mesh", "_previous")

    def __init__(self, mesh: AbstractMesh):
        if not isinstance(mesh, AbstractMesh):
            raise TypeError(
                f"use_abstract_mesh takes an AbstractMesh, got {type(mesh).__name__}; a concrete "
                "mesh has one as .abstract_mesh"
            )
        self._mesh = mesh

    def __enter__(self) -> AbstractMesh:
        current = context_mesh()
        if isinstance(current, Mesh) and current.abstract_mesh is self._mesh:
            self._previous = _swap(CONTEXT.value)
        else:
            self._previous = _swap(self._mesh)
        return self._mesh

    def __exit__(self, *exception: object) -> None:
        CONTEXT.set_local(self._previous)


class use_context_mesh:  # noqa: N801
    """Context manager: any mesh, whatever its axes' types, or None, is the one in context."""

    __slots__ = ("_mesh", "_previous")

    def __init__(self, mesh: Mesh | AbstractMesh | None):
        self._mesh = mesh

    def __enter__(self) -> Mesh | AbstractMesh | None:
        self._previous = _swap(self._mesh)
        return self._mesh

    def __exit__(self, *exception: object) -> None:
        CONTEXT.set_local(self._previous)


def context_mesh() -> Mesh | AbstractMesh | None:
    """Return the mesh in context, concrete where known, or None."""
    mesh = CONTEXT.value
    return mesh.mesh if type(mesh) is NamedMesh else mesh


def placing_mesh() -> Mesh | AbstractMesh | None:
    """Return the mesh in context if what names no sharding is placed on it, or None."""
    mesh = CONTEXT.value
    return None if type(mesh) is NamedMesh else mesh


def get_mesh() -> Mesh | None:
    """Return the concrete mesh in context, or None.

    >>> import weft
    >>> weft.get_mesh() is None
    True
    """
    mesh = context_mesh()
    return mesh if isinstance(mesh, Mesh) else None


def get_abstract_mesh() -> AbstractMesh:
    """Return the abstract mesh in context; one without axes (``.empty``) when there is none.

    >>> import weft
    >>> weft.get_abstract_mesh().empty
    True
    """
    mesh = context_mesh()
    return EMPTY_ABSTRACT_MESH if mesh is None else mesh.abstract_mesh
