# Tests: tests/sharding/test_explicit.py, tests/sharding/test_partial_types.py
"""The shardings of a compiled program over a mesh: asked for, typed, or chosen by a partitioner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft._xla.sharding import from_proto
from weft.driver.program import physical
from weft.runtime.compile import LoadedExecutable
from weft.sharding.common_mesh import axes_in
from weft.sharding.mesh import Mesh
from weft.sharding.named import NamedSharding
from weft.sharding.physical import from_hlo
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.driver.program import Program


def final_shardings(program: Program, compiled: LoadedExecutable, local: bool) -> tuple[list, list]:
    """Return the shardings of the arguments and of the results.

    local: weft's partitioner made the program of each device, and chose what was left open.
    """
    jaxpr = program.jaxpr
    if local:
        assert program.stages is not None  # which made the local program
        ins, outs = program.stages.in_shardings, program.stages.out_shardings
        ins = [s or f for s, f in zip(program.in_shardings, ins, strict=True)]
        outs = [s or f for s, f in zip(program.out_shardings, outs, strict=True)]
    else:
        ins = _final(program, program.in_shardings, jaxpr.in_avals, compiled, "parameter")
        outs = _final(program, program.out_shardings, jaxpr.out_avals, compiled, "output")
    results = zip(program.asked, jaxpr.out_avals, outs, strict=True)
    return ins, [_result(program, asked, aval, sharding) for asked, aval, sharding in results]


def _result(program: Program, asked: object, aval: Any, sharding: Any) -> Any:
    """Say a result's sharding over the axes, and with the entries, that its user expects."""
    mesh = program.mesh
    sharding = _as_asked(asked, aval, _on_typed_mesh(aval, sharding, asked))
    # Types and out_shardings say it all already; what is left was chosen by a partitioner.
    chosen = asked is None and getattr(aval, "sharding", None) is None
    if mesh is None or not chosen or type(sharding) is not NamedSharding:
        return sharding
    if 1 in mesh.axis_sizes:
        sharding = _with_axes_of_one(sharding, aval, program.in_shardings)
    if not mesh.auto_axes:  # types over explicit axes have an entry for each dimension
        sharding = sharding.update(spec=sharding.spec.padded(aval.ndim))
    return sharding


def _with_axes_of_one(sharding: NamedSharding, aval: Any, arguments: Sequence[Any]) -> Any:
    """Return an argument's sharding that places the result alike: it says axes of size 1, too.

    Partitioners do not tell those axes, over which nothing is split.
    """
    for s in arguments:
        alike = type(s) is NamedSharding and s.mesh is sharding.mesh and len(s.spec) <= aval.ndim
        if (
            alike
            and s.memory_kind == sharding.memory_kind
            and s.is_equivalent_to(sharding, aval.ndim)
        ):
            return s
    return sharding


def _final(
    program: Program, shardings: Sequence[Any], avals: Sequence[Any], compiled: Any, which: str
) -> list:
    """Fill the compiler's choices into shardings."""
    if len(program.devices) == 1:  # an array over a mesh of one device stays one: its type has axes
        replicated = NamedSharding(program.mesh, PartitionSpec())
        return [replicated if s is None else s for s in shardings]
    if all(s is not None for s in shardings):
        return list(shardings)
    chosen = compiled.parameter_shardings() if which == "parameter" else compiled.output_shardings()

    mesh: Any = program.mesh
    result = []
    for i, (s, a) in enumerate(zip(shardings, avals, strict=True)):
        if s is None:
            a = physical(a)
            hlo = from_proto(chosen[i]) if chosen else None
            s = (
                NamedSharding(mesh, PartitionSpec())
                if hlo is None
                else from_hlo(hlo, mesh, program.devices, a.ndim)
            )
        result.append(s)
    return result


def _on_typed_mesh(aval: object, sharding: object, asked: object) -> Any:
    """Return the result's sharding over a mesh with the axis types that its own type has."""
    typed = getattr(aval, "sharding", None)
    if typed is None or type(sharding) is not NamedSharding:
        return sharding
    mesh = sharding.mesh
    if mesh.shape != typed.mesh.shape:
        if typed.mesh.auto_axes or axes_in(typed.mesh, mesh) is None:
            return sharding
        devices = mesh.devices.reshape(typed.mesh.axis_sizes)
        retyped_mesh = Mesh(devices, typed.mesh.axis_names, typed.mesh.axis_types)
        return typed.update(mesh=retyped_mesh, memory_kind=sharding.memory_kind)
    retyped_mesh = mesh.update(axis_types=typed.mesh.axis_types)
    # Which sums are due, out_shardings or the type say: beside Auto axes, XLA found the rest.
    sums = asked.spec if type(asked) is NamedSharding else typed.spec
    spec = sharding.spec.update(unreduced=sums.unreduced, reduced=sums.reduced)
    return sharding.update(mesh=retyped_mesh, spec=spec)


def _as_asked(asked: object, aval: Any, sharding: object) -> Any:
    """Return the result's sharding, over the mesh that the user named for it."""
    if type(asked) is not NamedSharding or type(sharding) is not NamedSharding:
        return sharding
    if asked.mesh.shape == sharding.mesh.shape or not isinstance(asked.mesh, Mesh):
        return sharding
    same = isinstance(sharding.mesh, Mesh) and asked.is_equivalent_to(sharding, physical(aval).ndim)
    return asked if same else sharding
