"""A shard_map's program in the axes of another mesh that cuts the same devices otherwise."""

from __future__ import annotations

from typing import Any

from weft.autodiff.manual_casts import pcast_p
from weft.collectives.groups import AxisGroup
from weft.core.aval import Mat
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from weft.sharding.common_mesh import axes_in, in_terms_of
from weft.sharding.mesh import AbstractMesh, Mesh
from weft.sharding.named import NamedSharding


class _Axes:
    """The axes of one mesh, each the product of some of another's."""

    def __init__(self, parts: dict[Any, tuple], sizes: dict[Any, int]) -> None:
        self.parts = parts
        self.sizes = sizes

    def names(self, names: Any) -> tuple:
        return tuple(part for name in names for part in self.parts.get(name, (name,)))

    def group(self, over: AxisGroup) -> AxisGroup:
        """Return the group over the parts: an index of it stays the same device."""
        sizes = dict(zip(over.names, over.sizes, strict=True)) | self.sizes
        names = self.names(over.names)
        tracked = self.names(over.tracked)
        return AxisGroup(names, tuple(sizes[n] for n in names), over.groups, tracked)

    def aval(self, aval: Any) -> Any:
        mat = getattr(aval, "mat", None)
        if mat is None or not (mat.varying or mat.unreduced or mat.reduced):
            return aval
        kinds = (mat.varying, mat.unreduced, mat.reduced)
        return aval.update(mat=Mat(*(frozenset(self.names(kind)) for kind in kinds)))

    def value(self, value: Any) -> Any:
        if isinstance(value, AxisGroup):
            return self.group(value)
        if isinstance(value, ClosedJaxpr):
            return ClosedJaxpr(self.jaxpr(value.jaxpr), value.consts)
        if isinstance(value, Jaxpr):
            return self.jaxpr(value)
        if type(value) is tuple:
            return tuple(map(self.value, value))
        return self.aval(value)

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        new: dict[Any, Any] = {}

        def atom(v: Any) -> Any:
            if isinstance(v, Literal):
                return v
            if v not in new:
                new[v] = Var(self.aval(v.aval))
            return new[v]

        def eqn(e: Eqn) -> Eqn:
            params = e.rule_params
            if e.primitive is pcast_p:
                params = {**params, "axes": self.names(params["axes"])}
            elif e.primitive.name != "shard_map":  # which is rewritten when it is lowered
                params = {name: self.value(value) for name, value in params.items()}
            ins, outs = [*map(atom, e.invars)], [*map(atom, e.outvars)]
            return e.replace(invars=ins, outvars=outs, rule_params=params)

        return jaxpr.replace(
            constvars=[*map(atom, jaxpr.constvars)],
            invars=[*map(atom, jaxpr.invars)],
            eqns=[*map(eqn, jaxpr.eqns)],
            outvars=[*map(atom, jaxpr.outvars)],
        )


def over_program(
    mesh: Mesh | AbstractMesh, program: Mesh, params: dict[str, Any]
) -> dict[str, Any]:
    """Return the jaxpr, manual axes and specs of a shard_map over `mesh` in the program's axes.

    Raises ValueError where an axis of the mesh is no product of the program's.
    """
    parts = axes_in(mesh, program)
    if parts is None:
        raise ValueError(
            f"a shard_map over {mesh!r} is part of a program over {program!r}, and neither mesh's "
            "axes are products of the other's: one program has one mesh. Move the arguments to the "
            "shard_map's mesh with weft.device_put, or give both the same axes"
        )
    axes = _Axes(parts, dict(program.shape))

    def spec(s: Any) -> Any:
        return in_terms_of(NamedSharding(mesh, s), program).spec

    return {
        "jaxpr": params["jaxpr"].memo(("over", program), lambda: axes.value(params["jaxpr"])),
        "manual": axes.names(params["manual"]),
        "in_specs": tuple(map(spec, params["in_specs"])),
        "out_specs": tuple(map(spec, params["out_specs"])),
    }
