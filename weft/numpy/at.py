"""x.at[index]: updated copies of arrays, by NumPy's indexing rules.

An update at static ints and slices takes the window, computes the new one and puts it back, which
the compiler does in place; at traced or array indices it is a scatter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.traced_windows as traced_windows
from weft.autodiff.shape import broadcast_in_dim, reshape, squeeze
from weft.core import dtypes
from weft.core.boundary import api_boundary, explain_and_show
from weft.core.errors import ArgumentError, ShapeError
from weft.core.source import warn
from weft.core.state import state
from weft.core.trace import EVAL, check_not_masked, is_array_like, typeof
from weft.numpy.common import constant
from weft.numpy.index_plan import Plan, plan_of, program, table
from weft.numpy.indexing import (
    CLIP,
    DEFAULT,
    FILL,
    PROMISE,
    Options,
    dimension_numbers,
    get,
    index_grid,
    window_starts,
)
from weft.numpy.traced_windows import WindowInIndex
from weft.ops import elementwise_api as ops
from weft.ops import scatter as scatters
from weft.ops.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from weft.ops.joining import pad_p, rev_p
from weft.ops.promote import broadcast_to
from weft.ops.scatter_apply import scatter_apply
from weft.ops.slicing import slice_p

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.sharding.spec import PartitionSpec
    from weft.typing import ArrayLike

Shape = tuple[int, ...]

# name -> (the op on a window, the scatter). A window's set has no op: the update replaces it.
_COMBINE: dict[str, tuple[Callable | None, Any]] = {
    "set": (None, scatters.scatter_p),
    "add": (ops.add_p.bind, scatters.scatter_add_p),
    "multiply": (ops.mul_p.bind, scatters.scatter_mul_p),
    "min": (ops.min_p.bind, scatters.scatter_min_p),
    "max": (ops.max_p.bind, scatters.scatter_max_p),
}
_SCALARS = frozenset((bool, int, float, complex))
_REALS = frozenset((bool, int, float))


def _operands(x: Array, y: Array, name: str) -> tuple[Any, Any]:
    """Array and update in the dtype in which they are combined."""
    dtype, weak = x.aval.dtype, x.aval.weak_type
    if dtypes.is_extended(dtype):
        return x, y
    kind = y.__class__
    if kind is int and dtypes.is_integer(dtype):
        info = dtypes.iinfo(dtype)
        if info.min <= y <= info.max:
            return x, dtype.type(y)
    elif kind in _REALS and dtypes.is_inexact(dtype):
        return x, dtype.type(y)
    aval = typeof(y)
    joint, _ = dtypes.promote_types([(dtype, weak), (aval.dtype, aval.weak_type)])
    if joint != dtype:
        warn(
            f"x.at[...].{name}: values of dtype {dtypes.short_name(aval.dtype)} do not fit into an "
            f"array of dtype {dtypes.short_name(dtype)} and are converted; convert them yourself "
            "with values.astype(x.dtype), or x to the wider dtype",
            FutureWarning,
        )
        if name == "set":
            joint = dtype
    return ops.convert(x, joint) if joint != dtype else x, ops.convert(y, joint)


def _spread(y: ArrayLike, final: Shape, target: Shape, name: str) -> Any:
    """Return the update broadcast to the indexed shape, without the dimensions that None added."""
    aval = typeof(y)
    if not aval.shape:
        return broadcast_in_dim(y, target, ())
    if aval.shape != final:
        old = aval.shape
        while len(old) > len(final) and old[0] == 1:
            old = old[1:]
        fits = len(old) <= len(final) and all(
            a in (1, b) for a, b in zip(old, final[len(final) - len(old) :], strict=True)
        )
        if not fits:
            raise ShapeError(
                f"x.at[index].{name}: values of shape {aval.shape} do not broadcast to the indexed "
                f"shape {final}"
            )
        y = broadcast_to(reshape(y, old), final)
    return reshape(y, target)


# Updates at static ints and slices ----------------------------------------------------------------


def _update_window(plan: Plan, x: Array, starts: list | None, combine: Callable) -> Any:
    """Replace the plan's static window w by combine(w); starts: its place, if not the plan's.

    With steps, the window's hull is rewritten: the new elements are spread out by padding between
    them and selected into it.
    """
    s = plan.strided
    shape = x.aval.shape
    if s.trivial:
        hull = x
    elif starts is None:
        hull = slice_p.bind(x, start_indices=s.starts, limit_indices=s.limits, strides=None)
    else:
        sizes = tuple(b - a for a, b in zip(s.starts, s.limits, strict=True))
        hull = dynamic_slice_p.bind(x, *starts, slice_sizes=sizes)
    hull_shape = hull.aval.shape
    window = hull
    if s.strides is not None:
        zeros = (0,) * len(shape)
        window = slice_p.bind(
            hull, start_indices=zeros, limit_indices=hull_shape, strides=s.strides
        )
    if s.reversed:
        window = rev_p.bind(window, dimensions=s.reversed)
    new = combine(window)
    if s.reversed:
        new = rev_p.bind(new, dimensions=s.reversed)
    if s.strides is not None:
        config = []
        for n, size, step in zip(typeof(new).shape, hull_shape, s.strides, strict=True):
            taken = (n - 1) * step + 1 if n else 0
            config.append((0, size - taken, step - 1))
        # Padding between elements spreads the new ones out to their places in the hull.
        spread = pad_p.bind(new, _filler(new), padding_config=tuple(config))
        inside = broadcast_in_dim(np.bool_(True), typeof(new).shape, ())
        inside = pad_p.bind(inside, np.bool_(False), padding_config=tuple(config))
        new = ops.select(inside, spread, hull)
    if s.trivial:
        return new
    if starts is None:
        starts = [np.int32(i) for i in s.starts]
    return dynamic_update_slice_p.bind(x, new, *starts)


def _filler(x: Array) -> Any:
    """Any scalar of x's dtype: zero, or for keys, which have none, one of x's elements."""
    aval = typeof(x)
    if not dtypes.is_extended(aval.dtype):
        return aval.dtype.type(0)
    zeros, ones = (0,) * aval.ndim, (1,) * aval.ndim
    first = slice_p.bind(x, start_indices=zeros, limit_indices=ones, strides=None)
    return reshape(first, ())


def _static_update(
    plan: Plan, x: Array, y: ArrayLike, starts: list | None, op: Callable | None, name: str
) -> Any:
    def combine(window: Array) -> Any:
        if op is not None and not typeof(y).shape:
            return op(window, y)
        values = _spread(y, plan.final, plan.strided_shape, name)
        return values if op is None else op(window, values)

    return _update_window(plan, x, starts, combine)


# Updates in general -------------------------------------------------------------------------------


def _drops(plan: Plan, x: Array, options: Options) -> bool:
    """Tell whether an update does nothing: a static int is out of bounds, or no element meant."""
    outside = plan.oob and plan.kind == "static" and options.mode is not CLIP
    return outside or 0 in plan.final or 0 in x.aval.shape


def update(
    plan: Plan,
    x: Any,
    y: Any,
    arrays: Any,
    options: Options,
    name: str,
    starts: list | None = None,
) -> Any:
    """Emit the ops of one update under the current trace. y: the values, or apply's function."""
    aval = x.aval
    if _drops(plan, x, options):
        return x
    if name == "apply":
        return _applied(plan, x, y, arrays, options)
    x, y = _operands(x, y, name)
    op, scatter = _COMBINE[name]
    if plan.kind == "static":
        out = _static_update(plan, x, y, starts, op, name)
        if plan.strided.trivial and op is None and aval.shape:
            # All but the placement and type of x is replaced: XLA leaves the update out.
            out = dynamic_update_slice_p.bind(x, out, *[np.int32(0)] * aval.ndim)
    elif plan.kind == "window" and options.mode in (CLIP, PROMISE) and plan.strided.identity:
        at = window_starts(plan, arrays, options.wrap)
        new = _spread(y, plan.final, plan.window, name)
        if op is not None:
            new = op(dynamic_slice_p.bind(x, *at, slice_sizes=plan.window), new)
        out = dynamic_update_slice_p.bind(x, new, *at)
    else:
        new = _spread(y, plan.final, plan.gathered, name)
        out = _scattered(
            plan,
            x,
            arrays,
            options,
            lambda part, grid, params: scatter.bind(part, grid, new, **params),
        )
    if out.__class__ is np.ndarray:  # an update that replaces all
        out = constant(out)
    result = out.aval
    if result.dtype == aval.dtype and result.weak_type is aval.weak_type:
        return out
    return ops.convert(out, aval.dtype, aval.weak_type)


