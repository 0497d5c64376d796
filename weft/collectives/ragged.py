"""ragged_all_to_all: slices of different lengths between all pairs of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.collectives.arguments as arguments
from weft.autodiff.manual_casts import varying_over
from weft.autodiff.shape import broadcast_in_dim, broadcast_to_dim, moveaxis, reshape
from weft.autodiff.vmap import batch_flat
from weft.autodiff.zeros import full, zeros_like
from weft.collectives.exchange import all_to_all_p
from weft.collectives.explicit_batch import joining
from weft.collectives.extrema import pmax_p
from weft.collectives.groups import (
    AxisGroup,
    axis_group_of,
    communicates,
    equal_groups,
    groups_attr,
    named_axes,
)
from weft.collectives.vma_promotion import check_varies
from weft.core import dtypes
from weft.core.aval import Mat, ShapedArray
from weft.core.errors import ArgumentError, names_text
from weft.core.manual_states import VARYING, result_mat
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.ops.control.loops import fori_loop
from weft.ops.dynamic_slicing import index_take
from weft.ops.elementwise_api import add, bitwise_and, convert, div, ge, lt, mul, select, sub
from weft.ops.elementwise_api import add as plus
from weft.ops.joining import concatenate
from weft.ops.reduce import reduce_max, reduce_or
from weft.ops.scatter import ScatterDimensionNumbers, scatter_add
from weft.ops.slicing import slice as slice_

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# The operands after operand and output, all int vectors of one length K: slice i goes to the device
# of rank i // (K / group size).
INDICES = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


def _abstract(
    operand: ShapedArray, output: ShapedArray, *indices: ShapedArray, over: AxisGroup, add: bool
) -> ShapedArray:
    for x in (operand, output, *indices):
        mat = result_mat("ragged_all_to_all", x, over, VARYING)
    varying = frozenset().union(operand.mat.varying, output.mat.varying, mat.varying)
    return output.update(mat=Mat(varying), weak_type=False)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple:
    out = ragged_all_to_all_p.bind(*primals, **params)
    filled = [
        zeros_like(p) if t is None else t for p, t in zip(primals[:2], tangents[:2], strict=True)
    ]
    return out, ragged_all_to_all_p.bind(*filled, *primals[2:], **params)


def _exchange_indices(x: object, over: AxisGroup) -> Any:
    """Exchange indices: entry i of the result is the entry for this device on device i."""
    return all_to_all_p.bind(x, over=over, split=0, concat=0, tiled=True)


def _transpose(
    ct: ArrayLike, operand: Any, output: Any, *indices: object, over: AxisGroup, add: bool
) -> list:
    """Send slices back to where they came from; there, overlapping ones add up."""
    sources, sends, targets, receives = (varying_over(x, over.tracked) for x in indices)
    ct = varying_over(ct, over.tracked)
    arriving = _exchange_indices(targets, over)
    back = covered = None
    if is_undefined(operand):
        aval = operand.aval
        empty = varying_over(full(aval.shape, 0, aval.dtype), over.tracked)
        back = ragged_all_to_all_p.bind(
            ct,
            empty,
            arriving,
            receives,
            _exchange_indices(sources, over),
            sends,
            over=over,
            add=True,
        )
    if is_undefined(output):
        covered = ct
        if not add:
            rows = _covered_rows(arriving, receives, typeof(ct).shape[0])
            mask = _along_rows(rows, typeof(ct).shape)
            covered = select(mask, zeros_like(ct), ct)
    return [back, covered, None, None, None, None]


def _covers(starts: Any, sizes: object, rows: Any, first: Any, width: int) -> tuple[Any, Any]:
    """bool[K, R]: whether slice i writes row r in this round; int[K, R]: with which row of it."""
    shape = (typeof(starts).shape[0], typeof(rows).shape[0])
    at = sub(broadcast_in_dim(rows, shape, (1,)), broadcast_in_dim(starts, shape, (0,)))
    at = sub(at, broadcast_in_dim(first, shape, ()))
    left = sub(sizes, broadcast_in_dim(first, (shape[0],), ()))
    inside = bitwise_and(ge(at, np.int32(0)), lt(at, np.int32(width)))
    return bitwise_and(inside, lt(at, broadcast_in_dim(left, shape, (0,)))), at


def _covered_rows(starts: object, sizes: object, count: int) -> Any:
    """bool[count]: the rows that some slice writes."""
    rows = np.arange(count, dtype=np.int32)
    inside, _ = _covers(starts, sizes, rows, np.int32(0), np.iinfo(np.int32).max)
    return reduce_or(inside, (0,))


def _along_rows(rows: Any, shape: tuple[int, ...]) -> Any:
    return broadcast_in_dim(rows, shape, (0,))


def exchange(
    operand: ArrayLike,
    output: object,
    *indices: object,
    over: AxisGroup,
    add: bool,
    chunk: int | None,
) -> Any:
    """Return the collective in terms of others: rounds of an all_to_all of `chunk` rows a slice.

    With chunk = rows / K, a balanced exchange takes one round and sends as many bytes as an
    all_to_all of the operand; in general the longest slice sets the number of rounds. chunk None
    takes one round of whole slices: more bytes, but differentiable. The first round is outside of
    the loop, where nothing copies the output to carry it.
    """
    sources, sends, targets, receives = indices
    most = min(typeof(operand).shape[0], typeof(output).shape[0])
    if not most:  # no slice has rows
        return output
    width = most if chunk is None else min(chunk, most)
    if width == most:
        starts = _exchange_indices(targets, over)
    else:
        starts, longest = _starts_and_longest(targets, sends, over)

    def round_of(i: object, out: object) -> Any:
        first = mul(i, np.int32(width))
        block = _slices(operand, sources, first, width)
        block = all_to_all_p.bind(block, over=over, split=0, concat=0, tiled=True)
        return _write(out, block, starts, receives, first, width, add)

    first = round_of(np.int32(0), output)
    if width == most:
        return first
    rounds = div(plus(longest, np.int32(width - 1)), np.int32(width))
    return fori_loop(full((), 1, dtypes.int32), rounds, round_of, first)


def _starts_and_longest(targets: object, sends: object, over: AxisGroup) -> tuple[Any, Any]:
    """Return the starts of the slices that arrive, and the longest length that anyone sends."""
    longest = reduce_max(sends, (0,))
    if over.groups is not None:  # all groups take as many rounds
        longest = pmax_p.bind(longest, over=over.whole(), dims=())
        return _exchange_indices(targets, over), longest
    k, size = typeof(targets).shape[0], over.size
    told = broadcast_in_dim(longest, (size, 1), ())
    both = concatenate([reshape(targets, (size, k // size)), told], 1)
    both = _exchange_indices(both, over)
    starts = reshape(slice_(both, (0, 0), (size, k // size)), (k,))
    return starts, reduce_max(slice_(both, (0, k // size), both.shape), (0, 1))


def _slices(operand: object, starts: object, first: Any, width: int) -> Any:
    """[K, width, …]: from every slice its rows first … first + width; past its end, anything."""
    shape = typeof(operand).shape
    k = typeof(starts).shape[0]
    begin = add(starts, broadcast_in_dim(first, (k,), ()))
    rows = np.broadcast_to(np.arange(width, dtype=np.int32), (k, width)).copy()
    index = add(broadcast_in_dim(begin, (k, width), (0,)), rows)
    taken = index_take(operand, [reshape(index, (k * width,))], [0])
    return reshape(taken, (k, width, *shape[1:]))


def _write(
    out: Any, block: object, starts: object, sizes: object, first: object, width: int, add: bool
) -> Any:
    """Return the received rows in their places."""
    shape = typeof(out).shape
    k = typeof(starts).shape[0]
    flat = reshape(block, (k * width, *shape[1:]))
    if add:
        return _add_rows(out, flat, starts, sizes, first, width)
    rows = np.arange(shape[0], dtype=np.int32)
    inside, at = _covers(starts, sizes, rows, first, width)
    base = np.repeat(np.arange(k, dtype=np.int32)[:, None] * width, shape[0], 1)
    index = select(inside, plus(at, base), np.zeros((k, shape[0]), np.int32))
    mask = _along_rows(reduce_or(inside, (0,)), shape)
    return select(mask, index_take(flat, [reduce_max(index, (0,))], [0]), out)


def _add_rows(out: object, flat: object, starts: Any, sizes: Any, first: Any, width: int) -> Any:
    """Return the received rows added to those in their places."""
    shape = typeof(out).shape
    k = typeof(starts).shape[0]
    row = np.broadcast_to(np.arange(width, dtype=np.int32), (k, width)).copy()
    row = add(row, broadcast_in_dim(first, (k, width), ()))
    target = add(row, broadcast_in_dim(starts, (k, width), (0,)))
    valid = lt(row, broadcast_in_dim(sizes, (k, width), (0,)))
    target = select(valid, target, np.full((k, width), shape[0], np.int32))  # dropped there
    dims = ScatterDimensionNumbers(tuple(range(1, len(shape))), (0,), (0,))
    return scatter_add(out, reshape(target, (k * width, 1)), flat, dims)


def _batch(axis: AxisData, args: list, dims: list, *, over: AxisGroup, add: bool) -> tuple:
    """Take the batch of arrays along as columns if they alone have one; else batch the exchange."""
    if axis.name not in over.names and all(d is None for d in dims[2:]):
        moved = [
            broadcast_to_dim(x, 1, axis.size) if d is None else moveaxis(x, d, 1)
            for x, d in zip(args[:2], dims[:2], strict=True)
        ]
        return ragged_all_to_all_p.bind(*moved, *args[2:], over=over, add=add), 1

    def one(*xs: ArrayLike) -> list:
        return [exchange(*xs, over=over, add=add, chunk=None)]

    outs, out_dims = batch_flat(one, axis, args, dims)
    return outs[0], out_dims[0]


def _lower(
    ctx: RuleContext, operand: object, output: object, *indices: object, over: AxisGroup, add: bool
) -> Any:
    if not add and communicates(over) and "cpu" not in ctx.module.platforms:
        return _lower_native(ctx, operand, output, indices, over)
    avals = [ShapedArray(a.shape, a.dtype) for a in ctx.avals_in]
    chunk = max(1, -(-avals[0].shape[0] // avals[2].shape[0]))

    def rounds(*xs: Any) -> Any:
        return exchange(*xs, over=over.untracked(), add=add, chunk=chunk)

    return ctx.lower_fun(rounds, operand, output, *indices, avals=avals)[0]


def _lower_native(
    ctx: RuleContext, operand: ir.Value, output: ir.Value, indices: Sequence[Any], over: AxisGroup
) -> Any:
    """Lower to XLA's own instruction (GPU, TPU)."""
    groups = groups_attr(ctx, over)
    config = f"{{replica_groups = {groups}, channel_id = {ctx.module.next_channel()} : i64}}"
    attrs = {
        "call_target_name": ctx.string("ragged_all_to_all"),
        "backend_config": ctx.attr(config),
        "api_version": ctx.i32(4),
    }
    operands = [operand, output, *indices]
    return ctx.op("stablehlo.custom_call", operands, ctx.out_types(), attrs)[0]


