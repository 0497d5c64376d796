"""pmap: one example to each device, by shard_map over a mesh of one axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft import P, ShapeDtypeStruct, jit, make_jaxpr, shard_map
from weft import devices as all_devices
from weft.core.trace import typeof
from weft.core.tree import broadcast_prefix
from weft.sharding.mesh import Mesh
from weft.tree_util import tree_flatten, tree_unflatten


def _positions(argnums: int | Sequence[int]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def pmap(
    fun: Callable,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> PMapped:
    """Maps `fun` over an axis of its arguments, an example on each device."""
    if not callable(fun):
        raise TypeError(f"pmap: expected a function, got {type(fun).__name__}: {fun!r:.100}")
    mapped = PMapped()
    mapped.fun, mapped.axis_size = fun, axis_size
    mapped.name = "<unnamed axis of pmap>" if axis_name is None else axis_name
    mapped.in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    mapped.out_axes = out_axes
    mapped.static = _positions(static_broadcasted_argnums)
    mapped.donated = _positions(donate_argnums)
    mapped.devices, mapped.backend = devices, backend
    mapped.jitted = {}
    return functools.update_wrapper(mapped, fun)


class PMapped:
    """A function mapped over devices: called as the function, or lowered ahead of time."""

    fun: Callable
    name: Any
    in_axes: Any
    out_axes: Any
    static: tuple[int, ...]
    donated: tuple[int, ...]
    devices: Sequence[Any] | None
    backend: str | None
    axis_size: int | None
    jitted: dict[Any, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function, leaves = self._for(args, kwargs)
        return function(*leaves)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        function, leaves = self._for(args, kwargs)
        return function.lower(*leaves)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        function, leaves = self._for(args, kwargs)
        return function.trace(*leaves)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _for(self, args: tuple, kwargs: dict) -> tuple[Any, list]:
        """The jitted function of the leaves of the arguments that are not static, and those."""
        dynamic = tuple(a for i, a in enumerate(args) if i not in self.static)
        static = tuple(args[i] for i in self.static)
        in_axes = self.in_axes
        if isinstance(in_axes, tuple) and len(in_axes) == len(args):
            in_axes = tuple(a for i, a in enumerate(in_axes) if i not in self.static)
        leaves, tree = tree_flatten((dynamic, kwargs))
        axes = tuple(broadcast_prefix((in_axes, 0), tree, "pmap in_axes"))
        size = self._size(leaves, axes)
        key = (tree, axes, size, static)
        function = self.jitted.get(key)
        if function is None:
            donated = self._donated_leaves(dynamic)
            mapped = self._mapped(tree, axes, static, self._mesh(size), len(args))
            function = self.jitted[key] = jit(mapped, donate_argnums=donated)
        return function, leaves

    def _donated_leaves(self, dynamic: tuple) -> tuple[int, ...]:
        counts = [len(tree_flatten(a)[0]) for a in dynamic]
        owners = (i for i, n in enumerate(counts) for _ in range(n))
        return tuple(leaf for leaf, i in enumerate(owners) if i in self.donated)

    def _size(self, leaves: Sequence[Any], axes: Sequence[Any]) -> int:
        shapes = zip(leaves, axes, strict=True)
        sizes = {np.shape(x)[a] for x, a in shapes if a is not None} | {self.axis_size}
        sizes.discard(None)  # type: ignore[arg-type]
        if len(sizes) != 1:
            found = f"axes of sizes {sorted(map(int, sizes))}" if sizes else "no mapped argument"  # type: ignore[arg-type]
            raise ValueError(
                f"pmap of {self._label()}: got {found}; it needs arguments with mapped axes of one "
                "size, or axis_size"
            )
        return int(sizes.pop())  # type: ignore[arg-type]

    def _label(self) -> str:
        return getattr(self.fun, "__name__", type(self.fun).__name__)

    def _mesh(self, size: int) -> Mesh:
        available = self.devices or all_devices(self.backend)
        if size > len(available) or (self.devices and size != len(available)):
            raise ValueError(
                f"pmap of {self._label()}: compiling computation that requires {size} logical "
                f"devices, but only {len(available)} XLA devices are available; the mapped axis "
                "has an entry for each device. Use vmap for more, or start more devices"
            )
        return Mesh(np.array(available[:size]), (self.name,))

    def _mapped(self, tree: Any, axes: tuple, static: tuple, mesh: Mesh, n: int) -> Callable:
        """The function of flat leaves, on the mesh."""
        fixed = dict(zip(self.static, static, strict=True))

        def example(*leaves: Any) -> Any:
            dynamic, kwargs = tree_unflatten(tree, leaves)
            rest: Iterator = iter(dynamic)
            return self.fun(*(fixed[i] if i in fixed else next(rest) for i in range(n)), **kwargs)

        def shape_of(x: Any, axis: int | None) -> Any:
            aval = typeof(x)
            shape = aval.shape if axis is None else np.delete(aval.shape, axis)
            return ShapeDtypeStruct(shape, aval.dtype, weak_type=aval.weak_type)

        def spec(axis: int | None) -> Any:
            return P() if axis is None else P(*[None] * axis, self.name)

        def function(*leaves: Any) -> Any:
            shapes = [shape_of(x, a) for x, a in zip(leaves, axes, strict=True)]
            env = [(self.name, mesh.size)]
            _, out_shapes = make_jaxpr(example, axis_env=env, return_shape=True)(*shapes)
            out_tree = tree_flatten(out_shapes)[1]
            out_axes = broadcast_prefix(self.out_axes, out_tree, "pmap out_axes")

            def body(*shards: Any) -> list:
                from weft.numpy import expand_dims, squeeze

                pairs = zip(shards, axes, strict=True)
                outs = tree_flatten(example(*(x if a is None else squeeze(x, a) for x, a in pairs)))
                pairs = zip(outs[0], out_axes, strict=True)
                return [o if a is None else expand_dims(o, a) for o, a in pairs]

            specs = {"in_specs": tuple(map(spec, axes)), "out_specs": list(map(spec, out_axes))}
            on_mesh = shard_map(body, mesh=mesh, check_vma=False, **specs)
            return tree_unflatten(out_tree, on_mesh(*leaves))

        function.__name__ = self._label()
        return function
