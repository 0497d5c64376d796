"""Calls back into Python from compiled programs."""

import importlib

import numpy as np

from benchmarks.case import case


def vector(xx, size: int):
    return xx.device_put(np.ones(size, np.float32), xx.devices()[0])


def declare(name: str, size: int, jitted: bool) -> None:
    @case(f"pure_callback, {name}", budget=1.0, clock="wall")
    def run(xx):
        result = xx.ShapeDtypeStruct((size,), np.float32)
        host = lambda x: np.asarray(x) + 1
        function = lambda x: xx.pure_callback(host, result, x)
        x = vector(xx, size)
        called = xx.jit(function) if jitted else function
        return lambda: called(x).block_until_ready()


declare("1 element under jit", 1, jitted=True)
declare("1 element, eager", 1, jitted=False)
declare("4 MB under jit", 2**20, jitted=True)


@case("io_callback, ordered, 1 element under jit", budget=1.0, clock="wall")
def ordered(xx):
    module = "jax.experimental" if xx.__name__ == "jax" else "weft"
    io_callback = importlib.import_module(module).io_callback
    result = xx.ShapeDtypeStruct((1,), np.float32)
    called = xx.jit(lambda x: io_callback(np.asarray, result, x, ordered=True))
    x = vector(xx, 1)
    return lambda: called(x).block_until_ready()
