"""Kernels on NVIDIA and AMD GPUs: Triton IR that XLA compiles and launches.

    program                     a call as a Triton module: parameters, the grid, blocks
    emitter                     tensors of sizes that are powers of two; the walk over a jaxpr
    elementwise, float8, arrays, control, memory, sync
                                rules of ops, registered by `@rule(name)`
    products, registers, edges  products streamed by parts; refs in registers; first and last steps

Source: the Triton dialect, https://triton-lang.org/main/dialects/TritonDialect.html.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.aval import ShapedArray
from weft.ffi.attributes import freeze_all
from weft.ffi.call import emit_call
from weft.pallas.api.params import param
from weft.pallas.gpu.emitter import warps_of
from weft.pallas.gpu.program import Launch, build, function_name
from weft.pallas.ir import KernelCall, backends

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext

PROCESSORS = 132
"""Streaming multiprocessors assumed where no GPU can be asked: those of an H100 or H200."""


def lower(ctx: RuleContext, call: KernelCall, *operands: ir.Value, platform: str) -> list:
    """Return the custom call that launches a kernel; semaphores are passed as zeros, in place."""
    capability, processors = _target(ctx.module.device, platform)
    launch = build(call, platform, capability)
    if call.is_mpmd:
        check_resident(call, launch, processors)
    avals_in, avals_out = list(call.operand_avals), list(call.outputs)
    aliases = list(call.aliases)
    values = list(operands)
    for extra in launch.extras:
        aval = ShapedArray(extra.shape, extra.ref.dtype)
        if extra.ref.holds_semaphores:
            aliases.append((len(values), len(avals_out)))
            values.append(ctx.splat(0, extra.shape, extra.ref.dtype))
            avals_in.append(aval)
        avals_out.append(aval)
    numbers = {
        "num_warps": warps_of(call),
        "num_stages": param(call.compiler_params, "num_stages", 3),
        **{"grid_x": launch.programs, "grid_y": 1, "grid_z": 1},
    }
    config = {"name": function_name(call), "ir": str(launch.module), "debug": call.debug}
    outs = emit_call(
        ctx,
        values,
        avals_in,
        avals_out,
        target="__gpu$xla.gpu.triton",
        attributes=freeze_all(call.name, config | {k: np.int32(n) for k, n in numbers.items()}),
        has_side_effect=call.prints,
        aliases=aliases,
    )
    return outs[: len(call.outputs)]


def check_resident(call: KernelCall, launch: Launch, processors: int) -> None:
    """Raise unless all programs of an mpmd_map can be on the GPU at once, one a processor.

    They wait for each other, so a program that did not fit would never start.
    """
    if launch.programs > processors:
        meshes = ", ".join(f"{p.mesh} of {p.mesh.size}" for p in call.programs)
        raise ValueError(
            f"kernel {call.name}: an mpmd_map of {launch.programs} cores ({meshes}) needs as many "
            f"processors at once, but the GPU has {processors}. Use smaller meshes, and loops "
            "over the work in each core"
        )


def _target(device: Any, platform: str) -> tuple[tuple[int, int] | None, int]:
    """(compute capability or None, processors) of the GPUs that a program is for.

    device: one of them, which need not be there; if it is none, those of this machine are meant.
    """
    from weft.runtime.backend import devices
    from weft.runtime.gpus import GPUS, hardware_of

    if device is None or device.platform == "cpu":
        try:
            device = devices(platform)[0]
        except RuntimeError:
            return None, PROCESSORS
    known = hardware_of(device.device_kind)
    if known is not None:
        return GPUS[known].capability, GPUS[known].cores
    major, _, minor = str(getattr(device, "compute_capability", "")).partition(".")
    capability = (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
    return capability, int(getattr(device, "core_count", PROCESSORS))


for _platform in ("cuda", "rocm"):
    backends[_platform] = functools.partial(lower, platform=_platform)
