# Tests: tests/api/test_shard_map.py
"""Specs, meshes and axes of a shard_map, and the types of shards that follow from these."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.api.shard_map_bodies import manual_mesh
from weft.core.aval import Mat, ShapedArray
from weft.core.errors import names_text
from weft.core.trace import typeof
from weft.core.tree import arg_names, broadcast_prefix, flatten
from weft.sharding.mesh import AbstractMesh, AxisType, Mesh, axes_text, context_mesh
from weft.sharding.named import NamedSharding, type_sharding
from weft.sharding.spec import UNCONSTRAINED, PartitionSpec

if TYPE_CHECKING:
    from weft.api.shard_map import Options
    from weft.core.tree import PyTreeDef

P = PartitionSpec


class Infer:
    def __repr__(self) -> str:
        return "Infer"


INFER = Infer()
"""in_specs taken from the arguments' types, on meshes with explicit axes."""


@dataclass(frozen=True, slots=True)
class Along:
    """The spec of an array split along one dimension, which may be counted from its end."""

    dim: int
    axis: Any

    def spec(self, aval: ShapedArray, label: Callable[[], str]) -> PartitionSpec:
        if not aval.ndim:
            raise ValueError(
                f"{label()} is {self.dim}, but {aval.str_short()} is a scalar and has no dimension "
                "to split; use None, or add one with x[None]"
            )
        if not -aval.ndim <= self.dim < aval.ndim:
            raise ValueError(
                f"{label()} is {self.dim}, which is out of bounds for {aval.str_short()}; it must "
                f"be at least {-aval.ndim} and less than {aval.ndim}"
            )
        return P(*(None,) * (self.dim % aval.ndim), self.axis)


def is_spec(x: tuple | PartitionSpec) -> bool:
    return isinstance(x, PartitionSpec | Infer | Along)


# Mesh and axes --------------------------------------------------------------------------------


def resolve_mesh(options: Options) -> tuple[Any, tuple, frozenset]:
    """Return the mesh, the axes that become manual (in mesh order), and those that are already."""
    api = f"shard_map of {options.name}"
    mesh, context = options.mesh, context_mesh()
    if mesh is None:
        mesh = context
        if mesh is None or mesh.empty:
            raise ValueError(
                f"{api}: there is no mesh; give mesh=..., or set one with weft.set_mesh(mesh)"
            )
    already = frozenset(context.manual_axes) if context is not None else frozenset()
    if context is not None and already and mesh is not context:
        if mesh.shape != context.shape:
            raise ValueError(
                f"{api}: inside a shard_map over {context!r}, mesh must be that mesh, got "
                f"{mesh!r}; leave mesh out and name the axes with axis_names"
            )
        mesh = context  # whose types say which axes are manual already
    else:
        already |= frozenset(mesh.manual_axes)
    for name in options.axis_names:
        if name not in mesh.shape:
            raise ValueError(
                f"{api}: axis_names contains {name!r}, which is not an axis of the mesh; its axes "
                f"are {axes_text(mesh)}"
            )
        if name in already:
            raise ValueError(
                f"{api}: axis {name!r} is already manual here, by an enclosing shard_map; name "
                f"only other axes: {sorted(set(mesh.axis_names) - already, key=str)}"
            )
    manual = tuple(
        n for n in mesh.axis_names if n not in already and n in (options.axis_names or mesh.shape)
    )
    if not manual:
        raise ValueError(
            f"{api}: all axes of {mesh!r} are already manual, by an enclosing shard_map"
        )
    return mesh, manual, already


# Specs ----------------------------------------------------------------------------------------


def check_spec(spec: PartitionSpec, label: Callable[[], str], mesh: Mesh, manual: tuple) -> None:
    """Return whether it is a spec over manual axes; `label` names it in the error."""
    if not isinstance(spec, PartitionSpec):
        raise TypeError(
            f"{label()} must be a PartitionSpec such as P('x') or P(), got {type(spec).__name__}: "
            f"{spec!r:.100}"
        )
    if UNCONSTRAINED in spec.partitions:
        raise ValueError(f"{label()} is {spec!r}: shard_map takes no UNCONSTRAINED dimensions")
    for axis in (*(a for axes in spec.axes for a in axes), *spec.unreduced, *spec.reduced):
        if axis not in mesh.shape:
            raise ValueError(
                f"{label()} is {spec!r}: {axis!r} is not an axis of the mesh; its axes are "
                f"{axes_text(mesh)}"
            )
        if axis not in manual:
            raise ValueError(
                f"{label()} is {spec!r}: axis {axis!r} is not manual in this shard_map; specs "
                "name only "
                f"manual axes: {', '.join(map(repr, manual))}. Add it to axis_names, or leave "
                "it out"
            )


