# Tests: tests/test_export.py
"""The op that calls an exported program inside of another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.core.aval import ShapedArray
from weft.core.dtypes import short_name
from weft.core.masks import pick
from weft.core.primitive import Primitive
from weft.core.provided import device_put
from weft.core.trace import Tracer
from weft.core.tree import names_in
from weft.sharding.mesh import Mesh
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.export.exported import Exported
    from weft.lowering.context import RuleContext


def on_exported_mesh(exported: Exported, leaves: Sequence[object]) -> Sequence[object]:
    """Move arrays over another mesh of as many devices to one that has the exported axes."""
    want = exported._mesh
    if want is None or any(isinstance(x, Tracer) for x in leaves):
        return leaves
    shardings = [getattr(x, "sharding", None) for x in leaves]
    for mesh in [s.mesh for s in shardings if isinstance(s, NamedSharding)]:
        axes = mesh.axis_names, mesh.axis_sizes
        if mesh.size == exported.nr_devices and axes != (want.axis_names, want.axis_sizes):
            devices = mesh.devices.reshape(want.axis_sizes)
            exported_mesh = Mesh(devices, want.axis_names, axis_types=want.axis_types)
            specs = [PartitionSpec() if s is None else s.spec for s in exported._in_shardings]
            pairs = zip(leaves, specs, strict=True)
            return [device_put(x, NamedSharding(exported_mesh, spec)) for x, spec in pairs]
    return leaves


def _abstract(*avals: ShapedArray, exported: Exported) -> list:
    api = f"exported {exported.fun_name}"
    names = names_in(exported.in_tree, "")
    for name, got, want in zip(names, avals, exported._in_types, strict=True):
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            raise ValueError(
                f"{api}: argument {name} has type {got.str_short()}; it was exported for "
                f"{short_name(want.dtype)}{list(want.shape)}. Convert the argument, or export the "
                "function for this type"
            )
        if got.mat.varying:
            raise ValueError(
                f"{api} is called inside of shard_map with argument {name} of type "
                f"{got.str_short()}; call it outside, on whole arrays"
            )
        if _split(got) != _split(want):
            raise ValueError(
                f"{api}: argument {name} has type {got.str_short()}; it was exported for "
                f"{want.str_short()}. Move it: weft.reshard(x, P(...))"
            )
    return list(exported._out_types)


def _split(aval: ShapedArray) -> Any:
    """Return how a type says that its values are split, None for whole ones."""
    typed = aval.sharding
    if typed is None or not (any(typed.spec.partitions) or typed.spec.unreduced):
        return None
    return typed.mesh.axis_names, typed.mesh.axis_sizes, typed.spec


def _lower(ctx: RuleContext, *values: ir.Value, exported: Exported) -> list:
    from weft.export.checks import custom_calls
    from weft.lowering.merge import call_module
    from weft.lowering.sharding import constrain
    from weft.ops.linalg import lapack

    platform = ctx.module.platforms[0]
    _check_context(ctx, exported)
    operands = [
        constrain(ctx, x, s, a)
        for x, s, a in zip(values, exported._in_shardings, ctx.avals_in, strict=True)
    ]
    kept = [i in exported._kept for i in range(len(operands))]

    def parse() -> Any:
        module = exported._parse(platform)
        for target in custom_calls(module):
            if lapack.PORTABLE.fullmatch(target):
                lapack.register_target(target)
        return module

    outs = call_module(ctx, exported, parse, pick(operands, kept), ctx.out_types())
    return [
        constrain(ctx, x, s, a)
        for x, s, a in zip(outs, exported._out_shardings, ctx.avals_out, strict=True)
    ]


def _check_context(ctx: RuleContext, exported: Exported) -> None:
    """Raise ValueError where the program was exported for other platforms or devices."""
    module, api = ctx.module, f"exported {exported.fun_name}"
    platform = module.platforms[0]
    if platform not in exported.platforms and not exported._any_platform:
        raise ValueError(
            f"{api} is for {', '.join(exported.platforms)}, called on {platform}; export it with "
            f"platforms=[..., {platform!r}], or with "
            "disabled_checks=[DisabledSafetyCheck.platform()]"
        )
    if exported.nr_devices == 1:
        return
    want = exported._mesh
    if module.num_partitions != exported.nr_devices or module.mesh is None:
        raise ValueError(
            f"{api} is for {exported.nr_devices} devices, called in a program for "
            f"{module.num_partitions}; give it arguments on a mesh of {want}"
        )
    mesh = module.mesh
    assert want is not None  # a program for several devices was lowered over a mesh
    if (mesh.axis_names, mesh.axis_sizes) != (want.axis_names, want.axis_sizes):
        raise ValueError(
            f"{api} is for {want}, called in a program over {mesh}; use a mesh with the same "
            "axes, of the same sizes and in the same order, or call it outside of jit"
        )
    if module.use_shardy != exported._shardy:
        raise ValueError(
            f"{api} was exported with config.use_shardy={exported._shardy}; call it with the same"
        )
    if module.manual_axes:
        raise ValueError(f"{api} is for {exported.nr_devices} devices; call it outside shard_map")


def _no_derivative(*args: object, exported: Any) -> Any:
    raise ValueError(
        f"exported {exported.fun_name} has no VJP; export what differentiates it, or serialize it "
        "with a higher vjp_order"
    )


def _no_batch(axis: AxisData, args: list, dims: list, *, exported: Exported) -> Any:
    raise NotImplementedError(
        f"exported {exported.fun_name} has fixed shapes and cannot be mapped by vmap; export the "
        "mapped function, or call it in weft.lax.map"
    )


call_exported_p = Primitive(
    "call_exported",
    abstract=_abstract,
    effects=lambda avals, params: frozenset(params["exported"].unordered_effects),
    jvp=_no_derivative,
    batch=_no_batch,
    lower=_lower,
    multiple_results=True,
    own_types=True,
)
