# Tests: tests/pallas/test_array_functions.py
"""Ops on arrays and refs as simpler ones: what all backends have no rule of their own for.

`everywhere` tells which ones no backend has a rule for; `ARRAYS` holds those that one may have.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from weft.autodiff.shape import broadcast_in_dim_p, broadcasted_iota, reshape_p, transpose_p
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.config import options
from weft.core.jaxpr import Eqn
from weft.core.primitive import Primitive
from weft.core.ref import AbstractRef, At, Indexer, Pick, whole
from weft.core.trace import closed_call_jaxpr
from weft.formulas.language import where
from weft.ops.arithmetic import add_p, max_p, min_p, mul_p
from weft.ops.composite import logaddexp
from weft.ops.control.loops import fori_loop
from weft.ops.cumulative import prefix
from weft.ops.dtype_casts import bit_width, bitcast_convert_type_p, convert_element_type_p
from weft.ops.dynamic_slicing import dynamic_slice_p
from weft.ops.gather import GatherScatterMode, default_fill
from weft.ops.joining import rev
from weft.ops.reduce import reduce_max_p, reduce_min_p, reduce_sum_p
from weft.ops.scatter import window_sizes
from weft.ops.slicing import slice as slice_of
from weft.ops.sort import sort_p
from weft.ops.transcendental import pow_p
from weft.pallas.api.primitives import run_scoped_p
from weft.refs.ops import get_p, set_p

if TYPE_CHECKING:
    from weft.runtime.array import Array

INT = np.dtype(np.int32)

# Values -------------------------------------------------------------------------------------------


def _elements_abstract(x: ShapedArray, *places: ShapedArray) -> ShapedArray:
    return ShapedArray(places[0].shape, x.dtype)


elements_p = Primitive("elements", abstract=_elements_abstract, sharding="elementwise")
"""Elements of an array by their indices, one int32 array for each dimension; all are in bounds."""


def _as(x: Array, dtype: np.dtype) -> Array:
    if x.dtype == dtype:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False)


def _spread(x: Array, shape: Sequence[int], dims: Sequence[int] = ()) -> Array:
    """Return x over some dimensions of a shape, repeated along the others."""
    if tuple(shape) == x.shape:
        return x
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=tuple(dims))


def _select_among(eqn: Eqn, which: Array, *cases: Array) -> Array:
    """Return the case of a number, the last one from the last number on, as choices between two."""
    result = cases[-1]
    for k in reversed(range(len(cases) - 1)):
        result = where(_spread(which <= which.dtype.type(k), result.shape), cases[k], result)
    return result


def _arg_extremum(reduce_p: Primitive) -> Callable:
    def formula(eqn: Eqn, x: Array) -> Array:
        """Return the least place whose element is the extremum; NaN is one."""
        (axis,), n = eqn.rule_params["axes"], x.shape[eqn.rule_params["axes"][0]]
        others = [d for d in range(x.ndim) if d != axis]
        best = _spread(reduce_p.bind(x, axes=(axis,)), x.shape, others)
        is_best = x == best
        if dtypes.is_float(x.dtype):
            is_best = where(best != best, x != x, is_best)
        places = where(is_best, broadcasted_iota(INT, x.shape, axis), INT.type(n))
        return _as(reduce_min_p.bind(places, axes=(axis,)), eqn.rule_params["index_dtype"])

    return formula


def _top_k(eqn: Eqn, x: Array) -> list[Array]:
    """Return the end of what is sorted by value, then by place from the last on, turned round."""
    axis, n = eqn.rule_params["axis"], x.shape[eqn.rule_params["axis"]]
    from_end = INT.type(n - 1) - broadcasted_iota(INT, x.shape, axis)
    outs = sort_p.bind(x, from_end, dimension=axis, num_keys=2, is_stable=True)
    values, from_end = (_last(v, axis, eqn.rule_params["k"]) for v in outs)
    return [values, INT.type(n - 1) - from_end]


def cumulative(combine: Callable, eqn: Eqn, x: Array) -> Array:
    """Combine prefixes along the equation's axis, from the end on if it is `reverse`."""
    axis, reverse = eqn.rule_params["axis"], eqn.rule_params["reverse"]
    turned = lambda v: rev(v, (axis,)) if reverse else v
    return turned(prefix(combine, turned(x), axis))


