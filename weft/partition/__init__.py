"""Sharding propagation, explicit collectives, and the rewrite to the program of one device.

    partition(module) -> Stages(propagated, collectives, local)

The module carries `sdy.mesh`, shardings on some of its values, and StableHLO. Everything here works
for any number of devices and needs none.
"""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "axis_layout": "AxisLayout DeviceMesh Unsupported",
        "partitioner": "Stages partition",
    },
)
