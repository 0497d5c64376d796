"""Permutations along named axes: ppermute, pshuffle, psend and precv."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.manual_casts import varying_over
from weft.autodiff.zeros import full, zeros_like
from weft.collectives.arguments import check_index, operand
from weft.collectives.async_types import AsyncType, no_keys
from weft.collectives.explicit_batch import joining, moving
from weft.collectives.futures import FutureTree, register
from weft.collectives.groups import (
    AxisGroup,
    Split,
    axis_group_of,
    batch_in_front,
    byte_wise,
    channel,
    device_rows,
    listed,
    named_axes,
    split,
)
from weft.collectives.vma_promotion import varying_operand
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.caches import clearable, make_room
from weft.core.manual_states import VARYING, result_mat
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, typeof
from weft.core.tree import flatten, tree_map
from weft.ops.dynamic_slicing import dynamic_index_in_dim
from weft.ops.elementwise_api import convert, ge, select
from weft.ops.joining import concatenate

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Pairs = tuple[tuple[int, int], ...]


def _abstract(x: ShapedArray, *, over: AxisGroup, perm: Pairs) -> ShapedArray:
    return x.update(mat=result_mat("ppermute", x, over, VARYING))


def _transpose(ct: object, x: object, *, over: AxisGroup, perm: Pairs) -> list:
    back = tuple((target, source) for source, target in perm)
    return [ppermute_p.bind(varying_over(ct, over.tracked), over=over, perm=back)]


class _Routes:
    """How the members of a split exchange rows: rounds of permutations among the devices.

    A device's rows are its own n, then those received in each round, then one of zeros.
    send[t][i]: the rows device i sends in round t. take[i, j]: the row that becomes member (i, j).
    """

    __slots__ = ("rounds", "send", "take", "zeros")

    def __init__(self, s: Split, perm: Pairs) -> None:
        pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for source, target in perm:
            key = int(s.device[source]), int(s.device[target])
            pairs.setdefault(key, []).append((int(s.local[source]), int(s.local[target])))
        missing = -1
        take = np.full((s.m, s.n), missing, np.int64)
        self.rounds: list[Pairs] = []
        self.send: list[np.ndarray] = []
        colours: list[dict[int, int]] = []  # per round source device -> target device
        for a, b in pairs:
            if a == b:
                for j, k in pairs[a, b]:
                    take[b, k] = j
                continue
            for colour in colours:
                if a not in colour and b not in colour.values():
                    colour[a] = b
                    break
            else:
                colours.append({a: b})
        start = s.n
        for colour in colours:
            width = max(len(pairs[edge]) for edge in colour.items())
            send = np.zeros((s.m, width), np.int64)
            for a, b in colour.items():
                for r, (j, k) in enumerate(pairs[a, b]):
                    send[a, r] = j
                    take[b, k] = start + r
            self.rounds.append(tuple(sorted(colour.items())))
            self.send.append(send)
            start += width
        self.zeros = bool((take == missing).any())
        self.take = np.where(take == missing, start, take)


def _batch(axis: AxisData, args: list, dims: list, *, over: AxisGroup, perm: Pairs) -> tuple:
    (x,), (dim,) = args, dims
    if axis.name not in over.names:
        return ppermute_p.bind(x, over=over, perm=perm), dim
    x = batch_in_front(x, dim, axis.size)
    s = split(over, axis.name)
    routes = over.memo(("routes", axis.name, perm), lambda: _Routes(s, perm))
    parts = [x]
    for pairs, send in zip(routes.rounds, routes.send, strict=True):
        parts.append(ppermute_p.bind(s.take(x, send), over=s.devices, perm=pairs))
    if routes.zeros:
        aval = typeof(x)
        if dtypes.is_extended(aval.dtype):
            raise TypeError(
                f"ppermute: perm leaves devices that receive nothing, but there is no {aval.dtype} "
                "of zeros; give a full permutation, or send weft.random.key_data(keys)"
            )
        parts.append(convert(full((1, *aval.shape[1:]), 0, aval.dtype), aval.dtype, aval.weak_type))
    return s.take(concatenate(parts, 0) if len(parts) > 1 else x, routes.take), 0


@byte_wise("ppermute")
def _lower(ctx: Any, x: ir.Value, *, over: AxisGroup, perm: Pairs) -> Any:
    if over.size == 1:
        if perm:
            return x
        return ctx.splat(0, ctx.avals_out[0].shape, ctx.avals_out[0].dtype)
    if "cpu" in ctx.module.platforms and ctx.module.diverging.difference(over.names):
        return _lower_gathered(ctx, x, over, perm)

    def make() -> Any:
        rows = device_rows(ctx, over)
        pairs = [[int(row[a]), int(row[b])] for row in rows for a, b in perm]
        return ctx.int_matrix(np.reshape(pairs, (-1, 2)))

    attrs = {"source_target_pairs": over.memo(("pairs", ctx.module.mesh, perm), make)}
    attrs["channel_handle"] = channel(ctx)
    return ctx.op("stablehlo.collective_permute", [x], [x.type], attrs)[0]


def _lower_gathered(ctx: RuleContext, x: object, over: AxisGroup, perm: Pairs) -> Any:
    """Permute by a gather, which waits for its own axis group only (quirks.PERMUTE_WAITS).

    So where others may not come, the group gathers, and each device takes what it was to receive.
    """

    def received(x: object) -> Any:
        from weft.collectives.axis import axis_index_p
        from weft.collectives.gather import all_gather_p

        axis_group = over.untracked()
        sources = np.full(over.size, -1, np.int32)
        for source, target in perm:
            sources[target] = source
        rows = all_gather_p.bind(x, over=axis_group, axis=0, tiled=False, to=VARYING)
        row_of = partial(dynamic_index_in_dim, keepdims=False, allow_negative_indices=False)
        source = row_of(sources, axis_index_p.bind(over=axis_group))
        row = row_of(rows, source)
        return row if len(perm) == over.size else select(ge(source, 0), row, zeros_like(row))

    aval = ctx.avals_in[0]
    return ctx.lower_fun(received, x, avals=[ShapedArray(aval.shape, aval.dtype)])[0]


ppermute_p = moving(
    "ppermute", abstract=_abstract, transpose=_transpose, batch=_batch, lower=_lower
)


def check_perm(api: str, perm: Sequence, over: AxisGroup) -> Pairs:
    """(source, target) pairs, each device at most once a source and at most once a target."""
    try:
        pairs = [(a, b) for a, b in perm]
    except (TypeError, ValueError):  # no sequence, or not of pairs
        raise TypeError(
            f"{api}: perm must be a sequence of (source, target) pairs, got {perm!r:.200}"
        ) from None
    result = tuple(
        (check_index(api, "source", a, over), check_index(api, "target", b, over)) for a, b in pairs
    )
    for k, end in ((0, "source"), (1, "target")):
        indices = [pair[k] for pair in result]
        if len(set(indices)) != len(indices):
            twice = next(i for i in indices if indices.count(i) > 1)
            raise ValueError(
                f"{api}: perm {list(result)!r:.300} is not a permutation: {twice} is a {end} "
                f"twice; every device sends to at most one and receives from at most one"
            )
    return result


_MOST_CHECKED = 1024
_checked: dict[Any, Pairs] = clearable({})


def _pairs(api: str, perm: Sequence, over: AxisGroup) -> Pairs:
    """`check_perm`, made once for each permutation."""
    perm = listed(perm)
    try:
        pairs = tuple(map(tuple, perm))
        cached = _checked.get((over, pairs))
    except TypeError:
        return check_perm(api, perm, over)
    if cached is not None and not all(type(i) is int for pair in pairs for i in pair):
        return check_perm(api, pairs, over)  # 1.0 is found as 1
    if cached is None:
        make_room(_checked, _MOST_CHECKED)
        cached = _checked[over, pairs] = check_perm(api, pairs, over)
    return cached


def ppermute(x: ArrayLike, axis_name: object, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values between devices along named axes; pytrees leaf by leaf.

    perm: (source, target) pairs of indices along the axis (row-major along a tuple of axes). A
    device that is no target receives zeros.

    Raises:
      NameError: an axis is not in scope. ValueError: an index out of range, or twice a source or
      twice a target.

    Source: StableHLO specification, `collective_permute`.

    >>> import weft
    >>> ring = [(i, (i + 1) % 4) for i in range(4)]
    >>> x = weft.numpy.arange(4)
    >>> weft.vmap(lambda x: weft.lax.ppermute(x, "i", ring), axis_name="i")(x)
    Array([3, 0, 1, 2], dtype=int32)
    >>> weft.vmap(lambda x: weft.lax.ppermute(x, "i", [(1, 0)]), axis_name="i")(x)
    Array([1, 0, 0, 0], dtype=int32)
    """
    over = axis_group_of("ppermute", axis_name)
    return _permuted("ppermute", x, over, _pairs("ppermute", perm, over))


