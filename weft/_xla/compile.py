"""Compile options, compilation, executable (de)serialization and statistics."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from jaxlib import _jax

from weft._xla import version

CompileOptions = _jax.CompileOptions
DeviceAssignment = _jax.DeviceAssignment
LoadedExecutable = _jax.LoadedExecutable
CompiledMemoryStats = _jax.CompiledMemoryStats
XlaRuntimeError = _jax.JaxRuntimeError


def options(
    device_ids: np.ndarray,
    *,
    use_spmd: bool,
    use_shardy: bool,
    overrides: Sequence[tuple[str, str | bool | int | float]] = (),
    propagate_to_outputs: Sequence[bool] = (False,),
    propagate_to_parameters: Sequence[bool] = (False,),
    optimization_level: int | None = None,
    profile: bytes | None = None,
) -> CompileOptions:
    """Compile options for devices given as an int array [replica, partition] of device ids."""
    assignment = DeviceAssignment.create(np.ascontiguousarray(device_ids, np.int32))
    replicas, partitions = device_ids.shape
    result = CompileOptions()
    result.num_replicas = replicas
    result.num_partitions = partitions
    result.device_assignment = assignment
    build = result.executable_build_options
    build.num_replicas = replicas
    build.num_partitions = partitions
    build.device_assignment = assignment
    build.use_spmd_partitioning = use_spmd
    build.use_shardy_partitioner = use_shardy
    build.allow_spmd_sharding_propagation_to_output = list(propagate_to_outputs)
    build.allow_spmd_sharding_propagation_to_parameters = list(propagate_to_parameters)
    if optimization_level is not None:
        build.optimization_level = optimization_level
    if profile:
        build.fdo_profile = profile
    if overrides:
        result.env_option_overrides = list(overrides)
    return result


@functools.cache
def corrections(platform: str) -> tuple[tuple[str, str], ...]:
    """XLA flags without which programs of this platform compute wrong values.

    XLA:CPU of jaxlib 0.10 fuses products with sums for a library, and gets (a @ ones).sum() of 64
    and more rows wrong; its own code for them is right, and as fast.
    """
    if platform == "cpu" and version[:2] == (0, 10):
        return (("xla_cpu_experimental_ynn_fusion_type", ""),)
    return ()


def compile_and_load(
    client: _jax.Client,
    module,
    devices: _jax.DeviceList,
    compile_options: CompileOptions,
    host_callbacks: Sequence = (),
) -> LoadedExecutable:
    """Compile an MLIR module (or its text or bytecode) and load it on ``devices``."""
    if host_callbacks:
        return client.compile_and_load(module, devices, compile_options, list(host_callbacks))
    return client.compile_and_load(module, devices, compile_options)


def serialize(client: _jax.Client, executable: LoadedExecutable) -> bytes:
    """The compiled executable as bytes, for the same platform and jaxlib version."""
    return client.serialize_executable(executable)


def deserialize(
    client: _jax.Client,
    data: bytes,
    devices: _jax.DeviceList,
    compile_options: CompileOptions,
) -> LoadedExecutable:
    """Load a serialized executable on ``devices``."""
    return client.deserialize_executable(data, devices, compile_options)
