"""Native handlers in compiled programs, and calls back into Python."""

import ctypes
import functools
import hashlib
import importlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.case import case
from benchmarks.dispatch import mesh_of

DEVICES = 8
COPY, NEGATE = "BenchCopy", "BenchNegate"


@functools.cache
def register(xx) -> None:
    """The handlers of ffi.cc, compiled once on this machine, for the library."""
    source = Path(__file__).with_suffix(".cc")
    digest = hashlib.sha256(source.read_bytes() + b"native").hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"weft-bench-ffi-{os.getuid()}-{digest}.so"
    if not path.exists():
        new = path.with_suffix(f".{os.getpid()}")
        flags = [
            "-std=c++17",
            "-O3",
            "-march=native",
            "-shared",
            "-fPIC",
            f"-I{xx.ffi.include_dir()}",
        ]
        compiler = shutil.which("c++") or "g++"
        subprocess.run([compiler, *flags, str(source), "-o", str(new)], check=True)
        new.rename(path)
    for name in (COPY, NEGATE):
        function = getattr(ctypes.CDLL(str(path)), name)
        xx.ffi.register_ffi_target(name, xx.ffi.pycapsule(function), platform="cpu")
    xx.ffi.register_ffi_target_as_batch_partitionable(COPY)


def copy(xx, x):
    result = xx.ShapeDtypeStruct(x.shape, x.dtype)
    return xx.ffi.ffi_call(COPY, result, vmap_method="broadcast_all")(x)


@case("ffi_call, 1 element under jit", budget=1.0, clock="wall")
def jitted(xx):
    register(xx)
    called, x = xx.jit(lambda x: copy(xx, x)), vector(xx, 1)
    return lambda: called(x).block_until_ready()


@case("ffi_call, 1 element, eager", budget=1.0, clock="wall")
def eager(xx):
    register(xx)
    x = vector(xx, 1)
    return lambda: copy(xx, x).block_until_ready()


@case("ffi_call, 64 MB under jit", budget=1.0, clock="wall")
def large(xx):
    register(xx)
    called, x = xx.jit(lambda x: copy(xx, x)), vector(xx, 2**24)
    return lambda: called(x).block_until_ready()


@case("ffi_call, 64 MB in place, donated", budget=1.0, clock="wall")
def in_place(xx):
    register(xx)

    def negate(x):
        result = xx.ShapeDtypeStruct(x.shape, x.dtype)
        return xx.ffi.ffi_call(NEGATE, result, input_output_aliases={0: 0})(x)

    called = xx.jit(negate, donate_argnums=0)
    state = [called(called(vector(xx, 2**24)))]

    def run():
        state[0] = called(state[0]).block_until_ready()

    return run


@case("NumPy negating 64 MB in place, for comparison", budget=None, clock="wall")
def numpy_in_place(xx):
    x = np.ones(2**24, np.float32)
    return lambda: np.negative(x, out=x)


@case("memcpy of 64 MB into new memory, for comparison", budget=None, clock="wall")
def memcpy(xx):
    x = np.ones(2**24, np.float32)
    return lambda: x.copy()


def batched(name: str, split: bool) -> None:
    @case(f"ffi_call, vmap of 8 rows, 32 MB, {name}", budget=1.0, clock="wall")
    def run(xx):
        register(xx)
        x = np.ones((DEVICES, 2**20), np.float32)
        if split:
            sharding = xx.NamedSharding(mesh_of(xx, (DEVICES,), ("data",)), xx.P("data"))
            x = xx.device_put(x, sharding)
        else:
            x = xx.device_put(x, xx.devices()[0])
        called = xx.jit(xx.vmap(lambda x: copy(xx, x)))
        return lambda: called(x).block_until_ready()


batched("split over 8 devices", split=True)
batched("on one device", split=False)


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
