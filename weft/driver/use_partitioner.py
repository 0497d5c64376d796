"""Partitioning a lowered program with weft's own passes, with XLA's as the announced fallback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla import mlir
from weft._xla import sharding as xla_sharding
from weft._xla.mlir import ir
from weft.core.config import config
from weft.core.events import DURATIONS, PARTITIONED, tell
from weft.core.source import warn
from weft.partition import AxisLayout, Unsupported, manual
from weft.partition.partitioner import Stages, partition
from weft.sharding.mesh import AbstractMesh
from weft.sharding.named import NamedSharding
from weft.sharding.physical import GSPMDSharding
from weft.sharding.spec import PartitionSpec
from weft.sharding.text import sdy_sharding_text

if TYPE_CHECKING:
    from weft.driver.program import Program


class Boundary:
    """The per-device program with the shardings of its arguments and results.

    make: partitions the program, when its local form is first asked for.
    """

    __slots__ = ("_local", "_make", "in_shardings", "out_shardings")

    def __init__(self, make: Callable[[], Stages], ins: list, outs: list) -> None:
        self._make: Callable[[], Stages] | None = make
        self.in_shardings = ins
        self.out_shardings = outs

    @property
    def local(self) -> ir.Module:
        if self._make is not None:
            self._local, self._make = self._make().local, None
        return self._local


def partition_program(program: Program, partitioner: str) -> None:
    """Set `program.stages`. With 'auto', a program weft does not cover is announced and left.

    With 'xla', the program is one that would hang.
    """
    waits = f": {_WAITS}" if program.diverges else ""
    if partitioner == "xla" or not program.use_shardy:
        api = "weft, not XLA" if program.use_shardy else "XLA without Shardy"
        warn(f"{program.name} is partitioned by {api}{waits}")
        if not program.use_shardy:
            return
    try:
        program.stages = _partition(program)
        return
    except Unsupported as e:
        problem = f"{e.op} at {e.location}: {e.reason}"
        cause: Exception = e
    except ir.MLIRError as e:  # quirks.SHARDY_LOOP_SUMS
        problem = " ".join(str(e).split())[:300]
        cause = e
    if partitioner == "weft":
        raise ValueError(
            f"{program.name}: weft's partitioner does not cover {problem}. Use partitioner='auto' "
            "to leave the program to XLA's"
        ) from cause
    program.stages = None
    warn(f"{program.name} is partitioned by XLA: weft's partitioner stopped at {problem}{waits}")


_WAITS = (
    "devices may take its branches and loops differently, and where a shard_map leaves axes to the "
    "partitioner, XLA's adds permutations there that wait for all devices on the CPU"
)
"""The reason to warn of: quirks.GSPMD_WAITS."""


def partitioned_stages(program: Program) -> Any:
    """Return all stages of a program over several devices, with its collectives' reasons."""
    with mlir.context(), mlir.unknown_location():
        names = argument_names(program)
        return partition(
            program.module,
            keep_stages=True,
            explain=True,
            overlap=config.overlap_gathers,
            names=names,
        )


def argument_names(program: Program) -> list[str]:
    """Return the names of the arguments of the program's main function."""
    names = zip(program.arg_names, program.kept, strict=True)
    return [name.removeprefix("argument ") for name, kept in names if kept]


def _partition(program: Program) -> Boundary:
    options = {"keep_stages": False, "overlap": config.overlap_gathers}

    def run() -> Stages:
        with mlir.context(), mlir.unknown_location():
            stages = partition(program.module, **options)
        for step, seconds in stages.seconds.items():
            tell(DURATIONS, PARTITIONED.format(step), seconds, fun_name=program.name)
        return stages

    with mlir.context(), mlir.unknown_location():
        whole = manual.recognize(program.module)
    if whole is not None:  # nothing that could fail, or that shardings depend on, is left to do
        return _boundary(program, run, whole.arguments, whole.results)
    stages = run()
    # Arrays have equal parts: a boundary that propagation split unevenly is fixed whole there.
    with mlir.context(), mlir.unknown_location():
        again = _fix(program, "arg_attrs", stages.arguments, program.in_shardings)
        again |= _fix(program, "res_attrs", stages.results, program.out_shardings)
    if again:
        stages = run()
    return _boundary(program, lambda: stages, stages.arguments, stages.results)


def _boundary(
    program: Program,
    make: Callable[[], Stages],
    arguments: Sequence[AxisLayout],
    results: Sequence[AxisLayout],
) -> Boundary:
    ins, outs = (
        [sharding_of_layout(program, x) for x in layouts] for layouts in (arguments, results)
    )
    return Boundary(make, ins, outs)


def _fix(
    program: Program, which: str, layouts: Sequence[AxisLayout], shardings: Sequence[Any]
) -> bool:
    uneven = [
        s is None and any(layout.padded(d) for d in range(len(layout.shape)))
        for layout, s in zip(layouts, shardings, strict=True)
    ]
    if not any(uneven):
        return False
    assert program.module is not None  # it was lowered
    main = next(
        op.operation
        for op in program.module.body.operations
        if op.operation.name == "func.func" and op.attributes["sym_name"].value == "main"
    )
    attrs = []
    for old, layout, fix in zip(main.attributes[which], layouts, uneven, strict=True):
        entries = {a.name: a.attr for a in old}
        if fix:
            text = sdy_sharding_text(_even(program.mesh, layout), len(layout.shape))
            entries["sdy.sharding"] = ir.Attribute.parse(text)
        attrs.append(ir.DictAttr.get(entries))
    main.attributes[which] = ir.ArrayAttr.get(attrs)
    return True


def _even(mesh: object, layout: AxisLayout) -> NamedSharding:
    whole = layout.without(*(d for d in range(len(layout.shape)) if layout.padded(d)))
    entries = _entries(whole) or (None,) * len(layout.shape)
    return NamedSharding(mesh, PartitionSpec(*entries))


def _entries(layout: AxisLayout) -> tuple | None:
    """Return the layout as the entries of a `P`; None where an axis is split into pieces."""
    mesh = layout.mesh
    entries = []
    for atoms in layout.dims:
        names: list[str] = []
        left = list(atoms)
        while left:
            axis = mesh.atoms[left[0]].axis
            whole = list(mesh.atoms_of(axis))
            if left[: len(whole)] != whole:
                return None
            names.append(axis)
            left = left[len(whole) :]
        entries.append(tuple(names) or None)
    return tuple(entries)


def sharding_of_layout(program: Program, layout: AxisLayout) -> Any:
    """Turn an axis layout into a sharding over the program's devices."""
    entries = _entries(layout)
    if entries is not None:
        while entries and entries[-1] is None:
            entries = entries[:-1]
        return NamedSharding(program.mesh, PartitionSpec(*entries))
    if isinstance(program.mesh, AbstractMesh):
        return None
    used = tuple(i for atoms in layout.dims for i in atoms)
    rest = tuple(i for i in range(len(layout.mesh.atoms)) if i not in used)
    position = layout.mesh.coordinates((*used, *rest))
    tiles = np.empty(layout.mesh.size, np.int64)
    tiles[position] = layout.mesh.partition_ids(np.arange(layout.mesh.size))
    copies = layout.mesh.count(rest)
    hlo = xla_sharding.tile_with_devices(
        tiles.reshape((*layout.counts, copies)), [xla_sharding.SubgroupType.REPLICATED]
    )
    return GSPMDSharding(program.devices, hlo)
