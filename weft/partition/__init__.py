"""Sharding propagation, explicit collectives, and the rewrite to the program of one device.

    partition(module) -> Stages(propagated, collectives, local)

The module carries `sdy.mesh`, shardings on some of its values, and StableHLO. Everything here works
for any number of devices and needs none.
"""

from typing import Any

from weft.core.namespace import missing as _missing
from weft.core.namespace import public as _public
from weft.partition.axis_layout import AxisLayout, DeviceMesh, Unsupported

__all__ = ["AxisLayout", "DeviceMesh", "Stages", "Unsupported", "partition"]


def __getattr__(name: str) -> Any:
    if name not in ("Stages", "partition"):
        raise _missing(__name__, name)
    from weft.partition import partitioner  # native kernels do not need it

    return _public(getattr(partitioner, name), __name__)


def __dir__() -> list[str]:
    return __all__