ragged_all_to_all_p = Primitive(
    "ragged_all_to_all",
    abstract=_abstract,
    jvp=_jvp,
    transpose=_transpose,
    batch=joining(_batch),
    lower=_lower,
    named_axes=named_axes,
    own_types=True,
)


def ragged_all_to_all(
    operand: ArrayLike,
    output: object,
    input_offsets: object,
    send_sizes: object,
    output_offsets: object,
    recv_sizes: object,
    *,
    axis_name: object,
    axis_index_groups: object = None,
) -> Any:
    """Send slices of rows to all devices along named axes; lengths may differ and are data.

    operand: (N, …), rows to send. output: (M, …), of which rows are replaced by what arrives.
    The other four are int vectors of one length K, a multiple of the number of devices; slice i
    goes to the device of rank i // (K / devices): rows input_offsets[i] … + send_sizes[i] of
    operand are written there from row output_offsets[i] on. recv_sizes[i] is the length of slice
    i that arrives here. axis_index_groups: lists of indices of equal size that exchange among
    themselves.

    It is linear in operand and output. Slices that overlap where they are written have undefined
    results there. On CPU it is rounds of all_to_all, as many as the longest slice takes.

    Raises:
      NameError: an axis is not in scope. TypeError: wrong dtypes. ValueError: wrong ranks.

    Source: XLA operation semantics, `RaggedAllToAll`.

    >>> import weft
    >>> def f(x, send, to, receive):
    ...     out = weft.numpy.zeros(4, int)
    ...     return weft.lax.ragged_all_to_all(x, out, weft.numpy.array([0, 1]), send, to, receive,
    ...                                       axis_name="i")
    >>> array = weft.numpy.array
    >>> weft.vmap(f, axis_name="i")(array([[1, 2, 2], [3, 4, 0]]), array([[1, 2], [1, 1]]),
    ...                             array([[0, 0], [1, 2]]), array([[1, 1], [2, 1]]))
    Array([[1, 3, 0, 0],
           [2, 2, 4, 0]], dtype=int32)
    """
    api = "ragged_all_to_all"
    over = axis_group_of(api, axis_name, axis_index_groups)
    size = equal_groups(api, over)
    arrays = [arguments.operand(api, x, n) for x, n in ((operand, "operand"), (output, "output"))]
    vectors = (input_offsets, send_sizes, output_offsets, recv_sizes)
    indices = [arguments.operand(api, x, n) for x, n in zip(vectors, INDICES, strict=True)]
    _check(api, arrays, indices, size, over)

    indices = [convert(x, dtypes.int32) for x in indices]
    check_varies(api, arrays[0], over)
    typed = [varying_over(x, over.tracked) for x in (*arrays, *indices)]
    varying = frozenset().union(*(typeof(x).mat.varying for x in typed))
    typed = [varying_over(x, tuple(sorted(varying, key=str))) for x in typed]
    return ragged_all_to_all_p.bind(*typed, over=over, add=False)


