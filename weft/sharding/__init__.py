"""Meshes, partition specs and shardings: which device holds which part of an array."""

from importlib import import_module
from typing import Any

from weft.core.aval import Mat as ManualAxisType
from weft.core.namespace import missing as _missing
from weft.core.namespace import public, seal
from weft.sharding.abstract_device import AbstractDevice
from weft.sharding.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from weft.sharding.named import IndivisibleError, NamedSharding, Sharding
from weft.sharding.physical import GSPMDSharding, SingleDeviceSharding, make_single_device_sharding
from weft.sharding.spec import P, PartitionSpec

_LAZY = {"reshard": "explicit", "auto_axes": "explicit", "explicit_axes": "explicit"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise _missing(__name__, name)
    value = getattr(import_module(f"weft.sharding.{_LAZY[name]}"), name)
    globals()[name] = value = public(value, "weft.sharding")
    return value


__all__ = [
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "GSPMDSharding",
    "IndivisibleError",
    "ManualAxisType",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
    "use_mesh",
]
seal(globals(), hidden=_LAZY)
