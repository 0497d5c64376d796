# Tests: tests/runtime/test_compile.py
"""Compile options, compilation, executable (de)serialization and statistics."""

from __future__ import annotations

import math
import os
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
def _with_switches(emitter: str) -> bytes:
    """Serialize compile options with the switches of an emitter, which have no binding."""
    defaults = CompileOptions()
    _ = defaults.executable_build_options.debug_options  # by which XLA_FLAGS are kept
    # xla.CompileOptionsProto.executable_build_options.debug_options.xla_backend_extra_options
    added = b"".join([_field(500, _field(1, switch.encode())) for switch in EMITTERS[emitter]])
    return defaults.SerializeAsString() + _field(3, _field(3, added))


EMITTERS = {
    "tiled": (),
    "loops": ("xla_cpu_disable_tiled_emitter",),
    "small": (
        "xla_cpu_disable_tiled_emitter",
        "xla_cpu_disable_new_fusion_emitters",
        "xla_cpu_disable_loop_unrolling",
    ),
}
"""How XLA:CPU writes the kernels of a program -> the switches that make it so (quirks.TILED_LOOPS,
quirks.KERNEL_MODULES)."""

_CODE_MODULES = min(8, max(1, (os.cpu_count() or 1) // 2))  # each costs LLVM as much as a kernel
SMALL, OVERWRITTEN, CARRIED = 4096, 512, 64
"""The most elements of arrays in "small" programs: of any, of results of `_SLOWER` operations
where a kernel may write over what another made (and of any where tiles are best for larger ones),
and of any where loops carry or calls donate them, which kernels of that emitter write over one
element after the other."""
_FEW, _REPEATED = 1000, 10  # operations, and how often one of equal types comes on average
_ELEMENTWISE = """abs add and atan2 broadcast_in_dim cbrt ceil clamp compare constant convert cosine
    divide exponential exponential_minus_one floor iota is_finite log log_plus_one logistic maximum
    minimum multiply negate not or power remainder reshape round_nearest_afz round_nearest_even
    rsqrt select shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan
    tanh xor"""
_FUSED = {
    *("builtin.module", "func.func", "func.return", "func.call"),
    *(f"stablehlo.{name}" for name in _ELEMENTWISE.split()),
}
_SLOWER = {
    f"stablehlo.{name}"
    for name in ("exponential", "exponential_minus_one", "log", "log_plus_one", "reduce_window")
}
_DONATED = "buffer_donor|aliasing_output"


def emitter_for(module: ir.Module) -> str:
    """Return how XLA:CPU writes a module's kernels best: "tiled", "loops" or "small".

    Tiles are best for transposes and some float64. Programs of few operations on small arrays
    run as fast by the older emitter and compile in half the time. Those that repeat an operation on
    equal types are best as loops, of which XLA compiles equal kernels once.
    """
    from weft._xla.mlir import ir

    tiled, one_kernel = False, True
    count, limit = 0, SMALL
    kinds: set[tuple[str, ir.Type]] = set()

    def look(op: ir.Operation) -> ir.WalkResult:
        nonlocal tiled, one_kernel, count, limit
        name = op.name
        match name:
            case "stablehlo.transpose":
                order = list(op.attributes["permutation"])
                tiled |= bool(order) and order[-1] != len(order) - 1
            case "stablehlo.dot_general":
                tiled |= any(operand.type.rank > 2 for operand in op.operands)
            case "stablehlo.custom_call":
                tiled |= not op.attributes["call_target_name"].value.startswith("weft_native")
            case "stablehlo.convolution":
                tiled = True
            case "stablehlo.exponential" | "stablehlo.sqrt" | "stablehlo.tanh":
                if str(op.results[0].type.element_type) == "f64":
                    tiled, limit = True, min(limit, OVERWRITTEN)
            case "stablehlo.while":
                limit = CARRIED
        # Too many operations for the older emitter: the rest only tells whether tiles are needed.
        if count > _FEW:
            return ir.WalkResult.INTERRUPT if tiled else ir.WalkResult.ADVANCE
        one_kernel &= name in _FUSED
        if name == "func.func":  # its operands; those of other regions come from operations
            arguments = op.regions[0].blocks[0].arguments if len(op.regions[0].blocks) else ()
            for argument in arguments:
                kinds.add((name, argument.type))
            attributes = str(op.attributes["arg_attrs"]) if "arg_attrs" in op.attributes else ""
            if re.search(_DONATED, attributes):
                limit = CARRIED
        elif name != "stablehlo.constant":
            count += 1
            for result in op.results:
                kinds.add((name, result.type))
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    # Many operations, or one kind again and again, of which XLA compiles equal kernels once.
    if count > min(_FEW, _REPEATED * len(kinds)):
        return "tiled" if tiled else "loops"
    for name, type_ in kinds:
        if not isinstance(type_, ir.RankedTensorType):
            continue
        # The older emitter fails at narrow floats and complex numbers, and is slow at large arrays.
        faulty = str(type_.element_type).startswith(("f4E", "f6E", "f8E", "complex"))
        most = limit if one_kernel or name not in _SLOWER else min(limit, OVERWRITTEN)
        if faulty or not type_.has_static_shape or math.prod(type_.shape) > most:
            return "tiled" if tiled else "loops"
    return "small"


def options(
    device_ids: np.ndarray,
    *,
    emitter: str = "tiled",
    use_spmd: bool,
    use_shardy: bool,
    overrides: Sequence[tuple[str, str | bool | int | float]] = (),
    propagate_to_outputs: Sequence[bool] = (False,),
    propagate_to_parameters: Sequence[bool] = (False,),
) -> CompileOptions:
    """Compile options for devices given as an int array [replica, partition] of device ids.

    emitter: on the CPU, what `emitter_for` says of the module.
    """
    assignment = DeviceAssignment.create(np.ascontiguousarray(device_ids, np.int32))
    replicas, partitions = device_ids.shape
    if emitter == "small" and overrides:  # who tunes is given XLA's own kernels
        emitter = "loops"
    result = CompileOptions()
    if EMITTERS[emitter]:
        result = CompileOptions.ParseFromString(_with_switches(emitter))
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
    if emitter == "small" and "split_count" not in os.environ.get("XLA_FLAGS", ""):
        flags = [("xla_cpu_parallel_codegen_split_count", _CODE_MODULES)]
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
    """Sum XLA's estimates for HLO modules; ``client`` is of any platform that has devices."""
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
