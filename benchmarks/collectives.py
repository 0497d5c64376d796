"""Collectives inside shard_map on eight devices, and tracing a program full of them."""

import numpy as np

from benchmarks.case import Timed, case, count_equations
from benchmarks.dispatch import mesh_of

DEVICES = 8
RING = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]

# name → body of the per-device program on a float32[DEVICES, n] block.
BODIES = {
    "psum": lambda xx, x: xx.lax.psum(x, "data"),
    "all_gather": lambda xx, x: xx.lax.all_gather(x, "data", tiled=True),
    "psum_scatter": lambda xx, x: xx.lax.psum_scatter(x, "data", tiled=True),
    "all_to_all": lambda xx, x: xx.lax.all_to_all(x, "data", 0, 1, tiled=True),
    "ppermute": lambda xx, x: xx.lax.ppermute(x, "data", RING),
}
REPLICATED = {"psum"}


def sharded(xx, body, replicated: bool):
    """The body as a jitted shard_map over eight devices, and the sharding of its argument."""
    mesh = mesh_of(xx, (DEVICES,), ("data",))
    split = xx.P("data")
    out = xx.P() if replicated else split
    function = xx.shard_map(lambda x: body(xx, x), mesh=mesh, in_specs=split, out_specs=out)
    return xx.jit(function), xx.NamedSharding(mesh, split)


def declare(name: str, megabytes: int) -> None:
    @case(f"{name}, {megabytes} MB per device", budget=1.0, clock="wall")
    def run(xx):
        function, sharding = sharded(xx, BODIES[name], name in REPLICATED)
        columns = megabytes * 2**20 // 4 // DEVICES
        x = xx.device_put(np.ones((DEVICES * DEVICES, columns), np.float32), sharding)
        return lambda: function(x).block_until_ready()


for _name in BODIES:
    for _megabytes in (1, 64):
        declare(_name, _megabytes)


@case("ragged_all_to_all, 1 MB per device, against all_to_all", budget=2.0, clock="wall")
def ragged(xx):
    """JAX, whose CPU has no ragged exchange, runs all_to_all of the same bytes instead."""
    columns = 2**20 // 4 // DEVICES

    def exchange(xx, x):
        ones = np.ones(DEVICES, np.int32)
        rows = np.arange(DEVICES, dtype=np.int32)
        mine = xx.numpy.full(DEVICES, xx.lax.axis_index("data"), np.int32)
        result = xx.numpy.zeros_like(x)
        return xx.lax.ragged_all_to_all(x, result, rows, ones, mine, ones, axis_name="data")

    body = BODIES["all_to_all"] if xx.__name__ == "jax" else exchange
    function, sharding = sharded(xx, body, replicated=False)
    x = xx.device_put(np.ones((DEVICES * DEVICES, columns), np.float32), sharding)
    return lambda: function(x).block_until_ready()


@case("trace 500 collectives", budget=0.4)
def trace_many(xx):
    x = np.ones((DEVICES, 4), np.float32)

    def body(xx, x):
        for _ in range(250):
            x = xx.lax.ppermute(x, "data", RING)
            x = x + xx.lax.psum(x, "data")
        return x

    def trace():
        function, _ = sharded(xx, body, replicated=False)
        return function.trace(x)

    return Timed(trace, equations=count_equations(trace().jaxpr))
