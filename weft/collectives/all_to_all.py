"""all_to_all and pswapaxes: every device sends a block to every other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.collectives.casts import varying_over
from weft.collectives.gather import as_traced
from weft.collectives.groups import (
    Split,
    Team,
    batch_in_front,
    channel,
    communicates,
    equal_groups,
    index_in_group,
    named_axes,
    replica_groups,
    split,
    team_of,
)
from weft.collectives.scatter import check_divides
from weft.collectives.states import VARYING, result_mat
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, typeof
from weft.core.tree import tree_map
from weft.ops.base import canonical_axis


def _abstract(x: ShapedArray, *, over: Team, split: int, concat: int) -> ShapedArray:
    size = equal_groups("all_to_all", over)
    shape = list(x.shape)
    shape[split] //= size
    shape[concat] *= size
    mat = result_mat("all_to_all", x, over, VARYING)
    return ShapedArray(tuple(shape), x.dtype, False, x.sharding, mat)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple:
    return all_to_all_p.bind(primals[0], **params), all_to_all_p.bind(tangents[0], **params)


def _transpose(ct: Any, x: Any, *, over: Team, split: int, concat: int) -> list:
    ct = varying_over(ct, over.tracked)
    return [all_to_all_p.bind(ct, over=over, split=concat, concat=split)]


class _Exchange:
    """The exchange among the members of a split as one all_to_all among the devices.

    A member's row r * size + q is the block of its batch index r for rank q of its group.
    send[i]: rows to send, `width` for each device of the component. take[i]: of the received rows,
    those that become blocks (batch index, rank of the sender).
    """

    __slots__ = ("send", "take", "width")

    def __init__(self, s: Split, over: Team) -> None:
        size = over.group_size or 0
        groups = over.all_groups
        number, rank = index_in_group(over)
        outgoing: list[list[list[int]]] = []  # device, place -> rows
        position: dict[tuple[int, int, int], int] = {}  # sender, row, receiver -> order
        for i in range(s.m):
            rows: list[list[int]] = [[] for _ in range(s.c)]
            for j in range(s.n):
                group = groups[s.number[i, j]]
                for q in range(size):
                    to = int(s.device[group[q]])
                    row = j * size + q
                    position[i, row, to] = len(rows[s.place[to]])
                    rows[s.place[to]].append(row)
            outgoing.append(rows)
        self.width = max(len(r) for rows in outgoing for r in rows)
        self.send = np.array(
            [[r + [0] * (self.width - len(r)) for r in rows] for rows in outgoing], np.int64
        ).reshape(s.m, s.c * self.width)
        take = np.zeros((s.m, s.n, size), np.int64)
        for i in range(s.m):
            for j in range(s.n):
                me = s.member[i, j]
                for q, sender in enumerate(groups[number[me]]):
                    a = int(s.device[sender])
                    row = int(s.local[sender]) * size + int(rank[me])
                    take[i, j, q] = s.place[a] * self.width + position[a, row, i]
        self.take = take.reshape(s.m, s.n * size)


def _batch(axis: Any, args: Any, dims: Any, *, over: Team, split: int, concat: int) -> tuple:
    (x,), (dim,) = args, dims
    if axis.name not in over.names:
        at = split + (dim <= split)
        to = concat + (dim <= concat)
        return all_to_all_p.bind(x, over=over, split=at, concat=to), dim
    return _batch_own(axis, x, dim, over, split, concat), 0


def _batch_own(axis: Any, x: Any, dim: Any, over: Team, at: int, to: int) -> Any:
    from weft.ops.shape import moveaxis, reshape

    x = batch_in_front(x, dim, axis.size)
    s = split(over, axis.name)
    size = equal_groups("all_to_all", over)
    shape = list(typeof(x).shape)
    shape[at + 1 : at + 2] = [size, shape[at + 1] // size]
    x = moveaxis(reshape(x, tuple(shape)), at + 1, 1)  # [n, rank, …block]
    block = typeof(x).shape[2:]
    exchange = over.memo(("exchange", axis.name), lambda: _Exchange(s, over))
    x = reshape(x, (s.n * size, *block))
    x = s.take(x, exchange.send)
    if s.c > 1 or s.rest.tracked:
        x = all_to_all_p.bind(x, over=s.rest, split=0, concat=0)
    x = s.take(x, exchange.take)
    x = moveaxis(reshape(x, (s.n, size, *block)), 1, 1 + to)
    full = list(block)
    full[to] *= size
    return reshape(x, (s.n, *full))


def _lower(ctx: Any, x: Any, *, over: Team, split: int, concat: int) -> Any:
    if not communicates(over):
        return x
    attrs = {
        "split_dimension": ctx.i64(split),
        "concat_dimension": ctx.i64(concat),
        "split_count": ctx.i64(over.group_size),
        "replica_groups": ctx.int_matrix(replica_groups(ctx, over)),
        "channel_handle": channel(ctx),
    }
    return ctx.op("stablehlo.all_to_all", [x], ctx.out_types(), attrs)[0]


all_to_all_p = Primitive(
    "all_to_all",
    abstract=_abstract,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    named_axes=named_axes,
    own_types=True,
)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Splits each device's array, sends part q to the device of rank q and joins what arrives.

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
    who: str, x: Any, axis_name: Any, at: int, to: int, groups: Any, tiled: bool
) -> Any:
    over = team_of(who, axis_name, groups)
    size = equal_groups(who, over)

    def leaf_of(leaf: Any) -> Any:
        from weft.ops.shape import expand_dims, squeeze

        leaf = as_traced(leaf)
        aval = typeof(leaf)
        if not aval.ndim:
            raise ValueError(
                f"{who}: the operand is a scalar and has no dimension to split ({aval.str_short()})"
            )
        a = canonical_axis(at, aval.ndim, f"{who}: split_axis")
        b = canonical_axis(to, aval.ndim, f"{who}: concat_axis")
        check_divides(who, "split_axis", aval, a, over, size, tiled)
        leaf = varying_over(leaf, over.tracked)
        if tiled:
            return all_to_all_p.bind(leaf, over=over, split=a, concat=b)
        # The new dimension has its place in the result once the split one is gone.
        place = b if b <= a else b + 1
        leaf = expand_dims(leaf, (place,))
        a += place <= a
        leaf = all_to_all_p.bind(leaf, over=over, split=a, concat=place)
        return squeeze(leaf, (a,))

    return leaf_of(x) if isinstance(x, Tracer) else tree_map(leaf_of, x)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchanges the named axis with the array dimension `axis`, of the group's size.

    Raises:
      NameError: an axis is not in scope. ValueError: the dimension has another size.

    >>> import weft
    >>> x = weft.numpy.arange(4).reshape(2, 2)
    >>> weft.vmap(lambda x: weft.lax.pswapaxes(x, "i", 0), axis_name="i")(x)
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return _all_to_all("pswapaxes", x, axis_name, axis, axis, axis_index_groups, False)
