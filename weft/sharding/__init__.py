"""Meshes, partition specs and shardings: which device holds which part of an array."""

from importlib import import_module
from typing import Any

from weft.core.aval import Mat as ManualAxisType  # noqa: F401  (in __all__)
from weft.core.namespace import missing as _missing
from weft.core.namespace import public, seal

# Loaded when first used: a package that loads its modules at once can meet, in a circle of locks,
# a thread that began with one of them.
_HOMES = {
    "abstract_device": "AbstractDevice",
    "mesh": """AbstractMesh AxisType Mesh get_abstract_mesh get_mesh set_mesh use_abstract_mesh
        use_mesh""",
    "named": "IndivisibleError NamedSharding Sharding",
    "physical": "GSPMDSharding SingleDeviceSharding make_single_device_sharding",
    "spec": "P PartitionSpec",
    "explicit": "auto_axes explicit_axes reshard",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise _missing(__name__, name)
    value = getattr(import_module(f"weft.sharding.{_NAMES[name]}"), name)
    globals()[name] = value = public(value, "weft.sharding")
    return value


__all__ = sorted([*_NAMES, "ManualAxisType"])  # noqa: PLE0605
seal(globals(), hidden=_NAMES)