def _permuted(api: str, x: object, over: AxisGroup, perm: Pairs) -> Any:
    if isinstance(x, Tracer) and x.aval.__class__ is ShapedArray:
        return ppermute_p.bind(varying_operand(api, x, over), over=over, perm=perm)
    return tree_map(
        lambda leaf: ppermute_p.bind(
            varying_operand(api, operand(api, leaf), over), over=over, perm=perm
        ),
        x,
    )


def pshuffle(x: ArrayLike, axis_name: object, perm: Sequence[int]) -> Any:
    """Permute values along a named axis: device i receives that of device perm[i].

    perm: every index of the axis exactly once.

    Raises:
      NameError: an axis is not in scope. ValueError: perm is not a permutation of the indices.

    >>> import weft
    >>> x = weft.numpy.arange(4)
    >>> weft.vmap(lambda x: weft.lax.pshuffle(x, "i", [2, 0, 1, 3]), axis_name="i")(x)
    Array([2, 0, 1, 3], dtype=int32)
    """
    over = axis_group_of("pshuffle", axis_name)
    try:
        sources = [int(i.__index__()) for i in listed(perm)]
    except (TypeError, AttributeError):
        raise TypeError(
            f"pshuffle: perm must be a sequence of ints, known while tracing; got {perm!r:.100}"
        ) from None
    if sorted(sources) != list(range(over.size)):
        raise ValueError(
            f"pshuffle: perm {sources} must contain every index from 0 to {over.size - 1} exactly "
            "once; ppermute takes (source, target) pairs and partial permutations"
        )
    return _permuted(
        "pshuffle",
        x,
        over,
        _pairs("pshuffle", tuple(zip(sources, range(over.size), strict=True)), over),
    )


