"""Runs a per-device function in weft over mesh axes, vmap axes or both, as the reference does."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import weft
from tests.spmd_reference import Machine, Value
from weft import lax
from weft._xla import version
from weft.sharding.mesh import AxisType

COMPILER_OPTIONS: dict[str, int | bool] = {"xla_backend_optimization_level": 0}
"""Compiles small programs three times as fast (XLA:CPU of jaxlib 0.10.2)."""
if version < (0, 11, 1):  # later ones always use fusion emitters
    COMPILER_OPTIONS["xla_cpu_use_fusion_emitters"] = False


def mesh_of(
    machine: Machine,
    mesh_axes: tuple[str, ...],
    *,
    auto: bool = False,
    axis_type: AxisType = AxisType.Auto,
):
    """The machine's devices along some axes, with another axis of size 2 behind if `auto`."""
    sizes = tuple(machine.sizes[a] for a in mesh_axes) + (2,) * auto
    names = mesh_axes + ("auto",) * auto
    return weft.make_mesh(sizes, names, axis_types=(axis_type,) * len(sizes))


class Context(NamedTuple):
    """Where a machine's axes come from. Those that are not mesh axes are mapped by vmap.

    mesh_axes: the manual axes of a shard_map. outside: vmap stands around the shard_map, not in
    it. auto: a mesh axis more, of size 2, that is left to the partitioner. axis_type: of the mesh
    axes around the shard_map.
    """

    mesh_axes: tuple[str, ...] = ()
    check_vma: bool = True
    outside: bool = False
    auto: bool = False
    axis_type: AxisType = AxisType.Auto


def program(
    machine: Machine,
    fun: Callable,
    context: Context,
    *,
    inside: Callable[[Callable], Callable] = lambda f: f,
) -> Callable:
    """`fun` of one device's arrays as a function of stacked arrays (axes in front).

    `inside` transforms the per-device function.
    """
    mesh_axes = context.mesh_axes
    assert machine.names[: len(mesh_axes)] == mesh_axes
    vmapped = machine.names[len(mesh_axes) :]
    body = inside(fun)
    if not mesh_axes:
        return _mapped(body, vmapped)
    k = len(mesh_axes)
    first = len(vmapped) if context.outside else 0
    drop = tuple(range(k))

    def local(*xs):
        per_device = body if context.outside else _mapped(body, vmapped)
        outs = per_device(*(lax.squeeze(x, drop) for x in xs))
        return weft.tree.map(lambda o: lax.expand_dims(o, drop), outs)

    spec = weft.P(*mesh_axes)
    mapped = weft.shard_map(
        local,
        mesh=mesh_of(machine, mesh_axes, auto=context.auto, axis_type=context.axis_type),
        in_specs=spec,
        out_specs=spec,
        check_vma=context.check_vma,
        axis_names=frozenset(mesh_axes),
    )
    return _mapped(mapped, vmapped, at=k) if first else mapped


def _mapped(fun: Callable, axes: tuple[str, ...], at: int = 0) -> Callable:
    for a in reversed(axes):
        fun = weft.vmap(fun, at, at, axis_name=a)
    return fun


def run(machine: Machine, fun: Callable, context: Context, *values: Value):
    """The result of a per-device function as stacked arrays."""
    compiled = weft.jit(program(machine, fun, context), compiler_options=COMPILER_OPTIONS)
    return compiled(*(machine.stack(v) for v in values))


def draw(rng: np.random.Generator, machine: Machine, shape: tuple[int, ...], dtype) -> Value:
    """Random arrays for every device, small integers where sums must be exact."""
    dtype = np.dtype(dtype)

    def one() -> np.ndarray:
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.kind == "c":
            return (rng.integers(-8, 8, shape) + 1j * rng.integers(-8, 8, shape)).astype(dtype)
        low = 0 if dtype.kind == "u" else -8
        return rng.integers(low, 8, shape).astype(dtype)

    return {d: one() for d in machine.devices}
