"""Sharding propagation, explicit collectives, and the rewrite to the program of one device.

    partition(module) -> Stages(propagated, collectives, local)

The module carries `sdy.mesh`, shardings on some of its values, and StableHLO. Everything here works
for any number of devices and needs none. `partitioner` calls the steps in their order:

    validate, shardy_workarounds, simplify, propagate
                                the global program, until Shardy has placed each value (origins:
                                whose sharding it was) and written its collectives out
    loop_stacks, explain        stacks that loops read and write; why each collective is there
    localize, localize_rules/   one operation after the other, for one device
    plan, traffic_estimate      which layouts an operation runs in, by the bytes that each sends
    reshard, relayout_search, window
                                values moved to other layouts; parts of a dimension fetched
    replicate, manual           small programs run whole; programs written for each device
    passes/                     fewer collectives: equal, joined, behind loops, beside products

All of them use axis_layout (which mesh axes split a value), local_value and emit (a value and
operations of the local program), ops (what is known of each operation) and walk. What follows reads
the local program: check, classes (devices that hold the same), collect, cost, overlap_estimate, and
report/, which writes tables and pages. gpu adapts it to XLA's compiler for GPUs.
"""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "axis_layout": "AxisLayout DeviceMesh Unsupported",
        "partitioner": "Stages partition",
    },
)
