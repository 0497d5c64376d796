"""vmap: batching by one trace, each op by its batch rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.config import config
from weft.core.errors import MissingRuleError
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.primitive import Primitive
from weft.core.source import Source, capture
from weft.core.state import AxisEntry, current_trace, extend_axes, state
from weft.core.trace import (
    EVAL,
    Tracer,
    check_nothing_leaked,
    gc_paused,
    stands_for_array,
    trace_to_jaxpr,
    typeof,
    with_arrays,
)
from weft.sharding.mesh import context_mesh
from weft.sharding.named import NamedSharding, type_sharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.typing import ArrayLike

Dim = int | None  # where the batch dimension is; None: not batched
# What vmap may do with a call of the host's or of native code.
VMAP_METHODS = (
    *("sequential", "sequential_unrolled"),
    *("expand_dims", "broadcast_all", "legacy_vectorized"),
)


class EqualDim(int):
    """A batch dimension along which all examples have the same value."""


class AxisData:
    """The axis a vmap maps over: its name (or None), size, and mesh axes it is sharded over.

    varying: those of them that are manual, inside a shard_map: batched values vary over them.
    """

    __slots__ = ("name", "size", "spmd_name", "varying")

    def __init__(
        self, name: str | None, size: int, spmd_name: Any = None, varying: frozenset = frozenset()
    ) -> None:
        self.name = name
        self.size = size
        self.spmd_name = spmd_name
        self.varying = varying

    @property
    def key(self) -> tuple:
        return self.name, self.size, self.spmd_name, self.varying

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AxisData) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"AxisData({self.name!r}, {self.size})"


def remove_dim(aval: ShapedArray, dim: Dim) -> Any:
    """Return the type of one example of a batched value."""
    if dim is None or not isinstance(aval, ShapedArray):
        return aval if dim is None else aval.remove_dim(dim)
    shape = aval.shape[:dim] + aval.shape[dim + 1 :]
    sharding = aval.sharding.without_dim(dim) if aval.sharding is not None else None
    return ShapedArray(shape, aval.dtype, aval.weak_type, sharding, aval.mat)


def add_dim(aval: ShapedArray, dim: Dim, axis: AxisData) -> Any:
    """Return the type of a batch of values along a new dimension."""
    if dim is None:
        return aval
    if not isinstance(aval, ShapedArray):
        return aval.add_dim(dim, axis.size)
    shape = (*aval.shape[:dim], axis.size, *aval.shape[dim:])
    sharding = None
    if aval.sharding is not None:
        sharding = aval.sharding.with_dim(dim, axis.spmd_name)
    mat = aval.mat
    if axis.varying:
        mat = mat.replace(varying=mat.varying | axis.varying)
    return ShapedArray(shape, aval.dtype, aval.weak_type, sharding, mat)


class BatchTracer(Tracer):
    """A batched value seen as one example."""

    __slots__ = ("dim", "origin", "val")

    def __init__(
        self, trace: BatchTrace, val: ArrayLike, dim: int, origin: Source | None = None
    ) -> None:
        self._trace = trace
        self.val = val
        self.dim = dim
        self.aval = remove_dim(typeof(val), dim)
        self.origin = origin

    @property
    def batch_dim(self) -> int:
        """The axis of the batch, by the name that JAX has for it."""
        return int(self.dim)

    def source(self) -> Source | None:
        return self.val.source() if isinstance(self.val, Tracer) else self.origin


class BatchTrace:
    """Applies batch rules; unbatched ops go to the parent.

    A custom rule is traced again over the same axis object, deeper down; what it closes over are
    tracers of the first trace, which the second takes for its own.
    """

    __slots__ = ("axis", "finished", "parent")

    def __init__(self, parent: Any, axis: AxisData) -> None:
        self.parent = parent
        self.axis = axis
        self.finished = False

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        vals = []
        dims: list[Dim] = []
        batched = equal = differ = False
        for a in args:
            if a.__class__ is BatchTracer and (a._trace is self or a._trace.axis is self.axis):
                dim = a.dim
                if dim.__class__ is EqualDim:
                    dim, equal = int(dim), True
                else:
                    differ = True
                vals.append(a.val)
                dims.append(dim)
                batched = True
            elif stands_for_array(a):
                return self.process(prim, with_arrays(args), params)
            else:
                vals.append(a)
                dims.append(None)
        # Examples known to be equal need one evaluation, unless the op communicates along the axis.
        if equal or not batched:
            communicates = (
                prim.named_axes is not None
                and self.axis.name is not None
                and self.axis.name in prim.named_axes(params)
            )
            if not batched and not communicates:
                return self.parent.process(prim, vals, params)
            equal = not (differ or communicates)
        if prim.batch is None:
            raise MissingRuleError(
                f"{prim.name} has no batching rule: give one with weft.custom_batching.custom_vmap "
                "around the function that calls it"
            )
        before = state.trace
        state.trace = self.parent
        try:
            out, out_dim = prim.batch(self.axis, vals, dims, **params)
        finally:
            state.trace = before
        if equal:  # what is computed of equal values is equal
            out_dim = _all_equal(out_dim)
        if prim.multiple_results:
            return [self.wrap(o, d) for o, d in zip(out, out_dim, strict=True)]
        if out_dim is None:
            return out
        # Eagerly, no equation says where the value was made.
        return BatchTracer(self, out, out_dim, capture() if self.parent is EVAL else None)

    def wrap(self, val: ArrayLike, dim: Dim) -> Any:
        return val if dim is None else BatchTracer(self, val, dim)

    def unwrap(self, x: object) -> tuple[Any, Dim]:
        if x.__class__ is BatchTracer and (x._trace is self or x._trace.axis is self.axis):
            return x.val, x.dim
        return x, None


def _all_equal(dims: Any) -> Any:
    if isinstance(dims, list | tuple):
        return [_all_equal(d) for d in dims]
    return None if dims is None else EqualDim(dims)


def batch_flat(
    fun: Callable[..., Sequence[Any]], axis: AxisData, vals: Sequence[Any], dims: Sequence[Dim]
) -> tuple[list, list[Dim]]:
    """Apply a flat function to batched values; return the outputs with their batch dims."""
    trace = BatchTrace(state.trace, axis)
    args = [trace.wrap(v, d) for v, d in zip(vals, dims, strict=True)]
    entries = [] if axis.name is None else [AxisEntry(axis.name, axis.size, "vmap")]
    outer = state.spread
    if axis.spmd_name is not None:
        names = axis.spmd_name if isinstance(axis.spmd_name, tuple) else (axis.spmd_name,)
        state.spread = outer.union(names)
    try:
        with extend_axes(entries), current_trace(trace), gc_paused():
            outs = fun(*args)
    finally:
        state.spread = outer
    trace.finished = True
    pairs = [trace.unwrap(o) for o in outs]
    if config.check_tracer_leaks:
        del args, outs
        check_nothing_leaked(trace, "a function under vmap")
    return [v for v, _ in pairs], [d for _, d in pairs]


def move_dim(x: Any, source: Dim, target: int, axis: AxisData) -> Any:
    """Return the value with its batch dimension at `target`; an unbatched one is broadcast."""
    from weft.autodiff.shape import broadcast_to_dim, moveaxis

    if source is None:
        if getattr(x, "dtype", None) == dtypes.float0:
            return np.broadcast_to(x, (*x.shape[:target], axis.size, *x.shape[target:]))
        x = broadcast_to_dim(x, target, axis.size)
        if axis.varying:
            from weft.autodiff.manual_casts import as_state

            return as_state(x, tuple(sorted(axis.varying, key=str)), "varying")
        return x if axis.spmd_name is None else _spread(x, target, axis)
    return moveaxis(x, source, target)


def _spread(x: Any, dim: int, axis: AxisData) -> Any:
    """Return a stack of equal values over explicit mesh axes, split like the mapped values."""
    from weft.sharding.explicit import reshard

    aval = typeof(x)
    mesh = context_mesh() if aval.sharding is None else aval.sharding.mesh
    if mesh is None or not set(axis.spmd_name) <= set(mesh.explicit_axes):
        return x
    spec = PartitionSpec() if aval.sharding is None else aval.sharding.without_dim(dim).spec
    return reshard(
        x, type_sharding(NamedSharding(mesh, spec).with_dim(dim, axis.spmd_name), x.ndim)
    )


def batch_jaxpr(
    jaxpr: ClosedJaxpr,
    axis: AxisData,
    batched: Sequence[bool],
    instantiate: Sequence[bool] | bool = False,
) -> tuple[ClosedJaxpr, list[bool]]:
    """Return a jaxpr over batches, with every batch dimension in front.

    batched: which inputs are. instantiate: outputs to give batched even if they are not.
    Returns it with the list saying which outputs are batched, as `EqualDim(1)`
    those of which all examples are known to have the same value.
    """
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.jaxpr.outvars)
    key = ("batch", axis, tuple(batched), tuple(instantiate))
    return jaxpr.memo(key, lambda: _batch_jaxpr(jaxpr, axis, batched, instantiate))


def _batch_jaxpr(
    jaxpr: ClosedJaxpr, axis: AxisData, batched: Sequence[bool], instantiate: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    out_batched: list = []

    def flat(*args: object) -> list:
        dims = [0 if b else None for b in batched]
        outs, out_dims = batch_flat(lambda *xs: eval_closed(jaxpr, *xs), axis, args, dims)
        out_batched[:] = [
            EqualDim(1) if d.__class__ is EqualDim and not inst else d is not None or inst
            for d, inst in zip(out_dims, instantiate, strict=True)
        ]
        return [
            move_dim(o, d, 0, axis) if b else o
            for o, d, b in zip(outs, out_dims, out_batched, strict=True)
        ]

    avals = [add_dim(a, 0, axis) if b else a for a, b in zip(jaxpr.in_avals, batched, strict=True)]
    traced, consts = trace_to_jaxpr(flat, avals, f"vmap({jaxpr.jaxpr.debug})")
    return ClosedJaxpr(traced, consts), list(out_batched)


def dims_in_front(batched: Sequence[Any]) -> list[Dim]:
    """Return the batch dimensions of the outputs that `batch_jaxpr` names."""
    return [(EqualDim(0) if b.__class__ is EqualDim else 0) if b else None for b in batched]


def in_front(axis: AxisData, args: Sequence[Any], dims: Sequence[Dim]) -> list:
    """Move the batch dimension to the front of all values, and broadcast those without one."""
    return [move_dim(a, d, 0, axis) for a, d in zip(args, dims, strict=True)]


def to_front(args: Sequence[Any], dims: Sequence[Dim]) -> tuple[list, list[bool]]:
    """Batched values with their batch dimension in front, and which values are batched."""
    from weft.autodiff.shape import moveaxis

    moved = [a if d is None else moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True)]
    return moved, [d is not None for d in dims]
