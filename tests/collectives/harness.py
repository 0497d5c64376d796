"""Runs a per-device function in weft over mesh axes, vmap axes or both, as the reference does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft
from tests.spmd_reference import Machine, Value
from weft.sharding.mesh import AxisType


def mesh_of(machine: Machine, mesh_axes: tuple[str, ...]):
    sizes = tuple(machine.sizes[a] for a in mesh_axes)
    return weft.make_mesh(sizes, mesh_axes, axis_types=(AxisType.Auto,) * len(sizes))


def program(
    machine: Machine,
    fun: Callable,
    mesh_axes: tuple[str, ...],
    *,
    check_vma: bool = True,
    inside: Callable[[Callable], Callable] = lambda f: f,
    jit: bool = True,
    axis_names: tuple[str, ...] | None = None,
) -> Callable:
    """`fun` of one device's arrays as a function of stacked arrays (axes in front).

    The machine's axes named in mesh_axes become mesh axes, the others vmap axes, the last of them
    innermost. `inside` transforms the per-device function. axis_names: the manual ones, if not all;
    the others are mapped by vmap around, so that arrays keep a dimension for them.
    """
    vmap_axes = [a for a in machine.names if a not in mesh_axes]
    assert machine.names[: len(mesh_axes)] == mesh_axes
    body = inside(fun)
    for a in reversed(vmap_axes):
        body = weft.vmap(body, axis_name=a)
    if not mesh_axes:
        return weft.jit(body) if jit else body
    k = len(mesh_axes)

    def local(*xs):
        outs = body(*(weft.lax.reshape(x, x.shape[k:]) for x in xs))
        many = isinstance(outs, tuple)
        outs = tuple(weft.lax.reshape(o, (1,) * k + o.shape) for o in (outs if many else (outs,)))
        return outs if many else outs[0]

    spec = weft.P(*mesh_axes)
    mapped = weft.shard_map(
        local,
        mesh=mesh_of(machine, mesh_axes),
        in_specs=spec,
        out_specs=spec,
        check_vma=check_vma,
    )
    return weft.jit(mapped) if jit else mapped


def run(machine: Machine, fun: Callable, mesh_axes: tuple[str, ...], *values: Value, **options):
    """The result of a per-device function as stacked arrays."""
    return program(machine, fun, mesh_axes, **options)(*(machine.stack(v) for v in values))


def draw(rng: np.random.Generator, machine: Machine, shape: tuple[int, ...], dtype) -> Value:
    """Random arrays for every device, small integers where sums must be exact."""
    dtype = np.dtype(dtype)

    def one() -> np.ndarray:
        if dtype == bool:
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.kind == "c":
            return (rng.integers(-8, 8, shape) + 1j * rng.integers(-8, 8, shape)).astype(dtype)
        low = 0 if dtype.kind == "u" else -8
        return rng.integers(low, 8, shape).astype(dtype)

    return {d: one() for d in machine.devices}
