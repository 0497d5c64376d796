# Tests: tests/sharding/test_explicit.py, tests/sharding/test_constraint.py
"""The ops that change where a value is placed, and the type that says so: identities otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.core import provided
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.state import current_trace
from weft.core.trace import EVAL, EvalTrace, typeof
from weft.sharding.mesh import AbstractMesh, AxisType, Mesh, context_mesh
from weft.sharding.named import NamedSharding, concrete_meshes, type_sharding
from weft.sharding.physical import SingleDeviceSharding
from weft.sharding.spec import UNCONSTRAINED

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# Rules that all of them share ------------------------------------------------------------------


def _to_type(x: object, aval: ShapedArray) -> Any:
    """Return a cotangent with its primal type's explicit sharding, or with none."""
    wanted = aval.sharding
    if wanted is not None and (wanted.spec.unreduced or wanted.spec.reduced):
        wanted = wanted.with_spec(wanted.spec.to_ct_spec())
    if typeof(x).sharding is wanted:
        return x
    if wanted is None:
        return mesh_cast_p.bind(x, mesh=None)
    return reshard_p.bind(x, sharding=wanted)


def _stacked(sharding: object, x: object, dim: int, axis: Any) -> Any:
    """Return the sharding of a batch, whose dimension `dim` keeps the placement it has."""
    if type(sharding) is not NamedSharding:
        return sharding
    typed = typeof(x).sharding
    entry: Any = axis.spmd_name
    if entry is None and typed is not None:
        entry = typed.spec_of(dim)
    if not entry:
        entry = None if sharding.mesh.are_all_axes_explicit else UNCONSTRAINED
    entries = list(sharding.spec.padded(dim).partitions)
    entries.insert(dim, entry)
    return sharding.with_spec(sharding.spec.update(partitions=entries))


def _placement(name: str, *, abstract: Callable, transpose: Callable, **rules: Any) -> Primitive:
    """Return a linear op that changes a value's placement, given by its parameter `sharding`."""

    def batch(
        axis: AxisData, args: list, dims: list, *, sharding: NamedSharding, **params: object
    ) -> tuple:
        sharding = _stacked(sharding, args[0], dims[0], axis)
        return prim.bind(args[0], sharding=sharding, **params), dims[0]

    prim = Primitive(
        name,
        abstract=abstract,
        jvp="linear",
        transpose=transpose,
        **{"batch": batch, **rules},
        own_types=True,
        structural=False,
    )
    return prim


# mesh_cast -------------------------------------------------------------------------------------


def _cast_sharding(x: ShapedArray, mesh: AbstractMesh | None) -> NamedSharding | None:
    if mesh is None or x.sharding is None:
        return None
    return type_sharding(NamedSharding(mesh, x.sharding.spec), x.ndim)


def _mesh_cast_impl(x: object, *, mesh: AbstractMesh | None) -> Any:
    """Rewrap an array over its own devices with other axis types: no data moves."""
    sharding = getattr(x, "sharding", None)
    if type(sharding) is not NamedSharding:
        return x
    types = (AxisType.Auto,) * sharding.mesh.ndim if mesh is None else mesh.axis_types
    return provided.put_array(x, sharding.update(mesh=sharding.mesh.update(axis_types=types)))


mesh_cast_p = Primitive(
    "mesh_cast",
    abstract=lambda x, *, mesh: x.update(sharding=_cast_sharding(x, mesh)),
    jvp="linear",
    transpose=lambda ct, x, *, mesh: [_to_type(ct, x.aval)],
    batch=lambda axis, args, dims, *, mesh: (mesh_cast_p.bind(args[0], mesh=mesh), dims[0]),
    lower=lambda ctx, x, *, mesh: x,
    impl=_mesh_cast_impl,
    own_types=True,
)
"""The value with another mesh in its type (None: without an explicit sharding)."""


# reshard ---------------------------------------------------------------------------------------


def check_target(name: str, x: ShapedArray, sharding: NamedSharding) -> None:
    """Raise where a value of this type cannot have this sharding."""
    sharding.check_rank(x.shape, f"{name} of a value")
    mesh, mesh_in_context = sharding.mesh, context_mesh()
    if mesh_in_context is not None and mesh_in_context.shape == mesh.shape:
        mesh = mesh_in_context  # the types of the axes where the value is
    manual = sharding.spec.used_axes() & set(mesh.manual_axes)
    if manual:
        raise ValueError(
            f"{name}: {sharding.spec!r} uses mesh axis {sorted(map(str, manual))[0]!r}, which is "
            "Manual inside shard_map: each device computes its own part there. Use the collectives "
            "of weft.lax, or reshard outside"
        )


def _reshard_abstract(x: ShapedArray, *, sharding: NamedSharding) -> ShapedArray:
    check_target("reshard", x, sharding)
    sharding.shard_shape(x.shape)
    return x.update(sharding=type_sharding(sharding, x.ndim))


def _concrete(x: ArrayLike, sharding: Any) -> Any:
    """Return the sharding with devices: those of the array, or of the mesh in context."""
    mesh = getattr(sharding, "mesh", None)
    if not isinstance(mesh, AbstractMesh):
        return sharding
    candidates = [getattr(getattr(x, "sharding", None), "mesh", None), context_mesh()]
    seen = concrete_meshes(mesh)
    if len(seen) == 1:  # the types of the program can mean one set of devices only
        candidates += seen
    for candidate in candidates:
        if isinstance(candidate, Mesh) and candidate.shape == mesh.shape:
            return sharding.update(mesh=candidate.update(axis_types=mesh.axis_types))
    raise ValueError(
        f"reshard: {mesh!r} has no devices and neither the array nor the context is on a mesh of "
        "these axes; give NamedSharding(mesh, spec) with a weft.sharding.Mesh, or call "
        "weft.set_mesh(mesh) first"
    )


