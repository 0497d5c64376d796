"""Sharding propagation, explicit collectives, and the rewrite to the program of one device.

    partition(module) -> Stages(propagated, collectives, local)

The module carries `sdy.mesh`, shardings on some of its values, and StableHLO. Everything here works
for any number of devices and needs none.
"""

from weft.core.namespace import seal
from weft.partition.axis_layout import AxisLayout, DeviceMesh, Unsupported
from weft.partition.localize import localize
from weft.partition.partitioner import Stages, partition
from weft.partition.propagate import make_explicit, propagate

__all__ = [
    "DeviceMesh",
    "AxisLayout",
    "Stages",
    "Unsupported",
    "localize",
    "make_explicit",
    "partition",
    "propagate",
]
seal(globals())
