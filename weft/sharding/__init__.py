"""Meshes, partition specs and shardings: which device holds which part of an array."""

from weft.core.aval import Mat as ManualAxisType
from weft.core.namespace import load_on_use

__all__ = ["ManualAxisType"]
__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "abstract_device": "AbstractDevice",
        "mesh": """AbstractMesh AxisType Mesh get_abstract_mesh get_mesh set_mesh use_abstract_mesh
            use_mesh""",
        "named": "IndivisibleError NamedSharding Sharding",
        "physical": "GSPMDSharding SingleDeviceSharding make_single_device_sharding",
        "spec": "P PartitionSpec",
        "explicit": "auto_axes explicit_axes reshard",
    },
)
