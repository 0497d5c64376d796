# Tests: tests/api/test_shard_map.py
"""The shard_map op: a per-device jaxpr over shards, under every transformation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.shard_map_axes import over_program
from weft.api.shard_map_bodies import (
    Specs,
    differing,
    dual_spec,
    entering,
    leaving,
    manual_scope,
    residual_spec,
    untyped,
    with_types,
)
from weft.autodiff.dependence import program_depends
from weft.autodiff.jvp import cotangent_aval, jvp_jaxpr, linearize_jaxpr
from weft.autodiff.manual_casts import as_state
from weft.autodiff.transpose import transpose_jaxpr
from weft.autodiff.vmap import AxisData, add_dim, batch_flat, batch_jaxpr, move_dim, to_front
from weft.core.aval import Mat, ShapedArray
from weft.core.config import disable_jit
from weft.core.effects import Effect
from weft.core.errors import names_text
from weft.core.jaxpr import ClosedJaxpr, eval_closed, jaxpr_axes
from weft.core.masks import pick, unpick
from weft.core.primitive import Primitive
from weft.core.trace import inside_manual, trace_to_jaxpr
from weft.core.undefined import is_undefined
from weft.driver.jit import jit
from weft.lowering.manual import manual_region, marked_sources, shard, unshard
from weft.lowering.module import ordered_effects
from weft.sharding.mesh import AbstractMesh, AxisType, context_mesh
from weft.sharding.named import NamedSharding, type_sharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.sharding.mesh import Mesh
    from weft.typing import ArrayLike


def _closed_over(aval: ShapedArray) -> Any:
    """Type a closed-over value: each device has the whole of it along manual axes."""
    mesh, typed = context_mesh(), aval.sharding
    if mesh is None or typed.mesh is mesh or not mesh.manual_axes or typed.mesh.shape != mesh.shape:
        return aval
    spec = typed.spec.without(mesh.manual_axes)
    types = dict.fromkeys(mesh.manual_axes, AxisType.Manual)
    inner = NamedSharding(typed.mesh.update_axis_types(types), spec)
    return aval.update(sharding=type_sharding(inner, aval.ndim))


inside_manual[:] = [_closed_over]


def global_aval(aval: ShapedArray, spec: PartitionSpec, mesh: Mesh, manual: tuple) -> Any:
    """Return the type of the array whose shards these are."""
    shape = list(aval.shape)
    for d, axes in enumerate(spec.axes):
        shape[d] *= math.prod(mesh.shape[a] for a in axes)
    gone = frozenset(manual)
    mat = Mat(aval.mat.varying - gone, aval.mat.unreduced - gone, aval.mat.reduced - gone)
    sharding = type_sharding(NamedSharding(mesh, whole_spec(aval, spec)), aval.ndim)
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type, sharding, mat)


def whole_spec(aval: ShapedArray, spec: PartitionSpec) -> PartitionSpec:
    """Return the split of the array with these shards: by the spec, inside by explicit types."""
    if getattr(aval, "sharding", None) is None:
        return spec
    inner = aval.sharding.spec
    return PartitionSpec(
        *(spec.axes_of(d) + inner.axes_of(d) for d in range(aval.ndim)),
        unreduced=spec.unreduced | inner.unreduced,
        reduced=spec.reduced | inner.reduced,
    )


def _abstract(
    *avals: ShapedArray,
    jaxpr: ClosedJaxpr,
    mesh: Mesh,
    manual: tuple,
    out_specs: Specs,
    **params: object,
) -> list:
    return [
        global_aval(a, s, mesh, manual) for a, s in zip(jaxpr.out_avals, out_specs, strict=True)
    ]


def _effects(avals: Sequence[Any], params: dict[str, Any]) -> frozenset[Effect]:
    return params["jaxpr"].effects


def _named_axes(params: dict[str, Any]) -> frozenset:
    return jaxpr_axes(params["jaxpr"]) - frozenset(params["manual"])


# Derivatives ----------------------------------------------------------------------------------


def _jvp(
    primals: list,
    tangents: list,
    *,
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> tuple:
    nonzero = [t is not None for t in tangents]
    with manual_scope(params["mesh"], params["manual"], params["check_vma"]):
        pushed, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    outs = shard_map_p.bind(
        *primals,
        *(t for t in tangents if t is not None),
        jaxpr=pushed,
        in_specs=in_specs + tuple(pick(in_specs, nonzero)),
        out_specs=out_specs + tuple(pick(out_specs, out_nonzero)),
        **params,
    )
    n = len(out_specs)
    return outs[:n], unpick(outs[n:], out_nonzero)


def _linearize(
    primals: list,
    tangents: list,
    *,
    jaxpr: ClosedJaxpr,
    mesh: AbstractMesh | Mesh,
    manual: tuple,
    check_vma: bool,
    in_specs: Specs,
    out_specs: Specs,
) -> tuple:
    nonzero = [t is not None for t in tangents]
    params = {"mesh": mesh, "manual": manual, "check_vma": check_vma}
    with manual_scope(mesh, manual, check_vma):
        split = linearize_jaxpr(jaxpr, nonzero)
        residual_avals = split.tangent.in_avals[: len(split.residual_inputs)]
        new_residuals = [i for i, p in enumerate(split.residual_inputs) if p is None]
        differ = manual if check_vma else differing(jaxpr, manual, (*in_specs, *out_specs))
        specs = [residual_spec(residual_avals[i], differ, check_vma) for i in new_residuals]
        primal = leaving(split.primal, len(out_specs), specs)
        tangent = entering(split.tangent, dict(zip(new_residuals, specs, strict=True)), mesh)
    outs = shard_map_p.bind(
        *primals, jaxpr=primal, in_specs=in_specs, out_specs=out_specs + tuple(specs), **params
    )
    n = len(out_specs)
    residuals = split.residuals(primals, outs[n:])
    rest_specs = iter(specs)
    residual_specs = tuple(
        next(rest_specs) if p is None else in_specs[p] for p in split.residual_inputs
    )
    nonzero_tangents = [t for t in tangents if t is not None]
    result = iter(
        shard_map_p.bind(
            *residuals,
            *nonzero_tangents,
            jaxpr=tangent,
            in_specs=residual_specs + tuple(pick(in_specs, nonzero)),
            out_specs=tuple(pick(out_specs, split.nonzero_out)),
            **params,
        )
    )
    return outs[:n], [next(result) if nz else None for nz in split.nonzero_out]


def _transpose(
    cts: list,
    *args: ArrayLike | UndefinedPrimal,
    jaxpr: ClosedJaxpr,
    mesh: AbstractMesh | Mesh,
    manual: tuple,
    check_vma: bool,
    in_specs: Specs,
    out_specs: Specs,
) -> list:
    linear = [is_undefined(a) for a in args]
    nonzero = [ct is not None for ct in cts]
    is_constant = [not lin for lin in linear]
    linear_specs = pick(in_specs, linear)
    with manual_scope(mesh, manual, check_vma):
        backward, ct_nonzero = transpose_jaxpr(jaxpr, linear, nonzero)
        ct_avals = [cotangent_aval(a) for a in pick(jaxpr.in_avals, linear)]
        kept_specs = tuple(pick(linear_specs, ct_nonzero))
        ct_specs = tuple(pick(out_specs, nonzero))
        if check_vma:
            backward = with_types(backward, pick(ct_avals, ct_nonzero))
        else:
            differ = differing(jaxpr, manual, (*in_specs, *out_specs))
            backward = untyped(backward, sum(is_constant), ct_specs, kept_specs, mesh, differ)
    outs = shard_map_p.bind(
        *pick(args, is_constant),
        *(ct for ct in cts if ct is not None),
        jaxpr=backward,
        mesh=mesh,
        manual=manual,
        check_vma=check_vma,
        in_specs=tuple(pick(in_specs, is_constant)) + tuple(map(dual_spec, ct_specs)),
        out_specs=tuple(map(dual_spec, kept_specs)),
    )
    return unpick(unpick(outs, ct_nonzero), linear)


# Batching -------------------------------------------------------------------------------------


def _batch(
    axis: AxisData,
    args: list,
    dims: list,
    *,
    jaxpr: ClosedJaxpr,
    mesh: AbstractMesh | Mesh,
    manual: tuple,
    in_specs: Specs,
    out_specs: Specs,
    check_vma: bool,
) -> tuple:
    moved, batched = to_front(args, dims)
    names = axis.spmd_name if isinstance(axis.spmd_name, tuple) else (axis.spmd_name,)
    lead = tuple(n for n in names if n in manual)
    if lead:
        axis = _spread_axis(axis, lead, mesh, jaxpr, (*in_specs, *out_specs))
    with manual_scope(mesh, manual, check_vma):
        if lead and check_vma:
            inner, out_batched = _batch_varying(jaxpr, axis, batched, lead)
        else:
            inner, out_batched = batch_jaxpr(jaxpr, axis, batched)

    def with_lead(specs: Specs, keep: Sequence[bool]) -> Specs:
        return tuple(
            s.update(partitions=(lead or None, *s.partitions)) if b else s
            for s, b in zip(specs, keep, strict=True)
        )

    outs = shard_map_p.bind(
        *moved,
        jaxpr=inner,
        mesh=mesh,
        manual=manual,
        in_specs=with_lead(in_specs, batched),
        out_specs=with_lead(out_specs, out_batched),
        check_vma=check_vma,
    )
    return outs, [0 if b else None for b in out_batched]


def _spread_axis(
    axis: AxisData, lead: tuple, mesh: Any, jaxpr: ClosedJaxpr, specs: Specs
) -> AxisData:
    """Return the batch axis on one device, when spmd_axis_name spreads it over manual axes."""
    for spec in specs:
        if spec.used_axes() & frozenset(lead):
            raise ValueError(
                f"vmap: spmd_axis_name {lead!r} is already used by the spec {spec!r} of a "
                "shard_map inside; use a mesh axis that its in_specs and out_specs leave free"
            )
    along = tuple(n for n in lead if n in jaxpr_axes(jaxpr))
    if along:
        raise ValueError(
            f"vmap: a shard_map inside communicates along mesh axis {names_text(along)}, over "
            "which spmd_axis_name spreads the examples; leave spmd_axis_name out, or give another "
            "axis"
        )
    if axis.name is not None and axis.name in jaxpr_axes(jaxpr):
        raise ValueError(
            f"vmap: a shard_map inside communicates along axis_name {axis.name!r}, which "
            f"spmd_axis_name spreads over mesh axis {lead!r}; leave spmd_axis_name out, or let the "
            "shard_map communicate along the mesh axis"
        )
    parts = math.prod(mesh.shape[n] for n in lead)
    if axis.size % parts:
        raise ValueError(
            f"vmap: the axis of size {axis.size} cannot be spread by spmd_axis_name over mesh axis "
            f"{lead!r} of size {parts}; pad it to {-(-axis.size // parts) * parts}"
        )
    return AxisData(axis.name, axis.size // parts, axis.spmd_name, axis.varying)


def _batch_varying(
    jaxpr: ClosedJaxpr, axis: AxisData, batched: Sequence[bool], lead: tuple
) -> tuple[ClosedJaxpr, list[bool]]:
    """batch_jaxpr where batched values also vary over mesh axes: their types are found anew."""
    out_batched: list[bool] = []
    varying = axis.varying | frozenset(lead)
    axis = AxisData(axis.name, axis.size, axis.spmd_name, varying)
    avals = [add_dim(a, 0, axis) if b else a for a, b in zip(jaxpr.in_avals, batched, strict=True)]

    def fun(*args: object) -> list:
        dims = [0 if b else None for b in batched]
        outs, out_dims = batch_flat(lambda *xs: eval_closed(jaxpr, *xs), axis, args, dims)
        out_batched[:] = [d is not None for d in out_dims]
        return [
            o if d is None else as_state(move_dim(o, d, 0, axis), lead, "varying")
            for o, d in zip(outs, out_dims, strict=True)
        ]

    traced, consts = trace_to_jaxpr(fun, avals, f"vmap({jaxpr.jaxpr.debug})")
    return ClosedJaxpr(traced, consts), out_batched


# Lowering and eager running -------------------------------------------------------------------


def _lower(
    ctx: RuleContext,
    *operands: ir.Value,
    jaxpr: ClosedJaxpr,
    mesh: Mesh,
    manual: tuple,
    in_specs: Specs,
    out_specs: Specs,
    check_vma: bool,
) -> list:
    module, function = ctx.module, ctx.function
    if module.mesh is not None and module.mesh.shape != mesh.shape:
        params = {"jaxpr": jaxpr, "manual": manual, "in_specs": in_specs, "out_specs": out_specs}
        cut = over_program(mesh, module.mesh, params)
        return _lower(ctx, *operands, mesh=module.mesh, check_vma=check_vma, **cut)
    axes = tuple(n for n in manual if n not in module.manual_axes)
    before = module.manual_axes
    # One shard is the whole array: the body runs in place.
    if module.mesh is None or all(mesh.shape[n] == 1 for n in axes):
        module.manual_axes = before | frozenset(axes)
        try:
            return ctx.inline(jaxpr, *operands)
        finally:
            module.manual_axes = before
    axes = tuple(n for n in module.mesh.axis_names if n in axes)
    effects = ordered_effects(jaxpr)
    tokens = [function.tokens[e] for e in effects]
    local_in = [ctx.type_of(a) for a in jaxpr.in_avals]

    # Tokens pass through the region as further operands, so that effects keep their order.
    def body(*locals_: ir.Value) -> list:
        module.manual_axes = before | frozenset(axes)
        untracked = module.untracked_axes
        if not check_vma:
            module.untracked_axes = untracked | frozenset(axes)
        try:
            for e, t in zip(effects, locals_, strict=False):
                function.tokens[e] = t
            with marked_sources(module):
                outs = ctx.inline(jaxpr, *locals_[len(effects) :])
            return [function.tokens[e] for e in effects] + list(outs)
        finally:
            module.manual_axes = before
            module.untracked_axes = untracked

    whole_out = ctx.out_types()
    # GSPMD has no region: the values are marked as shards before and as whole behind.
    if not module.use_shardy:
        constrained = [
            shard(ctx, x, s, t, axes) for x, s, t in zip(operands, in_specs, local_in, strict=True)
        ]
        outs = body(*tokens, *constrained)[len(effects) :]
        return [
            unshard(ctx, x, s, t, axes) for x, s, t in zip(outs, out_specs, whole_out, strict=True)
        ]
    token = [t.type for t in tokens]
    in_specs = tuple(map(whole_spec, jaxpr.in_avals, in_specs))
    out_specs = tuple(map(whole_spec, jaxpr.out_avals, out_specs))
    outs = manual_region(
        ctx,
        axes,
        [*tokens, *operands],
        [*(((), t) for t in token), *zip(in_specs, (x.type for x in operands), strict=True)],
        [*(((), t) for t in token), *zip(out_specs, whole_out, strict=True)],
        body,
        [*token, *local_in],
    )
    for e in effects:
        function.tokens[e] = outs.pop(0)
    return outs


def _impl(*args: object, jaxpr: ClosedJaxpr, **params: object) -> list:
    def make() -> Any:
        def run_shard_map(*xs: object) -> list:
            return shard_map_p.bind(*xs, jaxpr=jaxpr, **params)

        return jit(run_shard_map)

    jitted = jaxpr.memo(("eager", *params.items()), make)
    with disable_jit(False):  # nothing else runs one program on every device
        return jitted(*args)


def _inner(avals: list, outs: list, params: dict) -> Iterator[tuple]:
    jaxpr, mesh = params["jaxpr"], params["mesh"]

    def shards(whole: Sequence[Any], specs: Sequence[Any]) -> list:
        return [_shard(a, s, mesh) for a, s in zip(whole, specs, strict=True)]

    for kind, inner, whole, specs in (
        ("the body", jaxpr.in_avals, avals, params["in_specs"]),
        ("the results of the body", jaxpr.out_avals, outs, params["out_specs"]),
    ):
        yield kind, [(a.shape, a.dtype) for a in inner], shards(whole, specs)


def _shard(aval: ShapedArray, spec: PartitionSpec, mesh: Mesh) -> tuple:
    """Shape and dtype of what one device has of a value."""
    parts = [math.prod(mesh.shape[n] for n in spec.axes_of(d)) for d in range(len(aval.shape))]
    return tuple(d // n for d, n in zip(aval.shape, parts, strict=True)), aval.dtype


shard_map_p = Primitive(
    "shard_map",
    abstract=_abstract,
    effects=_effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    impl=_impl,
    named_axes=_named_axes,
    inner=_inner,
    depends=lambda params, marked: program_depends(params["jaxpr"], marked),
    multiple_results=True,
    own_types=True,
    higher_order=True,
)