# psend and precv ------------------------------------------------------------------------------


class Sent(AsyncType):
    """The type of a value on its way from psend to precv: a token that stands for the message."""

    __slots__ = ()

    def __new__(cls, over: AxisGroup, perm: Pairs, value: ShapedArray) -> Sent:
        return cls._of(f"sent over {over!r} by {perm}", value, over, perm)

    remedy = "receive it with weft.lax.precv"
    over = property(lambda self: self.key[0])
    perm = property(lambda self: self.key[1])

    def finish(self, x: object) -> Any:
        return precv_p.bind(x)

    def wrap(self, x: object) -> Any:
        return keep_p.bind(x, over=self.over, perm=self.perm)

    def str_short(self) -> str:
        return f"sent[{self.value.str_short()} over {self.over!r}]"


def _send_abstract(x: ShapedArray, *, over: AxisGroup, perm: Pairs) -> Sent:
    no_keys("psend", x)
    return Sent(over, perm, _abstract(x, over=over, perm=perm))


def _recv_abstract(token: Sent) -> ShapedArray:
    return token.value


def _send_batch(axis: AxisData, args: list, dims: list, *, over: AxisGroup, perm: Pairs) -> tuple:
    if axis.name not in over.names:
        return psend_p.bind(args[0], over=over, perm=perm), dims[0]
    x, dim = joining(_batch)(axis, args, dims, over=over, perm=perm)
    return keep_p.bind(x, over=over, perm=perm), dim


def _send_transpose(ct: object, x: object, *, over: AxisGroup, perm: Pairs) -> list:
    return _transpose(ct, x, over=over, perm=perm)


psend_p = Primitive(
    "psend",
    abstract=_send_abstract,
    jvp="linear",
    transpose=_send_transpose,
    batch=_send_batch,
    lower=lambda ctx, x, *, over, perm: _lower_send(ctx, x, over, perm),
    named_axes=named_axes,
    own_types=True,
)
keep_p = Primitive(
    "keep_sent",
    abstract=lambda x, *, over, perm: Sent(over, perm, x),
    jvp="linear",
    transpose=lambda ct, x, *, over, perm: [ct],
    batch=lambda axis, args, dims, **params: (keep_p.bind(args[0], **params), dims[0]),
    lower=lambda ctx, x, **params: x,
    own_types=True,
)
"""A message that is here already: what psend becomes under vmap of its own axis."""
precv_p = Primitive(
    "precv",
    abstract=_recv_abstract,
    jvp="linear",
    transpose=lambda ct, token: [ct],
    batch=lambda axis, args, dims: (precv_p.bind(args[0]), dims[0]),
    lower=lambda ctx, token: token,
    own_types=True,
)


