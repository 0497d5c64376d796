"""Elements chosen by conditions and indices: where, select, take, put, diagonal."""

from __future__ import annotations

import builtins
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.shape import broadcast_shapes
from weft.core import dtypes
from weft.core.errors import ArgumentError, BadIndexError, UnsupportedArgumentError
from weft.core.trace import Tracer, typeof
from weft.numpy.common import aval_of, axes_of, cast, check_array, concrete, refuse_out, to_array
from weft.numpy.eager import are_like, as_one_program
from weft.numpy.filled import zeros
from weft.numpy.indexing import Options, get, getitem
from weft.numpy.shaping import broadcast_arrays, moveaxis, ravel
from weft.numpy.ufuncs import add, less
from weft.ops import elementwise_api as ew
from weft.ops import joining
from weft.ops.gather import GatherDimensionNumbers, GatherScatterMode, gather
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.promote import promote, promote_numpy
from weft.ops.slicing import slice_in_dim
from weft.runtime.array import ArrayImpl

if TYPE_CHECKING:
    from weft.typing import ArrayLike

_bool = dtypes.bool_


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """x where the condition holds, else y; with one argument, the indices of what is nonzero.

    Source: numpy.where.

    >>> import weft
    >>> weft.numpy.where(weft.numpy.array([True, False]), 1.0, weft.numpy.zeros(2))
    Array([1., 0.], dtype=float32)
    """
    if x is None and y is None:
        from weft.numpy.nonzero_positions import nonzero

        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentError("weft.numpy.where: give both x and y, or neither")
    if size is not None or fill_value is not None:
        raise ArgumentError("weft.numpy.where: size and fill_value belong to the one-argument form")
    if x.__class__ is ArrayImpl and y.__class__ is ArrayImpl and are_like(x, y):
        return _where(condition, x, y)  # one op
    return as_one_program(_where, condition, x, y)  # one program, not one for each cast


