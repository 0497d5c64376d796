"""Placement inside programs: reshard, constraints, auto and explicit regions, `out_sharding=`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.core import provided
from weft.core.config import config
from weft.core.errors import ArgumentError, NoMeshError, ShardingTypeError
from weft.core.source import wraps
from weft.core.trace import typeof
from weft.core.tree import broadcast_prefix, flatten
from weft.sharding.memory_layout import Format, Layout
from weft.sharding.mesh import AxisType, Mesh, context_mesh, use_context_mesh
from weft.sharding.named import NamedSharding, Sharding, is_over_nothing, type_sharding
from weft.sharding.placement import (
    check_target,
    device_put_p,
    mesh_cast_p,
    reshard_p,
    sharding_constraint_p,
)
from weft.sharding.spec import UNCONSTRAINED, PartitionSpec

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def drop_type(x: object) -> Any:
    """Drop the explicit sharding of the value's type: its placement is left to propagation."""
    return mesh_cast_p.bind(x, mesh=None) if typeof(x).sharding is not None else x


def reshard(xs: object, out_shardings: object) -> Any:
    """Place arrays by other shardings; in a program, give values that sharding in their type.

    Args:
      xs: a pytree of arrays.
      out_shardings: a NamedSharding, or a `P` over the mesh in context (or of the array's own
        type), or a pytree of these that is a prefix of ``xs``. Entries of None past an array's last
        dimension are left out.

    Returns:
      The same values. Moving them takes the communication that the change of sharding needs.

    Raises:
      ValueError: unknown axes, too many entries, a size that does not divide, no mesh known; an
        axis of type Auto, which `weft.lax.with_sharding_constraint` places values over.

    Example:
        >>> import weft
        >>> mesh = weft.make_mesh((1,), ("x",))
        >>> x = weft.reshard(weft.numpy.arange(4.0), weft.NamedSharding(mesh, weft.P("x")))
        >>> weft.typeof(x)
        ShapedArray(float32[4@x])
    """
    leaves, tree = flatten(xs)
    targets = _targets("reshard out_shardings", out_shardings, tree)
    placed = [(x, named("reshard", t, x)) for x, t in zip(leaves, targets, strict=True)]
    for _, sharding in placed:
        _check_no_auto(sharding)
    return tree.unflatten([x if is_over_nothing(s) else _reshard(x, s) for x, s in placed])


def _check_no_auto(sharding: NamedSharding) -> None:
    if type(sharding) is not NamedSharding:
        return
    spec, mesh = sharding.spec, sharding.mesh
    for axis in sorted(spec.used_axes() | spec.unreduced | spec.reduced, key=str):
        if mesh.axis_type(axis) is AxisType.Auto:
            raise ValueError(
                f"the sharding {spec!r} asked for uses mesh axis {axis!r}, which is of type Auto: "
                "the partitioner places values along it, and types do not show how. Use "
                f"weft.lax.with_sharding_constraint(x, {spec!r}), or a mesh whose axis is Explicit"
            )


def _reshard(x: ArrayLike, target: NamedSharding) -> Any:
    aval = typeof(x)
    sharding = named("reshard", target, x)
    if not isinstance(sharding, NamedSharding):
        raise TypeError(
            f"reshard: out_shardings must be a NamedSharding or a PartitionSpec, got "
            f"{type(sharding).__name__}; use weft.device_put for other placements"
        )
    partitions = sharding.spec.partitions
    # As many entries as the type has.
    if len(partitions) > aval.ndim and not any(partitions[aval.ndim :]):
        sharding = sharding.with_spec(sharding.spec.update(partitions=partitions[: aval.ndim]))
    sharding = sharding.with_spec(sharding.spec.padded(aval.ndim))
    if UNCONSTRAINED in sharding.spec.partitions:
        raise ValueError(
            f"reshard: {sharding.spec!r} leaves a dimension UNCONSTRAINED; use None or axis names, "
            "or weft.lax.with_sharding_constraint for axes of type Auto"
        )
    typed = type_sharding(sharding, aval.ndim)
    if typed is not None and typed is aval.sharding and sharding.mesh.are_all_axes_explicit:
        check_target("reshard", aval, sharding)
        return x
    return reshard_p.bind(x, sharding=sharding)