def _place_now(prim: Callable[[], Primitive]) -> Callable:
    """Transfer eagerly; by a compiled program for partial sums and open dimensions."""

    def impl(x: ArrayLike, *, sharding: NamedSharding, **params: object) -> Any:
        sharding = _concrete(x, sharding)
        spec_now = getattr(getattr(x, "sharding", None), "spec", None)
        spec = getattr(sharding, "spec", None)
        partial = any(s is not None and s.unreduced for s in (spec_now, spec))
        if partial or (spec is not None and UNCONSTRAINED in spec.partitions):
            return EvalTrace.dispatch(prim(), (x,), {"sharding": sharding, **params})
        with current_trace(EVAL):
            return provided.device_put(x, sharding)

    return impl


def _reshard_lower(ctx: RuleContext, x: ir.Value, *, sharding: NamedSharding) -> Any:
    source = ctx.avals_in[0].sharding
    due: frozenset = source.spec.unreduced if source is not None else frozenset()
    if sharding.spec.unreduced - due:
        # Only from here on a sum over these axes; sums over others that end here come first, as
        # a reshard must not have both: quirks.SHARDY_MIXED_RESHARD.
        source = source or sharding.with_spec(sharding.spec.update(unreduced=()))
        source = source.with_spec(source.spec.update(unreduced=due & sharding.spec.unreduced))
        x = ctx.constrain(x, source, ctx.avals_in[0], by_type=True)
    by_type = not sharding.spec.used_axes() & set(sharding.mesh.auto_axes)
    return ctx.constrain(x, sharding, ctx.avals_out[0], by_type=by_type)


reshard_p = _placement(
    "reshard",
    abstract=_reshard_abstract,
    transpose=lambda ct, x, *, sharding: [
        _to_type(ct, x.aval)
        if type_sharding(sharding, x.aval.ndim) is not None
        else reshard_p.bind(ct, sharding=sharding)
    ],
    lower=_reshard_lower,
    impl=_place_now(lambda: reshard_p),
)


# sharding_constraint ---------------------------------------------------------------------------


def _constraint_abstract(
    x: ShapedArray, *, sharding: NamedSharding, priorities: tuple | None
) -> ShapedArray:
    if type(sharding) is NamedSharding:
        check_target("with_sharding_constraint", x, sharding)
    return x


def _constraint_batch(
    axis: AxisData, args: list, dims: list, *, sharding: NamedSharding, priorities: tuple | None
) -> tuple:
    dim = dims[0]
    if priorities is not None:
        priorities = tuple((d + (d >= dim), p) for d, p in priorities)
    sharding = _stacked(sharding, args[0], dim, axis)
    return sharding_constraint_p.bind(args[0], sharding=sharding, priorities=priorities), dim


def _constraint_lower(
    ctx: RuleContext, x: ir.Value, *, sharding: NamedSharding, priorities: tuple | None
) -> Any:
    return ctx.constrain(x, sharding, ctx.avals_out[0], priorities=dict(priorities or ()))


sharding_constraint_p = _placement(
    "sharding_constraint",
    abstract=_constraint_abstract,
    transpose=lambda ct, x, **params: [sharding_constraint_p.bind(ct, **params)],
    batch=_constraint_batch,
    lower=_constraint_lower,
    impl=_place_now(lambda: sharding_constraint_p),
)


# device_put ------------------------------------------------------------------------------------


def _device_put_abstract(x: ShapedArray, *, sharding: object, src: object) -> ShapedArray:
    if type(sharding) is not NamedSharding:
        return x.update(sharding=None) if x.sharding is not None else x
    check_target("device_put", x, sharding)
    sharding.shard_shape(x.shape)
    return x.update(sharding=type_sharding(sharding, x.ndim))


def _device_put_lower(
    ctx: RuleContext, x: ir.Value, *, sharding: Any, src: NamedSharding | None
) -> Any:
    if isinstance(sharding, SingleDeviceSharding) and ctx.module.num_partitions > 1:
        raise ValueError(
            f"device_put to {sharding._devices_in_order[0]} inside a program over "
            f"{ctx.module.num_partitions} devices: a value of the program is on all of "
            "them. Put the result there after the call, or replicate it with weft.reshard(x, P())"
        )
    x = ctx.constrain(x, sharding, ctx.avals_out[0])
    return x if sharding.memory_kind is None else ctx.in_memory(x, sharding.memory_kind)


def _device_put_impl(x: ArrayLike, *, sharding: object, src: object) -> Any:
    with current_trace(EVAL):
        return provided.device_put(x, _concrete(x, sharding))


def _device_put_transpose(ct: object, x: Any, *, sharding: object, src: object) -> list:
    """Send the cotangent where the value came from: by its type, or else to `src`."""
    if typeof(ct).sharding is not None or x.aval.sharding is not None:
        return [_to_type(ct, x.aval)]
    back = sharding if src is None else src
    return [device_put_p.bind(ct, sharding=back, src=None if src is None else sharding)]


def moves_between_devices(params: dict[str, Any]) -> bool:
    """Tell whether a device_put moves to other devices: no one program has both."""
    src, sharding = params["src"], params["sharding"]
    return src is not None and src.device_set != sharding.device_set


device_put_p = _placement(
    "device_put",
    abstract=_device_put_abstract,
    transpose=_device_put_transpose,
    lower=_device_put_lower,
    impl=_device_put_impl,
)