def _where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Any:
    mask = aval_of("where", condition)
    if mask.dtype is not _bool and mask.dtype != _bool:
        condition = ew.ne_p.bind(condition, mask.dtype.type(0))
    try:
        x, y = promote_numpy("where", x, y)
    except TypeError:
        check_array("where", x, y)
        raise
    a, b = typeof(x), typeof(y)
    if a.shape == b.shape and (mask.shape == a.shape or not mask.shape):
        return ew.select_n_p.bind(condition, y, x)
    shape = broadcast_shapes(mask.shape, a.shape, b.shape)
    if mask.shape and mask.shape != shape:
        condition = _broadcast_to(condition, shape)
    x = x if a.shape == shape else _broadcast_to(x, shape)
    y = y if b.shape == shape else _broadcast_to(y, shape)
    return ew.select_n_p.bind(condition, y, x)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Select elements of the first choice whose condition holds, or the default. As numpy.select.

    >>> import weft.numpy as wnp
    >>> x = wnp.arange(5)
    >>> wnp.select([x < 2, x > 3], [x, 10 * x], default=-1)
    Array([ 0,  1, -1, -1, 40], dtype=int32)
    """
    condlist, choicelist = list(condlist), list(choicelist)
    if len(condlist) != len(choicelist):
        raise ArgumentError(
            f"weft.numpy.select: {len(condlist)} conditions for {len(choicelist)} choices; "
            "give one choice for each condition"
        )
    if not condlist:
        raise ArgumentError(
            "weft.numpy.select: condlist is empty; give at least one condition and its choice"
        )
    *choices, out = promote(*choicelist, default)
    for i, c in enumerate(condlist):
        if aval_of("select", c).dtype != _bool:
            raise ArgumentError(
                f"weft.numpy.select: condition {i} must be boolean, got {typeof(c).str_short()}"
            )
    for cond, choice in zip(builtins.reversed(condlist), builtins.reversed(choices), strict=True):
        out = where(cond, choice, out)
    return out


def choose(a: ArrayLike, choices: Any, out: object = None, mode: str = "raise") -> Any:
    """Pick elements from several arrays: element i of the result is that of the array number a[i].

    mode: what to do with numbers out of range, 'wrap' or 'clip'; 'raise' needs them known.
    Source: numpy.choose.

    >>> import weft.numpy as wnp
    >>> wnp.choose(wnp.array([1, 0, 1]), [wnp.array([1, 2, 3]), wnp.array([10, 20, 30])])
    Array([10,  2, 30], dtype=int32)
    """
    from weft.numpy.division import remainder
    from weft.numpy.formulas import clip
    from weft.numpy.joining import stack

    refuse_out("choose", out)
    if not dtypes.is_integer(aval_of("choose", a).dtype):
        raise ArgumentError(f"weft.numpy.choose: a must be integers, got {typeof(a).str_short()}")
    choices = list(choices)
    n = len(choices)
    if mode == "raise":
        on_host = concrete(a, "choose: a (with mode='raise'; use 'wrap' or 'clip')")
        if on_host.size and (on_host.min() < 0 or on_host.max() >= n):
            raise ArgumentError(
                f"weft.numpy.choose: a must be within [0, {n}), got numbers "
                f"from {on_host.min()} to {on_host.max()}; use mode='wrap' or 'clip' for others"
            )
    elif mode == "wrap":
        a = remainder(a, n)
    elif mode == "clip":
        a = clip(a, 0, n - 1)
    else:
        raise ArgumentError(
            f"weft.numpy.choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}"
        )
    which, *cases = broadcast_arrays(a, *promote(*choices))
    return take_along_axis(stack(cases), which[None], 0)[0]


# Taking and putting ---------------------------------------------------------------------------


def index_array(name: str, indices: ArrayLike) -> Any:
    indices = to_array(indices)
    if not dtypes.is_integer(typeof(indices).dtype):
        raise BadIndexError(
            f"weft.numpy.{name}: indices must be integers, got {typeof(indices).str_short()}"
        )
    return indices


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: object = None,
    mode: str | None = None,
    unique_indices: builtins.bool = False,
    indices_are_sorted: builtins.bool = False,
    fill_value: object = None,
) -> Any:
    """Return the slices of an axis at indices; None takes from the flat array.

    mode: 'fill' (the default) gives fill_value or NaN for indices out of bounds, 'clip' and 'wrap'
    move them into bounds; 'clip' makes negative ones 0. Source: numpy.take.

    >>> import weft
    >>> weft.numpy.take(weft.numpy.array([10, 20, 30]), weft.numpy.array([2, 0]))
    Array([30, 10], dtype=int32)
    """
    refuse_out("take", out)
    aval = aval_of("take", a)
    a = to_array(a)
    if axis is None:
        a, axis = ops.reshape(a, (aval.size,)), 0
    axis = canonical_axis(axis, typeof(a).ndim)
    indices = to_array(indices)
    if dtypes.is_bool(typeof(indices).dtype):
        indices = cast(indices, dtypes.int32)
    indices = index_array("take", indices)
    wrap = mode != "clip"  # which takes negative indices for ones before the first element
    if mode == "wrap":
        from weft.numpy.division import remainder

        indices, mode = remainder(indices, typeof(a).shape[axis]), "clip"
    elif mode == "raise":
        raise ArgumentError(
            "weft.numpy.take: mode 'raise' cannot be compiled; use 'fill', 'clip' or 'wrap'"
        )
    options = Options(mode or "fill", fill_value, indices_are_sorted, unique_indices, wrap)
    return get(a, (slice(None),) * axis + (indices,), options)


def _along(name: str, arr: ArrayLike, indices: ArrayLike, axis: int | None) -> tuple[Any, Any, int]:
    """Return operands of take_along_axis and put_along_axis, of equal rank."""
    x, i = to_array(arr), index_array(name, indices)
    if axis is None:
        if typeof(i).ndim != 1:
            raise ArgumentError(
                f"weft.numpy.{name}: indices must be a vector for axis None, got "
                f"{typeof(i).str_short()}"
            )
        return ops.reshape(x, (typeof(x).size,)), i, 0
    if typeof(i).ndim != typeof(x).ndim:
        raise ArgumentError(
            f"weft.numpy.{name}: indices {typeof(i).str_short()} and arr {typeof(x).str_short()} "
            "must have the same number of dimensions"
        )
    return x, i, canonical_axis(axis, typeof(x).ndim)


def _mesh(shape: tuple, indices: object, axis: int) -> tuple:
    """Make an index array for each dimension, the ones beside `axis` as open grids."""
    rank = len(shape)
    parts = []
    for d in range(rank):
        if d == axis:
            parts.append(indices)
        elif shape[d] == 1:
            parts.append(np.zeros((1,) * rank, np.int32))
        else:
            size = shape[d]
            parts.append(
                np.arange(size, dtype=np.int32).reshape(
                    tuple(size if k == d else 1 for k in range(rank))
                )
            )
    return tuple(parts)


_RUNS, _LARGE = 8, 4096


def take_known(x: ArrayLike, index: np.ndarray, axis: int) -> Any:
    """Take slices at indices known and in bounds; a few runs of neighbors are joined as slices.

    A gather reads an index for every element, where a slice of a large array is copied.
    """
    breaks = np.flatnonzero(np.abs(steps := np.diff(index)) != 1)
    turns = np.flatnonzero(np.diff(steps)) + 1
    cuts = np.union1d(breaks + 1, [t + 1 for t in turns if not {t, t - 1} & {*breaks}])
    if typeof(x).size < _LARGE or not index.size or len(cuts) >= _RUNS:
        return take(x, index.astype(np.int32), axis, mode="clip")
    parts = []
    for run in np.split(index, cuts.astype(int)):
        first, last = sorted((int(run[0]), int(run[-1])))
        part = slice_in_dim(x, first, last + 1, axis=axis)
        parts.append(part if run[0] == first else joining.rev(part, (axis,)))
    return joining.concatenate(parts, axis)


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: builtins.bool | None = None,
) -> Any:
    """Take elements along an axis, by indices that run along with the other dimensions.

    Source: numpy.take_along_axis.

    >>> import weft
    >>> x = weft.numpy.array([[3, 1], [2, 4]])
    >>> weft.numpy.take_along_axis(x, weft.numpy.argsort(x, axis=1), axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    aval_of("take_along_axis", arr)
    x, i, axis = _along("take_along_axis", arr, indices, axis)
    shape, sizes = typeof(x).shape, typeof(i).shape
    rank = len(shape)
    n = shape[axis]

    idtype = typeof(i).dtype
    if idtype.itemsize < 4:
        i = cast(i, dtypes.int32)
        idtype = dtypes.int32
    if wrap_negative_indices is not False and not dtypes.is_unsigned(idtype):
        i = where(less(i, 0), add(i, n), i)
    # Dimensions of equal size are batched; where indices have size 1, the whole slice is taken;
    # where arr has size 1, it is dropped and the indices' own dimension remains.
    batch, window, dropped = [], [], []
    for d in range(rank):
        if d == axis:
            continue
        if shape[d] == sizes[d]:
            batch.append(d)
        elif sizes[d] == 1:
            window.append(d)
        elif shape[d] == 1:
            dropped.append(d)
        else:
            raise ArgumentError(
                f"weft.numpy.take_along_axis: dimension {d} has size {shape[d]} in arr and "
                f"{sizes[d]} in indices; other dimensions than axis must broadcast"
            )
    result = tuple(shape[d] if d in window else sizes[d] for d in range(rank))
    if n == 0 and 0 not in result:
        raise IndexError(
            f"weft.numpy.take_along_axis: an index is out of bounds for dimension {axis} of size 0"
        )
    if 0 in result:
        return zeros(result, typeof(x).dtype)
    # One gather: the index vector has one entry, the position along the axis.
    grid = ops.reshape(i, tuple(sizes[d] for d in range(rank) if d not in window) + (1,))
    rows = [d for d in range(rank) if d not in window]
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(window),
        collapsed_slice_dims=tuple(sorted([axis, *dropped])),
        start_index_map=(axis,),
        operand_batching_dims=tuple(batch),
        start_indices_batching_dims=tuple(rows.index(d) for d in batch),
    )
    slice_sizes = tuple(shape[d] if d in window else 1 for d in range(rank))
    mode = GatherScatterMode.from_any("fill" if mode is None else mode)
    return gather(x, grid, numbers, slice_sizes, mode=mode, fill_value=fill_value)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: builtins.bool = True,
    *,
    mode: object = None,
) -> Any:
    """arr with values set at indices along an axis; needs inplace=False, and arr is unchanged.

    >>> import weft.numpy as wnp
    >>> x, i = wnp.array([[1, 2], [3, 4]]), wnp.array([[1], [0]])
    >>> wnp.put_along_axis(x, i, 9, axis=1, inplace=False)
    Array([[1, 9],
           [9, 4]], dtype=int32)
    """
    _refuse_inplace("put_along_axis", inplace)
    check_array("put_along_axis", arr, values)
    shape = typeof(arr).shape
    x, i, axis = _along("put_along_axis", arr, indices, axis)
    index = _mesh(typeof(x).shape, i, axis)
    out = x.at[index].set(cast(values, typeof(x).dtype), mode=mode)
    return ops.reshape(out, shape)


