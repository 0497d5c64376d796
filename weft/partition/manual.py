"""The short way for programs that are written per device from end to end.

Where a function hands its arguments to one computation that is manual over all axes of the mesh,
and returns that computation's results, each with the sharding it has there, nothing is left to
propagate or to insert: the computation is the program of one device.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft._xla import sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import AxisLayout, DeviceMesh
from weft.partition.collect import KINDS
from weft.partition.ops import OPS
from weft.partition.walk import (
    boundary,
    forget,
    insert,
    make_local,
    maker,
    outer_first,
    run_as_replicas,
    supersede,
    terminator,
)

# What the short way leaves to the long one: calls may have rules for shards, and replica_id means
# another thing in the program of one device.
_REFUSED = frozenset(f"stablehlo.{name}" for name in ("custom_call", "composite", "replica_id"))
_TAKEN = frozenset(("func.call", "func.return", "sdy.return"))


@dataclass(slots=True)
class Manual:
    """The computation, and the layouts of the function's arguments and results around it."""

    mesh: DeviceMesh
    region: ir.Operation
    arguments: list[AxisLayout]
    results: list[AxisLayout]


def recognize(module: ir.Module) -> Manual | None:
    """Collect the inputs of the short way from a module, or None; the module is not changed.

    Without a doubt only: anything unforeseen takes the long way.
    """
    tops = [view.operation for view in module.body.operations]
    meshes = [op for op in tops if op.name == "sdy.mesh"]
    functions = [op for op in tops if op.name == "func.func"]
    mains = [f for f in functions if f.attributes["sym_name"].value == "main"]
    if len(meshes) != 1 or len(mains) != 1 or len(meshes) + len(functions) != len(tops):
        return None
    attribute = meshes[0].attributes["mesh"]
    axes = sdy.mesh_axes(attribute)
    main = mains[0]
    block = main.regions[0].blocks[0]
    inside = [view.operation for view in block.operations]
    regions = [op for op in inside if op.name == "sdy.manual_computation"]
    around = {"sdy.manual_computation", "sdy.sharding_constraint", "func.return"}
    if len(regions) != 1 or {op.name for op in inside} - around or not axes:
        return None
    region = regions[0]
    if set(sdy.manual_axes(region.attributes["manual_axes"])) != set(axes):
        return None
    outer = [
        *block.arguments,
        *(op.results[0] for op in inside if op.name != region.name and op.results),
    ]
    if any(use.owner.operation.block != block for value in outer for use in value.uses):
        return None  # taken by the computation past its operands
    mesh = DeviceMesh(axes, sdy.mesh_device_ids(attribute))
    arguments = _arguments(mesh, main, region)
    results = _results(mesh, main, region)
    if arguments is None or results is None:
        return None
    bodies = [region, *(f for f in functions if f != main)]
    if not all(_plain(op) for body in bodies for op in outer_first(body)):
        return None
    return Manual(mesh, region, arguments, results)


def localize(module: ir.Module, manual: Manual) -> None:
    """Put the computation in the place of the function that it is all of, in place."""
    region = manual.region
    body, block = region.regions[0].blocks[0], region.block
    main = block.owner.operation
    end = terminator(body)
    for value, inner in zip(region.operands, body.arguments, strict=True):
        source = _source(value)
        assert source is not None  # there is no sharding to differ from
        source.set_type(inner.type)
        inner.replace_all_uses_with(source)
    for view in list(body.operations)[:-1]:
        view.operation.move_before(region)
    returned = terminator(block)
    outputs = dict(zip(region.results, end.operands, strict=True))
    for i, value in enumerate(returned.operands):
        returned.operands[i] = outputs[_source(value)]
    for view in reversed(list(block.operations)):
        if view.operation.name == "sdy.sharding_constraint":
            view.operation.erase()
    region.erase()
    make_local(main, [a.type for a in block.arguments], [v.type for v in returned.operands])
    run_as_replicas(module, manual.mesh.size)
    for op in list(outer_first(module.operation)):
        _for_replicas(op)