def _targets(label: str, targets: Any, tree: Any) -> list:
    def is_target(value: NamedSharding | PartitionSpec) -> bool:
        return isinstance(value, PartitionSpec | Sharding | NamedSharding)

    if is_target(targets):
        return [targets] * tree.num_leaves
    return broadcast_prefix(targets, tree, label, lambda v: v is None or is_target(v))


def named(label: str, target: object, *operands: object) -> Any:
    """Make a sharding of a sharding, or of a `P` on the context's mesh or the operands'."""
    if not isinstance(target, PartitionSpec):
        if isinstance(target, Sharding | NamedSharding):
            return target
        raise ArgumentError(
            f"{label}: a sharding or a PartitionSpec is needed, got {type(target).__name__}: "
            f"{target!r}"
        )
    mesh: Any = context_mesh()
    if mesh is None:
        mesh = next((s.mesh for x in operands if (s := typeof(x).sharding) is not None), None)
    if mesh is None:
        for x in operands:  # an array over Auto axes
            mesh = getattr(getattr(x, "sharding", None), "mesh", None) or mesh
    if mesh is None:
        raise NoMeshError(
            f"{label}: {target!r} was given but no mesh is in context; call weft.set_mesh(mesh), "
            "or give NamedSharding(mesh, spec)"
        )
    return NamedSharding(mesh, target)


# out_sharding= and regions ---------------------------------------------------------------------


def in_parts(out_sharding: object, *operands: object) -> NamedSharding | None:
    """Return the sharding of `out_sharding=` if it asks for partial sums of typed operands."""
    if not any(getattr(typeof(x), "sharding", None) is not None for x in operands):
        return None
    sharding = named("out_sharding", out_sharding, *operands)
    return sharding if isinstance(sharding, NamedSharding) and sharding.spec.unreduced else None


def placed(fun: Callable[..., Any], out_sharding: object, *operands: object) -> Any:
    """fun(*operands), with a result of the given sharding: what `out_sharding=` of ops means.

    The op itself runs without explicit types, so that nothing is ambiguous, and the partitioner
    finds the way from the operands' shardings to the result's.
    """
    if out_sharding is None:
        return fun(*operands)
    sharding = named("out_sharding", out_sharding, *operands)
    if is_over_nothing(sharding):
        return fun(*operands)
    return reshard(fun(*[drop_type(x) for x in operands]), sharding)


def _region_mesh(label: str, shardings: NamedSharding | PartitionSpec, args: Sequence[Any]) -> Any:
    """Return a region's mesh: in context, in given shardings, or in the arguments' types."""
    region_mesh = context_mesh()
    owner = "the mesh in context"
    for s in flatten(shardings, lambda v: isinstance(v, PartitionSpec | Sharding))[0]:
        mesh = getattr(s, "mesh", None)
        if mesh is None:
            continue
        if region_mesh is not None and region_mesh.abstract_mesh is not mesh.abstract_mesh:
            raise ValueError(
                f"{label}: {owner} is {region_mesh!r}, but a sharding is over {mesh!r}; use one "
                "mesh, with weft.set_mesh(mesh) and shardings given as P(...)"
            )
        if region_mesh is None or isinstance(mesh, Mesh):
            region_mesh, owner = mesh, "another sharding's mesh"
    if region_mesh is None:
        for x in args:
            typed = getattr(typeof(x), "sharding", None)
            if typed is not None:
                array_mesh = getattr(getattr(x, "sharding", None), "mesh", None)
                return array_mesh if isinstance(array_mesh, Mesh) else typed.mesh
    return region_mesh


def _retyped(label: str, mesh: Any, axes: Any, axis_type: AxisType) -> Any:
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    for name in names:
        mesh.check_axis(name, f"{label}: axis")
    if axes is None:
        names = [n for n in names if mesh.axis_type(n) is not AxisType.Manual]
    elif manual := [n for n in names if mesh.axis_type(n) is AxisType.Manual]:
        raise ValueError(
            f"{label}: mesh axis {manual[0]!r} is Manual inside shard_map and cannot become "
            f"{axis_type.name}; leave it out of axes"
        )
    return mesh.update(axis_types=dict.fromkeys(names, axis_type))


