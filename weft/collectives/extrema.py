"""Extrema along named axes: pmax, pmin, pargmax, pargmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import ANY, check_kind
from weft.autodiff.shape import broadcast_in_dim
from weft.autodiff.zeros import stop_gradient
from weft.collectives.arguments import check_operand
from weft.collectives.axis import axis_index
from weft.collectives.explicit_batch import joining
from weft.collectives.groups import (
    AxisGroup,
    axis_group_of,
    batch_in_front,
    byte_wise,
    communicates,
    named_axes,
    split,
)
from weft.collectives.reduce import (
    combines,
    dimensions,
    grouped,
    lower_all_reduce,
    psum_p,
    split_axes,
)
from weft.collectives.vma_promotion import check_varies, varying_operand
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.manual_states import INVARYING, result_mat, result_type
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, typeof
from weft.core.tree import tree_map
from weft.ops.elementwise_api import (
    bitcast_convert_type,
    bitwise_or,
    bitwise_xor,
    convert,
    div,
    eq,
    lt,
    mul,
    ne,
    select,
)
from weft.ops.reduce import highest, lowest, reduce_max, reduce_min, reduce_sum

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def _loses_nans(dtype: np.dtype) -> bool:
    """Return whether XLA:CPU's all_reduce of this dtype drops NaNs (quirks.ALL_REDUCE_NANS)."""
    return dtypes.is_float(dtype) and dtype.itemsize > 1


def _by_integers(prim: Primitive, x: ArrayLike, over: AxisGroup) -> Any:
    """By integers that are ordered as the floats are, with NaN at the end that wins."""
    aval = typeof(x)
    ints = np.dtype(f"int{8 * aval.dtype.itemsize}")
    info = np.iinfo(ints)
    bits = bitcast_convert_type(x, ints)

    def flip(v: ArrayLike) -> Any:
        return select(lt(v, ints.type(0)), bitwise_xor(v, ints.type(info.max)), v)

    nan = np.full(aval.shape, info.max if prim is pmax_p else info.min, ints)
    key = prim.bind(select(ne(x, x), nan, flip(bits)), over=over, dims=())
    return bitcast_convert_type(flip(key), aval.dtype)


def _extremum_op(name: str, hlo: str, local: Callable, neutral: Callable) -> Primitive:
    """Return the extremum over an axis group and over array dimensions `dims` in one.

    Where vmap turns an axis of the axis group into a dimension, `dims` takes it up, so that the
    derivative counts the members that attain the extremum over all axes alike.
    """

    def abstract(x: ShapedArray, *, over: AxisGroup, dims: tuple[int, ...]) -> ShapedArray:
        check_kind(name, x.dtype, ANY)
        shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
        mat = result_mat(name, x, over, INVARYING)
        origin = [d for d in range(x.ndim) if d not in dims]
        return result_type(name, x, shape, origin, mat)

    def jvp(
        primals: Sequence[Any], tangents: Sequence[Any], *, over: AxisGroup, dims: tuple[int, ...]
    ) -> tuple:
        """Average the tangents of the members that attain the extremum."""
        (x,), (t,) = primals, tangents
        out = prim.bind(x, over=over, dims=dims)
        shape = typeof(x).shape
        kept = tuple(d for d in range(len(shape)) if d not in dims)
        whole = broadcast_in_dim(out, shape, kept) if dims else out
        # 1 where the extremum is attained: the tangents there are averaged over all devices.
        at = convert(eq(x, whole), typeof(x).dtype)

        def total(x: ArrayLike) -> Any:
            return psum_p.bind(reduce_sum(x, dims) if dims else x, over=over)

        return out, div(total(mul(t, at)), total(at))

    def batch(
        axis: AxisData,
        args: Sequence[Any],
        batch_dims: Sequence[Any],
        *,
        over: AxisGroup,
        dims: tuple,
    ) -> tuple:
        (x,), (dim,) = args, batch_dims
        # Another axis is mapped: it shifts the dimensions, and is part of the array.
        if axis.name not in over.names:
            shifted = tuple(d + (d >= dim) for d in dims)
            out = prim.bind(x, over=over, dims=shifted)
            return out, dim - sum(d < dim for d in shifted)
        # The mapped axis is one of the axis group's: its part of the reduction is over a dimension.
        s = split(over, axis.name)
        x = batch_in_front(x, dim, axis.size)
        if s.slots == 1:
            gone = (0, *(d + 1 for d in dims))
        else:
            x = grouped(x, s, neutral)
            gone = (1, *(d + 2 for d in dims))
        out = prim.bind(x, over=s.rest, dims=gone) if combines(s) else local(x, gone)
        return (out, None) if s.slots == 1 else (s.take(out, s.slot), 0)

    @byte_wise(name)
    def lower(ctx: RuleContext, x: ir.Value, *, over: AxisGroup, dims: tuple[int, ...]) -> Any:
        aval = ctx.avals_in[0]
        if dims:
            x = ctx.reduce(hlo, x, neutral(aval.dtype), dims, aval.dtype)
            aval = ctx.avals_out[0]
        # quirks.ALL_REDUCE_NANS
        if communicates(over) and "cpu" in ctx.module.platforms and _loses_nans(aval.dtype):
            plain = ShapedArray(aval.shape, aval.dtype)
            exact_over = over.untracked()
            return ctx.lower_fun(lambda x: _by_integers(prim, x, exact_over), x, avals=[plain])[0]
        return lower_all_reduce(ctx, x, over, hlo, aval, local, neutral(aval.dtype))

    prim = Primitive(
        name,
        abstract=abstract,
        jvp=jvp,
        batch=joining(batch, if_grouped=True),
        lower=lower,
        named_axes=named_axes,
        own_types=True,
    )
    return prim


