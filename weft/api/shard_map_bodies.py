# Tests: tests/api/test_shard_map.py
"""Bodies of a shard_map's derivatives: what leaves them, enters them, and with which types."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.autodiff.jvp import cotangent_aval
from weft.autodiff.manual_casts import as_state, cast_to
from weft.autodiff.shape import reshape
from weft.collectives.groups import AxisGroup
from weft.collectives.reduce import psum_p
from weft.core import dtypes
from weft.core.aval import Mat, ShapedArray
from weft.core.jaxpr import ClosedJaxpr, eval_closed, jaxpr_axes
from weft.core.primitive import Primitive
from weft.core.state import AxisEntry, extend_axes
from weft.core.trace import trace_to_jaxpr, typeof
from weft.ops.elementwise_api import div
from weft.sharding.mesh import AbstractMesh, AxisType, context_mesh, use_abstract_mesh
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.sharding.mesh import Mesh


P = PartitionSpec


Specs = tuple[PartitionSpec, ...]


@contextmanager
def manual_scope(mesh: Any, manual: tuple, check_vma: bool) -> Iterator[None]:
    """Inside the body: the manual axes are in scope, and Manual in the mesh in context."""
    entries = [AxisEntry(n, mesh.shape[n], "manual", mesh, check_vma) for n in manual]
    with extend_axes(entries), use_abstract_mesh(manual_mesh(mesh, manual)):
        yield


def manual_mesh(mesh: Mesh, manual: tuple) -> AbstractMesh:
    """Return the mesh in context inside the body, whose manual axes are Manual."""
    types = dict.fromkeys(manual, AxisType.Manual)
    outer = context_mesh()
    if outer is not None and outer.shape == mesh.shape:
        types |= dict.fromkeys(outer.manual_axes, AxisType.Manual)
    return mesh.abstract_mesh.update_axis_types(types)


def varying_axes(mat: Mat, manual: Sequence[Any]) -> tuple:
    """Return the manual axes along which a value may differ between devices, in mesh order."""
    return tuple(n for n in manual if n in mat.varying or n in mat.unreduced)


def retraced(jaxpr: ClosedJaxpr, key: Any, fun: Callable, avals: Sequence[Any]) -> ClosedJaxpr:
    """Return a jaxpr of fun(*flat arguments), made once for the jaxpr it derives from."""

    def make() -> ClosedJaxpr:
        traced, consts = trace_to_jaxpr(fun, avals, jaxpr.jaxpr.debug)
        return ClosedJaxpr(traced, consts)

    return jaxpr.memo(key, make)


def differing(jaxpr: ClosedJaxpr, manual: tuple, specs: Specs) -> tuple:
    """Return the manual axes along which values of an untracked body may differ.

    Along others all devices compute the same, so that a vmap can spread its examples over them.
    """
    if jaxpr.effects:
        return manual
    used = jaxpr_axes(jaxpr).union(*(s.used_axes() for s in specs))
    return tuple(n for n in manual if n in used)


def residual_spec(aval: ShapedArray, manual: tuple, check_vma: bool) -> PartitionSpec:
    """Lay residuals side by side along their first dimension where they differ."""
    axes = varying_axes(aval.mat, manual) if check_vma else manual
    return P(axes) if axes else P()


def leaving(primal: ClosedJaxpr, num_outs: int, specs: Sequence[PartitionSpec]) -> ClosedJaxpr:
    """Return the primal jaxpr with residuals in the form in which they leave: rank 1 at least."""

    def fun(*args: object) -> list:
        outs = eval_closed(primal, *args)
        for k, spec in enumerate(specs, num_outs):
            x, aval = outs[k], typeof(outs[k])
            if spec and not aval.ndim:
                x = reshape(x, (1,))
            manual = spec.used_axes() | aval.mat.reduced
            if aval.mat.unreduced & manual or aval.mat.reduced:
                x = relabel_p.bind(
                    x,
                    mat=Mat(
                        aval.mat.varying | aval.mat.unreduced & manual, aval.mat.unreduced - manual
                    ),
                )
            outs[k] = x
        return outs

    if not any(
        (s and not a.ndim) or a.mat.unreduced or a.mat.reduced
        for s, a in zip(specs, primal.out_avals[num_outs:], strict=True)
    ):
        return primal
    return retraced(primal, ("leaving", tuple(specs)), fun, primal.in_avals)


def entering(tangent: ClosedJaxpr, specs: dict[int, PartitionSpec], mesh: Any) -> ClosedJaxpr:
    """Return the tangent jaxpr that takes residuals in the form in which they left."""
    avals = list(tangent.in_avals)
    for i, spec in specs.items():
        a = avals[i]
        if spec and not a.ndim:
            sharding = a.sharding.with_dim(0) if a.sharding is not None else None
            a = a.update(shape=(1,), sharding=sharding)
        mat = a.mat
        if mat.unreduced or mat.reduced:
            used = spec.used_axes()
            mat = Mat(mat.varying | (mat.unreduced & used), mat.unreduced - used)
        avals[i] = a.update(mat=mat)
    if avals == tangent.in_avals:
        return tangent

    def fun(*args: Any) -> list:
        full = list(args)
        for i in specs:
            want = tangent.in_avals[i]
            x = full[i]
            if typeof(x).shape != want.shape:
                x = reshape(x, want.shape)
            for name in ("unreduced", "reduced"):
                axes = getattr(want.mat, name)
                if axes:
                    x = as_state(x, tuple(n for n in mesh.axis_names if n in axes), name)
            full[i] = x
        return eval_closed(tangent, *full)

    return retraced(tangent, ("entering", tuple(specs.items())), fun, avals)


relabel_p = Primitive(
    "relabel",
    abstract=lambda x, *, mat: x.update(mat=mat),
    jvp="linear",
    transpose=lambda ct, x, *, mat: [relabel_p.bind(ct, mat=cotangent_aval(x.aval).mat)],
    batch=lambda axis, args, dims, *, mat: (relabel_p.bind(args[0], mat=mat), dims[0]),
    lower=lambda ctx, x, *, mat: x,
    own_types=True,
)
"""The per-device parts of a residual under another manual-axis type, on its way out of a body."""


def dual_spec(spec: PartitionSpec) -> PartitionSpec:
    """Return the spec of cotangents."""
    if not spec.unreduced and not spec.reduced:
        return spec
    return spec.update(unreduced=spec.reduced, reduced=spec.unreduced)


def with_types(backward: ClosedJaxpr, avals: Sequence[Any]) -> ClosedJaxpr:
    """Return the backward jaxpr whose results have exactly the cotangents' types."""
    if all(a.mat is b.mat for a, b in zip(backward.out_avals, avals, strict=True)):
        return backward

    def fun(*args: object) -> list:
        outs = eval_closed(backward, *args)
        return [cast_to(o, a.mat) for o, a in zip(outs, avals, strict=True)]

    return retraced(backward, ("with_types", tuple(avals)), fun, backward.in_avals)