def _lower_send(ctx: RuleContext, x: ir.Value, over: AxisGroup, perm: Pairs) -> Any:
    """Send by a collective_permute: XLA starts it here and waits at its use."""
    if over.size == 1 and not perm:
        message = ctx.avals_out[0].value
        return ctx.splat(0, message.shape, message.dtype)
    return _lower(ctx, x, over=over, perm=perm)


class Message(FutureTree):
    """The token that `psend` returns, a leaf for each value sent."""

    __slots__ = ()

    remedy = Sent.remedy


def psend(x: ArrayLike, axis_name: object, perm: Sequence[tuple[int, int]]) -> Any:
    """Start sending values along a named axis; return the token that `precv` takes.

    perm: (source, target) pairs, as for `ppermute`. The derivative runs the other way.

    Raises:
      NameError: an axis is not in scope. ValueError: perm is not a (partial) permutation.

    Source: StableHLO specification, `send`; here one `collective_permute` carries the message.

    >>> import weft
    >>> def swap(x):
    ...     token = weft.lax.psend(x, "i", [(0, 1), (1, 0)])
    ...     return weft.lax.precv(token, weft.typeof(x), "i", [(0, 1), (1, 0)])
    >>> weft.vmap(swap, axis_name="i")(weft.numpy.array([1.0, 2.0]))
    Array([2., 1.], dtype=float32)
    """
    over = axis_group_of("psend", axis_name)
    pairs = _pairs("psend", perm, over)

    def send(leaf: object) -> Message:
        leaf = varying_operand("psend", operand("psend", leaf), over)
        return Message(psend_p.bind(leaf, over=over, perm=pairs))

    return tree_map(send, x)


def precv(
    token: object, out_shape: object, axis_name: object, perm: Sequence[tuple[int, int]]
) -> Any:
    """Receive the values that `psend` sent, zeros on devices that are no target.

    token: what psend returned. out_shape: shape and dtype of the values (a `ShapeDtypeStruct`, or
    anything with both), in a pytree like the token's. axis_name and perm: those of psend.

    Raises:
      TypeError: token is not from psend, or out_shape is not what was sent.
      ValueError: axis_name or perm are not those of psend.

    >>> import weft
    >>> def shift(x):
    ...     token = weft.lax.psend(x, "i", [(0, 1)])
    ...     return weft.lax.precv(token, x, "i", [(0, 1)])
    >>> weft.vmap(shift, axis_name="i")(weft.numpy.array([1.0, 2.0]))
    Array([0., 1.], dtype=float32)
    """
    over = axis_group_of("precv", axis_name)
    pairs = _pairs("precv", perm, over)

    def receive(message: object, like: object) -> Any:
        if not isinstance(message, Message):
            raise TypeError(
                f"precv: token must be what weft.lax.psend returned, got {message!r:.100}"
            )
        token = message._started
        sent = typeof(token)
        if sent.over is not over or sent.perm != pairs:
            raise ValueError(
                f"precv: the message was sent over {sent.over!r} with perm {list(sent.perm)}, "
                f"but is received over {over!r} with perm {list(pairs)}; both must be the same"
            )
        if not hasattr(like, "shape") or not hasattr(like, "dtype"):
            raise TypeError(
                "precv: out_shape must have a shape and a dtype, as weft.ShapeDtypeStruct has, for "
                f"each value of the token; got {like!r:.100}"
            )
        want = (tuple(like.shape), dtypes.canonicalize_dtype(like.dtype))
        if want != (sent.value.shape, sent.value.dtype):
            raise TypeError(
                f"precv: out_shape is {ShapedArray(*want).str_short()}, but what was sent is "
                f"{sent.value.str_short()}"
            )
        return precv_p.bind(token)

    messages, structure = flatten(token, lambda x: isinstance(x, Message))
    if not messages:
        raise TypeError(f"precv: token must be what weft.lax.psend returned, got {token!r:.100}")
    try:
        likes = structure.flatten_up_to(out_shape)
    except ValueError:
        raise TypeError(
            f"precv: out_shape must be a pytree like the token, {token!r:.200}; got "
            f"{flatten(out_shape)[1]}"
        ) from None
    return structure.unflatten([receive(m, like) for m, like in zip(messages, likes, strict=True)])


register(Message)
