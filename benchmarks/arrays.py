"""Arrays on their way in and out: donated arguments, shards, other libraries' memory, puts."""

import numpy as np

from benchmarks.case import Timed, case
from benchmarks.dispatch import mesh_of


@case("cached call, donated argument", budget=1.0)
def donated_argument(xx):
    function = xx.jit(lambda x: x + 1, donate_argnums=0)
    # Each call takes the result of the one before: no call outside of it makes a new argument.
    held = [function(xx.device_put(np.ones(4, np.float32), xx.devices()[0]))]

    def run():
        held[0] = function(held[0])
        return held[0]

    return run


@case("cached call, static argument by name", budget=1.0)
def static_argument_by_name(xx):
    function = xx.jit(lambda x, n: x * n, static_argnames="n")
    x = xx.device_put(np.ones(4, np.float32), xx.devices()[0])
    return lambda: function(x, n=3)


@case("addressable_shards over 8 devices", budget=1.0)
def shards(xx):
    sharding = xx.NamedSharding(mesh_of(xx, (8,), ("data",)), xx.P("data"))
    double = xx.jit(lambda x: x * 2)
    x = xx.device_put(np.ones(64, np.float32), sharding)

    # An array lists its shards once: a new one is asked each time, made outside of the clock.
    def run(array):
        return [shard.data for shard in array.addressable_shards]

    return Timed(run, prepare=lambda: double(x).block_until_ready())


@case("dlpack.from_dlpack of a NumPy array", budget=1.0)
def from_dlpack(xx):
    x = np.ones(1024, np.float32)
    return lambda: xx.dlpack.from_dlpack(x)


@case("make_array_from_callback over 8 devices", budget=1.0)
def from_callback(xx):
    sharding = xx.NamedSharding(mesh_of(xx, (8,), ("data",)), xx.P("data"))
    x = np.arange(64, dtype=np.float32)
    return lambda: xx.make_array_from_callback((64,), sharding, lambda index: x[index])


@case("device_put of 64 MB whose memory is not aligned", budget=1.0, clock="wall")
def unaligned(xx):
    memory = np.ones((1 << 24) + 16, np.float32)
    offset = next(i for i in range(16) if memory[i:].ctypes.data % 64 == 4)
    x = memory[offset : offset + (1 << 24)]
    return lambda: xx.device_put(x).block_until_ready()
