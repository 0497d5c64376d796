"""Reductions along named axes: psum, pmean, pmax, pmin, pargmax, pargmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.collectives.casts import as_state, varying_over
from weft.collectives.groups import (
    Team,
    axis_names,
    batch_in_front,
    collective_attrs,
    communicates,
    index_in_group,
    named_axes,
    split,
    take_static,
    team_of,
)
from weft.collectives.states import (
    INVARYING,
    UNREDUCED,
    VARYING,
    result_mat,
    state_over,
)
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, typeof
from weft.core.tree import tree_map
from weft.ops.base import ANY, NUMBER, canonical_axis, check_kind
from weft.ops.reduce import highest, lowest, reduce_max, reduce_min, reduce_sum


def all_reduction(
    name: str,
    hlo: str,
    local: Callable,
    identity: Callable[[Any], Any],
    *,
    accepts: str,
    jvp: Callable,
    transpose: Callable | None = None,
) -> Primitive:
    """A reduction over a team. `local` reduces over array dimensions, `identity` is neutral."""

    def abstract(x: ShapedArray, *, over: Team) -> ShapedArray:
        check_kind(name, x.dtype, accepts)
        return x.update(mat=result_mat(name, x, over, INVARYING), weak_type=False)

    def batch(axis: Any, args: Sequence[Any], dims: Sequence[Any], *, over: Team) -> tuple:
        (x,), (dim,) = args, dims
        if axis.name not in over.names:
            return prim.bind(x, over=over), dim
        x = batch_in_front(x, dim, axis.size)
        s = split(over, axis.name)
        partial = reduce_slots(x, s, local, identity)
        if s.c > 1:
            partial = prim.bind(partial, over=s.rest)
        elif s.rest.tracked and s.rest.groups is None:
            partial = prim.bind(partial, over=s.rest)  # size-one axes still change state
        if s.slots == 1:
            from weft.ops.shape import squeeze

            return squeeze(partial, (0,)), None
        return s.take(partial, s.slot), 0

    def lower(ctx: Any, x: Any, *, over: Team) -> Any:
        if not communicates(over):
            return x
        operation = ctx.operation(
            "stablehlo.all_reduce", [x], [x.type], collective_attrs(ctx, over), regions=1
        )
        scalar = ctx.tensor((), ctx.avals_in[0].dtype)
        ctx.region(operation, 0, [scalar, scalar], lambda a, b: ctx.op(hlo, [a, b], [scalar]))
        return operation.results[0]

    prim = Primitive(
        name,
        abstract=abstract,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        lower=lower,
        named_axes=named_axes,
        own_types=True,
    )
    return prim


def reduce_slots(x: Any, s: Any, local: Callable, identity: Callable) -> Any:
    """x[n, …] reduced within each of the device's groups: [slots, …]."""
    from weft.ops.elementwise import select
    from weft.ops.shape import broadcast_in_dim, reshape

    shape, dtype = typeof(x).shape, typeof(x).dtype
    if s.slots == 1:
        return reshape(local(x, (0,)), (1, *shape[1:]))
    slot = s.row(s.slot)
    if isinstance(slot, np.ndarray):
        counts = np.bincount(slot, minlength=s.slots)
        if (counts == counts[0]).all():
            x = take_static(x, np.argsort(slot, kind="stable"))
            if counts[0] == 1:
                return x
            return local(reshape(x, (s.slots, int(counts[0]), *shape[1:])), (1,))
    full = (s.slots, *shape)
    mine = _equal_rows(slot, s.slots)
    mask = broadcast_in_dim(mine, full, (0, 1))
    spread = broadcast_in_dim(x, full, tuple(range(1, len(full))))
    return local(select(mask, spread, broadcast_in_dim(identity(dtype), full, ())), (1,))


def _equal_rows(slot: Any, slots: int) -> Any:
    """bool[slots, n]: whether batch index j belongs to slot k."""
    from weft.ops.elementwise import eq
    from weft.ops.shape import broadcast_in_dim

    numbers = np.arange(slots, dtype=np.int32)[:, None]
    if isinstance(slot, np.ndarray):
        return numbers == slot[None, :]
    n = typeof(slot).shape[0]
    return eq(broadcast_in_dim(slot, (slots, n), (1,)), np.broadcast_to(numbers, (slots, n)).copy())


def _sum_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, over: Team) -> tuple:
    return psum_p.bind(primals[0], over=over), psum_p.bind(tangents[0], over=over)


def _sum_transpose(ct: Any, x: Any, *, over: Team) -> list:
    """Along typed axes the cotangent is equal already; along others it is added up."""
    typed = over.typed
    if len(typed) < len(over.names):
        rest = over if not typed else over.only([n for n in over.names if n not in typed])
        ct = psum_p.bind(varying_over(ct, rest.tracked), over=rest)
    if typed:
        before = state_over("psum", x.aval, typed)
        ct = as_state(ct, typed, "reduced" if before == UNREDUCED else VARYING)
    return [ct]