def _refuse_inplace(name: str, inplace: builtins.bool) -> None:
    if inplace:
        raise UnsupportedArgumentError(
            f"weft.numpy.{name}: arrays are immutable; pass inplace=False and use the result"
        )


def put(
    a: ArrayLike,
    ind: Any,
    v: ArrayLike,
    mode: str | None = None,
    *,
    inplace: builtins.bool = True,
) -> Any:
    """Set values at indices of the flat array, repeated if too few. Source: numpy.put.

    >>> import weft.numpy as wnp
    >>> wnp.put(wnp.arange(4), wnp.array([0, 2]), wnp.array([-1, -2]), inplace=False)
    Array([-1,  1, -2,  3], dtype=int32)
    """
    from weft.numpy.division import remainder
    from weft.numpy.formulas import clip
    from weft.numpy.joining import resize

    _refuse_inplace("put", inplace)
    check_array("put", a, ind, v)
    aval = typeof(a)
    index, values = ravel(index_array("put", ind)), ravel(v)
    if typeof(index).size == 0 or typeof(values).size == 0:
        return to_array(a)
    if mode == "wrap":
        index = remainder(index, aval.size)
    elif mode == "clip":
        index = clip(index, 0, aval.size - 1)
    elif mode is not None:
        raise ArgumentError(f"weft.numpy.put: mode must be None, 'clip' or 'wrap', got {mode!r}")
    values = cast(resize(values, typeof(index).shape), aval.dtype)
    return ops.reshape(ravel(a).at[index].set(values, mode="drop"), aval.shape)


