"""all_to_all and pswapaxes: every device sends a block to every other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.manual_casts import varying_over
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import moveaxis, reshape
from weft.collectives.arguments import flag, operand
from weft.collectives.explicit_batch import moving
from weft.collectives.groups import (
    AxisGroup,
    Split,
    axis_group_of,
    batch_in_front,
    byte_wise,
    channel,
    communicates,
    empty,
    equal_groups,
    groups_attr,
    needs_shardy,
    split,
)
from weft.collectives.scatter import check_divides
from weft.collectives.vma_promotion import varying_operand
from weft.core.aval import ShapedArray
from weft.core.manual_states import VARYING, result_mat, result_type
from weft.core.trace import Tracer, typeof
from weft.core.tree import tree_map

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def _abstract(
    x: ShapedArray, *, over: AxisGroup, split: int, concat: int, tiled: bool
) -> ShapedArray:
    size = equal_groups("all_to_all", over)
    shape = list(x.shape)
    origin: list[int | None] = list(range(x.ndim))
    if tiled:
        shape[split] //= size
        shape[concat] *= size
    else:
        shape.insert(concat, shape.pop(split))
        origin.pop(split)
        origin.insert(concat, None)
    mat = result_mat("all_to_all", x, over, VARYING)
    return result_type("all_to_all", x, shape, origin, mat)


def _transpose(
    ct: object, x: object, *, over: AxisGroup, split: int, concat: int, tiled: bool
) -> list:
    ct = varying_over(ct, over.tracked)
    return [all_to_all_p.bind(ct, over=over, split=concat, concat=split, tiled=tiled)]


class _Exchange:
    """The exchange among the members of a split as one all_to_all among the devices.

    A member's row r * size + q is the block of its batch index r for rank q of its group.
    send[i]: rows to send, `width` for each device of the component. take[i]: of the received rows,
    those that become blocks (batch index, rank of the sender).
    """

    __slots__ = ("send", "take", "width")

    def __init__(self, s: Split, over: AxisGroup) -> None:
        groups = np.array(over.all_groups, np.int64)
        size = groups.shape[1]
        members = groups[s.number]  # [device, batch index, rank]
        to = s.place[s.device[members]].reshape(s.m, -1)  # [device, row]
        order = np.argsort(to, 1, kind="stable")
        places = np.take_along_axis(to, order, 1)
        counts = np.bincount((places + s.c * np.arange(s.m)[:, None]).ravel(), minlength=s.m * s.c)
        counts = counts.reshape(s.m, s.c)
        start = np.take_along_axis(np.cumsum(counts, 1) - counts, places, 1)
        at = np.arange(to.shape[1]) - start  # among those for one device
        position = np.empty_like(to)
        np.put_along_axis(position, order, at, 1)
        self.width = int(counts.max())
        self.send = np.zeros((s.m, s.c * self.width), np.int64)
        np.put_along_axis(self.send, places * self.width + at, order, 1)
        sender = s.device[members]
        row = s.local[members] * size + s.rank[:, :, None]
        take = s.place[sender] * self.width + position[sender, row]
        self.take = take.reshape(s.m, s.n * size)


def _batch(
    axis: AxisData, args: list, dims: list, *, over: AxisGroup, split: int, concat: int, tiled: bool
) -> tuple:
    (x,), (dim,) = args, dims
    if axis.name in over.names:
        return _batch_own(axis, x, dim, over, split, concat, tiled), 0
    at = split + (dim <= split)
    left = dim if tiled else dim - (at < dim)  # the batch dimension once the split one is gone
    to = concat + (dim <= concat if tiled else left < concat)
    out = all_to_all_p.bind(x, over=over, split=at, concat=to, tiled=tiled)
    return out, dim if tiled else left + (to <= left)


def _batch_own(
    axis: AxisData, x: ArrayLike, dim: int, over: AxisGroup, at: int, to: int, tiled: bool
) -> Any:
    x = batch_in_front(x, dim, axis.size)
    s = split(over, axis.name)
    size = equal_groups("all_to_all", over)
    if tiled:
        shape = list(typeof(x).shape)
        shape[at + 1 : at + 2] = [size, shape[at + 1] // size]
        x = reshape(x, tuple(shape))
    x = moveaxis(x, at + 1, 1)  # [n, rank, …block]
    block = typeof(x).shape[2:]
    exchange = over.memo(("exchange", axis.name), lambda: _Exchange(s, over))
    x = reshape(x, (s.n * size, *block))
    x = s.take(x, exchange.send)
    if s.c > 1 or s.rest.tracked:
        x = all_to_all_p.bind(x, over=s.rest, split=0, concat=0, tiled=True)
    x = s.take(x, exchange.take)
    x = moveaxis(reshape(x, (s.n, size, *block)), 1, 1 + to)
    if tiled:
        full = list(block)
        full[to] *= size
        x = reshape(x, (s.n, *full))
    return x


@byte_wise("all_to_all")
def _lower(
    ctx: RuleContext, x: ir.Value, *, over: AxisGroup, split: int, concat: int, tiled: bool
) -> Any:
    aval = ctx.avals_in[0]
    if aval.size == 0:
        return empty(ctx)
    shape = list(aval.shape)
    if not tiled:  # the new dimension stands in the operand with size 1, the split one goes after
        concat = concat if concat <= split else concat + 1
        split += concat <= split
        shape.insert(concat, 1)
        x = ctx.op("stablehlo.reshape", [x], [ctx.tensor(tuple(shape), aval.dtype)])[0]
    if communicates(over):
        shape[split] //= over.group_size
        shape[concat] *= over.group_size
        x = _exchange_blocks(ctx, x, over, split, concat, ctx.tensor(tuple(shape), aval.dtype))
    return x if tiled else ctx.op("stablehlo.reshape", [x], ctx.out_types())[0]


def _exchange_blocks(
    ctx: RuleContext,
    x: ir.Value,
    over: AxisGroup,
    split: int,
    concat: int,
    result: ir.RankedTensorType,
) -> Any:
    needs_shardy(ctx, "all_to_all")
    attrs = {
        "split_dimension": ctx.i64(split),
        "concat_dimension": ctx.i64(concat),
        "split_count": ctx.i64(equal_groups("all_to_all", over)),
        "replica_groups": groups_attr(ctx, over),
        "channel_handle": channel(ctx),
    }
    return ctx.op("stablehlo.all_to_all", [x], [result], attrs)[0]


def lower_in_front(
    ctx: RuleContext, x: ir.Value, *, over: AxisGroup, split: int, concat: int, tiled: bool
) -> Any:
    """Lower to an all_to_all of blocks along dimension 0, between moves of the others.

    XLA takes no other form in asynchronous computations (quirks.ASYNC_ALL_TO_ALL).
    """
    if not communicates(over) or ctx.avals_in[0].size == 0:
        return _lower(ctx, x, over=over, split=split, concat=concat, tiled=tiled)
    size, dtype = over.group_size, ctx.avals_in[0].dtype
    shape = list(ctx.avals_in[0].shape)

    def reshape(x: object, shape: Sequence[int]) -> Any:
        return ctx.op("stablehlo.reshape", [x], [ctx.tensor(tuple(shape), dtype)])[0]

    def move(x: ir.Value, shape: list[int], source: int, target: int) -> Any:
        order = [i for i in range(len(shape)) if i != source]
        order.insert(target, source)
        shape[:] = [shape[i] for i in order]
        attrs = {"permutation": ctx.i64s(order)}
        return ctx.op("stablehlo.transpose", [x], [ctx.tensor(tuple(shape), dtype)], attrs)[0]

    if tiled:
        shape[split : split + 1] = [size, shape[split] // size]
        x = reshape(x, shape)
    x = move(x, shape, split, 0)
    x = _exchange_blocks(ctx, x, over, 0, 0, x.type)
    x = move(x, shape, 0, concat)
    return reshape(x, ctx.avals_out[0].value.shape) if tiled else x


all_to_all_p = moving(
    "all_to_all", abstract=_abstract, transpose=_transpose, batch=_batch, lower=_lower
)


def all_to_all(
    x: ArrayLike,
    axis_name: object,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: object = None,
    tiled: bool = False,
) -> Any:
    """Split each device's array, send part q to the device of rank q and join what arrives.

    split_axis: the dimension that is split. concat_axis: where parts are joined, by rank of their
    sender. tiled: False needs the split dimension to have the size of the group, removes it and
    stacks along a new dimension `concat_axis`; True splits into equal parts and concatenates along
    the existing one. axis_index_groups: lists of indices of equal size that exchange among
    themselves.

    Raises:
      NameError: an axis is not in scope. ValueError: a dimension that does not divide, groups that
      do not cover the axis or differ in size.

    Source: StableHLO specification, `all_to_all`.

    >>> import weft
    >>> x = weft.numpy.arange(9).reshape(3, 3)
    >>> weft.vmap(lambda x: weft.lax.all_to_all(x, "i", 0, 0), axis_name="i")(x)
    Array([[0, 3, 6],
           [1, 4, 7],
           [2, 5, 8]], dtype=int32)
    """
    return _all_to_all(
        "all_to_all", x, axis_name, split_axis, concat_axis, axis_index_groups, tiled
    )


def _all_to_all(
    api: str, x: object, axis_name: object, at: int, to: int, groups: object, tiled: bool
) -> Any:
    over = axis_group_of(api, axis_name, groups)
    size = equal_groups(api, over)
    tiled = flag(api, "tiled", tiled)
    split_name = "axis" if api == "pswapaxes" else "split_axis"

    def leaf_of(leaf: object) -> Any:
        leaf = operand(api, leaf)
        aval = typeof(leaf)
        if not aval.ndim:
            raise ValueError(
                f"{api}: the operand is a scalar and has no dimension to split ({aval.str_short()})"
            )
        a = canonical_axis(at, aval.ndim, f"{api}: {split_name}")
        b = canonical_axis(to, aval.ndim, f"{api}: concat_axis")
        check_divides(api, split_name, aval, a, over, size, tiled)
        leaf = varying_operand(api, leaf, over)
        return all_to_all_p.bind(leaf, over=over, split=a, concat=b, tiled=tiled)

    return leaf_of(x) if isinstance(x, Tracer) else tree_map(leaf_of, x)


def pswapaxes(
    x: ArrayLike, axis_name: object, axis: int, *, axis_index_groups: object = None
) -> Any:
    """Exchange the named axis with the array dimension `axis`, of the group's size.

    Raises:
      NameError: an axis is not in scope. ValueError: the dimension has another size.

    >>> import weft
    >>> x = weft.numpy.arange(4).reshape(2, 2)
    >>> weft.vmap(lambda x: weft.lax.pswapaxes(x, "i", 0), axis_name="i")(x)
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return _all_to_all("pswapaxes", x, axis_name, axis, axis, axis_index_groups, False)