def local_aval(
    aval: ShapedArray, spec: PartitionSpec, name: str, mesh: Mesh, manual: tuple, check_vma: bool
) -> ShapedArray:
    """Return the type of one device's shard."""
    if len(spec) > aval.ndim:
        raise ValueError(
            f"{name} of type {aval.str_short()} has rank {aval.ndim}, but its in_specs {spec!r} "
            f"has {len(spec)} entries; give at most one for each dimension"
        )
    shape = list(aval.shape)
    for d, axes in enumerate(spec.axes):
        parts = math.prod(mesh.shape[a] for a in axes)
        if shape[d] % parts:
            sizes = " x ".join(f"{a!r} (size {mesh.shape[a]})" for a in axes)
            raise ValueError(
                f"{name} of type {aval.str_short()}: dimension {d} of size {shape[d]} is split by "
                f"in_specs {spec!r} over mesh axis {sizes}, which does not divide it; pad it to "
                f"{-(-shape[d] // parts) * parts}, or do not split it"
            )
        shape[d] //= parts
    mat = aval.mat
    if check_vma:
        mat = Mat(
            mat.varying | spec.used_axes(),
            mat.unreduced | spec.unreduced,
            mat.reduced | spec.reduced,
        )
    sharding = _inner_sharding(aval, spec, tuple(shape), name, mesh, manual)
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type, sharding, mat)


def _inner_sharding(
    aval: ShapedArray, spec: PartitionSpec, local: tuple, name: str, mesh: Mesh, manual: tuple
) -> Any:
    """Return the sharding of a shard's type: how it is split over other explicit axes."""
    typed = aval.sharding
    if typed is None or typed.mesh.shape != mesh.shape:
        return None
    inner = NamedSharding(manual_mesh(mesh, manual), typed.spec.without(manual))
    for d, axes in enumerate(inner.spec.axes):
        parts = math.prod(mesh.shape[a] for a in axes)
        if local[d] % parts:
            raise ValueError(
                f"{name} of type {aval.str_short()}: in_specs {spec!r} leaves {local[d]} of "
                f"dimension {d} on each device, which explicit mesh axis "
                f"{', '.join(map(repr, axes))} cannot split into {parts} parts. Join it first: "
                f"weft.reshard(x, {typed.spec.without(axes)!r})"
            )
    return type_sharding(inner, aval.ndim)


def _infer_spec(aval: ShapedArray, manual: tuple) -> PartitionSpec:
    """Return how the type says that an argument is split over the manual axes."""
    sharding = getattr(aval, "sharding", None)
    if sharding is None:
        return P()
    free = [a for a in sharding.mesh.axis_names if a not in manual]
    return sharding.spec.without(free)


def check_placed(options: Options, avals: list, specs: list, where: tuple, names: Callable) -> None:
    """With every axis explicit and manual, arguments must be split already as the specs say.

    Explicit types move data only where the program says so. Specs over some of the axes, or over
    a mesh that the partitioner shares, place their arguments.
    """
    mesh, manual, already = where
    if already or len(manual) < len(mesh.axis_names) or not mesh.are_all_axes_explicit:
        return
    for i, (aval, spec) in enumerate(zip(avals, specs, strict=True)):
        typed = getattr(aval, "sharding", None)
        have = P() if typed is None else typed.spec
        if have.padded(aval.ndim) is not spec.padded(aval.ndim):
            raise ValueError(
                f"shard_map of {options.name}: argument {names()[i]} of type {aval.str_short()} "
                f"has the explicit sharding {have!r}, but its in_specs is {spec!r}: with explicit "
                "axes nothing is moved unless the program says so. Move it: "
                f"weft.reshard(x, {_target(spec, mesh)}); or leave in_specs out to take the "
                "argument as it is; or give the mesh Auto axes: weft.make_mesh(..., "
                f"axis_types=(weft.AxisType.Auto,) * {len(manual)})"
            )


def _target(spec: PartitionSpec, mesh: Mesh | AbstractMesh) -> str:
    """Write a spec as the target of reshard: with its mesh where none is in context."""
    context = context_mesh()
    inside = context is not None and context.shape == mesh.shape
    return repr(spec) if inside else f"weft.sharding.NamedSharding(mesh, {spec!r})"


def arg_specs(options: Options, args: tuple, leaves: list, tree: PyTreeDef, where: tuple) -> list:
    mesh, manual, _ = where
    api = f"shard_map of {options.name}"

    def names() -> list[str]:
        return arg_names(options.fun, flatten((args, {}))[1])

    in_specs = options.in_specs
    if isinstance(in_specs, Infer):
        unknown = [a for a in manual if mesh.axis_type(a) is not AxisType.Explicit]
        if unknown:
            raise TypeError(
                f"{api}: in_specs can be left out over Explicit axes only, whose types tell them, "
                f"but mesh axis {names_text(unknown)} is {mesh.axis_type(unknown[0]).name}; give "
                "in_specs, one P for each argument"
            )
        return [_infer_spec(typeof(x), manual) for x in leaves]
    if isinstance(in_specs, tuple) and len(in_specs) != len(args):
        raise ValueError(
            f"{api}: in_specs has {len(in_specs)} entries for {len(args)} arguments; give one for "
            "each positional argument"
        )

    def label(i: int, parameter: str = "in_specs") -> str:
        return f"{api}: {parameter} for {names()[i]}"

    flat = broadcast_prefix(in_specs, tree, f"{api}: in_specs", is_spec)
    for i, spec in enumerate(flat):
        if isinstance(spec, Along):
            flat[i] = spec.spec(typeof(leaves[i]), partial(label, i, "in_axes"))
        elif spec is not None:
            check_spec(spec, partial(label, i), mesh, manual)
    return flat