def place(arr: Any, mask: ArrayLike, vals: Any, *, inplace: builtins.bool = True) -> Any:
    """arr with the elements under the mask replaced by vals in turn. Source: numpy.place.

    >>> import weft.numpy as wnp
    >>> wnp.place(wnp.arange(4), wnp.array([1, 0, 1, 1]), wnp.array([7, 8]), inplace=False)
    Array([7, 1, 8, 7], dtype=int32)
    """
    from weft.numpy import division
    from weft.numpy.scans import cumsum

    _refuse_inplace("place", inplace)
    check_array("place", arr, mask, vals)
    aval, values = typeof(arr), ravel(vals)
    if typeof(mask).size != aval.size:
        raise ArgumentError(
            f"weft.numpy.place: mask {typeof(mask).str_short()} and arr {aval.str_short()} "
            "must have the same number of elements"
        )
    n = typeof(values).size
    if n == 0:
        raise ArgumentError("weft.numpy.place: vals is empty; give at least one value")
    flat = u.as_bool("place", ravel(mask))
    turn = division.remainder(u.subtract(cumsum(flat), 1), n)
    out = where(flat, cast(take(values, turn, mode="clip"), aval.dtype), ravel(arr))
    return ops.reshape(out, aval.shape)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: object = None,
) -> Any:
    """Return the slices of an axis for which the condition holds; size makes it traceable.

    >>> import weft.numpy as wnp
    >>> wnp.compress(wnp.array([True, False, True]), wnp.array([[1, 2, 3]]), axis=1)
    Array([[1, 3]], dtype=int32)
    """
    from weft.numpy.nonzero_positions import nonzero

    refuse_out("compress", out)
    aval = aval_of("compress", a)
    cval = aval_of("compress", condition)
    if cval.ndim != 1:
        raise UnsupportedArgumentError(
            f"weft.numpy.compress: condition must be a vector, got {cval.str_short()}"
        )
    x = to_array(a)
    if axis is None:
        x, axis = ops.reshape(x, (aval.size,)), 0
    axis = canonical_axis(axis, typeof(x).ndim)
    n = typeof(x).shape[axis]
    if size is not None and not 0 <= operator.index(size) <= n:
        raise ArgumentError(
            f"weft.numpy.compress: size must be from 0 to the length of the axis, {n}, got {size}"
        )
    if fill_value is None:
        raise ArgumentError("weft.numpy.compress: fill_value must be a number, got None")
    if cval.shape[0] > n and not isinstance(condition, Tracer):
        beyond = np.flatnonzero(concrete(condition, "compress: condition")[n:])
        if beyond.size:
            raise BadIndexError(
                f"weft.numpy.compress: condition holds at {n + int(beyond[0])}, beyond the axis of "
                f"size {n}"
            )
    (index,) = nonzero(condition, size=size, fill_value=n)
    return take(x, index, axis, mode="fill", fill_value=fill_value)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Any:
    """Return the elements of the flat array for which the condition holds.

    >>> import weft.numpy as wnp
    >>> wnp.extract(wnp.array([True, False, True]), wnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    return compress(ravel(condition), arr, size=size, fill_value=fill_value)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the diagonal of two axes, as a last dimension. Source: numpy.diagonal.

    >>> import weft.numpy as wnp
    >>> wnp.diagonal(wnp.arange(9).reshape(3, 3), offset=1)
    Array([1, 5], dtype=int32)
    """
    return as_one_program(_diagonal, a, offset=offset, axis1=axis1, axis2=axis2)


