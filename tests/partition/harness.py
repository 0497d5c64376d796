"""Runs a partitioned module on 8 CPU devices, on NumPy arrays."""

from __future__ import annotations

import functools

import numpy as np

from tests.collectives.harness import COMPILER_OPTIONS
from weft._xla import arrays, client, compile, mlir
from weft.core.aval import ShapedArray
from weft.partition import AxisLayout, Stages, partition


@functools.cache
def cpu():
    """The CPU client of this process, with at least 8 devices."""
    from weft.runtime import backend

    return backend.client("cpu")


def tiles(layout: AxisLayout, size: int) -> list[tuple[int, ...]]:
    """The tile that each partition holds, by partition id."""
    mesh = layout.mesh
    columns = [mesh.coordinates(a) if a else np.zeros(mesh.size, int) for a in layout.dims]
    order = np.argsort(mesh.partition_ids(np.arange(mesh.size)))
    return [tuple(int(c[i]) for c in columns) for i in order] if mesh.size > 1 else [()] * size


def shards(array: np.ndarray, layout: AxisLayout) -> list[np.ndarray]:
    """What each partition holds of an array."""
    out = []
    for tile in tiles(layout, 1):
        index = tuple(slice(t * s, (t + 1) * s) for t, s in zip(tile, layout.local, strict=False))
        out.append(np.ascontiguousarray(array[index]))
    return out


def join(parts: list[np.ndarray], layout: AxisLayout) -> np.ndarray:
    """The global array; copies of the same tile must agree."""
    whole = np.zeros(layout.shape, parts[0].dtype)
    seen: dict[tuple[int, ...], np.ndarray] = {}
    for part, tile in zip(parts, tiles(layout, 1), strict=True):
        if tile in seen:
            np.testing.assert_array_equal(part, seen[tile], err_msg="replicas differ")
        seen[tile] = part
        index = tuple(slice(t * s, (t + 1) * s) for t, s in zip(tile, layout.local, strict=True))
        whole[index] = part
    return whole


# Programs run once, so that XLA's time to compile is what counts: a seventh of the usual time.
QUICK = (*COMPILER_OPTIONS.items(), ("xla_cpu_parallel_codegen_split_count", 1))


def compile_local(stages: Stages):
    """The executable of a local module."""
    size = stages.mesh.size
    devices = cpu().local_devices()[:size]
    options = compile.options(
        np.arange(size).reshape(size, 1), use_spmd=False, use_shardy=False, overrides=QUICK
    )
    return compile.compile_and_load(cpu(), stages.local, client.DeviceList(tuple(devices)), options)


def execute(stages: Stages, *args: np.ndarray) -> list[np.ndarray]:
    """Runs the local program on sharded arguments and joins the results."""
    from weft.sharding.mesh import Mesh
    from weft.sharding.named import NamedSharding
    from weft.sharding.spec import PartitionSpec

    executable = compile_local(stages)
    size = stages.mesh.size
    devices = cpu().local_devices()[:size]
    flat = Mesh(np.array(devices), ("devices",))
    inputs = []
    for array, layout in zip(args, stages.arguments, strict=True):
        array = np.asarray(array)
        parts = shards(array, layout)
        split = array.ndim > 0
        spec = PartitionSpec("devices") if split else PartitionSpec()
        shape = (parts[0].shape[0] * size, *parts[0].shape[1:]) if split else ()
        aval = ShapedArray(shape, array.dtype)
        sharding = NamedSharding(flat, spec)
        inputs.append(arrays.batched_device_put(aval, sharding, parts, list(devices), True))
    results = executable.execute_sharded(inputs)
    outs = results.disassemble_into_single_device_arrays()
    return [
        join([np.asarray(arrays.to_numpy(p)) for p in parts], layout)
        for parts, layout in zip(outs, stages.results, strict=True)
    ]


def run(text: str, *args: np.ndarray) -> list[np.ndarray]:
    """Partitions a module's text and runs it."""
    return execute(partition(mlir.parse(text)), *args)
