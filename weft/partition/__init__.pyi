"""Types of weft.partition, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.partition.axis_layout import AxisLayout as AxisLayout
from weft.partition.axis_layout import DeviceMesh as DeviceMesh
from weft.partition.axis_layout import Unsupported as Unsupported
from weft.partition.partitioner import Stages as Stages
from weft.typing import Array as Array

def partition(
    module: Any,
    *,
    keep_stages: bool = ...,
    explain: bool = ...,
    overlap: bool = ...,
    names: Sequence[str] = ...,
) -> Any:
    """Take a global program to the program of one device."""