def auto_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Any = None, out_sharding: Any = None
) -> Callable[..., Any]:
    """Return a function in which mesh axes are Auto: the partitioner places what it computes.

    Args:
      f: a function of arrays; without it, a decorator is returned.
      axes: the axes that become Auto, all unless given.
      out_sharding: of the results, a pytree prefix; else the keyword argument of each call.

    Raises:
      TypeError: no out_sharding is given. ValueError: an axis is unknown or Manual.

    Example:
        >>> import weft
        >>> mesh = weft.make_mesh((1,), ("x",))
        >>> x = weft.device_put(weft.numpy.ones((4, 4)), weft.NamedSharding(mesh, weft.P("x")))
        >>> weft.typeof(weft.sharding.auto_axes(lambda a: a @ a.T, out_sharding=weft.P("x"))(x))
        ShapedArray(float32[4@x,4])
    """
    if f is None:
        return lambda g: auto_axes(g, axes=axes, out_sharding=out_sharding)

    @wraps(f)
    def run(*args: object, **kwargs: Any) -> Any:
        target = out_sharding if out_sharding is not None else kwargs.pop("out_sharding", None)
        if target is None:
            raise TypeError(
                "auto_axes: out_sharding is missing; give it to auto_axes or to the call, so that "
                "the results have a sharding outside of the function"
            )
        leaves, tree = flatten((args, kwargs))
        mesh = _region_mesh("auto_axes", target, leaves)
        if mesh is None:
            return f(*args, **kwargs)
        inner = _retyped("auto_axes", mesh, axes, AxisType.Auto)
        abstract = inner.abstract_mesh
        cast = [
            mesh_cast_p.bind(x, mesh=abstract) if typeof(x).sharding is not None else x
            for x in leaves
        ]
        args, kwargs = tree.unflatten(cast)
        with use_context_mesh(inner):
            out = f(*args, **kwargs)
        return _reshard_over(out, target, mesh)

    return run


def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: int | Sequence[int] | None = None,
    in_sharding: Any = None,
) -> Callable[..., Any]:
    """Return a function in which mesh axes are Explicit: its values' types show their shardings.

    Args:
      f: a function of arrays; without it, a decorator is returned.
      axes: the axes that become Explicit, all unless given.
      in_sharding: of the arguments inside, a pytree prefix of the positional arguments; else the
        keyword argument of each call.

    Raises:
      TypeError: no in_sharding is given. ValueError: no mesh is known, an axis is unknown.

    >>> import weft
    >>> from weft.sharding import AxisType, explicit_axes
    >>> mesh = weft.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    >>> with weft.set_mesh(mesh):
    ...     weft.jit(explicit_axes(lambda a: print(weft.typeof(a)), in_sharding=weft.P("x")))(
    ...         weft.numpy.ones(4)
    ...     )
    f32[4@x]
    """
    if f is None:
        return lambda g: explicit_axes(g, axes=axes, in_sharding=in_sharding)

    @wraps(f)
    def run(*args: ArrayLike, **kwargs: Any) -> Any:
        target = in_sharding if in_sharding is not None else kwargs.pop("in_sharding", None)
        if target is None:
            raise TypeError(
                "explicit_axes: in_sharding is missing; give it to explicit_axes or to the call, "
                "so that the arguments have a sharding inside of the function"
            )
        mesh = _region_mesh("explicit_axes", target, flatten(args)[0])
        if mesh is None:
            raise NoMeshError(
                "explicit_axes: no mesh is in context; call weft.set_mesh(mesh), or give "
                "in_sharding as NamedSharding(mesh, spec)"
            )
        inner = _retyped("explicit_axes", mesh, axes, AxisType.Explicit)
        with use_context_mesh(inner):
            out = f(*_reshard_over(args, target, inner), **kwargs)
        leaves, tree = flatten(out)
        outer = mesh.abstract_mesh if mesh.explicit_axes else None
        return tree.unflatten(
            [
                mesh_cast_p.bind(x, mesh=outer) if typeof(x).sharding is not None else x
                for x in leaves
            ]
        )

    return run


def _reshard_over(xs: object, targets: object, mesh: object) -> Any:
    """reshard to shardings that refer to this mesh, whatever axis types they were made with."""
    leaves, tree = flatten(xs)
    specs = [
        None if t is None else t if isinstance(t, PartitionSpec) else t.spec
        for t in _targets("out_sharding", targets, tree)
    ]
    return tree.unflatten(
        [
            x if s is None else _reshard(x, NamedSharding(mesh, s))
            for x, s in zip(leaves, specs, strict=True)
        ]
    )


# Constraints -----------------------------------------------------------------------------------


