"""NumPy indexing: plans become ops under a trace, and compiled functions when run eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.traced_windows as traced_windows
from weft.autodiff.shape import broadcast_in_dim, reshape_p
from weft.autodiff.zeros import full
from weft.core import dtypes
from weft.core.boundary import show_user_frames
from weft.core.config import config
from weft.core.errors import ArgumentError
from weft.core.state import state
from weft.core.trace import EVAL, typeof
from weft.numpy.index_plan import Plan, make_plan, plan_of, program, table
from weft.numpy.traced_windows import WindowInIndex
from weft.ops.dynamic_slicing import dynamic_slice_p, start_operands
from weft.ops.elementwise_api import add_p, convert, lt_p, select_n_p
from weft.ops.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    default_fill,
    gather_p,
)
from weft.ops.joining import concatenate_p
from weft.ops.promote import broadcast_to
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.typing import ArrayLike

Shape = tuple[int, ...]
CLIP = GatherScatterMode.CLIP
FILL = GatherScatterMode.FILL_OR_DROP
PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS


def _reshaped(x: Any, shape: Shape) -> Any:
    return x if x.aval.shape == shape else reshape_p.bind(x, new_sizes=shape)


def take_static(plan: Plan, x: ArrayLike) -> Any:
    """Return the result of a plan of static ints and slices."""
    return _reshaped(plan.strided.take(x), plan.final)


def window_starts(plan: Plan, arrays: Sequence[Any], wrap: bool) -> list:
    """Start indices of the one window of a plan with scalar indices."""
    starts: list[Any] = []
    for e in plan.entries:
        starts.append(0 if e is None else arrays[e[1]] if e[0] == "dyn" else max(e[1], 0))
    return start_operands("indexing", plan.strided_shape, plan.window, starts, wrap)[0]


def index_grid(plan: Plan, arrays: Sequence[Any], wrap: bool) -> tuple[Any, Shape]:
    """Return the index vectors of a gather or scatter, and the dimensions they point into."""
    mapped, columns = [], []
    dtype = dtypes.int32
    for a in arrays:
        if typeof(a).dtype.itemsize == 8:
            dtype = dtypes.int64
    for dim, e in enumerate(plan.entries):
        if e is None:
            continue
        mapped.append(dim)
        if e[0] == "dyn":
            wraps = wrap and not plan.known_arrays[e[1]]
            size = plan.strided_shape[dim]
            columns.append(_index_column(arrays[e[1]], size, dtype, wraps))
        else:
            columns.append(np.asarray(e[1], dtype))
    block = plan.block
    if all(isinstance(c, np.ndarray) for c in columns):
        spread = [np.broadcast_to(c, block) for c in columns]
        return np.stack(spread, -1) if spread else np.zeros((*block, 0), dtype), tuple(mapped)
    grid = (*block, 1)
    spread = []
    for c in columns:
        shape = typeof(c).shape
        if isinstance(c, np.ndarray) and not shape:
            spread.append(broadcast_in_dim(c[()], grid, ()))
        elif shape == block:
            spread.append(reshape_p.bind(c, new_sizes=grid))
        elif not shape:
            spread.append(broadcast_in_dim(c, grid, ()))
        else:
            spread.append(reshape_p.bind(broadcast_to(c, block), new_sizes=grid))
    out = spread[0] if len(spread) == 1 else concatenate_p.bind(*spread, dimension=len(block))
    return out, tuple(mapped)


def _index_column(i: ArrayLike, size: int, dtype: np.dtype, wrap: bool) -> Any:
    """Return an index array in the common dtype, with negative indices counted from the end."""
    aval = typeof(i)
    wrap = wrap and aval.dtype.kind == "i"
    if isinstance(i, np.ndarray):
        i = i.astype(dtype)
        return np.where(i < 0, i + dtype.type(size), i) if wrap else i
    if aval.dtype != dtype:
        i = convert(i, dtype)
    if wrap:
        negative = lt_p.bind(i, dtype.type(0))
        i = select_n_p.bind(negative, i, add_p.bind(i, dtype.type(size)))
    return i


def dimension_numbers(plan: Plan, mapped: Shape) -> GatherDimensionNumbers:
    rank = len(plan.block)
    offset = tuple(
        d
        for d in range(len(plan.gathered))
        if not plan.block_position <= d < plan.block_position + rank
    )
    collapsed = tuple(d for d, e in enumerate(plan.entries) if e is not None and e[0] != "from")
    return GatherDimensionNumbers(offset, collapsed, mapped)


def check_not_empty(plan: Plan) -> None:
    for dim, e in enumerate(plan.entries):
        if e is not None and e[0] != "from" and not plan.strided_shape[dim]:
            raise IndexError(f"an index is out of bounds for dimension {dim} of size 0")


class Options:
    """Options of indexing: treatment of indices out of bounds, and the caller's promises."""

    __slots__ = ("fill_value", "key", "mode", "sorted", "unique", "wrap")

    def __init__(
        self,
        mode: Any = None,
        fill_value: Any = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> None:
        self.mode = None if mode is None else GatherScatterMode.from_any(mode)
        self.fill_value = fill_value
        self.sorted = bool(indices_are_sorted)
        self.unique = bool(unique_indices)
        self.wrap = bool(wrap_negative_indices)
        self.key = (self.mode, fill_value, self.sorted, self.unique, self.wrap)


DEFAULT = Options()


def check_static(
    shape: tuple, index: object, options: Options, outside: tuple[int, int] | None = None
) -> None:
    """Raise IndexError for an int of `index` out of bounds, with config.check_static_indices.

    outside: the int and its dimension, which checkify is told.
    """
    if outside is not None and state.report_index is not None and options.mode is not CLIP:
        state.report_index(*outside, shape)
    promised = options.mode in (None, PROMISE)
    if promised and config.check_static_indices:
        raise IndexError(
            f"index {index!r} has an int out of bounds for an array of shape {shape}, which the "
            "setting check_static_indices refuses; x.at[index].get(mode='clip') or mode='fill' "
            "takes it"
        )


def take(plan: Plan, x: Any, arrays: Sequence[Any], options: Options) -> Any:
    """Emit the ops of a plan under the current trace."""
    fills = options.mode is FILL
    if plan.kind == "static" and not (fills and plan.oob):
        return take_static(plan, x)
    x = x if plan.kind == "static" else plan.strided.take(x)
    if plan.kind == "window" and not fills:
        check_not_empty(plan)
        starts = window_starts(plan, arrays, options.wrap)
        out = dynamic_slice_p.bind(x, *starts, slice_sizes=plan.window)
        return _reshaped(out, plan.final)
    if 0 in plan.final:
        aval = x.aval
        if aval.sharding is not None or not aval.ndim:
            return full(plan.final, 0, aval.dtype)
        return _reshaped(slice_in_dim(x, 0, 0), plan.final)  # on the devices of x
    check_not_empty(plan)
    if plan.kind == "static":  # a static int out of bounds is filled as an index array's would be
        fill = options.fill_value
        dtype = x.aval.dtype
        value = default_fill(dtype) if fill is None else fill
        return full(plan.final, np.asarray(value).astype(dtype)[()], dtype)
    grid, mapped = index_grid(plan, arrays, options.wrap)
    mode = options.mode or PROMISE
    if mode is FILL and plan.known and not plan.oob:
        mode = PROMISE
    out = gather_p.bind(
        x,
        grid,
        dimension_numbers=dimension_numbers(plan, mapped),
        slice_sizes=plan.window,
        unique_indices=options.unique or plan.distinct,
        indices_are_sorted=options.sorted or plan.distinct,
        mode=mode,
        fill_value=options.fill_value,
    )
    return _reshaped(out, plan.final)


# Eager fast paths -------------------------------------------------------------------------------

_windows: dict[Any, Callable] = table()


def window_function(shape: Shape, dims: Shape, sizes: Shape, final: Shape) -> Callable:
    """Return a compiled function (x, *starts) -> the window starting there in `dims`.

    Starts are operands, so that x[0], x[1], … and x[2:10], x[3:11], … share one program.
    """
    key = (shape, dims, sizes, final)
    function = _windows.get(key)
    if function is None:

        def window(x: object, *starts: object) -> Any:
            at: list[Any] = [np.int32(0)] * len(shape)
            for d, s in zip(dims, starts, strict=True):
                at[d] = s
            if not dims:
                return _reshaped(x, final)
            dtype = typeof(at[dims[0]]).dtype.type
            at = [dtype(0) if i.__class__ is np.int32 else i for i in at]
            return _reshaped(dynamic_slice_p.bind(x, *at, slice_sizes=sizes), final)

        function = _windows[key] = program(window)
    return function


def _eager_static(plan: Plan, x: Any) -> Any:
    """Run a plan of static ints and slices."""
    entry = plan.compiled.get("static")
    if entry is None:
        s, shape = plan.strided, x.aval.shape
        if s.identity and plan.final == shape:
            entry = (None, ())
        elif s.strides is None and not s.reversed:
            sizes = plan.strided_shape
            dims = tuple(d for d in range(len(shape)) if sizes[d] != shape[d])
            starts = tuple(s.starts[d] for d in dims)
            entry = (window_function(shape, dims, sizes, plan.final), starts)
        else:
            entry = (program(lambda v: take_static(plan, v)), ())
        plan.compiled["static"] = entry
    function, starts = entry
    return x if function is None else function(x, *starts)


def _eager_take(plan: Plan, x: object, arrays: Sequence[Any], options: Options) -> Any:
    key = options.key
    function = plan.compiled.get(key)
    if function is None:
        function = plan.compiled[key] = program(lambda v, *a: take(plan, v, a, options))
    return function(x, *arrays)


_rows: dict[Any, Callable] = table()


def getitem(x: Any, index: object) -> Any:
    """x[index] by NumPy's rules; `x.at[index].get` says what happens out of bounds."""
    try:
        if state.trace is EVAL:
            if index.__class__ is int:
                aval = x.aval
                function = _rows.get(aval)
                if function is None:
                    function = _row_function(aval, index)
                size = aval.shape[0]
                if not -size <= index < size:
                    check_static(aval.shape, index, DEFAULT)
                if index < 0:
                    index = index + size if index >= -size else 0
                return function(x, index)
            x, plan, arrays, _ = plan_of(x, index)
            if plan.oob:
                check_static(x.aval.shape, index, DEFAULT)
            if plan.kind == "static":
                return _eager_static(plan, x)
            return _eager_take(plan, x, arrays, DEFAULT)
        x, plan, arrays, _ = plan_of(x, index)
        if plan.oob:
            check_static(x.aval.shape, index, DEFAULT, plan.oob)
        if plan.kind == "static":
            return _reshaped(plan.strided.take(x), plan.final)
        return take(plan, x, arrays, DEFAULT)
    except WindowInIndex:
        pass
    except Exception as error:
        show_user_frames(error)
        raise
    try:
        return traced_windows.take(x, index, getitem)
    except Exception as error:
        show_user_frames(error)
        raise


def _row_function(aval: ShapedArray, index: int) -> Callable:
    """Return the function behind x[i] with a static int."""
    shape = aval.shape
    make_plan(shape, (index,))  # raises for arrays without dimensions or rows
    function = _rows[aval] = window_function(shape, (0,), (1, *shape[1:]), shape[1:])
    return function


def get(x: ArrayLike, index: object, options: Options, out_sharding: object = None) -> Any:
    """x.at[index].get(...)."""
    try:
        x, plan, arrays, _ = plan_of(x, index, options.wrap)
    except WindowInIndex:
        return traced_windows.take(x, index, lambda v, i: get(v, i, options, out_sharding))
    if plan.oob:
        check_static(typeof(x).shape, index, options, plan.oob)
    if options.fill_value is not None and np.ndim(options.fill_value):
        raise ArgumentError(f"fill_value must be a scalar, got {options.fill_value!r}")
    if out_sharding is not None:
        from weft.sharding.explicit import placed

        return placed(lambda x, *arrays: take(plan, x, arrays, options), out_sharding, x, *arrays)
    if state.trace is EVAL:
        return _eager_take(plan, x, arrays, options)
    return take(plan, x, arrays, options)
