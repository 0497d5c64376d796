# Tests: tests/sharding/test_constraint.py
"""Shardings of values inside a program: constraints in Shardy's or GSPMD's notation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from weft._xla.mlir import ir
from weft.core import dtypes
from weft.core.typing import linear_operands
from weft.lowering.context import parse_attr, string_attr
from weft.lowering.manual import manual_mesh
from weft.sharding.common_mesh import axes_in
from weft.sharding.named import NamedSharding
from weft.sharding.physical import spec_from_hlo
from weft.sharding.spec import UNCONSTRAINED, PartitionSpec
from weft.sharding.text import mhlo_sharding_text, sdy_sharding_text

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.lowering.context import RuleContext
    from weft.lowering.module import ModuleContext


def constrain(
    ctx: RuleContext,
    x: ir.Value,
    sharding: NamedSharding | None,
    aval: ShapedArray,
    priorities: Mapping[int, int] | None = None,
    by_type: bool = False,
) -> Any:
    """Return the value with a sharding constraint; unchanged without a sharding or on one device.

    by_type: the sharding is a type's, which says nothing of the mesh's Auto axes.
    """
    module = ctx.module
    if sharding is None or module.num_partitions == 1 or module.mesh is None:
        return x
    rank = physical_rank(aval)
    if not hasattr(sharding, "spec"):
        sharding = _named(sharding, module.mesh, rank)
    if module.use_shardy:
        text = sharding_text(module, sharding, rank, priorities, by_type)
        attrs = {"sharding": parse_attr(text)}
        return ctx.op("sdy.sharding_constraint", [x], [x.type], attrs)[0]
    sharding = module.localize_sharding(sharding)
    if module.manual_axes:  # GSPMD wants them named as a manual subgroup
        sharding = NamedSharding(manual_mesh(module), sharding.spec)
    open_dims = [d for d, p in enumerate(sharding.spec.partitions) if p is UNCONSTRAINED]
    attrs = {
        "call_target_name": string_attr("Sharding"),
        "mhlo.sharding": string_attr(mhlo_sharding_text(sharding, rank)),
        "api_version": ctx.i32(1),
    }
    if open_dims:
        dims = ",".join(map(str, open_dims))
        attrs["backend_config"] = string_attr(f"unspecified_dims=[{dims}]")
    return ctx.op("stablehlo.custom_call", [x], [x.type], attrs)[0]


def whole_for_xla(ctx: RuleContext, x: object, aval: ShapedArray, dims: Collection[int]) -> Any:
    """Return the value, unsplit along these dimensions where XLA's partitioner is used.

    Propagation splits others as it likes (quirks.GSPMD_WINDOWS).
    """
    module = ctx.module
    if not module.for_xla or not dims or module.manual_axes >= set(module.mesh.axis_names):
        return x
    entries = (None if d in dims else UNCONSTRAINED for d in range(aval.ndim))
    return constrain(ctx, x, NamedSharding(module.mesh, PartitionSpec(*entries)), aval)


def combined_alike(ctx: RuleContext, body: Callable) -> Callable:
    """Mark a scatter's computation, so that XLA's partitioner does not combine parts by it,
    where that would end the process (quirks.GSPMD_MANUAL_SCATTERS)."""
    module = ctx.module
    if not module.for_xla or not module.manual_axes:
        return body

    def marked(*scalars: ir.Value) -> list:
        whole = NamedSharding(module.mesh, PartitionSpec())
        results = zip(body(*scalars), ctx.avals_out, strict=True)
        return [constrain(ctx, x, whole, a.update(shape=())) for x, a in results]

    return marked


def _named(sharding: Any, mesh: Any, rank: int) -> NamedSharding:
    """Return a sharding of another kind in terms of the program's mesh."""
    if sharding._devices_in_order == tuple(mesh.devices.flat):
        spec = spec_from_hlo(sharding._to_xla_hlo_sharding(rank), mesh, rank)
        if spec is not None:
            return NamedSharding(mesh, spec)
    raise ValueError(
        f"{sharding!r} cannot be written as a PartitionSpec over {mesh!r}, the mesh of the "
        "program; give NamedSharding(mesh, spec)"
    )


def physical_rank(aval: ShapedArray) -> int:
    """Return the rank of the array that holds values of the type."""
    extra = len(aval.dtype.physical_shape) if dtypes.is_extended(aval.dtype) else 0
    return aval.ndim + extra


