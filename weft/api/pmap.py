"""pmap: one example of a mapped axis per device, by jit and shard_map."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.shard_map import shard_map
from weft.api.vmap_api import check_dim, common_axis_size, in_dims, vmap
from weft.autodiff.shape import expand_dims, moveaxis, squeeze
from weft.core.boundary import api_boundary
from weft.core.source import wraps
from weft.core.trace import Tracer, typeof
from weft.core.tree import broadcast_prefix, flatten
from weft.driver.jit import jit
from weft.driver.staging import check_callable
from weft.ops.as_array import as_array
from weft.runtime.backend import devices as all_devices
from weft.runtime.backend import local_devices
from weft.runtime.device_put import device_put
from weft.sharding.mesh import Mesh, get_abstract_mesh
from weft.sharding.named import NamedSharding
from weft.sharding.spec import P

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


@api_boundary
def pmap(
    fun: Callable,
    axis_name: object = None,
    *,
    in_axes: object = 0,
    out_axes: object = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Callable:
    """Run `fun` on several devices at once, each with its own element of the mapped axes.

    axis_name: what collectives call the axis. in_axes, out_axes: as `vmap` has them; an argument
    with None goes whole to every device, a result with None must be equal on all. Results are
    sharded over the mapped axis. static_broadcasted_argnums: positions of hashable arguments that
    the program is compiled for. devices: which, in order; the first local ones by default.
    axis_size: needed only if no argument is mapped. donate_argnums: as `jit` has it.

    It is `jit` of `shard_map` over a mesh of one axis, which new programs write themselves: they
    then choose how many elements each device has. Inside another pmap it is `vmap`.

    Raises:
      ValueError: axes differ in size, or there are fewer devices than elements.
      NotImplementedError: there are several processes.

    >>> import weft
    >>> weft.pmap(lambda x: x / weft.lax.psum(x, "i"), axis_name="i")(weft.numpy.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    check_callable(fun, "pmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    static = _positions("static_broadcasted_argnums", static_broadcasted_argnums)
    donated = _positions("donate_argnums", donate_argnums)
    mesh_axis = "_pmap" if axis_name is None else axis_name
    programs: dict = {}

    def prepared(args: tuple, kwargs: dict) -> tuple[Callable, list]:
        """Return the compiled function of leaves for such arguments, and the leaves."""
        if max(static, default=-1) >= len(args):
            raise ValueError(
                f"pmap: static_broadcasted_argnums {static} name positions beyond the {len(args)} "
                "positional arguments; pass static arguments by position"
            )
        fixed = tuple(args[i] for i in static)
        rest = tuple(x for i, x in enumerate(args) if i not in static)
        axes = in_axes
        if isinstance(axes, tuple):
            if len(axes) != len(args):
                raise ValueError(
                    f"pmap: in_axes has {len(axes)} entries for {len(args)} positional arguments"
                )
            axes = tuple(x for i, x in enumerate(axes) if i not in static)
        leaves, in_tree = flatten((rest, kwargs))
        dims = tuple(
            check_dim(x, d, i, fun, in_tree, "pmap")
            for i, (x, d) in enumerate(
                zip(leaves, in_dims(axes, rest, kwargs, "pmap"), strict=True)
            )
        )
        size = common_axis_size(leaves, list(dims), axis_size, fun, in_tree, "pmap")
        key = (in_tree, dims, size, fixed)
        try:
            cached = programs.get(key)
        except TypeError as e:
            raise ValueError(
                "pmap: static_broadcasted_argnums must name hashable arguments, got "
                f"{[type(x).__name__ for x in fixed]}; give tuples for lists, "
                "@dataclass(frozen=True) for dataclasses, and leave arrays out of it"
            ) from e
        if cached is None:
            cached = programs[key] = make(in_tree, dims, size, fixed, rest)
        program, shardings = cached
        placed = [
            x if isinstance(x, Tracer) or getattr(x, "sharding", None) == s else device_put(x, s)
            for x, s in zip(leaves, shardings, strict=True)
        ]
        return program, placed

    def make(in_tree: PyTreeDef, dims: tuple, size: int, fixed: tuple, rest: tuple) -> tuple:
        mesh = Mesh(np.array(_chosen(devices, backend, size)), (mesh_axis,))
        specs = [P() if d is None else P(*[None] * d, mesh_axis) for d in dims]
        results_spec: list = []

        def call(leaves: list) -> Any:
            dynamic, kwargs = in_tree.unflatten(leaves)
            args = list(dynamic)
            for i, x in zip(static, fixed, strict=True):
                args.insert(i, x)
            return fun(*args, **kwargs)

        # Each device holds one example: its axis of size 1 goes away inside and comes back outside.
        def body(*leaves: Array) -> tuple:
            inner = [
                x if d is None else squeeze(x, (d,)) for x, d in zip(leaves, dims, strict=True)
            ]
            outs, tree = flatten(call(inner))
            wanted = broadcast_prefix(out_axes, tree, "pmap: out_axes")
            outs = [as_array(o) for o in outs]
            for i, (o, w) in enumerate(zip(outs, wanted, strict=True)):
                if w is not None and not -typeof(o).ndim - 1 <= w <= typeof(o).ndim:
                    raise ValueError(
                        f"pmap: out_axes {w} is out of bounds for result {i} of type "
                        f"{typeof(o).str_short()}"
                    )
            results_spec[:] = [tree, wanted]
            mapped = [
                expand_dims(o, (0,)) for o, w in zip(outs, wanted, strict=True) if w is not None
            ]
            return mapped, [o for o, w in zip(outs, wanted, strict=True) if w is None]

        # check_vma is off: results without an axis are taken to be equal, as pmap has it.
        sharded = shard_map(
            body,
            mesh=mesh,
            in_specs=tuple(specs),
            out_specs=(P(mesh_axis), P()),
            check_vma=False,
        )

        def program(*leaves: Array) -> Any:
            mapped, whole = map(iter, sharded(*leaves))
            tree, wanted = results_spec
            outs = []
            for w in wanted:
                if w is None:
                    outs.append(next(whole))
                    continue
                o = next(mapped)
                outs.append(moveaxis(o, 0, w % typeof(o).ndim))
            return tree.unflatten(outs)

        functools.update_wrapper(program, fun, assigned=("__name__", "__qualname__"), updated=())
        # Donation is by argument for the user, by leaf for jit.
        positions = [i for i in range(len(rest) + len(static)) if i not in static]
        counts = [len(flatten(x)[0]) for x in rest]
        donated_leaves = [
            p in donated for p, n in zip(positions, counts, strict=True) for _ in range(n)
        ]
        donate = tuple(i for i, d in enumerate(donated_leaves) if d)
        shardings = [NamedSharding(mesh, s) for s in specs]
        return jit(program, donate_argnums=donate), shardings

    @wraps(fun)
    @api_boundary
    def pmapped(*args: ArrayLike | dict | list, **kwargs: object) -> Any:
        if get_abstract_mesh().manual_axes:
            return nested(*args, **kwargs)
        program, leaves = prepared(args, kwargs)
        return program(*leaves)

    def nested(*args: Array, **kwargs: object) -> Any:
        def dynamic(*xs: Array, **kw: object) -> Any:
            whole = list(xs)
            for i in static:
                whole.insert(i, args[i])
            return fun(*whole, **kw)

        rest = [x for i, x in enumerate(args) if i not in static]
        axes = in_axes
        if isinstance(axes, tuple):
            axes = tuple(x for i, x in enumerate(axes) if i not in static)
        return vmap(dynamic, axes, out_axes, axis_name, axis_size)(*rest, **kwargs)

    def lower(*args: np.ndarray, **kwargs: object) -> Any:
        """Return the program's stages, as `jit(f).lower` gives them."""
        program, leaves = prepared(args, kwargs)
        return program.lower(*leaves)  # type: ignore[attr-defined]

    pmapped.lower = lower  # type: ignore[attr-defined]
    pmapped.clear_cache = programs.clear  # type: ignore[attr-defined]
    return pmapped


def _positions(name: str, argnums: Any) -> tuple[int, ...]:
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(not isinstance(i, int) or i < 0 for i in positions):
        raise ValueError(f"pmap: {name} must be positions of arguments, 0 or more, got {argnums!r}")
    return tuple(sorted(set(positions)))


def _chosen(devices: Sequence[Any] | None, backend: str | None, size: int) -> list:
    if devices is not None:
        available = list(devices)
        if len(available) != size:
            raise ValueError(
                f"pmap: devices has {len(available)} entries for a mapped axis of size {size}; "
                "give one for each element"
            )
        return available
    available = local_devices(backend=backend)
    if len(available) < len(all_devices(backend)):
        raise NotImplementedError(
            "pmap: with several processes use weft.jit and weft.shard_map over all devices"
        )
    if size > len(available):
        raise ValueError(
            f"pmap: compiling computation that requires {size} logical devices, but only "
            f"{len(available)} XLA devices are available; use vmap under jit, or shard_map with "
            "several elements on each device"
        )
    return list(available[:size])