def _last(x: Array, axis: int, count: int) -> Array:
    """Return the last elements along an axis, the very last first."""
    starts = [x.shape[d] - count if d == axis else 0 for d in range(x.ndim)]
    return rev(slice_of(x, starts, x.shape), (axis,))


def _split(eqn: Eqn, x: Array) -> list[Array]:
    axis, parts, start = eqn.rule_params["axis"], [], 0
    for size in eqn.rule_params["sizes"]:
        low = [start if d == axis else 0 for d in range(x.ndim)]
        high = [start + size if d == axis else n for d, n in enumerate(x.shape)]
        parts.append(slice_of(x, low, high))
        start += size
    return parts


def _bits(width: int) -> np.dtype:
    return np.dtype(getattr(np if width >= 8 else ml_dtypes, f"uint{width}"))


def _bitcast(eqn: Eqn, x: Array) -> Array:
    """Between widths: parts of the bits of a wide number, the lowest first, or their union."""
    new, had = eqn.rule_params["new_dtype"], bit_width(x.dtype)
    wide = bit_width(new)
    with options["enable_x64"](True):
        number = _bits(max(had, wide))
        x = bitcast_convert_type_p.bind(x, new_dtype=_bits(had))
        if wide < had:
            shape = (*x.shape, had // wide)
            shift = broadcasted_iota(number, shape, x.ndim) * number.type(wide)
            x = _spread(x, shape, range(x.ndim)) >> shift
            return bitcast_convert_type_p.bind(_as(x, _bits(wide)), new_dtype=new)
        total = None
        for k in range(wide // had):
            starts = (*(0,) * (x.ndim - 1), k)
            part = slice_of(x, starts, (*x.shape[:-1], k + 1))
            part = _as(reshape_p.bind(part, new_sizes=x.shape[:-1]), number)
            part = part << number.type(k * had)
            total = part if total is None else total | part
        return bitcast_convert_type_p.bind(total, new_dtype=new)


def _numbers(rank: int) -> tuple:
    """Return the dimension numbers of products of matrices, or of batches of them."""
    batch = tuple(range(rank - 2))
    return (((rank - 1,), (rank - 2,)), (batch, batch))


def _is_of_matrices(eqn: Eqn) -> bool:
    """Tell whether a dot_general is of rows and columns as is, summed in the result's dtype."""
    (x, y), dtype = (v.aval for v in eqn.invars), eqn.outvars[0].aval.dtype
    matrices = x.ndim == y.ndim and x.ndim in (2, 3)
    return (
        matrices
        and eqn.rule_params["dimension_numbers"] == _numbers(x.ndim)
        and _accumulator(dtype) == dtype
    )


def _by_matrices(eqn: Eqn, x: Array, y: Array) -> Array:
    """Return a dot_general of matrices or one batch of them, narrow floats summed in float32."""
    (left, right), (left_batch, right_batch) = eqn.rule_params["dimension_numbers"]
    free = [
        [d for d in range(v.ndim) if d not in (*shared, *batch)]
        for v, shared, batch in ((x, left, left_batch), (y, right, right_batch))
    ]
    batch = [math.prod(x.shape[d] for d in left_batch)] if left_batch else []
    inner = math.prod(x.shape[d] for d in left)
    rows, columns = (math.prod(v.shape[d] for d in f) for v, f in zip((x, y), free, strict=True))
    x = _arranged(x, (*left_batch, *free[0], *left), (*batch, rows, inner))
    y = _arranged(y, (*right_batch, *right, *free[1]), (*batch, inner, columns))
    out = eqn.outvars[0].aval
    params = eqn.rule_params | {
        "dimension_numbers": _numbers(len(batch) + 2),
        "preferred_element_type": _accumulator(out.dtype),
    }
    total = eqn.primitive.bind(x, y, **params)
    return _as(_arranged(total, range(total.ndim), out.shape), out.dtype)


def _arranged(x: Array, order: Sequence[int], shape: tuple[int, ...]) -> Array:
    """Return x with its dimensions in another order, then of another shape."""
    if tuple(order) != tuple(range(x.ndim)):
        x = transpose_p.bind(x, permutation=tuple(order))
    return x if x.shape == shape else reshape_p.bind(x, new_sizes=shape)


def _accumulator(dtype: np.dtype) -> np.dtype:
    narrow = dtypes.is_float(dtype) and dtype.itemsize < 4
    return np.dtype(np.float32) if narrow else dtype


def _product(eqn: Eqn, x: Array, y: Array) -> Array:
    """Return a product of matrices as sums of products of elements."""
    *batch, rows, inner = x.shape
    shape, out, k = (*batch, rows, inner, y.shape[-1]), eqn.outvars[0].aval.dtype, len(batch)
    x = _spread(_as(x, out), shape, range(k + 2))
    y = _spread(_as(y, out), shape, (*range(k), k + 1, k + 2))
    return reduce_sum_p.bind(mul_p.bind(x, y), axes=(k + 1,))


# Indices ------------------------------------------------------------------------------------------


def _places(
    indices: Array,
    numbers: tuple,
    operand: Sequence[int],
    sizes: Sequence[int],
    shape: Sequence[int],
    clip: bool,
) -> tuple[list[Any], Any]:
    """Return the place in the operand of each element of windows, and where windows are in bounds.

    numbers: the dimension numbers of a gather or scatter, which have the same five fields. shape:
    of the windows. Those out of bounds are moved inside; None: all are in bounds.
    """
    window_dims, dropped, mapped, operand_batch, index_batch = numbers
    batch = [d for d in range(len(shape)) if d not in window_dims]
    kind = indices.dtype if indices.dtype.itemsize >= 4 else INT
    at: dict[int, Any] = {}
    fits = None
    for k, d in enumerate(mapped):
        starts = (*(0,) * (indices.ndim - 1), k)
        start = slice_of(indices, starts, (*indices.shape[:-1], k + 1))
        start = _as(reshape_p.bind(start, new_sizes=indices.shape[:-1]), kind)
        most = _spread(kind.type(operand[d] - sizes[d]), start.shape)
        inside = max_p.bind(min_p.bind(start, most), _spread(kind.type(0), start.shape))
        if not clip:
            fits = inside == start if fits is None else fits & (inside == start)
        at[d] = _spread(_as(inside, INT), shape, batch)
    for d, k in zip(operand_batch, index_batch, strict=True):
        at[d] = broadcasted_iota(INT, shape, batch[k])
    kept = [d for d in range(len(operand)) if d not in (*dropped, *operand_batch)]
    for d, k in zip(kept, window_dims, strict=True):
        step = broadcasted_iota(INT, shape, k)
        at[d] = at[d] + step if d in at else step
    zero = INT.type(0)
    places = [at[d] if d in at else _spread(zero, shape) for d in range(len(operand))]
    return places, None if fits is None else _spread(fits, shape, batch)


_CLIPPED = (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)


def _gather(eqn: Eqn, x: Array, indices: Array) -> Array:
    p, shape = eqn.rule_params, eqn.outvars[0].aval.shape
    if not x.ndim:
        return _spread(x, shape)
    clip = p["mode"] in _CLIPPED
    places, fits = _places(indices, p["dimension_numbers"], x.shape, p["slice_sizes"], shape, clip)
    picked = elements_p.bind(x, *places)
    if fits is None:
        return picked
    fill = default_fill(x.dtype) if p.get("fill_value") is None else p["fill_value"]
    return where(fits, picked, np.asarray(fill).astype(x.dtype)[()])


def _scatter(op: Primitive | None) -> Callable:
    def formula(eqn: Eqn, x: Array, indices: Array, updates: Array) -> Array:
        """Update scratch that starts as x, one update after the other, by numbers of elements."""
        p, numbers = eqn.rule_params, eqn.rule_params["dimension_numbers"]
        sizes = window_sizes(x.shape, updates.shape, numbers)
        clip = p["mode"] is GatherScatterMode.CLIP
        places, fits = _places(indices, numbers, x.shape, sizes, updates.shape, clip)
        count = math.prod(updates.shape)
        flat = [
            reshape_p.bind(v, new_sizes=(count,))
            for v in (
                _linear(places, x.shape, updates.shape),
                updates,
                _spread(np.bool_(True), updates.shape) if fits is None else fits,
            )
        ]

        def body(ref: Array) -> list[Array]:
            set_p.bind(
                ref, reshape_p.bind(x, new_sizes=(x.size,)), indexer=whole((x.size,)), masked=False
            )
            if op is None:
                position, value, valid = flat
                indexer = Indexer((Pick(),), (count,))
                set_p.bind(ref, value, position, valid, indexer=indexer, masked=True)
            else:
                fori_loop(INT.type(0), INT.type(count), lambda k, _: _update(ref, op, k, flat), ())
            out = get_p.bind(ref, indexer=whole((x.size,)), masked=False, has_other=False)
            return [reshape_p.bind(out, new_sizes=x.shape)]

        aval = AbstractRef(ShapedArray((x.size,), x.dtype))
        jaxpr, consts = closed_call_jaxpr(body, [aval], eqn.primitive.name)
        return run_scoped_p.bind(*consts, jaxpr=jaxpr, num_consts=len(consts))

    return formula


def _linear(places: Sequence[Array], operand: Sequence[int], shape: Sequence[int]) -> Array:
    """Return the row-major numbers of elements."""
    total = _spread(INT.type(0), shape)
    for d, index in enumerate(places):
        total = total + index * INT.type(math.prod(operand[d + 1 :]))
    return total


def _update(ref: Array, op: Primitive, k: Array, flat: Sequence[Array]) -> tuple:
    """Combine the k-th update with its element, where it is in bounds."""
    position, value, valid = (
        reshape_p.bind(dynamic_slice_p.bind(v, k, slice_sizes=(1,)), new_sizes=()) for v in flat
    )
    at = Indexer((At(None),))
    old = get_p.bind(ref, position, indexer=at, masked=False, has_other=False)
    set_p.bind(ref, op.bind(old, value), position, valid, indexer=at, masked=True)
    return ()


# Refs ---------------------------------------------------------------------------------------------


def _swap(eqn: Eqn, ref: Array, value: Array, *rest: Array) -> Array:
    params = eqn.rule_params
    old = get_p.bind(ref, *rest, has_other=False, **params)
    set_p.bind(ref, value, *rest, **params)
    return old


def _only_set(eqn: Eqn, ref: Array, value: Array, *rest: Array) -> list:
    """Return a swap whose result nobody reads."""
    set_p.bind(ref, value, *rest, **eqn.rule_params)
    return []


def _addupdate(eqn: Eqn, ref: Array, value: Array, *index: Array) -> list:
    indexer = eqn.rule_params["indexer"]
    old = get_p.bind(ref, *index, indexer=indexer, masked=False, has_other=False)
    set_p.bind(ref, add_p.bind(old, value), *index, indexer=indexer, masked=False)
    return []


# Tables -------------------------------------------------------------------------------------------


def everywhere(eqn: Eqn, used: bool) -> Callable | None:
    """Return the formula of an equation that no backend has a rule for, or None.

    used: whether anything reads its results.
    """
    name, params, avals = eqn.primitive.name, eqn.rule_params, [v.aval for v in eqn.invars]
    match name:
        case "swap":
            return _swap if used else _only_set
        case "addupdate" if not params["indexer"].has_picks:
            return _addupdate
        case "select_n" if len(avals) != 3 or not dtypes.is_bool(avals[0].dtype):
            return _select_among
        case "dot_general" if not _is_of_matrices(eqn):
            return _by_matrices
        case "pow" if avals[0].dtype != avals[1].dtype:
            return lambda eqn, x, y: pow_p.bind(x, _as(y, x.dtype))
        case "bitcast_convert_type" if bit_width(avals[0].dtype) != bit_width(params["new_dtype"]):
            return _bitcast
    return None


ARRAYS: dict[str, Callable] = {
    "argmax": _arg_extremum(reduce_max_p),
    "dot_general": _product,
    "argmin": _arg_extremum(reduce_min_p),
    "cumlogsumexp": functools.partial(cumulative, logaddexp),
    "top_k": _top_k,
    "gather": _gather,
    "scatter": _scatter(None),
    "scatter-add": _scatter(add_p),
    "scatter-mul": _scatter(mul_p),
    "scatter-min": _scatter(min_p),
    "scatter-max": _scatter(max_p),
    "split": _split,
}
"""Op → function(equation, *operands)."""
