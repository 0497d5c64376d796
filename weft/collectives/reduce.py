"""Sums along named axes: psum and pmean, and what all reductions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.manual_casts import as_state, varying_over
from weft.autodiff.op_families import NUMBER, canonical_axis, check_kind
from weft.autodiff.shape import broadcast_in_dim, expand_dims, reshape, squeeze
from weft.collectives.arguments import check_operand
from weft.collectives.explicit_batch import joining
from weft.collectives.groups import (
    AxisGroup,
    Split,
    axis_group_of,
    axis_names,
    batch_in_front,
    byte_wise,
    collective_attrs,
    communicates,
    index_in_group,
    named_axes,
    split,
    take_static,
)
from weft.collectives.vma_promotion import check_varies
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.manual_states import (
    INVARYING,
    UNREDUCED,
    VARYING,
    result_mat,
    state_over,
)
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, typeof
from weft.core.tree import tree_map
from weft.ops.dynamic_slicing import dynamic_index_in_dim
from weft.ops.elementwise_api import convert, div, eq, mul, select
from weft.ops.promote import promote_inexact, promote_lax, promote_numpy
from weft.ops.reduce import reduce_sum

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def lower_all_reduce(
    ctx: RuleContext,
    x: ir.Value,
    over: AxisGroup,
    hlo: str,
    aval: ShapedArray,
    local: Callable,
    neutral: object,
) -> Any:
    """Emit one all_reduce by the op `hlo`, or nothing where a device is alone.

    local(x, dims) and neutral are the like in one array. XLA:TPU has no groups of different sizes
    (libtpu 0.0.42): there all is gathered, and each device reduces what is of its group.
    """
    if not communicates(over):
        return x
    if over.group_size is None and "tpu" in ctx.module.platforms:
        plain = ShapedArray(aval.shape, aval.dtype)
        reduced = lambda x: _reduce_gathered(x, over, local, neutral)
        return ctx.lower_fun(reduced, x, avals=[plain])[0]
    operation = ctx.operation(
        "stablehlo.all_reduce", [x], [x.type], collective_attrs(ctx, over, ranked=False), 1
    )
    scalar = ctx.tensor((), aval.dtype)
    ctx.region(operation, 0, [scalar, scalar], lambda a, b: ctx.op(hlo, [a, b], [scalar]))
    return operation.results[0]


def _reduce_gathered(x: object, over: AxisGroup, local: Callable, neutral: Any) -> Any:
    from weft.collectives.axis import axis_index_p
    from weft.collectives.gather import all_gather_p

    axis_group = over.whole().untracked()
    number, _ = index_in_group(over)
    index = axis_index_p.bind(over=axis_group)
    in_group = dynamic_index_in_dim(number[:, None] == number, index, keepdims=False)
    rows = all_gather_p.bind(x, over=axis_group, axis=0, tiled=False, to=VARYING)
    shape = typeof(rows).shape
    others = broadcast_in_dim(neutral, shape, ())
    return local(select(broadcast_in_dim(in_group, shape, (0,)), rows, others), (0,))


def combines(s: Split) -> bool:
    """Return whether devices still have to combine what each made of its batch.

    Axes of size one have nothing to combine, but their manual-axis state changes.
    """
    return s.c > 1 or (bool(s.rest.tracked) and s.rest.groups is None)


def grouped(x: ArrayLike, s: Split, neutral: Callable[[Any], Any]) -> Any:
    """x[n, …] as [slots, members, …]: the device's batch by groups, filled up with `neutral`."""
    if s.slots == 1:
        return expand_dims(x, (0,))
    shape, dtype = typeof(x).shape, typeof(x).dtype
    slot = s.row(s.slot)
    if isinstance(slot, np.ndarray):
        counts = np.bincount(slot, minlength=s.slots)
        if (counts == counts[0]).all():
            x = take_static(x, np.argsort(slot, kind="stable"))
            return reshape(x, (s.slots, int(counts[0]), *shape[1:]))
    full = (s.slots, *shape)
    mask = broadcast_in_dim(_equal_rows(slot, s.slots), full, (0, 1))
    spread = broadcast_in_dim(x, full, tuple(range(1, len(full))))
    return select(mask, spread, broadcast_in_dim(neutral(dtype), full, ()))


