"""weft.comm: every collective of a program, its cost, its source line and its reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.core.boundary import api_boundary
from weft.core.jaxpr import walk_eqns
from weft.core.namespace import seal
from weft.driver.jit import jit
from weft.driver.staging import is_jitted
from weft.partition.axis_layout import DeviceMesh
from weft.partition.cost import HardwareModel
from weft.partition.partitioner import Stages
from weft.partition.report.communication import CommReport, report
from weft.partition.report.device_memory import compiled_memory
from weft.partition.report.measured import measure, newest_trace
from weft.runtime.gpus import hardware_of
from weft.sharding.named import NamedSharding

if TYPE_CHECKING:
    from weft.core.jaxpr import ClosedJaxpr
    from weft.driver.program import Program
    from weft.driver.program_stages import ProgramStages

__all__ = ["CommReport", "HardwareModel", "comm"]


@api_boundary
def comm(
    fun: Callable[..., Any],
    *args: object,
    hardware: str | HardwareModel | None = None,
    compile: bool = False,
    profile: str | os.PathLike[str] | None = None,
    **kwargs: object,
) -> CommReport:
    """Report the communication of `fun(*args, **kwargs)` on its shardings' devices or mesh.

    args: arrays, or `ShapeDtypeStruct`s with shardings, for which no devices are needed.
    hardware: 'cpu', 'a100', 'h100', 'h200', 'b200', 'tpu_v5p', 'tpu_v5e', 'tpu_v6e' or a
      `HardwareModel`; times are estimates of it. None is the model of the devices' own kind, else
      'cpu'.
    compile: take the memory from XLA's buffer assignment instead of estimating it.
    profile: the folder of a `weft.profiler.trace` in which the function ran: what its operations
      took stands beside the estimates.

    Returns a report: printable, a table in notebooks, `.to_html(path)`, `.collectives`,
    `.total_bytes`, `.seconds`, `.memory`, `.measured`.

    Raises FileNotFoundError if the folder `profile` has no trace.

    >>> import weft
    >>> mesh = weft.sharding.AbstractMesh((8,), ("data",))
    >>> rows = weft.NamedSharding(mesh, weft.P("data"))
    >>> x = weft.ShapeDtypeStruct((64, 4), "float32", sharding=rows)
    >>> weft.comm(lambda x: weft.numpy.sum(x), x).counts()
    {'all_reduce': 1}
    """
    function: Any = fun if is_jitted(fun) else jit(fun)
    lowered = function.lower(*args, **kwargs)
    names = lowered.arg_names()
    report = program_report(lowered._program, lowered.stages, hardware, compile, names=names)
    if profile is None:
        return report
    return measure(report, newest_trace(profile, "comm"), optimized_text(lowered))


def optimized_text(lowered: Any) -> str:
    """Return the optimized program of `weft.jit(f).lower(*args)`, with the user's lines."""
    return lowered.stages.optimized.text(sources=True)


def program_report(
    program: Program,
    stages: ProgramStages,
    hardware: str | HardwareModel | None = None,
    compile: bool = False,
    names: Sequence[str] = (),
) -> CommReport:
    """Return the report of a lowered program (`weft.driver.program.Program`) and its stages."""
    partitioned = stages.partitioned
    if partitioned is None:
        partitioned = Stages(None, None, program.module, DeviceMesh({}), [], [])
    memory = None
    if compile:
        compiled = program.compile().compiled
        memory = compiled_memory(partitioned.local, compiled.memory_analysis(), names)
    if hardware is None and program.devices:
        hardware = hardware_of(program.devices[0].device_kind)
    return report(
        partitioned,
        hardware_model=hardware,
        memory=memory,
        extra_stages=[(s.name, s.text(sources=True)) for s in (stages.jaxpr, stages.stablehlo)],
        names=names,
        notes=_padded_constraints(program.jaxpr),
    )


def _padded_constraints(closed: ClosedJaxpr) -> list[str]:
    """Return the constraints whose axes do not divide a dimension: its parts are padded."""
    notes = []
    for eqn in walk_eqns(closed):
        sharding = eqn.rule_params.get("sharding")
        if eqn.primitive.name != "sharding_constraint" or type(sharding) is not NamedSharding:
            continue
        aval = eqn.invars[0].aval
        for d, n in enumerate(aval.shape):
            parts = sharding.num_parts(d)
            if n % parts:
                notes.append(
                    f"padded: {sharding.spec!r} splits dimension {d} of {aval.str_short()} "
                    f"({eqn.source}) into {parts} parts of {-(-n // parts)}, the last ones partly "
                    "empty; as an argument or a result it is whole on every device "
                    "(indivisible_constraints='error' refuses it)"
                )
    return list(dict.fromkeys(notes))


seal(globals())
