"""all_gather, its transpose all_slice, and pbroadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.manual_casts import as_state, varying_over
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import moveaxis, reshape
from weft.autodiff.zeros import zeros_like
from weft.collectives.arguments import check_index, flag, operand
from weft.collectives.explicit_batch import moving
from weft.collectives.groups import (
    AxisGroup,
    axis_group_of,
    batch_in_front,
    byte_wise,
    channel,
    collective_attrs,
    communicates,
    device_rows,
    empty,
    equal_groups,
    needs_shardy,
    split,
)
from weft.collectives.scatter import scattered_shape
from weft.collectives.vma_promotion import varying_operand
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.manual_states import (
    INVARYING,
    REDUCED,
    UNREDUCED,
    VARYING,
    moved,
    result_mat,
    result_type,
)
from weft.core.trace import Tracer, typeof
from weft.core.tree import tree_map
from weft.ops.dynamic_slicing import dynamic_slice_in_dim
from weft.ops.elementwise_api import (
    bitcast_convert_type,
    complex_p,
    convert,
    eq,
    imag,
    mul,
    real,
    select,
)
from weft.ops.slicing import index_in_dim

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# all_gather -----------------------------------------------------------------------------------


def gathered_shape(shape: tuple, axis: int, size: int, tiled: bool) -> tuple:
    if tiled:
        return (*shape[:axis], shape[axis] * size, *shape[axis + 1 :])
    return (*shape[:axis], size, *shape[axis:])


def _abstract(x: ShapedArray, *, over: AxisGroup, axis: int, tiled: bool, to: str) -> ShapedArray:
    size = equal_groups("all_gather", over)
    shape = gathered_shape(x.shape, axis, size, tiled)
    origin: list[int | None] = list(range(x.ndim))
    if not tiled:
        origin.insert(axis, None)
    return result_type("all_gather", x, shape, origin, result_mat("all_gather", x, over, to))


def _transpose(
    ct: ArrayLike, x: object, *, over: AxisGroup, axis: int, tiled: bool, to: str
) -> list:
    from weft.collectives.scatter import psum_scatter_p

    if over.tracked and to == INVARYING:
        if len(over.tracked) < len(over.names):
            from weft.collectives.reduce import psum_p

            rest = over.only([n for n in over.names if n not in over.tracked])
            ct = psum_p.bind(ct, over=rest)
        return [all_slice_p.bind(ct, over=over, axis=axis, tiled=tiled)]
    if over.tracked:
        ct = as_state(ct, over.tracked, UNREDUCED if to == REDUCED else VARYING)
    return [psum_scatter_p.bind(ct, over=over, axis=axis, tiled=tiled)]


def _batch(
    batch_axis: AxisData,
    args: list,
    dims: list,
    *,
    over: AxisGroup,
    axis: int,
    tiled: bool,
    to: str,
) -> tuple:
    (x,), (dim,) = args, dims
    if batch_axis.name not in over.names:
        out_axis = axis + (dim <= axis)
        out = all_gather_p.bind(x, over=over, axis=out_axis, tiled=tiled, to=to)
        return out, dim + (axis < dim and not tiled)
    x = batch_in_front(x, dim, batch_axis.size)
    s = split(over, batch_axis.name)
    shape = typeof(x).shape[1:]
    if s.c > 1 or s.rest.tracked:
        x = all_gather_p.bind(
            x, over=s.rest, axis=0, tiled=True, to=to if s.rest.groups is None else VARYING
        )
    # Row place * n + j of x is now member (i, j) of the component; every member lists its group's.
    at = s.place[s.device] * s.n + s.local
    size = equal_groups("all_gather", over)
    lists = np.array([at[list(g)] for g in over.all_groups])  # [group, rank]
    group_of_device = s.number[:, :1]  # the group of a device's examples, if they share one
    if s.n and (s.number == group_of_device).all():
        out, out_dim = s.take(x, lists[group_of_device[:, 0]]), None
    else:
        table = lists[s.number]  # [device, batch index, rank]
        out = s.take(x, table.reshape(s.m, s.n * size))
        out, out_dim = reshape(out, (s.n, size, *shape)), 0
    lead = 0 if out_dim is None else 1
    out = moveaxis(out, lead, lead + axis)
    if tiled:
        full = gathered_shape(shape, axis, size, True)
        out = reshape(out, full if out_dim is None else (s.n, *full))
    return out, out_dim


@byte_wise("all_gather")
def _lower(
    ctx: RuleContext, x: ir.Value, *, over: AxisGroup, axis: int, tiled: bool, to: str
) -> Any:
    aval = ctx.avals_in[0]
    if aval.size == 0:
        return empty(ctx)
    if not tiled:
        shape = (*aval.shape[:axis], 1, *aval.shape[axis:])
        x = ctx.op("stablehlo.reshape", [x], [ctx.tensor(shape, aval.dtype)])[0]
    if not communicates(over):
        return x
    needs_shardy(ctx, "all_gather")
    attrs = {"all_gather_dim": ctx.i64(axis), **collective_attrs(ctx, over)}
    return ctx.op("stablehlo.all_gather", [x], ctx.out_types(), attrs)[0]


all_gather_p = moving(
    "all_gather", abstract=_abstract, transpose=_transpose, batch=_batch, lower=_lower
)


def all_gather(
    x: ArrayLike,
    axis_name: object,
    *,
    axis_index_groups: object = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Return the values of all devices along named axes, on each of them; pytrees leaf by leaf.

    axis: where the parts are put together. tiled: False stacks them along a new dimension
    `axis`; True concatenates them along the existing one. axis_index_groups: lists of indices of
    equal size that gather among themselves, in the order listed. to: the result's state along
    the axes, 'varying', 'invarying' or 'reduced' (its cotangent is then unreduced). An empty tuple
    of axes gives x itself.

    Raises:
      NameError: an axis is not in scope. ValueError: groups that do not cover the axis or differ in
      size, an axis out of range, or groups with a `to` other than 'varying'.

    Source: StableHLO specification, `all_gather`.

    >>> import weft
    >>> x = weft.numpy.arange(4)
    >>> weft.vmap(lambda x: weft.lax.all_gather(x, "i"), axis_name="i")(x)
    Array([[0, 1, 2, 3],
           [0, 1, 2, 3],
           [0, 1, 2, 3],
           [0, 1, 2, 3]], dtype=int32)
    >>> groups = [[0, 2], [3, 1]]
    >>> weft.vmap(lambda x: weft.lax.all_gather(x, "i", axis_index_groups=groups),
    ...           axis_name="i")(x)
    Array([[0, 2],
           [3, 1],
           [0, 2],
           [3, 1]], dtype=int32)
    """
    if not isinstance(to, str) or to not in (VARYING, INVARYING, REDUCED):
        raise ValueError(f"all_gather: to must be 'varying', 'invarying' or 'reduced', got {to!r}")
    over = axis_group_of("all_gather", axis_name, axis_index_groups)
    if to != VARYING and over.groups is not None:
        raise ValueError(
            f"all_gather: to={to!r} needs values that are equal along the whole axis, but "
            "axis_index_groups make them differ; use to='varying'"
        )
    equal_groups("all_gather", over)
    tiled = flag("all_gather", "tiled", tiled)

    def leaf_of(leaf: object) -> Any:
        leaf = operand("all_gather", leaf)
        if not over.names:  # along no axis there is nothing to stack or to concatenate
            return leaf
        ndim = typeof(leaf).ndim
        if tiled and not ndim:
            raise ValueError(
                "all_gather: tiled=True concatenates along an existing dimension, but the operand "
                f"is a scalar ({typeof(leaf).str_short()}); use tiled=False"
            )
        at = canonical_axis(axis, ndim + (not tiled), "all_gather: axis")
        return all_gather_p.bind(
            varying_operand("all_gather", leaf, over), over=over, axis=at, tiled=tiled, to=to
        )

    return leaf_of(x) if isinstance(x, Tracer) else tree_map(leaf_of, x)


