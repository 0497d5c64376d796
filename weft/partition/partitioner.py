# Tests: tests/driver/test_program_stages.py
"""partition(): stages 3 to 5 of one module, each kept for reading."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import weft.partition.manual as manual
from weft._xla import passes
from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout, DeviceMesh
from weft.partition.collect import collect
from weft.partition.explain import annotate, constraint_lines
from weft.partition.localize import localize
from weft.partition.loop_stacks import gather_small_stacks
from weft.partition.passes.optimize import optimize
from weft.partition.propagate import make_explicit, propagate
from weft.partition.replicate import is_small, make_whole, sends_less
from weft.partition.shardy_workarounds import detach_async, reattach_async
from weft.partition.validate import validate
from weft.partition.walk import clone


@dataclass(slots=True)
class Stages:
    """The module after each stage.

    Attributes:
      propagated: every operation has a sharding.
      collectives: disagreements are sdy collectives; shapes are global.
      local: the program of one device, stablehlo collectives only.
      mesh: the devices.
      arguments, results: layouts of the function's arguments and results.
      seconds: time spent, by stage name.
    """

    propagated: ir.Module | None
    collectives: ir.Module | None
    local: ir.Module
    mesh: DeviceMesh
    arguments: list[AxisLayout]
    results: list[AxisLayout]
    seconds: dict[str, float] = field(default_factory=dict)


def partition(
    module: ir.Module,
    *,
    keep_stages: bool = True,
    explain: bool = False,
    overlap: bool = False,
    names: Sequence[str] = (),
) -> Stages:
    """Take a global program to the program of one device.

    Args:
      module: StableHLO with `sdy.mesh` and some shardings; it is not changed.
      keep_stages: clone the module after stages 3 and 4, so that they can be shown.
      explain: record why each collective exists, for reports.
      overlap: turn all_gather + dot into a ring that overlaps both.
      names: of the arguments, for the reasons.

    Returns:
      The stages. `local` compiles with `num_partitions` equal to the mesh's size.

    Raises:
      Unsupported: something weft does not cover; XLA's partitioner may.
      ValueError: a sharding that cannot hold.

    >>> import weft
    >>> mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    >>> rows = weft.NamedSharding(mesh, weft.P("x"))
    >>> x = weft.ShapeDtypeStruct((8, 4), "float32", sharding=rows)
    >>> stages = partition(weft.jit(lambda x: x.sum(0)).lower(x).compiler_ir())
    >>> "stablehlo.all_reduce" in str(stages.local)
    True
    """
    clock = [time.perf_counter()]
    laps = []

    def lap(name: str) -> None:
        clock.append(time.perf_counter())
        laps.append(name)

    def seconds() -> dict[str, float]:
        return {n: b - a for n, a, b in zip(laps, clock, clock[1:], strict=False)}

    work = clone(module)
    started = detach_async(work)
    # Programs written per device from end to end need no propagation.
    if not keep_stages and not explain:
        validate(work)
        if (local := _by_device(work)) is not None:
            manual.localize(work, local)
            if started:
                reattach_async(work)
            lap("localize")
            optimize(work, local.mesh, written=True, overlap=overlap, diverges=True)
            lap("optimize")
            return Stages(None, None, work, local.mesh, local.arguments, local.results, seconds())
    propagate(work, origins=explain)
    constraints = constraint_lines(work) if explain else {}
    lap("propagate")
    propagated = clone(work) if keep_stages else None
    # A small program may cost less where every device computes all of it; that is tried last.
    small = not (started or overlap) and is_small(work)
    make_explicit(work)
    gather_small_stacks(work)
    if explain:
        annotate(work, constraints, names)
    lap("make_explicit")
    collectives = clone(work) if keep_stages else None
    whole = clone(work) if small else None
    info = localize(work, explain=explain)
    if started:
        reattach_async(work)
    lap("localize")
    optimize(work, info.mesh, arguments=info.arguments, overlap=overlap, diverges=info.diverges)
    lap("optimize")
    # Latency decides for small ones: start again from the module as it was before localization.
    if whole is not None and sends_less(whole, info.arguments, collect(work, info.mesh)):
        make_whole(work := whole)
        collectives = clone(work) if keep_stages else None
        optimize(work, localize(work, explain=explain, whole=True).mesh, whole=True)
        lap("replicate")
    return Stages(propagated, collectives, work, info.mesh, info.arguments, info.results, seconds())


def _by_device(module: ir.Module) -> manual.Manual | None:
    """Return the computation per device that is all of a module, whose calls are then inlined."""
    whole = manual.recognize(module)
    if whole is not None and len(module.body.operations) > 2:
        # No more than that: a computation that lost an argument it does not use would not be
        # recognized again, and its layouts are promised already.
        passes.run(module, "inline{default-pipeline= },symbol-dce")
        whole = manual.recognize(module)
    return whole
