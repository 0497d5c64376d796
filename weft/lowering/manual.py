"""Manual regions: where a program is written per device along some mesh axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft._xla.mlir import ir
from weft.lowering.context import parse_attr, string_attr
from weft.sharding.mesh import AbstractMesh, AxisType
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec
from weft.sharding.text import mhlo_sharding_text, quoted, sdy_sharding_text

if TYPE_CHECKING:
    from weft.lowering.context import RuleContext
    from weft.lowering.module import ModuleContext

Boundary = tuple[PartitionSpec | Sequence[Any], Any]
"""How a value crosses the region's boundary: the mesh axes of each dimension, and its MLIR type."""


def sharding_of(ctx: RuleContext, spec: Any, type_: object, axes: Sequence[Any]) -> str:
    """Return the sdy.sharding of a value at the boundary of a region that is manual over `axes`.

    With axes left to the partitioner, dimensions stay open for these; the manual axes that the
    spec does not use must then be ruled out by name.
    """
    mesh = ctx.module.mesh
    if not isinstance(type_, ir.RankedTensorType):
        return "<@mesh, []>"  # a token
    rank = type_.rank
    free = set(mesh.axis_names) - set(axes) - ctx.module.manual_axes
    if isinstance(spec, PartitionSpec):
        partial = spec.unreduced | spec.reduced
        spec = PartitionSpec(*spec.partitions, unreduced=spec.unreduced)
    else:
        partial = frozenset()
        spec = PartitionSpec(*spec)
    unused = ()
    if free:
        unused = tuple(a for a in axes if a not in spec.used_axes() and a not in partial)
    text = sdy_sharding_text(
        NamedSharding(mesh, spec),
        rank,
        open_dims=tuple(range(rank)) if free else (),
        replicated=unused,
    )
    return text.removeprefix("#sdy.sharding")


def manual_region(
    ctx: RuleContext,
    axes: Sequence[Any],
    operands: Sequence[ir.Value],
    inputs: Sequence[Boundary],
    outputs: Sequence[Boundary],
    body: Callable[..., Sequence[ir.Value]],
    local_types: Sequence[Any] = (),
) -> list[ir.Value]:
    """Return an sdy.manual_computation: body(*block arguments of local types) returns local values.

    inputs and outputs: (spec, global type) for each operand and result.
    """

    def per_value(items: Sequence[Boundary]) -> ir.Attribute:
        texts = [sharding_of(ctx, spec, type_, axes) for spec, type_ in items]
        return parse_attr(f"#sdy.sharding_per_value<[{', '.join(texts)}]>")

    attrs = {
        "in_shardings": per_value(inputs),
        "out_shardings": per_value(outputs),
        "manual_axes": parse_attr(f"#sdy<manual_axes{{{', '.join(map(quoted, axes))}}}>"),
    }
    operation = ctx.operation(
        "sdy.manual_computation", list(operands), [t for _, t in outputs], attrs, regions=1
    )
    block = operation.regions[0].blocks.append(*local_types, arg_locs=[ctx.loc] * len(local_types))
    ctx.fill(block, "sdy.return", body)
    return list(operation.results)


def shard(
    ctx: RuleContext,
    x: ir.Value,
    spec: PartitionSpec,
    local: ir.RankedTensorType,
    axes: Sequence[Any],
) -> ir.Value:
    """GSPMD's way into a manual region: the operand's sharding, then its local shape."""
    sharding, dims = _gspmd_sharding(ctx, spec), _open_dims(ctx, x, axes)
    rank = ir.RankedTensorType(x.type).rank
    x = _custom_call(ctx, "Sharding", x, x.type, mhlo_sharding_text(sharding, rank), dims)
    manual = _subgroup_text(ctx.module, rank, axes)
    return _custom_call(ctx, "SPMDFullToShardShape", x, local, manual, dims)


