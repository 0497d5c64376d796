"""One mesh for a program that names several over the same devices, and shardings in its terms.

Meshes that count the same devices in the same order differ in where they cut that order. A mesh cut
wherever one of them is has axes that all others are products of.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.caches import clearable
from weft.sharding.mesh import Mesh
from weft.sharding.named import NamedSharding
from weft.sharding.spec import UNCONSTRAINED, PartitionSpec

if TYPE_CHECKING:
    from weft.sharding.mesh import AbstractMesh


def _strides(mesh: AbstractMesh | Mesh) -> list[int]:
    """Return for each axis, how many devices one step along it passes over."""
    strides = []
    stride = 1
    for size in reversed(mesh.axis_sizes):
        strides.append(stride)
        stride *= size
    return strides[::-1]


def common_mesh(meshes: Sequence[Any], devices: tuple) -> Mesh | None:
    """Return a mesh of these devices in whose axes shardings over all the meshes can be said.

    The first mesh that is one, or a new one of the first mesh's axes cut into parts; None where
    the meshes' axes overlap only in part, or count other devices or in another order.
    """
    for m in meshes:
        if m.size != len(devices) or (isinstance(m, Mesh) and m._flat != devices):
            return None
    cuts = sorted({s for m in meshes for s in _strides(m)} | {1, len(devices)})
    if any(b % a for a, b in zip(cuts, cuts[1:], strict=False)):
        return None
    for m in meshes:
        if {*_strides(m), 1, len(devices)} >= set(cuts):
            return m if isinstance(m, Mesh) else _over(devices, m.axis_sizes, m.axis_names)
    first = meshes[0]
    sizes: list[int] = []
    names: list[Any] = []
    for name, size, stride in zip(first.axis_names, first.axis_sizes, _strides(first), strict=True):
        inside = [c for c in cuts if stride <= c <= stride * size][::-1]
        parts = [a // b for a, b in zip(inside, inside[1:], strict=False)] or [1]
        sizes += parts
        names += [name] if len(parts) == 1 else [f"{name}_{i}" for i in range(len(parts))]
    return _over(devices, sizes, names)


def _over(devices: tuple, sizes: Sequence[int], names: Sequence[Any]) -> Mesh:
    array = np.empty(len(devices), dtype=object)
    array[:] = devices
    return Mesh(array.reshape(tuple(sizes)), tuple(names))


@clearable
@functools.lru_cache(maxsize=256)
def axes_in(mesh: AbstractMesh, common: Mesh) -> dict[Any, tuple] | None:
    """Return the axes of the common mesh that each axis of a mesh is the product of, or None."""
    if mesh.shape == common.shape:
        return {n: (n,) for n in mesh.axis_names}
    if mesh.size != common.size:
        return None
    steps = list(zip(common.axis_names, common.axis_sizes, _strides(common), strict=True))
    parts = {}
    for name, size, stride in zip(mesh.axis_names, mesh.axis_sizes, _strides(mesh), strict=True):
        inside = [(n, s) for n, s, t in steps if s > 1 and stride <= t < stride * size]
        if np.prod([s for _, s in inside], initial=1) != size:
            return None
        parts[name] = tuple(n for n, _ in inside)
    return parts


@clearable
@functools.lru_cache(maxsize=4096)
def in_terms_of(sharding: NamedSharding, common: Mesh) -> NamedSharding:
    """Return the sharding on the common mesh; ValueError where its own does not fit in it."""
    axes = axes_in(sharding.mesh, common)
    if axes is None:
        raise ValueError(
            f"{sharding.spec!r} is over {sharding.mesh!r}, inside a program over {common!r}: the "
            "axes of one are no products of the other's; use shardings over the same axes"
        )

    def entry(e: str | tuple | None) -> Any:
        if e is None or e is UNCONSTRAINED:
            return e
        return tuple(a for name in (e if isinstance(e, tuple) else (e,)) for a in axes[name])

    spec = sharding.spec
    translated = PartitionSpec(
        *map(entry, spec.partitions),
        unreduced=[a for n in spec.unreduced for a in axes[n]],
        reduced=[a for n in spec.reduced for a in axes[n]],
    )
    return NamedSharding(common, translated, memory_kind=sharding.memory_kind)