def _equal_rows(slot: ArrayLike, slots: int) -> Any:
    """bool[slots, n]: whether batch index j belongs to slot k."""
    numbers = np.arange(slots, dtype=np.int32)[:, None]
    if isinstance(slot, np.ndarray):
        return numbers == slot[None, :]
    n = typeof(slot).shape[0]
    return eq(broadcast_in_dim(slot, (slots, n), (1,)), np.broadcast_to(numbers, (slots, n)).copy())


def _abstract(x: ShapedArray, *, over: AxisGroup) -> ShapedArray:
    check_kind("psum", x.dtype, NUMBER)
    return x.update(mat=result_mat("psum", x, over, INVARYING))


def _batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], *, over: AxisGroup) -> tuple:
    (x,), (dim,) = args, dims
    if axis.name not in over.names:
        return psum_p.bind(x, over=over), dim
    s = split(over, axis.name)
    partial = sum_of_slots(batch_in_front(x, dim, axis.size), s)
    if combines(s):
        partial = psum_p.bind(partial, over=s.rest)
    if s.slots == 1:
        return squeeze(partial, (0,)), None
    return s.take(partial, s.slot), 0


def sum_of_slots(x: ArrayLike, s: Split) -> Any:
    """x[n, …] added up within each of the device's groups: [slots, …]."""
    return reduce_sum(grouped(x, s, lambda d: d.type(0)), (1,))


def _sum_transpose(ct: ArrayLike, x: UndefinedPrimal, *, over: AxisGroup) -> list:
    """Along typed axes the cotangent is equal already; along others it is added up."""
    typed = over.typed
    if len(typed) < len(over.names):
        rest = over if not typed else over.only([n for n in over.names if n not in typed])
        ct = psum_p.bind(varying_over(ct, rest.tracked), over=rest)
    if typed:
        before = state_over("psum", x.aval, typed)
        ct = as_state(ct, typed, "reduced" if before == UNREDUCED else VARYING)
    return [ct]


@byte_wise("psum")
def _lower(ctx: RuleContext, x: ir.Value, *, over: AxisGroup) -> Any:
    aval = ctx.avals_in[0]
    return lower_all_reduce(ctx, x, over, "stablehlo.add", aval, reduce_sum, aval.dtype.type(0))


psum_p = Primitive(
    "psum",
    abstract=_abstract,
    jvp="linear",
    transpose=_sum_transpose,
    batch=joining(_batch, if_grouped=True),
    lower=_lower,
    named_axes=named_axes,
    own_types=True,
)


def psum_over_axes(x: ArrayLike, axes: tuple, sizes: tuple[int, ...]) -> Any:
    """Return the sum of a value over manual axes of the given sizes whose types are tracked."""
    return psum_p.bind(x, over=AxisGroup(axes, sizes, None, axes))


# Public functions -----------------------------------------------------------------------------


def split_axes(api: str, axis_name: Any, groups: object) -> tuple[Any, tuple]:
    """Return the named axes among those a caller gave, and the positional ones."""
    if axis_name.__class__ is str:
        return axis_name, ()
    names = axis_names(api, axis_name)
    positional = tuple(n for n in names if isinstance(n, int) and not isinstance(n, bool))
    if not positional:
        return names, ()
    if groups is not None:
        raise ValueError(
            f"{api}: axis_index_groups cannot be combined with positional axes, got axis_name "
            f"{axis_name!r}; reduce over the positional axes in a call of their own"
        )
    return tuple(n for n in names if n not in positional), positional


def dimensions(api: str, positional: tuple, x: ArrayLike) -> tuple[int, ...]:
    """Return the array dimensions that positional axes name."""
    ndim = typeof(x).ndim
    return tuple(canonical_axis(a, ndim, f"{api}: positional axis") for a in positional)


def _sum_positional(x: ArrayLike, positional: tuple) -> Any:
    return reduce_sum(x, dimensions("psum", positional, x)) if positional else x


