"""psum_scatter: the sum along named axes, each device keeping its part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.manual_casts import varying_over
from weft.autodiff.op_families import NUMBER, canonical_axis, check_kind
from weft.autodiff.shape import moveaxis, reshape
from weft.collectives.arguments import flag, operand
from weft.collectives.explicit_batch import joining
from weft.collectives.groups import (
    AxisGroup,
    axis_group_of,
    batch_in_front,
    byte_wise,
    collective_attrs,
    communicates,
    empty,
    equal_groups,
    named_axes,
    split,
)
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import names_text
from weft.core.manual_states import UNREDUCED, VARYING, result_mat, result_type, state_over
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, typeof
from weft.core.tree import tree_map
from weft.ops.elementwise_api import convert

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.collectives.groups import Split
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def scattered_shape(shape: tuple, axis: int, size: int, tiled: bool) -> tuple:
    middle = (shape[axis] // size,) if tiled else ()
    return (*shape[:axis], *middle, *shape[axis + 1 :])


def _abstract(x: ShapedArray, *, over: AxisGroup, axis: int, tiled: bool) -> ShapedArray:
    shape = scattered_shape(x.shape, axis, equal_groups("psum_scatter", over), tiled)
    mat = result_mat("psum_scatter", x, over, VARYING)
    origin = [d for d in range(x.ndim) if tiled or d != axis]
    return result_type("psum_scatter", x, shape, origin, mat)


def _transpose(ct: object, x: Any, *, over: AxisGroup, axis: int, tiled: bool) -> list:
    from weft.collectives.gather import all_gather_p

    to = VARYING
    if over.typed and state_over("psum_scatter", x.aval, over.typed) == UNREDUCED:
        to = "reduced"
    ct = varying_over(ct, over.tracked)
    return [all_gather_p.bind(ct, over=over, axis=axis, tiled=tiled, to=to)]


def _batch(
    batch_axis: AxisData, args: list, dims: list, *, over: AxisGroup, axis: int, tiled: bool
) -> tuple:
    from weft.collectives.reduce import sum_of_slots

    (x,), (dim,) = args, dims
    if batch_axis.name not in over.names:
        out = psum_scatter_p.bind(x, over=over, axis=axis + (dim <= axis), tiled=tiled)
        return out, dim - (axis < dim and not tiled)
    x = batch_in_front(x, dim, batch_axis.size)
    s = split(over, batch_axis.name)
    size = equal_groups("psum_scatter", over)
    shape = list(typeof(x).shape)
    if tiled:  # the dimension as (rank, block)
        shape[axis + 1 : axis + 2] = [size, shape[axis + 1] // size]
        x = reshape(x, tuple(shape))
    x = moveaxis(x, axis + 1, 1)  # [n, rank, …]
    rest = typeof(x).shape[2:]
    x = sum_of_slots(x, s)  # [slots, rank, …]
    x = reshape(x, (s.slots * size, *rest))
    # Member (i, j) keeps row slot * size + rank: rows in the order of places and batch indices.
    wanted = s.slot * size + s.rank
    table = np.stack([wanted[_component_of(s, i)].reshape(-1) for i in range(s.m)])
    x = s.take(x, table)
    if s.c > 1 or s.rest.tracked:
        x = psum_scatter_p.bind(x, over=s.rest, axis=0, tiled=True)
    return x, 0


def _component_of(s: Split, i: int) -> list[int]:
    return next(c for c in s.components if i in c)


@byte_wise("reduce_scatter")
def _lower(ctx: RuleContext, x: ir.Value, *, over: AxisGroup, axis: int, tiled: bool) -> Any:
    aval = ctx.avals_in[0]
    if aval.size == 0:
        return empty(ctx)
    if communicates(over):
        shape = list(aval.shape)
        shape[axis] //= over.group_size
        attrs = {"scatter_dimension": ctx.i64(axis), **collective_attrs(ctx, over)}
        operation = ctx.operation(
            "stablehlo.reduce_scatter", [x], [ctx.tensor(tuple(shape), aval.dtype)], attrs, 1
        )
        scalar = ctx.tensor((), aval.dtype)
        ctx.region(
            operation, 0, [scalar, scalar], lambda a, b: ctx.op("stablehlo.add", [a, b], [scalar])
        )
        x = operation.results[0]
    return x if tiled else ctx.op("stablehlo.reshape", [x], ctx.out_types())[0]


psum_scatter_p = Primitive(
    "reduce_scatter",
    abstract=_abstract,
    jvp="linear",
    transpose=_transpose,
    batch=joining(_batch, if_grouped=True),
    lower=_lower,
    named_axes=named_axes,
    own_types=True,
)


def psum_scatter(
    x: ArrayLike,
    axis_name: object,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: object = None,
    tiled: bool = False,
) -> Any:
    """Sum along named axes; each device keeps its own part. Pytrees go leaf by leaf.

    scatter_dimension: the dimension that is split among the devices. tiled: False needs its size
    to be the number of devices and removes it; True keeps it, divided by that number.
    axis_index_groups: lists of indices of equal size that are summed separately; parts go by rank.
    An empty tuple of axes gives x itself.

    Type: varying or unreduced → varying.

    Raises:
      NameError: an axis is not in scope. ValueError: a dimension that does not divide, groups that
      do not cover the axis or differ in size.

    Source: StableHLO specification, `reduce_scatter`.

    >>> import weft
    >>> x = weft.numpy.arange(16).reshape(4, 4)
    >>> weft.vmap(lambda x: weft.lax.psum_scatter(x, "i"), axis_name="i")(x)
    Array([24, 28, 32, 36], dtype=int32)
    >>> weft.vmap(lambda x: weft.lax.psum_scatter(
    ...     x, "i", tiled=True, axis_index_groups=[[0, 1], [2, 3]]), axis_name="i")(x)
    Array([[ 4,  6],
           [ 8, 10],
           [20, 22],
           [24, 26]], dtype=int32)
    """
    from weft.collectives.reduce import summand

    over = axis_group_of("psum_scatter", axis_name, axis_index_groups)
    size = equal_groups("psum_scatter", over)
    tiled = flag("psum_scatter", "tiled", tiled)

    def leaf_of(leaf: Any) -> Any:
        leaf = operand("psum_scatter", leaf)
        if not over.names:  # along no axis there is nothing to add up or to split
            return leaf
        leaf = counted(leaf)
        aval = typeof(leaf)
        if not aval.ndim:
            raise ValueError(
                "psum_scatter: the operand is a scalar and has no dimension to split "
                f"({aval.str_short()}); use psum"
            )
        at = canonical_axis(scatter_dimension, aval.ndim, "psum_scatter: scatter_dimension")
        check_divides("psum_scatter", "scatter_dimension", aval, at, over, size, tiled)
        leaf = summand("psum_scatter", leaf, over)
        return psum_scatter_p.bind(leaf, over=over, axis=at, tiled=tiled)

    return leaf_of(x) if isinstance(x, Tracer) else tree_map(leaf_of, x)


def counted(x: ArrayLike) -> Any:
    """Return booleans as int32."""
    dtype = typeof(x).dtype
    if not dtypes.is_bool(dtype):
        check_kind("psum_scatter", dtype, NUMBER)
        return x

    return convert(x, np.dtype(np.int32))


def check_divides(
    api: str, label: str, aval: ShapedArray, dim: int, over: AxisGroup, size: int, tiled: bool
) -> None:
    """Return whether the dimension can be split among the devices of a group."""
    n = aval.shape[dim]
    dimension = f"{label}={dim} of the operand {aval.str_short()} has size {n}"
    among = f"axis {names_text(over.names)} has {size} devices" + (
        " in a group" if over.groups is not None else ""
    )
    if tiled and not size:
        raise ValueError(f"{api}: {dimension}, but {among}: there are none to split it among")
    if tiled and n % size:
        raise ValueError(
            f"{api}: {dimension}, which does not divide among them: {among}. Pad it to "
            f"{-(-n // size) * size}"
        )
    if not tiled and n != size:
        if api == "pswapaxes":
            raise ValueError(f"{api}: {dimension}, but {among}; they must be equal to be exchanged")
        raise ValueError(
            f"{api}: {dimension}, but {among}; with tiled=False they must be equal"
            + ("; use tiled=True to split the dimension into equal parts" if n % size == 0 else "")
        )