def sharding_text(
    module: ModuleContext,
    sharding: NamedSharding,
    rank: int,
    priorities: Mapping[int, int] | None = None,
    by_type: bool = True,
) -> str:
    """Return the `sdy.sharding` of a value.

    A type's sharding fixes the Explicit axes; dimensions stay open for the mesh's Auto ones.
    """
    mesh = sharding.mesh
    explicit = mesh.explicit_axes
    mixed = by_type and explicit and mesh.auto_axes
    unused = set(explicit) - sharding.spec.used_axes() - sharding.spec.unreduced
    if mixed and module.mesh is not None and mesh.shape != module.mesh.shape:
        axes = axes_in(mesh, module.mesh) or {}
        unused = {a for name in unused for a in axes.get(name, ())}
    sharding = module.localize_sharding(sharding)
    return sdy_sharding_text(
        sharding,
        rank,
        open_dims=range(rank) if mixed else (),
        replicated=unused - module.manual_axes if mixed else (),
        priorities=priorities,
    )


def annotate(ctx: RuleContext, x: Any, aval: Any) -> Any:
    """Return the value with the sharding its type has, as an attribute of the op that makes it."""
    module = ctx.module
    if not module.use_shardy or not isinstance(x, ir.OpResult):
        return constrain(ctx, x, aval.sharding, aval, by_type=True)
    if x.owner.operation.name == "sdy.sharding_constraint":
        return x
    if aval.sharding.spec.unreduced:
        return constrain(ctx, x, aval.sharding, aval, by_type=True)
    if _set_sharding(x, sharding_text(module, aval.sharding, physical_rank(aval))):
        return x
    return constrain(ctx, x, aval.sharding, aval, by_type=True)


def parts_of_sums(ctx: Any, operands: list) -> list:
    """Turn whole operands of a linear op into partial sums, like the other operands."""
    out = ctx.avals_out[0].sharding
    if out is None or not out.spec.unreduced:
        return operands
    result = []
    linear = linear_operands(ctx.eqn.primitive, ctx.avals_in, ctx.eqn.rule_params)
    for i, (x, aval) in enumerate(zip(operands, ctx.avals_in, strict=True)):
        sharding = aval.sharding
        if i in linear and (sharding is None or not sharding.spec.unreduced):
            if x is None:  # a number, of which the op would make a constant itself
                x = ctx.splat(ctx.eqn.invars[i].val, aval.shape, aval.dtype)
            spec = PartitionSpec(*(sharding.spec.partitions if sharding is not None else ()))
            whole = out.with_spec(spec)
            x = constrain(ctx, x, whole, aval, by_type=True)
            part = out.with_spec(spec.update(unreduced=out.spec.unreduced))
            x = constrain(ctx, x, part, aval, by_type=True)
        result.append(x)
    return result


def _set_sharding(x: ir.Value, text: str) -> bool:
    """Give the op that makes the value this sharding; False where it cannot be told so."""
    owner = x.owner.operation
    if len(owner.results) != 1 or len(owner.regions) or not owner.name.startswith("stablehlo."):
        return False
    attr = parse_attr(f"#sdy.sharding_per_value<[{text.removeprefix('#sdy.sharding')}]>")
    if "sdy.sharding" in owner.attributes:
        return bool(owner.attributes["sdy.sharding"] == attr)
    if owner.name == "stablehlo.custom_call":
        return False
    owner.attributes["sdy.sharding"] = attr
    return True


def in_memory(ctx: RuleContext, x: ir.Value, kind: str) -> Any:
    """Return the value in another memory of its devices."""
    attrs = {
        "call_target_name": string_attr("annotate_device_placement"),
        "has_side_effect": ctx.bool(True),
        "api_version": ctx.i32(1),
        "backend_config": string_attr(""),
        "mhlo.frontend_attributes": ir.DictAttr.get(
            {"_xla_buffer_placement": string_attr(kind)}, x.type.context
        ),
    }
    return ctx.op("stablehlo.custom_call", [x], [x.type], attrs)[0]


def fixed_by_type(aval: ShapedArray) -> NamedSharding | None:
    """Return the whole placement that a type gives: its sharding, where no axis is Auto."""
    typed = getattr(aval, "sharding", None)
    return typed if typed is not None and not typed.mesh.auto_axes else None
