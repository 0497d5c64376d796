# Tests: tests/compat/test_as_jax.py
"""jax.interpreters.batching: primitives under vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.api.vmappable import is_vmappable as is_vmappable
from weft.api.vmappable import register_vmappable as register_vmappable
from weft.api.vmappable import unregister_vmappable as unregister_vmappable
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import iota
from weft.autodiff.vmap import AxisData as AxisData
from weft.autodiff.vmap import BatchTrace as BatchTrace
from weft.autodiff.vmap import BatchTracer as BatchTracer
from weft.compat.primitive import Primitive
from weft.compat.primitive import axis_primitive_batchers as axis_primitive_batchers
from weft.compat.primitive import fancy_primitive_batchers as fancy_primitive_batchers
from weft.compat.primitive import primitive_batchers as primitive_batchers
from weft.core.trace import typeof

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

__all__ = [
    "AxisData",
    "BatchTrace",
    "BatchTracer",
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "fancy_primitive_batchers",
    "is_vmappable",
    "make_iota",
    "moveaxis",
    "not_mapped",
    "primitive_batchers",
    "register_vmappable",
    "to_elt",
    "unregister_vmappable",
]

not_mapped = None


def make_iota(axis_size: int) -> Array:
    """Return the indices of a mapped axis."""
    return iota("int32", axis_size)


def to_elt(trace: BatchTrace, get_idx: object, x: ArrayLike, spec: int | None) -> Any:
    """Return one example of a batch along the axis `spec`, whose operations `trace` maps."""
    return x if spec is None else BatchTracer(trace, x, canonical_axis(spec, typeof(x).ndim))


def moveaxis(x: Array, source: int, target: int) -> Any:
    from weft.autodiff.shape import moveaxis as move

    return move(x, source, target)


def broadcast(x: ArrayLike, size: int, axis: int, mesh_axis: object = None) -> Any:
    """Return the value repeated along a new axis."""
    from weft.autodiff.shape import broadcast_to_dim

    return broadcast_to_dim(x, axis, size)


def bdim_at_front(x: ArrayLike, dim: int | None, size: int, mesh_axis: object = None) -> Any:
    """Return a batch along the first axis."""
    return broadcast(x, size, 0) if dim is None else moveaxis(x, dim, 0)


def defvectorized(prim: Primitive) -> None:
    """Return a primitive of one operand that acts on each element."""
    primitive_batchers[prim] = lambda args, dims, **params: (prim.bind(*args, **params), dims[0])


def defbroadcasting(prim: Primitive) -> None:
    """Return a primitive that acts on the elements of operands of one shape."""

    def batch(args: Any, dims: Any, **params: Any) -> tuple:
        dim, ndim = next(
            (d, typeof(a).ndim) for a, d in zip(args, dims, strict=True) if d is not None
        )
        size = next(typeof(a).shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
        if all(d == dim and typeof(a).ndim == ndim for a, d in zip(args, dims, strict=True)):
            return prim.bind(*args, **params), dim
        moved = [bdim_at_front(a, d, size) for a, d in zip(args, dims, strict=True)]
        return prim.bind(*moved, **params), 0

    primitive_batchers[prim] = batch


def defreducer(prim: Primitive, ident: Callable | None = None) -> None:
    """Return a primitive that reduces over its parameter `axes`."""

    def batch(args: Any, dims: Any, *, axes: Any, **params: object) -> tuple:
        (x,), (dim,) = args, dims
        moved = tuple(a + (a >= dim) for a in axes)
        return prim.bind(x, axes=moved, **params), dim - sum(a < dim for a in moved)

    primitive_batchers[prim] = batch