def psum(x: ArrayLike, axis_name: object, *, axis_index_groups: object = None) -> Any:
    """Return the sum over the devices along named axes, on each of them; pytrees leaf by leaf.

    x: arrays of numbers; booleans are counted, as int32. Values that are unreduced along the
    axes are added up, too. axis_name: an axis, or a tuple of axes; ints among them are array
    dimensions. axis_index_groups: lists of indices that are summed separately; they may differ
    in size. psum of a Python number is a Python number.

    Type: varying or unreduced → invarying; with groups, varying → varying.

    Raises:
      NameError: an axis is not in scope. ValueError: groups that do not cover the axis.

    Source: StableHLO specification, `all_reduce`.

    >>> import weft
    >>> x = weft.numpy.arange(4)
    >>> weft.vmap(lambda x: weft.lax.psum(x, "i"), axis_name="i")(x)
    Array([6, 6, 6, 6], dtype=int32)
    >>> groups = [[0, 1], [2, 3]]
    >>> weft.vmap(lambda x: weft.lax.psum(x, "i", axis_index_groups=groups), axis_name="i")(x)
    Array([1, 1, 5, 5], dtype=int32)
    """
    names, positional = split_axes("psum", axis_name, axis_index_groups)
    if not names:
        return tree_map(lambda leaf: _sum_positional(leaf, positional), x)
    over = axis_group_of("psum", names, axis_index_groups)
    if isinstance(x, Tracer):
        return _psum_leaf(x, over, positional)
    return tree_map(lambda leaf: _psum_leaf(leaf, over, positional), x)


def _psum_leaf(x: ArrayLike, over: AxisGroup, positional: tuple, api: str = "psum") -> Any:
    if not isinstance(x, Tracer):
        check_operand(api, x)
        check_varies(api, x, over)
        return _psum_constant(x, over, positional)
    aval = typeof(x)
    if aval.__class__ is not ShapedArray:
        check_operand(api, x)
    dtype = aval.dtype
    if dtypes.is_bool(dtype):
        x = convert(x, dtypes.int32)
    elif dtypes.is_extended(dtype):  # here, because vmap of the axis never asks psum itself
        check_kind("psum", dtype, NUMBER)
    x = _sum_positional(x, positional)
    return psum_p.bind(summand(api, x, over), over=over)


def summand(api: str, x: ArrayLike, over: AxisGroup) -> Any:
    """Return the operand of a sum: invarying values are promoted, mixed states refused."""
    if over.tracked and state_over(api, typeof(x), over.tracked) == INVARYING:
        check_varies(api, x, over)
        return as_state(x, over.tracked, VARYING)
    return x


def _psum_constant(x: ArrayLike, over: AxisGroup, positional: tuple) -> Any:
    """Return a value that is no tracer is equal on all devices: the sum is a multiple of it."""
    if isinstance(x, bool | np.bool_):
        x = int(x)
    elif not isinstance(x, int | float | complex) and dtypes.is_bool(typeof(x).dtype):
        x = convert(x, dtypes.int32)
    x = _sum_positional(x, positional)
    size = group_size(over)
    if isinstance(x, int | float | complex) and isinstance(size, int):
        return x * size
    aval = typeof(x)
    check_kind("psum", aval.dtype, NUMBER)
    if isinstance(size, int):
        return mul(x, aval.dtype.type(size))
    return mul(*promote_lax(x, convert(size, aval.dtype)))


def group_size(over: AxisGroup) -> Any:
    """Return the size of the device's group: an int, or an array where sizes differ."""
    if over.group_size is not None:
        return over.group_size
    from weft.collectives.axis import axis_index_p

    number, _ = index_in_group(over)
    sizes = np.array([len(g) for g in over.all_groups], np.int32)[number]
    index = axis_index_p.bind(over=over.whole())
    return dynamic_index_in_dim(sizes, index, 0, keepdims=False)


def pmean(x: ArrayLike, axis_name: object, *, axis_index_groups: object = None) -> Any:
    """Return the mean over the devices along named axes, on each of them; pytrees leaf by leaf.

    Arguments, types and errors as `psum`; integers give floats.

    >>> import weft
    >>> weft.vmap(lambda x: weft.lax.pmean(x, "i"), axis_name="i")(weft.numpy.arange(4.0))
    Array([1.5, 1.5, 1.5, 1.5], dtype=float32)
    """
    names, positional = split_axes("pmean", axis_name, axis_index_groups)
    over = axis_group_of("pmean", names, axis_index_groups) if names else None
    count = group_size(over) if over is not None else 1

    def mean(leaf: Any) -> Any:
        check_operand("pmean", leaf)
        aval = typeof(leaf)
        if dtypes.is_integer(aval.dtype) and aval.dtype.itemsize < 4:  # the sum need not fit
            leaf = convert(leaf, dtypes.int32)
        if over is None:
            total = _sum_positional(leaf, positional)
        else:
            total = _psum_leaf(leaf, over, positional, "pmean")
        n = count
        for a in positional:
            n = n * aval.shape[a]
        if isinstance(n, int) and isinstance(total, int | float | complex):
            return total / n
        return div(*promote_numpy("pmean", *promote_inexact(total, n)))

    return tree_map(mean, x)