def _scattered(plan: Plan, x: object, arrays: Any, options: Options, scatter: Callable) -> Any:
    """scatter(part, index grid, params) on the part of x that static slices leave."""
    grid, mapped = index_grid(plan, arrays, options.wrap)
    single = plan.kind == "window"
    params = {
        "dimension_numbers": scatters.scatter_dimensions(dimension_numbers(plan, mapped)),
        "indices_are_sorted": options.sorted or single or plan.distinct,
        "unique_indices": options.unique or single or plan.distinct,
        "mode": options.mode or FILL,
    }
    if plan.strided.identity:
        return scatter(x, grid, params)
    return _update_window(plan, x, None, lambda part: scatter(part, grid, params))


def _applied(plan: Plan, x: Array, func: Callable, arrays: object, options: Options) -> Any:
    """func applied to the indexed elements, as often as each is indexed."""
    if plan.kind == "static":
        from weft.api.vmap_api import vmap

        def combine(window: Array) -> Any:
            flat = reshape(window, (window.aval.size,))
            out = ops.convert(vmap(func)(flat), x.aval.dtype)
            return reshape(out, window.aval.shape)

        return _update_window(plan, x, None, combine)

    def scatter(part: Array, grid: np.ndarray, params: dict) -> Any:
        return scatter_apply(part, grid, func, update_shape=plan.gathered, **params)

    return _scattered(plan, x, arrays, options, scatter)