def _extremum_jvp(primals: Any, tangents: Any, *, over: Team, prim: Any) -> tuple:
    """The tangent is the mean of those of the members that attain the extremum."""
    from weft.ops.elementwise import convert, div, eq, mul

    (x,), (t,) = primals, tangents
    out = prim.bind(x, over=over)
    at = convert(eq(x, out), typeof(x).dtype)
    count = psum_p.bind(at, over=over)
    return out, div(psum_p.bind(mul(t, at), over=over), count)


psum_p = all_reduction(
    "psum",
    "stablehlo.add",
    reduce_sum,
    lambda d: d.type(0),
    accepts=NUMBER,
    jvp=_sum_jvp,
    transpose=_sum_transpose,
)
pmax_p = all_reduction(
    "pmax",
    "stablehlo.maximum",
    reduce_max,
    lowest,
    accepts=ANY,
    jvp=lambda p, t, *, over: _extremum_jvp(p, t, over=over, prim=pmax_p),
)
pmin_p = all_reduction(
    "pmin",
    "stablehlo.minimum",
    reduce_min,
    highest,
    accepts=ANY,
    jvp=lambda p, t, *, over: _extremum_jvp(p, t, over=over, prim=pmin_p),
)


# Public functions -----------------------------------------------------------------------------


def _partition(who: str, axis_name: Any, groups: Any) -> tuple[Any, tuple]:
    """The named axes, and the positional ones among them."""
    if axis_name.__class__ is str:
        return axis_name, ()
    names = axis_names(who, axis_name)
    positional = tuple(n for n in names if isinstance(n, int) and not isinstance(n, bool))
    if not positional:
        return names, ()
    if groups is not None:
        raise ValueError(
            f"{who}: axis_index_groups cannot be combined with positional axes, got axis_name "
            f"{axis_name!r}; reduce over the positional axes in a call of their own"
        )
    return tuple(n for n in names if n not in positional), positional


def _reduce_positional(x: Any, positional: tuple, local: Callable, who: str) -> Any:
    if not positional:
        return x
    ndim = typeof(x).ndim
    return local(x, tuple(canonical_axis(a, ndim, f"{who}: positional axis") for a in positional))


def _is_bool(x: Any) -> bool:
    return typeof(x).dtype == np.bool_


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over the devices along named axes, on each of them; pytrees leaf by leaf.

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
    names, positional = _partition("psum", axis_name, axis_index_groups)
    if not names:
        return tree_map(lambda leaf: _reduce_positional(leaf, positional, reduce_sum, "psum"), x)
    over = team_of("psum", names, axis_index_groups)
    if isinstance(x, Tracer):
        return _psum_leaf(x, over, positional)
    return tree_map(lambda leaf: _psum_leaf(leaf, over, positional), x)


def _psum_leaf(x: Any, over: Team, positional: tuple) -> Any:
    from weft.ops.elementwise import convert

    if not isinstance(x, Tracer):
        return _psum_constant(x, over, positional)
    if _is_bool(x):
        x = convert(x, dtypes.int32)
    if positional:
        x = _reduce_positional(x, positional, reduce_sum, "psum")
    return psum_p.bind(summand("psum", x, over), over=over)


def summand(who: str, x: Any, over: Team) -> Any:
    """The operand of a sum: invarying values are promoted, mixed states refused."""
    if over.tracked and state_over(who, typeof(x), over.tracked) == INVARYING:
        return as_state(x, over.tracked, VARYING)
    return x


def _psum_constant(x: Any, over: Team, positional: tuple) -> Any:
    """A value that is no tracer is equal on all devices: the sum is a multiple of it."""
    from weft.ops.elementwise import mul
    from weft.ops.promote import promote_lax

    if isinstance(x, bool | np.bool_):
        x = int(x)
    elif not isinstance(x, int | float | complex) and _is_bool(x):
        from weft.ops.elementwise import convert

        x = convert(x, dtypes.int32)
    x = _reduce_positional(x, positional, reduce_sum, "psum")
    size = group_size(over)
    if isinstance(x, int | float | complex) and isinstance(size, int):
        return x * size
    aval = typeof(x)
    if isinstance(size, int):
        return mul(x, aval.dtype.type(size))
    from weft.ops.elementwise import convert

    return mul(*promote_lax("psum", x, convert(size, aval.dtype)))


