"""Meshes and shardings as MLIR text: attributes of the sdy and mhlo dialects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.sharding.spec import UNCONSTRAINED

if TYPE_CHECKING:
    from weft.sharding.mesh import AbstractMesh, Mesh
    from weft.sharding.named import NamedSharding


def mesh_sdy_text(mesh: AbstractMesh | Mesh, device_ids: Collection[int] | None = None) -> str:
    """Return the body of an ``sdy.mesh``: ``<["x"=4, "y"=2]>``.

    ``device_ids``: positions in the program's device assignment, where the mesh does not list
    its devices in that order.
    """
    axes = ", ".join(f"{quoted(n)}={s}" for n, s in mesh.shape.items())
    ids = list(device_ids) if device_ids is not None else []
    if not ids or ids == list(range(mesh.size)):
        return f"<[{axes}]>"
    return f"<[{axes}], device_ids=[{', '.join(map(str, ids))}]>"


def sdy_sharding_text(
    sharding: NamedSharding,
    ndim: int,
    *,
    mesh_name: str = "mesh",
    open_dims: Collection[int] = (),
    replicated: Collection[Any] = (),
    priorities: Mapping[int, int] | None = None,
) -> str:
    """Return the ``sdy.sharding`` attribute: ``#sdy.sharding<@mesh, [{"x"}, {?}]>``.

    UNCONSTRAINED dimensions and ``open_dims`` are open (the partitioner may split them further);
    ``replicated`` axes must not be used; ``priorities`` gives dimensions their propagation rank.
    """
    spec = sharding.spec
    sharding.check_rank((0,) * ndim)
    dims = []
    for dim in range(ndim):
        parts = [quoted(a) for a in spec.axes_of(dim)]
        entry = spec.partitions[dim] if dim < len(spec) else None
        if entry is UNCONSTRAINED or dim in open_dims:
            parts.append("?")
        priority = (priorities or {}).get(dim)
        suffix = "" if priority is None or not parts else f"p{priority}"
        dims.append("{" + ", ".join(parts) + "}" + suffix)
    text = f"#sdy.sharding<@{mesh_name}, [{', '.join(dims)}]"
    position = {n: i for i, n in enumerate(sharding.mesh.axis_names)}
    for name, axes in (("replicated", replicated), ("unreduced", spec.unreduced)):
        if axes:
            ordered = sorted(axes, key=position.__getitem__)
            text += f", {name}={{{', '.join(map(quoted, ordered))}}}"
    return text + ">"


def quoted(axis: str) -> str:
    """Return an axis name as an MLIR string."""
    text = str(axis).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def mhlo_sharding_text(sharding: NamedSharding, ndim: int) -> str:
    """Return the value of an ``mhlo.sharding`` attribute: ``{devices=[4,2]<=[8]}``."""
    return repr(sharding._to_xla_hlo_sharding(ndim))


def _factor_names() -> Any:
    """Shardy's factor names: i … z, then z_1, z_2, …"""
    yield from "ijklmnopqrstuvwxyz"
    n = 1
    while True:
        yield f"z_{n}"
        n += 1


def batch_rule_text(shapes: Sequence[tuple[int, ...]], num_in: int, batch: tuple[int, ...]) -> str:
    """Return the rule of a call on values of these shapes, the first `num_in` its operands: the
    leading batch dimensions are factors of all values; any other dimension is a value's own."""
    names = _factor_names()
    sizes: list[str] = []

    def new(size: int) -> str:
        name = next(names)
        sizes.append(f"{name}={size}")
        return name

    shared = [new(d) for d in batch]
    terms = []
    for shape in shapes:
        own_factors = [new(d) for d in shape[len(batch) :]]
        terms.append(f"[{', '.join(shared + own_factors)}]")
    left, right = ", ".join(terms[:num_in]), ", ".join(terms[num_in:])
    return f"#sdy.op_sharding_rule<({left})->({right}) {{{', '.join(sizes)}}}, custom>"