pmax_p = _extremum_op("pmax", "stablehlo.maximum", reduce_max, lowest)
pmin_p = _extremum_op("pmin", "stablehlo.minimum", reduce_min, highest)


def _check_ordered(api: str, aval: ShapedArray) -> None:
    if dtypes.is_complex(aval.dtype) or dtypes.is_extended(aval.dtype):
        raise TypeError(
            f"{api} needs ordered values, but the operand has type {aval.str_short()}"
            + (
                "; reduce its absolute value or real part"
                if dtypes.is_complex(aval.dtype)
                else ", whose elements have no order"
            )
        )


def _extremum(prim: Primitive, local: Callable, extremum: str) -> Callable:
    api = prim.name

    def reduce(
        x: ArrayLike,
        axis_name: object,
        *,
        axis_index_groups: object = None,
    ) -> Any:
        names, positional = split_axes(api, axis_name, axis_index_groups)
        over = axis_group_of(api, names, axis_index_groups) if names else None

        def leaf_of(leaf: ArrayLike) -> Any:
            check_operand(api, leaf)
            _check_ordered(api, typeof(leaf))
            dims = dimensions(api, positional, leaf)
            # A value that is no tracer is equal on all devices.
            if over is None or not isinstance(leaf, Tracer):
                if over is not None:
                    check_varies(api, leaf, over)
                return local(leaf, dims) if dims else leaf
            return prim.bind(varying_operand(api, leaf, over), over=over, dims=dims)

        return tree_map(leaf_of, x)

    reduce.__name__ = reduce.__qualname__ = api
    reduce.__doc__ = f"""Return the {extremum} over the devices along named axes, leaf by leaf.

    x: arrays of real numbers or booleans. axis_name: an axis, or a tuple of axes; ints among them
    are array dimensions. axis_index_groups: lists of indices that are reduced separately.
    The derivative is shared among the devices that attain the {extremum}.

    Type: varying → invarying; with groups, varying → varying.

    Raises:
      NameError: an axis is not in scope. TypeError: complex values.

    Source: StableHLO specification, `all_reduce`.

    >>> import weft
    >>> weft.vmap(lambda x: weft.lax.{api}(x, "i"), axis_name="i")(weft.numpy.array([3, 1, 2]))
    Array([{", ".join(["3" if api == "pmax" else "1"] * 3)}], dtype=int32)
    """
    return reduce


pmax = _extremum(pmax_p, reduce_max, "maximum")
pmin = _extremum(pmin_p, reduce_min, "minimum")


def _arg_extremum(api: str, extremum: Callable, kind: str) -> Callable:
    def arg(x: object, axis_name: object) -> Any:
        over = axis_group_of(api, axis_name)  # raises for names not in scope, or twice there

        def leaf_of(leaf: Any) -> Any:
            check_operand(api, leaf)
            check_varies(api, leaf, over)
            return _index_of(leaf, axis_name, extremum)

        return tree_map(leaf_of, x)

    arg.__name__ = arg.__qualname__ = api
    arg.__doc__ = f"""Return the index along named axes of the device with the {kind}, int32.

    x: arrays of real numbers, pytrees leaf by leaf. Of equal values, the lowest index counts, and
    NaNs come before numbers, as in numpy.{api[1:]}. axis_name: an axis, or a tuple of axes, whose
    index is that of `axis_index`: the first is the major one. The derivative is zero.

    Raises:
      NameError: an axis is not in scope. TypeError: complex values.

    >>> import weft
    >>> weft.vmap(lambda x: weft.lax.{api}(x, "i"), axis_name="i")(weft.numpy.array([3, 1, 2]))
    Array([{", ".join(["0" if api == "pargmax" else "1"] * 3)}], dtype=int32)
    """
    return arg


def _index_of(x: ArrayLike, axis_name: object, extremum: Callable) -> Any:
    x = stop_gradient(x)
    best = eq(x, extremum(x, axis_name))
    if dtypes.is_float(typeof(x).dtype):
        best = bitwise_or(best, ne(x, x))
    shape = typeof(best).shape
    index = broadcast_in_dim(axis_index(axis_name), shape, ())
    last = broadcast_in_dim(np.int32(np.iinfo(np.int32).max), shape, ())
    return pmin(select(best, index, last), axis_name)


pargmax = _arg_extremum("pargmax", pmax, "maximum")
pargmin = _arg_extremum("pargmin", pmin, "minimum")
