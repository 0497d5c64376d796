"""Types of weft.topologies, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.sharding.mesh import Mesh
from weft.typing import Array as Array

class TopologyDescription:
    """Devices to compile for: `.devices`, in their order."""

    devices: list[Any]
    def __init__(self, devices: Sequence[Any]) -> None: ...

def get_attached_topology(platform: str | None = ...) -> Any:
    """Return the devices of this machine, of one platform or of the default one."""

def get_topology_desc(topology_name: str = ..., platform: str | None = ..., **kwargs: Any) -> Any:
    """Return a description of GPUs or TPUs that need not be there, by XLA's plugin for …"""

def make_mesh(
    topo: Any,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = ...,
) -> Mesh:
    """Return a mesh over the devices of a topology."""
