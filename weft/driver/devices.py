# Tests: tests/driver/test_jit.py
"""The devices and the mesh of a program: those of its arguments, results and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.jaxpr import ClosedJaxpr, open_jaxpr, subjaxprs
from weft.runtime.array import ArrayImpl
from weft.runtime.transfers import default_sharding
from weft.sharding.common_mesh import common_mesh, in_terms_of
from weft.sharding.mesh import AbstractMesh, Mesh, context_mesh, placing_mesh
from weft.sharding.named import NamedSharding
from weft.sharding.physical import SingleDeviceSharding, spec_from_hlo
from weft.sharding.spec import PartitionSpec


def inner_shardings(jaxpr: ClosedJaxpr) -> list:
    """Return shardings and meshes that the program itself names (constraints, shard_maps, jits)."""

    def find() -> list:
        placements: list = []
        for eqn in open_jaxpr(jaxpr).eqns:
            if not eqn.primitive.own_types:  # ops that place or call say their own types
                continue
            for value in eqn.rule_params.values():
                items = value if isinstance(value, tuple) else (value,)
                placements += [
                    v for v in items if isinstance(v, NamedSharding | Mesh | AbstractMesh)
                ]
            if type(sharding := eqn.rule_params.get("sharding")) is SingleDeviceSharding:
                placements.append(sharding)
            for _, inner in subjaxprs(eqn.rule_params):
                placements += (
                    inner_shardings(inner)
                    if isinstance(inner, ClosedJaxpr)
                    else inner_shardings(ClosedJaxpr(inner))
                )
        return list(dict.fromkeys(placements))

    return jaxpr.memo("inner_shardings", find)


def _mesh_of(x: object) -> Any:
    return x if isinstance(x, Mesh | AbstractMesh) else getattr(x, "mesh", None)


def choose_devices(
    name: str,
    shardings: Sequence[Any],
    inner: Sequence[Any],
    names: Sequence[str],
    unused: Sequence[Any] = (),
) -> tuple[tuple, Any]:
    """Return the program's devices and the mesh its shardings refer to.

    shardings: those of the arguments and results (None: free). unused: of arguments the program
    does not need, whose devices serve types that name none. Raises ValueError if two of
    them name different sets of devices.
    """
    devices: tuple | None = None
    owner = ""
    mesh: Any = None
    meshes = list(dict.fromkeys(m for s in inner if (m := _mesh_of(s)) is not None))
    for i, s in enumerate([*shardings, *inner]):
        if s is None:
            continue
        m = _mesh_of(s)
        # An abstract mesh names axes only; the mesh in context may say which devices they are.
        if isinstance(m, AbstractMesh):
            concrete = context_mesh()
            if isinstance(concrete, Mesh) and concrete.axis_sizes == m.axis_sizes:
                m = concrete
            else:
                if mesh is None:
                    mesh = m
                continue
        placed = tuple(m.devices.flat) if isinstance(m, Mesh) else s._devices_in_order
        # Nothing names devices: those of unused arguments or of the context serve.
        if devices is None:
            devices, owner = placed, names[i] if i < len(names) else "the program's own shardings"
        elif set(placed) != set(devices):
            # A constraint to one device in the middle of a program over several is left to
            # placement.
            if len(placed) == 1 and len(devices) > 1 and i >= len(shardings):
                continue
            value_name = names[i] if i < len(names) else "a sharding inside the program"
            raise ValueError(
                f"{name}: {owner} is on devices {_ids(devices)} but {value_name} is on devices "
                f"{_ids(placed)}; one program runs on one set of devices. Move one of them with "
                "weft.device_put(x, sharding)"
            )
        # The first concrete mesh wins; others are said in its terms.
        if isinstance(m, Mesh) and (mesh is None or isinstance(mesh, AbstractMesh)):
            mesh = m
    if isinstance(mesh, Mesh) and devices is not None:
        devices = tuple(mesh.devices.flat)
    if devices is None:
        current = placing_mesh()
        if isinstance(mesh, AbstractMesh):
            for s in unused:
                m = getattr(s, "mesh", None)
                if isinstance(m, Mesh) and m.shape == mesh.shape:
                    return tuple(m.devices.flat), m
            return (), mesh
        if isinstance(current, Mesh):
            return tuple(current.devices.flat), current
        return default_sharding()._devices_in_order, None
    # Several views of the same devices: refine them to one mesh.
    if isinstance(mesh, Mesh) and any(m.shape != mesh.shape for m in meshes):
        mesh = common_mesh([mesh, *meshes], devices) or mesh
    return devices, mesh


def _ids(devices: Sequence[Any]) -> str:
    return "[" + ", ".join(str(d) for d in devices[:9]) + (", …" if len(devices) > 9 else "") + "]"


def on_mesh(sharding: NamedSharding | None, mesh: Any, ndim: int) -> Any:
    """Return the sharding on the program's mesh; None leaves the placement to propagation."""
    if sharding is None or mesh is None:
        return sharding
    if isinstance(sharding, NamedSharding):
        if sharding.mesh is mesh:
            return sharding
        abstract = isinstance(sharding.mesh, AbstractMesh) or isinstance(mesh, AbstractMesh)
        if abstract:
            return in_terms_of(sharding, mesh)
    if isinstance(sharding, SingleDeviceSharding):
        return NamedSharding(mesh, PartitionSpec()) if mesh.size == 1 else None
    if tuple(sharding._devices_in_order) != tuple(mesh.devices.flat):
        return None
    spec = spec_from_hlo(sharding._to_xla_hlo_sharding(ndim), mesh, ndim)
    return None if spec is None else NamedSharding(mesh, spec)


def committed_sharding(x: Any) -> Any:
    """Return the sharding of an argument that is bound to its place."""
    if type(x) is ArrayImpl and x._committed:
        return x.sharding
    is_key = getattr(x, "_base", None) is not None  # whose own sharding has no words
    return x.sharding if is_key and x._committed else None
