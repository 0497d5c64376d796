"""gather: windows of an operand at an array of indices."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.autodiff.op_families import static_ints
from weft.autodiff.shape import broadcast_in_dim, moveaxis
from weft.autodiff.transpose import ct_aval_of
from weft.autodiff.zeros import instantiate_zero
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.lowering.context import in_memory
from weft.ops.elementwise_api import and_p, convert, ge_p, le_p, select

if TYPE_CHECKING:
    from weft.autodiff.vmap import AxisData
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


class GatherDimensionNumbers(NamedTuple):
    """How the dimensions of operand, indices and result of a gather correspond.

    offset_dims: result dimensions that run inside a window. collapsed_slice_dims: operand
    dimensions of window size 1 that the result lacks. start_index_map: operand dimension of each
    component of an index vector (the indices' last dimension). operand_batching_dims and
    start_indices_batching_dims: dimensions that run together, one index for each position.

    Source: StableHLO specification, `gather`.
    """

    offset_dims: Shape
    collapsed_slice_dims: Shape
    start_index_map: Shape
    operand_batching_dims: Shape = ()
    start_indices_batching_dims: Shape = ()

    def attribute(self, index_vector_dim: int) -> str:
        return (
            f"#stablehlo.gather<offset_dims = {list(self.offset_dims)}, "
            f"collapsed_slice_dims = {list(self.collapsed_slice_dims)}, "
            f"operand_batching_dims = {list(self.operand_batching_dims)}, "
            f"start_indices_batching_dims = {list(self.start_indices_batching_dims)}, "
            f"start_index_map = {list(self.start_index_map)}, "
            f"index_vector_dim = {index_vector_dim}>"
        )


class GatherScatterMode(enum.Enum):
    """The treatment of windows that are out of bounds.

    CLIP: moved inside. FILL_OR_DROP: a gather gives `fill_value` for the whole window, a scatter
    leaves the operand as it is. PROMISE_IN_BOUNDS: there are none; if there are, a gather clips, a
    scatter drops, and derivatives are wrong. ONE_HOT: as FILL_OR_DROP, computed with a matrix
    product (in the functions that say so).
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is a Python function

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """Return the named mode: 'clip', 'fill' or 'drop' (also None), 'promise_in_bounds'."""
        if s.__class__ is GatherScatterMode:
            return s  # type: ignore[return-value]
        try:
            return _MODES[s]
        except (KeyError, TypeError):
            raise ValueError(
                f"mode must be one of 'clip', 'fill', 'drop', 'promise_in_bounds' or a "
                f"GatherScatterMode, got {s!r}"
            ) from None

    def __repr__(self) -> str:
        return self.name.lower()


_MODES: dict[Any, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


PROMISE_IN_BOUNDS = GatherScatterMode.PROMISE_IN_BOUNDS


def check_dims(name: str, label: str, dims: Shape, rank: int, *, ordered: bool) -> None:
    """Distinct dimensions in range, increasing if `ordered`."""
    bad = any(not 0 <= d < rank for d in dims) or len(set(dims)) != len(dims)
    if bad or (ordered and list(dims) != sorted(dims)):
        order = "increasing " if ordered else ""
        raise TypeError(f"{name}: {label} {dims} must be distinct {order}dimensions below {rank}")


def check_index_types(
    name: str, operand: ShapedArray, indices: ShapedArray, mapped: Shape, batching: tuple
) -> None:
    """Check the options of gather and scatter about their indices."""
    if not dtypes.is_integer(indices.dtype):
        raise TypeError(
            f"{name}: indices must be integers, got {indices.str_short()}; convert them with "
            "x.astype('int32')"
        )
    if not indices.ndim:
        raise TypeError(f"{name}: indices need a last dimension that holds the index vectors")
    if indices.shape[-1] != len(mapped):
        raise TypeError(
            f"{name}: the last dimension of the indices {indices.str_short()} must have one "
            f"component for each of the operand dimensions {mapped} they point into"
        )
    operand_dims, index_dims = batching
    check_dims(name, "indices' batching dims", index_dims, indices.ndim - 1, ordered=False)
    for d, i in zip(operand_dims, index_dims, strict=True):
        if operand.shape[d] != indices.shape[i]:
            raise TypeError(
                f"{name}: batching dimension {d} of the operand {operand.str_short()} and {i} of "
                f"the indices {indices.str_short()} must have equal sizes"
            )


def _gather_abstract(
    operand: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    **_: object,
) -> ShapedArray:
    d = dimension_numbers
    out_rank = indices.ndim - 1 + len(d.offset_dims)
    check_dims("gather", "offset_dims", d.offset_dims, out_rank, ordered=True)
    check_dims("gather", "collapsed_slice_dims", d.collapsed_slice_dims, operand.ndim, ordered=True)
    check_dims("gather", "start_index_map", d.start_index_map, operand.ndim, ordered=False)
    check_dims(
        "gather", "operand_batching_dims", d.operand_batching_dims, operand.ndim, ordered=True
    )
    check_index_types(
        "gather",
        operand,
        indices,
        d.start_index_map,
        (d.operand_batching_dims, d.start_indices_batching_dims),
    )
    if len(slice_sizes) != operand.ndim:
        raise TypeError(
            f"gather: slice_sizes {slice_sizes} must have one entry for each dimension of "
            f"{operand.str_short()}"
        )
    for i, (n, size) in enumerate(zip(slice_sizes, operand.shape, strict=True)):
        if not 0 <= n <= size:
            raise TypeError(
                f"gather: slice_sizes {slice_sizes} does not fit dimension {i} of "
                f"{operand.str_short()}"
            )
    # These dimensions of the slice have size 1 and are no dimensions of the result.
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    if any(slice_sizes[i] > 1 for i in dropped):
        raise TypeError(
            f"gather: slice_sizes {slice_sizes} must be 1 in the collapsed and batching dimensions "
            f"{sorted(dropped)}"
        )
    # offset_dims are the slice's dimensions in the result; the others come from the indices.
    window = iter([n for i, n in enumerate(slice_sizes) if i not in dropped])
    if operand.ndim - len(dropped) != len(d.offset_dims):
        raise TypeError(
            f"gather: offset_dims {d.offset_dims} must name a result dimension for each operand "
            f"dimension of {operand.str_short()} that is not in {sorted(dropped)}"
        )
    batch = iter(indices.shape[:-1])
    shape = tuple(next(window) if i in d.offset_dims else next(batch) for i in range(out_rank))
    return ShapedArray(shape, operand.dtype, operand.weak_type)


def _gather_jvp(
    primals: list, tangents: list, *, fill_value: int | None, **params: object
) -> tuple:
    operand, indices = primals
    out = gather_p.bind(operand, indices, fill_value=fill_value, **params)
    if tangents[0] is None:
        return out, None
    return out, gather_p.bind(tangents[0], indices, fill_value=0, **params)


def _gather_transpose(
    ct: ArrayLike,
    operand: UndefinedPrimal,
    indices: ArrayLike,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: int | None,
) -> list:
    from weft.ops.scatter import scatter_add, scatter_dimensions

    zeros = instantiate_zero(ct_aval_of(operand))
    total = scatter_add(
        zeros,
        indices,
        ct,
        scatter_dimensions(dimension_numbers),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
    return [total, None]


def _shift(dims: Shape) -> Shape:
    return tuple([d + 1 for d in dims])


def _gather_batch(
    axis: AxisData,
    args: list,
    dims: list,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    unique_indices: bool,
    indices_are_sorted: bool,
    **params: object,
) -> tuple:
    (operand, indices), (od, idim) = args, dims
    d = dimension_numbers
    offset_dims = _shift(d.offset_dims)
    if od is None:  # each example reads the same operand
        indices = moveaxis(indices, idim, 0)
        d = d._replace(
            offset_dims=offset_dims,
            start_indices_batching_dims=_shift(d.start_indices_batching_dims),
        )
        unique_indices = indices_are_sorted = False
    else:
        operand = moveaxis(operand, od, 0)
        batching, indices_batching = _shift(d.operand_batching_dims), d.start_indices_batching_dims
        if idim is None:  # the window spans the batch
            offset_dims = (0, *offset_dims)
            slice_sizes = (axis.size, *slice_sizes)
        else:
            indices = moveaxis(indices, idim, 0)
            batching, indices_batching = (0, *batching), (0, *_shift(indices_batching))
            slice_sizes = (min(1, axis.size), *slice_sizes)
        d = GatherDimensionNumbers(
            offset_dims,
            _shift(d.collapsed_slice_dims),
            _shift(d.start_index_map),
            batching,
            indices_batching,
        )
    out = gather_p.bind(
        operand,
        indices,
        dimension_numbers=d,
        slice_sizes=slice_sizes,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        **params,
    )
    return out, 0


def default_fill(dtype: np.dtype) -> Any:
    """Return a gather's default value out of bounds: NaN, the least int, the greatest unsigned."""
    if dtypes.is_inexact(dtype):
        return float("nan")
    if dtypes.is_bool(dtype):
        return True
    info = dtypes.iinfo(dtype)
    return info.max if dtypes.is_unsigned(dtype) else info.min


def _filled(
    operand: object,
    indices: object,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    fill_value: object,
    **params: object,
) -> Any:
    """Return a gather in FILL_OR_DROP mode, as a gather and a select."""
    from weft.ops.reduce import reduce_and

    d = dimension_numbers
    aval, index_aval = typeof(operand), typeof(indices)
    out = gather_p.bind(
        operand,
        indices,
        dimension_numbers=d,
        slice_sizes=slice_sizes,
        fill_value=None,
        **{**params, "mode": GatherScatterMode.PROMISE_IN_BOUNDS},
    )
    if index_aval.dtype.itemsize < 4:
        indices = convert(indices, dtypes.int32)
        index_aval = typeof(indices)
    bounds = np.array([aval.shape[i] - slice_sizes[i] for i in d.start_index_map])
    kind = index_aval.dtype
    upper = np.minimum(bounds, dtypes.iinfo(kind).max).astype(kind)
    limit: Any = (
        upper[0]
        if len(set(upper.tolist())) == 1
        else broadcast_in_dim(upper, index_aval.shape, (index_aval.ndim - 1,))
    )
    inside = le_p.bind(indices, limit)
    if kind.kind == "i":
        inside = and_p.bind(inside, ge_p.bind(indices, kind.type(0)))
    inside = reduce_and(inside, (index_aval.ndim - 1,))
    out_aval = typeof(out)
    batch_dims = tuple(i for i in range(out_aval.ndim) if i not in d.offset_dims)
    mask = broadcast_in_dim(inside, out_aval.shape, batch_dims)
    value = default_fill(out_aval.dtype) if fill_value is None else fill_value
    fill = broadcast_in_dim(np.asarray(value).astype(out_aval.dtype)[()], out_aval.shape, ())
    return select(mask, out, fill)


def _gather_lower(
    ctx: RuleContext,
    operand: object,
    indices: object,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: object,
) -> Any:
    out = ctx.avals_out[0]
    if not out.size:
        return ctx.splat(0, out.shape, out.dtype)
    if mode is GatherScatterMode.FILL_OR_DROP and dimension_numbers.start_index_map:

        def filled(x: object, i: object) -> Any:
            return _filled(
                x,
                i,
                dimension_numbers=dimension_numbers,
                slice_sizes=slice_sizes,
                unique_indices=unique_indices,
                indices_are_sorted=indices_are_sorted,
                mode=mode,
                fill_value=fill_value,
            )

        return ctx.lower_fun(filled, operand, indices)[0]
    attrs = {
        "dimension_numbers": ctx.attr(dimension_numbers.attribute(ctx.avals_in[1].ndim - 1)),
        "slice_sizes": ctx.i64s(slice_sizes),
        "indices_are_sorted": ctx.bool(indices_are_sorted),
    }
    operation = ctx.operation("stablehlo.gather", [operand, indices], ctx.out_types(), attrs)
    if dimension_numbers.start_index_map == (0,) and in_memory(operand):
        ctx.mark(operation, "take")
    return operation.results[0]


gather_p = Primitive(
    "gather",
    abstract=_gather_abstract,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
    lower=_gather_lower,
    sharding="gather",
    structural=True,
    linear=(0,),
)


def gather(
    operand: ArrayLike,
    start_indices: object,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Gather windows of the operand at an array of start indices.

    Args:
      operand: an array. start_indices: integers; the last dimension holds index vectors.
      dimension_numbers: a `GatherDimensionNumbers`. slice_sizes: the window, one int for each
      operand dimension. unique_indices, indices_are_sorted: promises that let the compiler (and
      the backward pass) do less. mode: a `GatherScatterMode` or its name, by default
      'promise_in_bounds', which reads the nearest window inside.
      fill_value: what out-of-bounds windows hold in mode 'fill'; by default NaN, for ints the least
      value, for unsigned ints the greatest, for booleans True.

    Raises:
      TypeError: dimensions, sizes or dtypes do not fit together.

    Source: StableHLO specification, `gather`.

    >>> import weft
    >>> from weft import lax
    >>> dnums = lax.GatherDimensionNumbers((), (0,), (0,))
    >>> lax.gather(weft.numpy.arange(5), weft.numpy.array([[3], [1]]), dnums, (1,))
    Array([3, 1], dtype=int32)
    """
    if fill_value is not None and np.ndim(fill_value):
        raise ValueError(f"gather: fill_value must be a scalar, got {fill_value!r}")
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=static_ints("gather", "slice_sizes", slice_sizes),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode),
        fill_value=getattr(fill_value, "item", lambda: fill_value)(),
    )