def _for_replicas(op: ir.Operation) -> None:
    """Make the local program's devices replicas, which its collectives then name."""
    if op.name in KINDS:
        forget(op, "channel_handle", "use_global_device_ids")
    elif op.name == "stablehlo.partition_id":
        supersede(op, *insert(op, "stablehlo.replica_id", op.results.types).results)


def _plain(op: ir.Operation) -> bool:
    """Return whether an operation is the same in the program of one device."""
    name = op.name
    if name in _TAKEN or name.startswith("chlo.") and name in OPS:
        return True
    if not name.startswith("stablehlo.") or name in _REFUSED or "async" in name:
        return False
    return "sdy.sharding" not in op.attributes


def _arguments(
    mesh: DeviceMesh, main: ir.Operation, region: ir.Operation
) -> list[AxisLayout] | None:
    """Return layouts of the function's arguments; the computation takes each once at most."""
    block = main.regions[0].blocks[0]
    wanted: dict[ir.Value, ir.Attribute] = {}
    for value, sharding in zip(
        region.operands, sdy.per_value(region.attributes["in_shardings"]), strict=True
    ):
        source = _source(value, sharding)
        if source is None or not isinstance(source.owner, ir.Block) or source in wanted:
            return None
        wanted[source] = sharding
    out = []
    for number, argument in enumerate(block.arguments):
        asked = sdy.argument_sharding(main, number)
        sharding = wanted.get(argument)
        if sharding is None or len(list(argument.uses)) != 1:
            return None
        layout = _layout(mesh, argument, sharding)
        if layout is None or (asked is not None and not _same(asked, sharding)):
            return None
        out.append(layout)
    return out


def _results(mesh: DeviceMesh, main: ir.Operation, region: ir.Operation) -> list[AxisLayout] | None:
    """Return layouts of the function's results, all of them results of the computation."""
    shardings = dict(
        zip(region.results, sdy.per_value(region.attributes["out_shardings"]), strict=True)
    )
    returned = terminator(main.regions[0].blocks[0])
    attributes = boundary(main, "res")
    out = []
    for number, value in enumerate(returned.operands):
        source = _source(value)
        sharding = shardings.get(source)
        if sharding is None or _source(value, sharding) is None:
            return None
        asked = attributes[number].get("sdy.sharding") if attributes else None
        layout = _layout(mesh, value, sharding)
        if layout is None or (asked is not None and not _same(asked, sharding)):
            return None
        out.append(layout)
    return out


def _source(value: ir.Value, sharding: ir.Attribute | None = None) -> ir.Value | None:
    """Return the operands of constraints; None where one asks for another sharding."""
    while (op := maker(value)) is not None and op.name == "sdy.sharding_constraint":
        if sharding is not None and not _same(op.attributes["sharding"], sharding):
            return None
        value = op.operands[0]
    return value


def _same(a: ir.Attribute, b: ir.Attribute) -> bool:
    """Tell whether two closed shardings split dimensions alike, and leave nothing unreduced."""
    texts = str(a), str(b)
    if any("?" in t or "unreduced" in t for t in texts):
        return False
    return sdy.dims_of(a) == sdy.dims_of(b)


def _layout(mesh: DeviceMesh, value: ir.Value, sharding: ir.Attribute) -> AxisLayout | None:
    """Return a value's layout by a closed sharding over whole axes that divide it, else None."""
    if not isinstance(value.type, ir.RankedTensorType) or not _same(sharding, sharding):
        return None
    dims = []
    for refs in sdy.dims_of(sharding):
        if any(tuple(ref)[1:] not in ((), (1, None)) for ref in refs):
            return None  # a piece of an axis
        dims.append(tuple(i for ref in refs for i in mesh.atoms_of(*ref)))
    shape = tuple(value.type.shape)
    if len(dims) != len(shape):
        return None
    layout = AxisLayout(mesh, shape, tuple(dims))
    return None if any(layout.padded(d) for d in range(len(shape))) else layout