_updaters: dict[Any, Callable] = table()


def _run(x: Array, index: object, y: Array, options: Options, name: str) -> Any:
    if name != "apply" and y.__class__ not in _SCALARS:
        y = _check_values(y, name)
    try:
        x, plan, arrays, dims = plan_of(x, index, options.wrap)
    except WindowInIndex:
        clamps = options.mode in (CLIP, PROMISE)
        return traced_windows.update(x, index, lambda v, i: _run(v, i, y, options, name), clamps)
    if state.trace is not EVAL or name == "apply":
        if plan.oob is not None and state.report_index is not None:
            state.report_index(*plan.oob, x.aval.shape)
        out = update(plan, x, y, arrays, options, name)
    elif plan.kind == "static":
        out = _eager_static(plan, x, y, options, name)
    else:
        key = (name, options.key)
        function = plan.compiled.get(key)
        if function is None:
            function = plan.compiled[key] = program(
                lambda v, y, *a: update(plan, v, y, a, options, name)
            )
        out = function(x, y, *arrays)
    return squeeze(out, dims) if dims else out


def _eager_static(plan: Plan, x: Array, y: ArrayLike, options: Options, name: str) -> Any:
    """Run an update of a static window; plain windows of one size share a program."""
    key = (name, options.mode is CLIP)
    entry = plan.compiled.get(key)
    if entry is None:
        s, shape = plan.strided, x.aval.shape
        if s.strides is None and not s.reversed and not _drops(plan, x, options):
            dims = tuple(d for d in range(len(shape)) if plan.strided_shape[d] != shape[d])
            shared = (name, shape, plan.strided_shape, plan.final)
            function = _updaters.get(shared)
            if function is None:

                def run(v: Array, y: Array, *moving: Array) -> Any:
                    at: list[Any] = [np.int32(0)] * len(shape)
                    for d, i in zip(dims, moving, strict=True):
                        at[d] = ops.convert(i, dtypes.int32)
                    return update(plan, v, y, (), options, name, at)

                function = _updaters[shared] = program(run)
            entry = (function, tuple(s.starts[d] for d in dims))
        else:
            entry = (program(lambda v, y: update(plan, v, y, (), options, name)), ())
        plan.compiled[key] = entry
    function, starts = entry
    return function(x, y, *starts)


def _check_values(y: Array, name: str) -> Any:
    if isinstance(y, list | tuple):
        from weft.numpy.creation import asarray

        return asarray(y)
    if not is_array_like(y):
        raise ArgumentError(
            f"x.at[index].{name}: values must be an array or a number, got {type(y).__name__} "
            f"{y!r:.80}"
        )
    return y


# The public face ----------------------------------------------------------------------------------


