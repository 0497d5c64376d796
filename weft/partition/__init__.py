"""Sharding propagation, explicit collectives, and the rewrite to the program of one device.

    partition(module) -> Stages(propagated, collectives, local)

The module carries `sdy.mesh`, shardings on some of its values, and StableHLO. Everything here works
for any number of devices and needs none.
"""

from importlib import import_module
from typing import Any

from weft.core.namespace import missing as _missing
from weft.core.namespace import public as _public

_HOMES = {
    **dict.fromkeys(("AxisLayout", "DeviceMesh", "Unsupported"), "axis_layout"),
    **dict.fromkeys(("Stages", "partition"), "partitioner"),
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:  # native kernels use parts of this room without the others
    if name not in _HOMES:
        raise _missing(__name__, name)
    return _public(getattr(import_module(f"{__name__}.{_HOMES[name]}"), name), __name__)


def __dir__() -> list[str]:
    return __all__