def group_size(over: Team) -> Any:
    """The size of the device's own group: an int, or an array where groups differ in size."""
    if over.group_size is not None:
        return over.group_size
    from weft.collectives.axis import axis_index_p
    from weft.ops.slicing import dynamic_index_in_dim

    number, _ = index_in_group(over)
    sizes = np.array([len(g) for g in over.all_groups], np.int32)[number]
    index = axis_index_p.bind(over=over.whole())
    return dynamic_index_in_dim(sizes, index, 0, keepdims=False)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over the devices along named axes, on each of them; pytrees leaf by leaf.

    Arguments, types and errors as `psum`; integers give floats.

    >>> import weft
    >>> weft.vmap(lambda x: weft.lax.pmean(x, "i"), axis_name="i")(weft.numpy.arange(4.0))
    Array([1.5, 1.5, 1.5, 1.5], dtype=float32)
    """
    names, positional = _partition("pmean", axis_name, axis_index_groups)
    over = team_of("pmean", names, axis_index_groups) if names else None
    count = group_size(over) if over is not None else 1

    def mean(leaf: Any) -> Any:
        from weft.ops.elementwise import div
        from weft.ops.promote import promote_inexact, promote_numpy

        aval = typeof(leaf)
        total = psum(leaf, axis_name, axis_index_groups=axis_index_groups)
        n = count
        for a in positional:
            n = n * aval.shape[a]
        if isinstance(n, int) and isinstance(total, int | float | complex):
            return total / n
        return div(*promote_numpy("pmean", *promote_inexact(total, n)))

    return tree_map(mean, x)


def _extremum(prim: Primitive, local: Callable, what: str) -> Callable:
    who = prim.name

    def reduce(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
        names, positional = _partition(who, axis_name, axis_index_groups)
        over = team_of(who, names, axis_index_groups) if names else None

        def leaf_of(leaf: Any) -> Any:
            if dtypes.is_complex(typeof(leaf).dtype):
                raise TypeError(
                    f"{who} needs ordered values, but the operand has the complex type "
                    f"{typeof(leaf).str_short()}; reduce its absolute value or real part"
                )
            leaf = _reduce_positional(leaf, positional, local, who)
            if over is None or not isinstance(leaf, Tracer):
                return leaf
            return prim.bind(varying_over(leaf, over.tracked), over=over)

        return tree_map(leaf_of, x)

    reduce.__name__ = reduce.__qualname__ = who
    reduce.__doc__ = f"""The {what} over the devices along named axes; pytrees leaf by leaf.

    x: arrays of real numbers or booleans. axis_name: an axis, or a tuple of axes; ints among them
    are array dimensions. axis_index_groups: lists of indices that are reduced separately.
    The derivative is shared among the devices that attain the {what}.

    Type: varying → invarying; with groups, varying → varying.

    Raises:
      NameError: an axis is not in scope. TypeError: complex values.

    Source: StableHLO specification, `all_reduce`.

    >>> import weft
    >>> weft.vmap(lambda x: weft.lax.{who}(x, "i"), axis_name="i")(weft.numpy.array([3, 1, 2]))
    Array([{", ".join(["3" if who == "pmax" else "1"] * 3)}], dtype=int32)
    """
    return reduce


pmax = _extremum(pmax_p, reduce_max, "maximum")
pmin = _extremum(pmin_p, reduce_min, "minimum")


def _arg_extremum(who: str, extremum: Callable, what: str) -> Callable:
    def arg(x: Any, axis_name: Any) -> Any:
        if isinstance(axis_name, tuple | list):
            raise TypeError(
                f"{who} takes a single axis name, got {axis_name!r}: an index along several axes "
                "is not one number. Call it for one axis"
            )
        return tree_map(lambda leaf: _index_of(leaf, axis_name, extremum), x)

    arg.__name__ = arg.__qualname__ = who
    arg.__doc__ = f"""The index along a named axis of the device with the {what}, int32.

    x: arrays of real numbers, pytrees leaf by leaf. Of equal values, the lowest index counts.
    axis_name: one axis. The derivative is zero.

    Raises:
      NameError: the axis is not in scope. TypeError: several axes, or complex values.

    >>> import weft
    >>> weft.vmap(lambda x: weft.lax.{who}(x, "i"), axis_name="i")(weft.numpy.array([3, 1, 2]))
    Array([{", ".join(["0" if who == "pargmax" else "1"] * 3)}], dtype=int32)
    """
    return arg


def _index_of(x: Any, axis_name: Any, extremum: Callable) -> Any:
    from weft.collectives.axis import axis_index
    from weft.ops.elementwise import eq, select
    from weft.ops.shape import broadcast_in_dim
    from weft.ops.special import stop_gradient

    x = stop_gradient(x)
    best = eq(x, extremum(x, axis_name))
    shape = typeof(best).shape
    index = broadcast_in_dim(axis_index(axis_name), shape, ())
    last = broadcast_in_dim(np.int32(np.iinfo(np.int32).max), shape, ())
    return pmin(select(best, index, last), axis_name)


pargmax = _arg_extremum("pargmax", pmax, "maximum")
pargmin = _arg_extremum("pargmin", pmin, "minimum")
