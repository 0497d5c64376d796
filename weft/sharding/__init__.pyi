"""Types of weft.sharding, written by `make stubs` from the definitions."""

from collections.abc import Callable, Sequence
from typing import Any, Never, TypeVar, overload

from weft.core.aval import Mat as _ManualAxisType
from weft.sharding.abstract_device import AbstractDevice as AbstractDevice
from weft.sharding.mesh import AbstractMesh as AbstractMesh
from weft.sharding.mesh import AxisType as AxisType
from weft.sharding.mesh import Mesh as Mesh
from weft.sharding.mesh import set_mesh as set_mesh
from weft.sharding.mesh import use_abstract_mesh as use_abstract_mesh
from weft.sharding.mesh import use_mesh as use_mesh
from weft.sharding.named import IndivisibleError as IndivisibleError
from weft.sharding.named import NamedSharding as NamedSharding
from weft.sharding.physical import GSPMDSharding as GSPMDSharding
from weft.sharding.physical import SingleDeviceSharding as SingleDeviceSharding
from weft.sharding.spec import P as P
from weft.sharding.spec import PartitionSpec as PartitionSpec
from weft.typing import Array as Array
from weft.typing import ArrayLike

_T = TypeVar("_T")

ManualAxisType = _ManualAxisType

class Sharding:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

def auto_axes(
    f: Callable[..., Any] | None = ...,
    /,
    *,
    axes: int | Sequence[int] | None = ...,
    out_sharding: Any = ...,
) -> Callable[..., Any]:
    """Return a function in which mesh axes are Auto: the partitioner places what it …"""

def explicit_axes(
    f: Callable[..., Any] | None = ...,
    /,
    *,
    axes: int | Sequence[int] | None = ...,
    in_sharding: Any = ...,
) -> Callable[..., Any]:
    """Return a function in which mesh axes are Explicit: its values' types show their …"""

def get_abstract_mesh() -> AbstractMesh:
    """Return the abstract mesh in context; one without axes (``.empty``) when there is …"""

def get_mesh() -> Mesh | None:
    """Return the concrete mesh in context, or None."""

def make_single_device_sharding(device: Any, *, memory_kind: str | None = ...) -> Any:
    """Return the whole array on one device: `SingleDeviceSharding(device)`."""

@overload
def reshard(xs: Never, out_shardings: Any) -> Any:
    """Place arrays by other shardings; in a program, give values that sharding in their …"""

@overload
def reshard(xs: ArrayLike, out_shardings: Any) -> Array:
    """Place arrays by other shardings; in a program, give values that sharding in their …"""

@overload
def reshard(xs: _T, out_shardings: Any) -> _T:
    """Place arrays by other shardings; in a program, give values that sharding in their …"""