def _check(
    api: str, arrays: Sequence[Any], indices: Sequence[Any], size: int, over: AxisGroup
) -> None:
    operand, output = (typeof(x) for x in arrays)
    if not operand.ndim or not output.ndim:
        raise ValueError(
            f"{api}: operand and output must have rows (rank 1 at least), got "
            f"{operand.str_short()} and {output.str_short()}"
        )
    if operand.dtype != output.dtype or operand.shape[1:] != output.shape[1:]:
        raise ArgumentError(
            f"{api}: operand and output must have one dtype and equal dimensions after the first, "
            f"got {operand.str_short()} and {output.str_short()}"
        )
    lengths = []
    for name, x in zip(INDICES, indices, strict=True):
        aval = typeof(x)
        if not dtypes.is_integer(aval.dtype):
            raise ArgumentError(
                f"{api}: {name} must be integers, got {aval.str_short()}; convert it with "
                ".astype('int32')"
            )
        if aval.ndim != 1 or not aval.shape[0]:
            raise ValueError(
                f"{api}: {name} must be a vector with an entry for each slice, got "
                f"{aval.str_short()}"
            )
        lengths.append(aval.shape[0])
    if len(set(lengths)) > 1:
        listing = ", ".join(f"{n} has {k}" for n, k in zip(INDICES, lengths, strict=True))
        raise ValueError(f"{api}: the four index vectors must have one length, but {listing}")
    if lengths[0] % size:
        raise ValueError(
            f"{api}: the index vectors have length {lengths[0]}, which is not a multiple of the "
            f"{size} devices along axis {names_text(over.names)}; give each device as many slices"
        )