def with_sharding_constraint(x: ArrayLike, shardings: object, *, priorities: Any = None) -> Any:
    """Constrain how the partitioner places arrays at this point of the program.

    Args:
      x: a pytree of arrays.
      shardings: a sharding, a `P` over the mesh in context, or a `weft.layout.Format`, which also
        says how values lie in memory, or a pytree of these that is a prefix of ``x``. A dimension
        `P.UNCONSTRAINED` is left to the partitioner. Where the axes do not divide a dimension, its
        parts are padded and `weft.comm` says so; `weft.config.indivisible_constraints` set to
        'error' refuses it.
      priorities: {dimension: rank}; in propagation, smaller ranks win over larger ones.

    Over Explicit axes, types say how values are placed: there the constraint checks the type.

    Raises:
      ValueError: unknown axes, too many entries, no mesh known.
      ShardingTypeError: the value's explicit sharding is another one.

    Example:
        >>> import weft, numpy as np
        >>> mesh = weft.sharding.Mesh(np.array(weft.devices()[:1]), ("x",))
        >>> s = weft.NamedSharding(mesh, weft.P("x"))
        >>> weft.jit(lambda x: weft.lax.with_sharding_constraint(x * 2, s))(np.arange(2.0))
        Array([0., 2.], dtype=float32)
    """
    leaves, tree = flatten(x)
    targets = _targets("with_sharding_constraint shardings", shardings, tree)
    ranks = None if priorities is None else tuple(sorted(dict(priorities).items()))
    return tree.unflatten(
        [_constrain(leaf, t, ranks) for leaf, t in zip(leaves, targets, strict=True)]
    )


def _constrain(x: object, target: object, priorities: tuple | None) -> Any:
    aval = typeof(x)
    if type(target) is Format:
        if target.layout is not None and target.layout is not Layout.AUTO:
            x = provided.with_layout(x, target.layout)
        if target.sharding is None:
            return x
        target = target.sharding
    target = PartitionSpec() if target is None else target
    sharding = named("with_sharding_constraint", target, x)
    if is_over_nothing(sharding):
        return x
    wanted = type_sharding(sharding, aval.ndim)
    if wanted is not None:
        check_target("with_sharding_constraint", aval, sharding)
        if aval.sharding is None:
            x = reshard_p.bind(x, sharding=sharding.update(mesh=sharding.mesh, spec=wanted.spec))
        elif (value_axes := dict(aval.sharding.mesh.shape)) != (other := dict(wanted.mesh.shape)):
            raise ShardingTypeError(
                f"with_sharding_constraint: the value of type {aval.str_short()} is over a mesh of "
                f"the axes {value_axes}, the constraint over one of {other}; constrain it over its "
                "own mesh, or move it by weft.device_put outside of jit"
            )
        elif not _agrees(aval.sharding, wanted, sharding.spec):
            raise ShardingTypeError(
                f"with_sharding_constraint: the value is of type {aval.str_short()}, which is not "
                f"placed by {sharding.spec!r}. Axes of type Explicit are part of the type: use "
                f"weft.reshard(x, {wanted.spec!r}) to change it"
            )
        if sharding.mesh.are_all_axes_explicit:
            return x
    if config.indivisible_constraints == "error":
        sharding.shard_shape(aval.shape)
    return sharding_constraint_p.bind(x, sharding=sharding, priorities=priorities)


def _agrees(have: NamedSharding, wanted: NamedSharding, spec: PartitionSpec) -> bool:
    open_dims = {d for d, p in enumerate(spec.partitions) if p is UNCONSTRAINED}
    return have.spec.unreduced == wanted.spec.unreduced and all(
        d in open_dims or have.spec_of(d) == wanted.spec_of(d) for d in range(len(wanted.spec))
    )


# device_put of traced values -------------------------------------------------------------------


def staged_device_put(x: Any, sharding: object, src: Any = None) -> Any:
    """`device_put` of a traced value: an op of the program.

    src: where the value is, which its cotangent goes back to; known of values that are there.
    """
    if sharding is None:
        return x
    if type(sharding) is NamedSharding and UNCONSTRAINED in sharding.spec.partitions:
        raise ValueError(
            f"device_put: {sharding.spec!r} leaves a dimension UNCONSTRAINED; use None or axis "
            "names"
        )
    if src is None:
        src = getattr(x.concrete(), "sharding", None)
    return device_put_p.bind(x, sharding=sharding, src=src)
