# Tests: tests/partition/test_propagate.py
"""Checks a module's shardings before Shardy's passes, which end the process on some of them."""

from __future__ import annotations

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import Unsupported
from weft.partition.collect import source_line
from weft.partition.shardy_workarounds import join_groups
from weft.partition.walk import maker, outer_first, sharding_of


def validate(module: ir.Module) -> None:
    """Raise ValueError for shardings that do not fit the module; join groups that share a value.

    The dialect's verifier covers unknown meshes and axes, axes used twice, and wrong ranks; this
    adds what it does not look at: several meshes, and sharding groups.
    """
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise ValueError(f"the module's shardings cannot hold: {_first_line(error)}") from error
    only_mesh(module)
    groups: dict[int, list[ir.Operation]] = {}
    for op in outer_first(module.operation):
        if op.name == "sdy.sharding_group":
            groups.setdefault(op.attributes["group_id"].value, []).append(op)
    for number, members in join_groups(groups).items():
        _check_group(number, members)


def only_mesh(module: ir.Module) -> tuple[dict[str, int], list[int]]:
    """Return axes and device ids of the module's one mesh.

    Raises:
      Unsupported: several different meshes (quirks.SHARDY_MESHES), or a value assigned to one
      device.
    """
    meshes: dict[str, tuple[dict[str, int], list[int]]] = {}
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            name = ir.StringAttr(op.attributes["sym_name"]).value
            mesh = op.attributes["mesh"]
            meshes[name] = (sdy.mesh_axes(mesh), sdy.mesh_device_ids(mesh))
    whole = {k: v for k, v in meshes.items() if v[0]}
    distinct = {(tuple(axes.items()), tuple(ids)) for axes, ids in whole.values()}
    if len(distinct) > 1:
        raise Unsupported("sdy.mesh", "module", f"several different meshes: {sorted(whole)}")
    if any(ids and not axes for axes, ids in meshes.values()):
        raise Unsupported("sdy.mesh", "module", "a value assigned to a single device")
    return next(iter(whole.values()), ({}, []))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line.removeprefix("error: ") for line in lines if "error:" in line), lines[0])


def _check_group(number: int, members: list[ir.Operation]) -> None:
    """Check that the values of a sharding group have one shape and no conflicting shardings."""
    first = members[0].operands[0]
    seen: tuple[str, ir.Attribute] | None = None
    for member in members:
        value = member.operands[0]
        if list(value.type.shape) != list(first.type.shape):
            raise ValueError(
                f"sharding group {number} holds values of shapes {list(first.type.shape)} and"
                f" {list(value.type.shape)}{_at(member)}; values of one group share one sharding,"
                " so give them equal shapes or different groups"
            )
        sharding = _given_sharding(value)
        if sharding is None or not _closed(sharding):
            continue
        if seen is not None and sdy.dims_of(seen[1]) != sdy.dims_of(sharding):
            raise ValueError(
                f"sharding group {number} holds values with conflicting shardings: {seen[1]}"
                f"{seen[0]} and {sharding}{_at(member)}; drop one of the constraints or the group"
            )
        seen = seen or (_at(member), sharding)


def _given_sharding(value: ir.Value) -> ir.Attribute | None:
    """Return the sharding the user gave a value: by a constraint, or on an argument."""
    source = maker(value)
    if source is not None:
        return source.attributes["sharding"] if source.name == "sdy.sharding_constraint" else None
    of_function = value.owner.owner.operation.name == "func.func"
    return sharding_of(value) if of_function else None


def _closed(sharding: ir.Attribute) -> bool:
    return "?" not in str(sharding)


def _at(op: ir.Operation) -> str:
    line = source_line(op.location)
    return f" ({line})" if line else ""
