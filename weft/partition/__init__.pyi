"""Types of weft.partition, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.partition.axis_layout import AxisLayout as AxisLayout
from weft.partition.axis_layout import DeviceMesh as DeviceMesh
from weft.partition.axis_layout import Unsupported as Unsupported
from weft.partition.partitioner import Stages as Stages
from weft.typing import Array as Array

def localize(module: Any, *, explain: bool = ..., whole: bool = ...) -> Any:
    """Rewrites a module with explicit sdy collectives into per-device StableHLO, in place."""

def make_explicit(module: Any) -> Any:
    """Turns every disagreement between shardings into an sdy collective, in place."""

def partition(
    module: Any,
    *,
    keep_stages: bool = ...,
    explain: bool = ...,
    overlap: bool = ...,
    names: Sequence[str] = ...,
) -> Any:
    """Takes a global program to the program of one device."""

def propagate(module: Any, *, origins: bool = ...) -> Any:
    """Gives every operation of the module a sharding, in place."""
