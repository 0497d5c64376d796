"""Meshes, partition specs and shardings: which device holds which part of an array."""

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
from weft.sharding.named import (
    GSPMDSharding,
    IndivisibleError,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
)
from weft.sharding.spec import P, PartitionSpec

__all__ = [
    "AbstractMesh",
    "AxisType",
    "GSPMDSharding",
    "IndivisibleError",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "get_abstract_mesh",
    "get_mesh",
    "set_mesh",
    "use_abstract_mesh",
    "use_mesh",
]