def unshard(
    ctx: RuleContext,
    x: ir.Value,
    spec: PartitionSpec,
    whole: ir.RankedTensorType,
    axes: Sequence[Any],
) -> ir.Value:
    """GSPMD's way out of a manual region."""
    rank = ir.RankedTensorType(x.type).rank
    dims = _open_dims(ctx, x, axes)
    x = _custom_call(ctx, "Sharding", x, x.type, _subgroup_text(ctx.module, rank, axes), dims)
    text = mhlo_sharding_text(_gspmd_sharding(ctx, spec), rank)
    return _custom_call(ctx, "SPMDShardToFullShape", x, whole, text, dims)


@contextmanager
def marked_sources(module: ModuleContext) -> Iterator[None]:
    """Mark ops without operands, and transforms, in a manual region as manual.

    GSPMD concludes so for the others from their operands; where it cannot, it ends the process
    (quirks.GSPMD_MANUAL_SOURCES).
    """
    if module.use_shardy or module.mesh is None or not module.manual_axes:
        yield
        return
    block = ir.InsertionPoint.current.block
    start = len(block.operations)
    yield
    _mark(module, list(block.operations)[start:])


def _mark(module: ModuleContext, operations: Iterable[Any]) -> None:
    for op in operations:
        operation = op.operation
        if operation.name in _CONTROL:
            for region in operation.regions:
                for block in region.blocks:
                    _mark(module, block.operations)
            continue
        source = not len(operation.operands) or operation.name == "stablehlo.fft"
        if source and len(operation.results) == 1 and "mhlo.sharding" not in operation.attributes:
            text = _subgroup_text(module, _rank(operation.results[0].type))
            operation.attributes["mhlo.sharding"] = string_attr(text)


_CONTROL = frozenset(("stablehlo.while", "stablehlo.case", "stablehlo.if"))


def manual_attr(ctx: RuleContext, types: Sequence[Any]) -> ir.Attribute:
    """Return the GSPMD sharding of an op with these results inside a manual region."""
    texts = [_subgroup_text(ctx.module, _rank(t)) for t in types] or [_subgroup_text(ctx.module, 0)]
    return string_attr(texts[0] if len({*texts}) == 1 else "{" + ", ".join(texts) + "}")


def _rank(type_: ir.RankedTensorType) -> int:
    return type_.rank if isinstance(type_, ir.RankedTensorType) else 0


def manual_mesh(module: ModuleContext, axes: Iterable[Any] = ()) -> AbstractMesh:
    """Return the module's mesh, enclosing regions' axes and these marked as manual."""
    manual = dict.fromkeys((*module.manual_axes, *axes), AxisType.Manual)
    assert module.mesh is not None, "manual axes are axes of a mesh"
    return module.mesh.abstract_mesh.update_axis_types(manual)


def _subgroup_text(module: ModuleContext, rank: int, axes: Iterable[Any] = ()) -> str:
    """GSPMD's sharding of a value that each device has its own of, along all manual axes."""
    return mhlo_sharding_text(NamedSharding(manual_mesh(module, axes), PartitionSpec()), rank)


def _open_dims(ctx: RuleContext, x: ir.Value, axes: Sequence[Any]) -> str:
    free = set(ctx.module.mesh.axis_names) - set(axes) - ctx.module.manual_axes
    rank = ir.RankedTensorType(x.type).rank
    return f"unspecified_dims=[{','.join(map(str, range(rank)))}]" if free and rank else ""


def _gspmd_sharding(ctx: RuleContext, spec: PartitionSpec) -> NamedSharding:
    """Return the spec over the module's mesh, with the enclosing regions' axes manual."""
    return NamedSharding(manual_mesh(ctx.module), PartitionSpec(*spec))


def _custom_call(
    ctx: RuleContext, target: str, x: ir.Value, type_: ir.RankedTensorType, sharding: str, dims: str
) -> ir.Value:
    attrs = {
        "call_target_name": string_attr(target),
        "mhlo.sharding": string_attr(sharding),
        "backend_config": string_attr(dims),
        "api_version": ctx.i32(1),
    }
    return ctx.op("stablehlo.custom_call", [x], [type_], attrs)[0]
