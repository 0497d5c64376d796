# Tests: tests/runtime/test_compile.py
"""Compile options, compilation, executable (de)serialization and statistics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from jaxlib import _jax

CompileOptions = _jax.CompileOptions
DeviceAssignment = _jax.DeviceAssignment
LoadedExecutable = _jax.LoadedExecutable
CompiledMemoryStats = _jax.CompiledMemoryStats
if TYPE_CHECKING:
    from weft._xla.mlir import ir

    class XlaRuntimeError(RuntimeError):
        """An error of XLA's; jaxlib's bindings have no types."""
else:
    XlaRuntimeError = _jax.JaxRuntimeError


EFFORTS = ("optimization_level", "memory_fitting_level")
"""Options that are no flags of XLA's: how much it tries."""


def _field(number: int, content: bytes) -> bytes:
    """Encode a field of a protocol buffer that is a string or a message."""
    head = [number << 3 | 2, len(content)]
    varints = [bytes([n & 127 | 128, n >> 7]) if n > 127 else bytes([n]) for n in head]
    return b"".join(varints) + content


@cache
def _untiled() -> bytes:
    """Serialize compile options with one that has no binding."""
    defaults = CompileOptions()
    _ = defaults.executable_build_options.debug_options  # by which XLA_FLAGS are kept
    # xla.CompileOptionsProto.executable_build_options.debug_options.xla_backend_extra_options
    backend_option = _field(500, _field(1, b"xla_cpu_disable_tiled_emitter"))  # quirks.TILED_LOOPS
    return defaults.SerializeAsString() + _field(3, _field(3, backend_option))


def wants_tiles(module: ir.Module) -> bool:
    """Return whether a module has what XLA:CPU does best in tiles: transposes, some float64."""
    from weft._xla.mlir import ir

    found = False

    def look(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        match op.name:
            case "stablehlo.transpose":
                order = list(op.attributes["permutation"])
                found = bool(order) and order[-1] != len(order) - 1
            case "stablehlo.dot_general":
                found = any(operand.type.rank > 2 for operand in op.operands)
            case "stablehlo.custom_call":
                found = not op.attributes["call_target_name"].value.startswith("weft_native")
            case "stablehlo.convolution":
                found = True
            case "stablehlo.exponential" | "stablehlo.sqrt" | "stablehlo.tanh":
                found = str(op.results[0].type.element_type) == "f64"
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def options(
    device_ids: np.ndarray,
    *,
    tiled: bool = True,
    use_spmd: bool,
    use_shardy: bool,
    overrides: Sequence[tuple[str, str | bool | int | float]] = (),
    propagate_to_outputs: Sequence[bool] = (False,),
    propagate_to_parameters: Sequence[bool] = (False,),
) -> CompileOptions:
    """Compile options for devices given as an int array [replica, partition] of device ids.

    tiled: False on the CPU for programs of which `wants_tiles` says that they need none.
    """
    assignment = DeviceAssignment.create(np.ascontiguousarray(device_ids, np.int32))
    replicas, partitions = device_ids.shape
    result = CompileOptions() if tiled else CompileOptions.ParseFromString(_untiled())
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
    flags = [pair for pair in overrides if pair[0] not in EFFORTS]
    for key, level in overrides:
        if key in EFFORTS:
            setattr(build, key, level)
    if flags:
        result.env_option_overrides = flags
    return result


def compile_and_load(
    client: _jax.Client,
    module,
    devices: _jax.DeviceList,
    compile_options: CompileOptions,
    host_callbacks: Sequence = (),
) -> LoadedExecutable:
    """Compile an MLIR module (or its text or bytecode) and load it on ``devices``.

    For devices that are only described, the result is not loaded.
    """
    if isinstance(
        client, _jax.CompileOnlyPyClient
    ):  # nothing is called, so that callbacks have no part in it
        try:
            return client.compile(module, devices, compile_options)
        except XlaRuntimeError as error:
            if "tile sizes" not in str(error):
                raise
        # quirks.CODEGEN_TILES
        overrides = dict(compile_options.env_option_overrides)
        compile_options.env_option_overrides = [
            *overrides.items(),
            ("xla_gpu_enable_triton_gemm", False),
        ]
        return client.compile(module, devices, compile_options)
    callbacks = (list(host_callbacks),) if host_callbacks else ()
    loaded = client.compile_and_load(module, devices, compile_options, *callbacks)
    if client.platform != "cpu" or not multiplies_splat(loaded):
        return loaded
    overrides = dict(compile_options.env_option_overrides)
    overrides["xla_cpu_experimental_ynn_fusion_type"] = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
    compile_options.env_option_overrides = sorted(overrides.items())
    return client.compile_and_load(module, devices, compile_options, *callbacks)


_LIBRARY_FUSION = re.compile(r"fusion\(.* calls=%([\w.-]+),.*__ynn_fusion")
_SPREAD = re.compile(
    r"%([\w.-]+) = \S+ (?:broadcast|bitcast|convert|reshape|transpose)\(%([\w.-]+)"
)
_SCALAR = re.compile(r"%([\w.-]+) = \w+\[\] ")
_PRODUCT = re.compile(r" dot\(%([\w.-]+), %([\w.-]+)\)")


def multiplies_splat(executable: LoadedExecutable) -> bool:
    """Return whether a library fusion of XLA:CPU multiplies a matrix whose elements are one scalar.

    They read past the scalar (quirks.SPLAT_PRODUCT): (a @ ones).sum() of 64 rows is garbage. A
    product that is fused with nothing is right.
    """
    for module in executable.hlo_modules():
        text = module.to_string()
        for name in _LIBRARY_FUSION.findall(text):
            start = text.index(f"\n%{name} (")
            body = text[start : text.index("\n}", start)]
            splat = set(_SCALAR.findall(body))
            for result, operand in _SPREAD.findall(body):  # operands are written first
                if operand in splat:
                    splat.add(result)
            if any(x in splat for pair in _PRODUCT.findall(body) for x in pair):
                return True
    return False


def cost_analysis(modules: Sequence, client: _jax.Client) -> dict[str, float]:
    """XLA's estimates for HLO modules, summed; ``client`` is of any platform that has devices."""
    total: dict[str, float] = {}
    for module in modules:
        for name, value in _jax.hlo_module_cost_analysis(client, module).items():
            total[name] = total.get(name, 0.0) + value
    return total


def serialize(client: _jax.Client, executable: LoadedExecutable) -> bytes:
    """Return the compiled executable as bytes, for the same platform and jaxlib version."""
    return client.serialize_executable(executable)


def deserialize(
    client: _jax.Client,
    data: bytes,
    devices: _jax.DeviceList,
    compile_options: CompileOptions,
) -> LoadedExecutable:
    """Load a serialized executable on ``devices``."""
    return client.deserialize_executable(data, devices, compile_options)
