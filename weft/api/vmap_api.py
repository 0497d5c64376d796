# Tests: tests/autodiff/test_vmap.py
"""The vmap function: axes as pytree prefixes over the batching trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.api.vmappable import VMAPPABLES, Opened
from weft.autodiff.vmap import AxisData, EqualDim, batch_flat, move_dim
from weft.core.boundary import api_boundary
from weft.core.errors import ArgumentError
from weft.core.source import function_name, wraps
from weft.core.trace import changeable, check_unchangeable, is_array_like, typeof
from weft.core.tree import arg_names, broadcast_prefix, flatten, flatten_fun, names_in
from weft.driver.staging import check_callable
from weft.ops.as_array import as_array
from weft.ops.slicing import index_in_dim

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


@api_boundary
def vmap(
    fun: Callable,
    in_axes: object = 0,
    out_axes: object = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable:
    """Map `fun` over an axis of its arguments.

    in_axes: an int, None (not mapped), or a tuple with a pytree prefix for each positional
    argument; keyword arguments are mapped over axis 0. out_axes: likewise for the result.
    axis_name: lets collectives inside communicate along the axis. axis_size: needed only if no
    argument is mapped. spmd_axis_name: mesh axis (or tuple) the new dimension is sharded over.
    sum_match: a mapped result whose out_axes is None is added up over the axis, which is how
    cotangents of unmapped arguments come together, instead of being an error.

    Raises:
      ValueError: mapped axes differ in size or are out of bounds (each is named), nothing is
        mapped, in_axes or out_axes are no prefix, or an unmapped result varies over the axis.
      TypeError: an entry is neither int nor None, or a mapped argument is no array.

    >>> import weft
    >>> weft.vmap(lambda x, y: x * y, in_axes=(0, None))(weft.numpy.arange(3.0), 2.0)
    Array([0., 2., 4.], dtype=float32)
    """
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, int | tuple | dict)):
        raise TypeError(
            f"vmap: in_axes must be an int, None, or a tuple of entries for each positional "
            f"argument, got {in_axes!r}"
        )
    if isinstance(spmd_axis_name, str):
        spmd_axis_name = (spmd_axis_name,)

    @wraps(fun)
    @api_boundary
    def vmapped(*args: ArrayLike | dict | tuple, **kwargs: object) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap: in_axes has {len(in_axes)} entries for {len(args)} positional arguments; "
                "give one for each (keyword arguments are always mapped over axis 0)"
            )
        check_unchangeable(flatten((args, kwargs))[0] if changeable else ())
        opened = Opened(args, kwargs, in_axes) if VMAPPABLES else None
        if opened is None:
            leaves, in_tree = flatten((args, kwargs))
            axes = in_dims(in_axes, args, kwargs)
        else:
            leaves, axes, in_tree = opened.arrays, opened.axes, opened.names
        dims = [
            check_dim(x, d, i, fun, in_tree)
            for i, (x, d) in enumerate(zip(leaves, axes, strict=True))
        ]
        # All mapped axes must have one size; without a mapped argument axis_size says it.
        size = common_axis_size(leaves, dims, axis_size, fun, in_tree)
        axis = AxisData(axis_name, size, _mesh_axes(leaves, dims, spmd_axis_name))
        if opened is None:
            flat_fun, out = flatten_fun(fun, in_tree)
        else:
            flat_fun, out = opened.flat_fun(fun, out_axes, size)
        outs, out_dims = batch_flat(flat_fun, axis, leaves, dims)
        if opened is None:
            wanted = broadcast_prefix(out_axes, out.tree, "vmap: out_axes")
        else:
            wanted = opened.wanted
        results = []
        for i, (o, d, w) in enumerate(zip(outs, out_dims, wanted, strict=True)):
            # A result without an axis must be the same for all examples, or be added up.
            if w is None:
                if isinstance(d, EqualDim):
                    o = index_in_dim(o, 0, d, keepdims=False)
                elif d is not None and sum_match:
                    o = o.sum(axis=d)
                elif d is not None:
                    name = names_in(out.tree, "result")[i]
                    raise ValueError(
                        f"vmap: out_axes is None for {name}, but it varies over the mapped axis; "
                        "give an axis, make the result independent of the mapped arguments, or add "
                        "it up over the axis with sum_match=True"
                    )
                results.append(o)
                continue
            if not is_array_like(o):
                raise TypeError(
                    f"vmap: {function_name(fun)} must return arrays, numbers or pytrees of them, "
                    f"but result {i} is {type(o).__name__}: {o!r:.100}"
                )
            ndim = typeof(o).ndim + (d is None)
            if not -ndim <= w < ndim:
                raise ValueError(
                    f"vmap: out_axes {w} is out of bounds for result {i} of rank {ndim} (the "
                    "mapped axis included)"
                )
            results.append(as_array(move_dim(o, d, w % ndim, axis)))
        return out.tree.unflatten(results) if opened is None else opened.close(results, size)

    return vmapped


def _mesh_axes(leaves: list, dims: list, asked: tuple | None) -> tuple | None:
    """Return the mesh axes the mapped dimension is split over: given, or in the arguments' types.

    Types decide about explicit axes: those given that split no argument have no effect.
    """
    split, explicit = False, set()
    for x, d in zip(leaves, dims, strict=True):
        sharding = getattr(typeof(x), "sharding", None) if d is not None else None
        axes = sharding.spec_of(d) if sharding is not None else ()
        if axes and asked is not None and tuple(asked) != axes:
            raise ValueError(
                f"vmap: the mapped axis is split over mesh axes {tuple(asked)} and, in an argument "
                f"of type {typeof(x).str_short()}, over {axes}; mapped arguments must agree with "
                "each other and with spmd_axis_name: weft.reshard one of them"
            )
        asked = axes or asked
        split = split or bool(axes)
        explicit |= set(sharding.mesh.explicit_axes) if sharding is not None else set()
    if asked is None or split:
        return asked
    return tuple(a for a in asked if a not in explicit) or None


def in_dims(in_axes: object, args: tuple, kwargs: dict, api: str = "vmap") -> list:
    """Return the mapped dimension of each leaf as in_axes, a prefix, says."""
    arg_tree = flatten(args)[1]
    dims = broadcast_prefix(in_axes, arg_tree, f"{api}: in_axes")
    return dims + [0] * len(flatten(kwargs)[0])


def _name(fun: Callable, in_tree: PyTreeDef, i: int) -> str:
    return arg_names(fun, in_tree)[i]


def check_dim(
    x: ArrayLike, dim: object, i: int, fun: Callable, in_tree: PyTreeDef, api: str = "vmap"
) -> int | None:
    """Return a leaf's mapped dimension, counted from the front; raises where it has none."""
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise TypeError(
            f"{api}: the in_axes entry for {_name(fun, in_tree, i)} must be an int or None, got "
            f"{dim!r}"
        )
    if not is_array_like(x):
        raise ArgumentError(
            f"{api}: argument {_name(fun, in_tree, i)} is not an array or a number but "
            f"{type(x).__name__}: {x!r:.100}; use None as its in_axes entry"
        )
    aval = typeof(x)
    if not -aval.ndim <= dim < aval.ndim:
        name = _name(fun, in_tree, i)
        remedy = "" if aval.ndim else "; use None for arguments that are not mapped"
        if not aval.ndim and name.endswith("]"):
            remedy += f", or give one array ({name.split('[')[0]} has many): weft.numpy.asarray"
        raise ValueError(
            f"{api}: in_axes {dim} is out of bounds for {name} of type {aval.str_short()}{remedy}"
        )
    return dim % aval.ndim


def common_axis_size(
    leaves: list,
    dims: list,
    axis_size: int | None,
    fun: Callable,
    in_tree: PyTreeDef,
    api: str = "vmap",
) -> int:
    """Return the one size of the mapped dimensions; raises where they differ or there is none."""
    sizes = {
        i: typeof(x).shape[d]
        for i, (x, d) in enumerate(zip(leaves, dims, strict=True))
        if d is not None
    }
    distinct = set(sizes.values()) | ({axis_size} if axis_size is not None else set())
    if len(distinct) > 1:
        names = arg_names(fun, in_tree)
        listing = ", ".join(f"{names[i]} has size {s}" for i, s in list(sizes.items())[:8])
        extra = f", axis_size is {axis_size}" if axis_size is not None else ""
        raise ValueError(
            f"{api} got inconsistent sizes for array axes to be mapped: {listing}{extra}"
        )
    if not distinct:
        raise ValueError(
            f"{api}: no argument is mapped, so the axis size is unknown; give an in_axes entry "
            "that is not None, or axis_size"
        )
    return distinct.pop()