def _diagonal(a: ArrayLike, offset: int, axis1: int, axis2: int) -> Any:
    aval = aval_of("diagonal", a)
    if aval.ndim < 2:
        raise ArgumentError(
            f"weft.numpy.diagonal: needs two dimensions or more, got {aval.str_short()}"
        )
    i, j = axes_of((axis1, axis2), aval.ndim)
    offset = operator.index(offset)
    a = moveaxis(a, (i, j), (-2, -1))
    rows, cols = typeof(a).shape[-2:]
    n = max(0, min(rows + min(offset, 0), cols - max(offset, 0)))
    k = np.arange(n, dtype=np.int32)
    return getitem(a, (..., k - min(offset, 0), k + max(offset, 0)))


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: builtins.bool = False, *, inplace: builtins.bool = True
) -> Any:
    """Return a with its main diagonal set to val, repeated if too short; needs inplace=False.

    >>> import weft.numpy as wnp
    >>> wnp.fill_diagonal(wnp.zeros((2, 2)), 5.0, inplace=False)
    Array([[5., 0.],
           [0., 5.]], dtype=float32)
    """
    from weft.numpy.joining import resize

    _refuse_inplace("fill_diagonal", inplace)
    aval = aval_of("fill_diagonal", a)
    if aval.ndim < 2 or (aval.ndim > 2 and len(set(aval.shape)) > 1):
        raise ArgumentError(
            "weft.numpy.fill_diagonal: a must have two dimensions, or more of equal size, got "
            f"{aval.str_short()}"
        )
    if wrap and aval.ndim == 2:  # below the last row of the square, the diagonal starts anew
        places = np.unravel_index(np.arange(0, aval.size, aval.shape[1] + 1), aval.shape)
    else:
        places = (np.arange(min(aval.shape)),) * aval.ndim
    value = cast(resize(ravel(val), (len(places[0]),)), aval.dtype)
    return to_array(a).at[tuple(k.astype(np.int32) for k in places)].set(value)