def untyped(
    backward: ClosedJaxpr,
    num_residuals: int,
    ct_specs: Specs,
    specs: Specs,
    mesh: Any,
    differ: tuple,
) -> ClosedJaxpr:
    """Without types, every device counts as one owner of an equal value.

    A result's cotangent is divided among the devices that hold it whole; an argument's is added up
    over the devices that were given it whole. differ: the axes for which this is not the same.
    """

    def whole_over(spec: PartitionSpec) -> tuple:
        return tuple(n for n in differ if n not in spec.used_axes() and mesh.shape[n] > 1)

    def fun(*args: object) -> list:
        values = list(args)
        for k, spec in enumerate(ct_specs, num_residuals):
            count = math.prod(mesh.shape[n] for n in whole_over(spec))
            aval = typeof(values[k])
            if count > 1 and aval.dtype != dtypes.float0:
                values[k] = div(values[k], aval.dtype.type(count))
        outs = eval_closed(backward, *values)
        for k, spec in enumerate(specs):
            axes = whole_over(spec)
            if axes:
                over = AxisGroup(axes, tuple(mesh.shape[n] for n in axes))
                outs[k] = psum_p.bind(outs[k], over=over)
        return outs

    return retraced(backward, ("untyped", ct_specs, specs, differ), fun, backward.in_avals)