# all_slice ------------------------------------------------------------------------------------


def _slice_abstract(x: ShapedArray, *, over: AxisGroup, axis: int, tiled: bool) -> ShapedArray:
    shape = scattered_shape(x.shape, axis, over.size, tiled)
    origin = [d for d in range(x.ndim) if tiled or d != axis]
    return result_type("all_slice", x, shape, origin, moved(x.mat, over.tracked, VARYING))


def _slice_transpose(ct: object, x: object, **params: Any) -> list:
    ct = varying_over(ct, params["over"].tracked)
    return [all_gather_p.bind(ct, to=INVARYING, **params)]


def _slice_batch(
    batch_axis: Any, args: Any, dims: Any, *, over: AxisGroup, axis: int, tiled: bool
) -> tuple:
    (x,), (dim,) = args, dims
    if batch_axis.name in over.names:  # a slice by the index, which is batched
        return _own_part(batch_axis, x, dim, over=over, axis=axis, tiled=tiled)
    out = all_slice_p.bind(x, over=over, axis=axis + (dim <= axis), tiled=tiled)
    return out, dim - (axis < dim and not tiled)


def _own_part(
    batch_axis: Any, x: Any, dim: Any, *, over: AxisGroup, axis: int, tiled: bool
) -> tuple:
    """vmap over an own axis: every example takes the row of its index."""
    s = split(over, batch_axis.name)
    lead = 0 if dim is None else 1
    x = x if dim is None else moveaxis(x, dim, 0)
    shape = list(typeof(x).shape)
    if tiled:
        shape[lead + axis : lead + axis + 1] = [over.size, shape[lead + axis] // over.size]
        x = reshape(x, tuple(shape))
    x = moveaxis(x, lead + axis, lead)
    table = s.member
    if dim is not None:
        x = reshape(x, (s.n * over.size, *typeof(x).shape[2:]))
        table = table + over.size * np.arange(s.n)
    return varying_over(s.take(x, table), s.devices.tracked), 0


def _slice_lower(ctx: RuleContext, x: object, *, over: AxisGroup, axis: int, tiled: bool) -> Any:
    def own(x: ArrayLike) -> Any:
        from weft.collectives.axis import axis_index_p

        aval = typeof(x)
        part = aval.shape[axis] // over.size
        index = axis_index_p.bind(over=over)
        x = varying_over(x, over.tracked)
        x = dynamic_slice_in_dim(x, mul(index, np.int32(part)), part, axis)
        return reshape(x, scattered_shape(aval.shape, axis, over.size, tiled))

    return ctx.lower_fun(own, x)[0]


all_slice_p = moving(
    "all_slice",
    abstract=_slice_abstract,
    transpose=_slice_transpose,
    batch=_slice_batch,
    lower=_slice_lower,
    silent=True,
)
"""A device's own part of an equal value: the transpose of all_gather to invarying."""


# pbroadcast -----------------------------------------------------------------------------------


def _broadcast_abstract(x: ShapedArray, *, over: AxisGroup, source: int) -> ShapedArray:
    return x.update(mat=result_mat("pbroadcast", x, over, VARYING))


def _broadcast_transpose(ct: object, x: object, *, over: AxisGroup, source: int) -> list:
    """Give the source the sum of all cotangents, the others nothing."""
    from weft.collectives.axis import axis_index_p
    from weft.collectives.reduce import psum_p

    total = psum_p.bind(varying_over(ct, over.tracked), over=over)
    total = varying_over(total, over.tracked)
    at = eq(axis_index_p.bind(over=over), np.int32(source))
    return [select(at, total, zeros_like(total))]


def _broadcast_batch(
    axis: AxisData, args: list, dims: list, *, over: AxisGroup, source: int
) -> tuple:
    (x,), (dim,) = args, dims
    if axis.name not in over.names:
        return pbroadcast_p.bind(x, over=over, source=source), dim
    s = split(over, axis.name)
    if dim is not None:
        x = index_in_dim(x, int(s.local[source]), dim, keepdims=False)
    if s.rest.names:
        x = pbroadcast_p.bind(x, over=s.rest, source=int(s.device[source]))
    return x, None


def _broadcast_lower(ctx: Any, x: ir.Value, *, over: AxisGroup, source: int) -> Any:
    if not communicates(over):
        return x
    if "cuda" not in ctx.module.platforms:
        return _broadcast_by_sum(ctx, x, over, source)
    rows = device_rows(ctx, over)
    order = [source, *(i for i in range(over.size) if i != source)]
    attrs = {
        "replica_groups": ctx.int_matrix(np.ascontiguousarray(rows[:, order])),
        "channel_handle": channel(ctx),
    }
    return ctx.op("stablehlo.collective_broadcast", [x], [x.type], attrs)[0]


def _broadcast_by_sum(ctx: RuleContext, x: object, over: AxisGroup, source: int) -> Any:
    """Add the source's bits to zeros elsewhere: XLA has no collective_broadcast on CPU and TPU."""
    aval = ctx.avals_in[0]

    def masked_sum(x: object) -> Any:
        from weft.collectives.axis import axis_index_p
        from weft.collectives.reduce import psum_p

        untyped = over.untracked()
        is_source = eq(axis_index_p.bind(over=untyped), np.int32(source))

        def send(v: Any) -> Any:
            dtype = typeof(v).dtype
            if dtypes.is_complex(dtype):
                return complex_p.bind(send(real(v)), send(imag(v)))
            if dtypes.is_bool(dtype):
                return convert(send(convert(v, np.dtype(np.uint8))), dtype)
            if dtypes.is_float(dtype):
                bits = np.dtype(f"uint{8 * dtype.itemsize}")
                return bitcast_convert_type(send(bitcast_convert_type(v, bits)), dtype)
            return psum_p.bind(select(is_source, v, zeros_like(v)), over=untyped)

        return send(x)

    plain = ShapedArray(aval.shape, aval.dtype)
    return ctx.lower_fun(masked_sum, x, avals=[plain])[0]


pbroadcast_p = moving(
    "pbroadcast",
    abstract=_broadcast_abstract,
    transpose=_broadcast_transpose,
    batch=_broadcast_batch,
    lower=_broadcast_lower,
)


def pbroadcast(x: ArrayLike, axis_name: object, source: int) -> Any:
    """Broadcast the value of one device along named axes; pytrees leaf by leaf.

    source: the index of that device along the axis (row-major along a tuple of axes).

    Raises:
      NameError: an axis is not in scope. ValueError: source out of range.

    Source: StableHLO specification, `collective_broadcast`.

    >>> import weft
    >>> weft.vmap(lambda x: weft.lax.pbroadcast(x, "i", 2), axis_name="i")(weft.numpy.arange(4))
    Array([2, 2, 2, 2], dtype=int32)
    """
    over = axis_group_of("pbroadcast", axis_name)
    source = check_index("pbroadcast", "source", source, over)
    return tree_map(
        lambda leaf: pbroadcast_p.bind(
            varying_operand("pbroadcast", operand("pbroadcast", leaf), over),
            over=over,
            source=source,
        ),
        x,
    )