class AtIndex:
    """x.at[index]: its methods return the values there, or a copy of x updated there.

    All methods take, by keyword:
      mode: what happens to indices out of bounds. By default an update drops them and `get`
        clamps them; 'clip' clamps, 'drop' or 'fill' drops or fills, 'promise_in_bounds' promises
        that there are none.
      indices_are_sorted, unique_indices: promises about index arrays that let the compiler do less
        (a set with repeated indices takes any one of the values).
      wrap_negative_indices: whether negative indices count from the end (default True).
      out_sharding: where the result shall be, under explicit sharding.

    Values broadcast to the shape of x[index] and are converted to x's dtype.
    """

    __slots__ = ("array", "index")

    set: Callable[..., Any]  # these are made below
    add: Callable[..., Any]
    subtract: Callable[..., Any]
    multiply: Callable[..., Any]
    mul: Callable[..., Any]
    divide: Callable[..., Any]
    power: Callable[..., Any]
    min: Callable[..., Any]
    max: Callable[..., Any]

    def __init__(self, array: Array, index: object) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"{self.array!r}.at[{self.index!r}]"

    @api_boundary
    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
        fill_value: float | int | None = None,
        out_sharding: PartitionSpec | None = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x[index], with a choice of what is read out of bounds: `fill_value` in mode 'fill'.

        >>> import weft
        >>> weft.numpy.arange(3).at[5].get(mode="fill", fill_value=-1)
        Array(-1, dtype=int32)
        """
        fill_value = getattr(fill_value, "item", lambda: fill_value)()
        promises = indices_are_sorted, unique_indices, wrap_negative_indices
        return get(self.array, self.index, Options(mode, fill_value, *promises), out_sharding)

    def apply(
        self,
        func: Callable,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: object = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """func applied to each indexed element, repeatedly where indices repeat.

        >>> import weft
        >>> weft.numpy.arange(3.0).at[1:].apply(lambda v: v * 10)
        Array([ 0., 10., 20.], dtype=float32)
        """
        if not callable(func):
            raise TypeError(f"x.at[index].apply: func must be a function, got {func!r:.80}")
        options = _options(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return _run(self.array, self.index, func, options, "apply")


def _options(mode: object, is_sorted: bool, unique: bool, wrap: bool) -> Options:
    if mode is None and wrap and not (is_sorted or unique):
        return DEFAULT
    return Options(mode, None, is_sorted, unique, wrap)


def _updated(
    x: Array, index: object, values: Array, options: Options, name: str, out_sharding: object
) -> Any:
    if out_sharding is None:
        return _run(x, index, values, options, name)
    from weft.sharding.explicit import placed

    return placed(lambda x, v: _run(x, index, v, options, name), out_sharding, x, values)


def _by_factors(name: str) -> Callable:
    """Return x combined with ones that hold the values at the index."""

    def update(
        x: Array, index: object, values: object, options: Options, _: str, out_sharding: object
    ) -> Any:
        import weft.numpy
        from weft.numpy.filled import ones_like

        ones = _updated(ones_like(x), index, values, options, "multiply", out_sharding)
        return getattr(weft.numpy, name)(x, ones)

    return update


def _subtracted(
    x: Array, index: object, values: object, options: Options, name: str, out_sharding: object
) -> Any:
    if values.__class__ not in _SCALARS:
        values = _check_values(values, name)
    if typeof(values).dtype == dtypes.bool_:
        values = ops.convert(values, x.dtype)
    return _updated(x, index, ops.neg(values), options, "add", out_sharding)


def _method(name: str, update: Callable, doc: str) -> Callable:
    def method(
        self: AtIndex,
        values: Array,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: object = None,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        try:
            options = _options(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
            check_not_masked(values)
            return update(self.array, self.index, values, options, name, out_sharding)
        except Exception as error:
            explain_and_show(f"x.at[index].{name}", error, method)
            raise

    method.__name__, method.__qualname__, method.__doc__ = name, f"AtIndex.{name}", doc
    return method


for _name, _update, _doc, _shown in (
    ("set", _updated, "A copy of x with values at the index.", "[0., 5., 2.]"),
    ("add", _updated, "Values added at the index, repeatedly where it repeats.", "[0., 6., 2.]"),
    ("subtract", _subtracted, "Values subtracted at the index.", "[ 0., -4.,  2.]"),
    ("multiply", _updated, "x multiplied by values at the index.", "[0., 5., 2.]"),
    ("divide", _by_factors("divide"), "x divided by values at the index.", "[0. , 0.2, 2. ]"),
    ("power", _by_factors("power"), "x to the power of values at the index.", "[0., 1., 2.]"),
    ("min", _updated, "The lesser of x and values at the index.", "[0., 1., 2.]"),
    ("max", _updated, "The greater of x and values at the index.", "[0., 5., 2.]"),
):
    _doc += f"""

    >>> import weft
    >>> weft.numpy.arange(3.0).at[1].{_name}(5.0)
    Array({_shown}, dtype=float32)
    """
    setattr(AtIndex, _name, _method(_name, _update, _doc))
AtIndex.mul = AtIndex.multiply


class At:
    """x.at: index it to get an `AtIndex`."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: object) -> AtIndex:
        return AtIndex(self.array, index)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"x.at has no {name!r}; index it first: x.at[index].{name}(...)")

    @api_boundary
    def __setitem__(self, index: object, values: object) -> None:
        raise TypeError("x.at[index] = value changes nothing; use x = x.at[index].set(value)")

    @api_boundary
    def __call__(self, *args: object) -> None:
        raise TypeError("x.at is indexed, not called: x.at[index].set(value)")

    def __repr__(self) -> str:
        return f"{self.array!r}.at"


class AtProperty:
    """The attribute `at` of arrays.

    >>> import weft
    >>> weft.numpy.arange(3).at[0].set(7)
    Array([7, 1, 2], dtype=int32)
    """

    def __get__(self, array: Array, owner: object = None) -> Any:
        return self if array is None else At(array)

    def __set__(self, array: Array, value: object) -> None:
        raise AttributeError("x.at cannot be set; use x = x.at[index].set(value)")
