"""Calls of a compiled function on eight virtual devices, and on one of them beside those.

They are in a process of their own: from the first program on several CPU devices on, weft counts
runs (`weft/runtime/cpu_run_limit.py`), and calls on one device take longer.
"""

import numpy as np

from benchmarks.case import case
from benchmarks.dispatch import mesh_of


@case("cached call, 8 devices", budget=1.0, clock="wall")
def eight_devices(xx):
    mesh = mesh_of(xx, (8,), ("data",))
    function = xx.jit(lambda x: x + 1)
    x = xx.device_put(np.ones(64, np.float32), xx.NamedSharding(mesh, xx.P("data")))
    # Waiting is part of the call: eight devices' queues must not fill up.
    return lambda: function(x).block_until_ready()


@case("cached call, 200 leaves in and out, 8 devices", budget=1.0, clock="wall")
def many_sharded_leaves(xx):
    sharding = xx.NamedSharding(mesh_of(xx, (8,), ("data",)), xx.P("data"))
    function = xx.jit(lambda tree: xx.tree.map(lambda x: x + 1, tree))
    tree = [xx.device_put(np.ones(8, np.float32), sharding) for _ in range(200)]
    return lambda: function(tree)[-1].block_until_ready()


@case("cached call, 1 device, beside programs on 8", budget=1.0)
def one_of_eight(xx):
    mesh = mesh_of(xx, (8,), ("data",))
    function = xx.jit(lambda x: x + 1)
    x = xx.device_put(np.ones(64, np.float32), xx.NamedSharding(mesh, xx.P("data")))
    for _ in range(3):
        function(x).block_until_ready()
    one = xx.device_put(np.ones(4, np.float32), xx.devices()[0])
    return lambda: function(one)
