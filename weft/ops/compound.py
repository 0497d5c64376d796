# Tests: tests/ops/test_table.py, tests/autodiff/test_shape.py
"""Short ops over others: stack, split, tile, full, high products; and composites."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.jvp import filled_cotangents, jvp_flat
from weft.autodiff.op_families import INTEGER, canonical_axis, elementwise, static_ints
from weft.autodiff.shape import _place, broadcast_in_dim, check_shape, expand_dims, reshape, squeeze
from weft.autodiff.vmap import batch_flat
from weft.autodiff.zeros import copy_p, optimization_barrier
from weft.core import dtypes
from weft.core.aval import NO_MAT, TOKEN, Mat, ShapedArray
from weft.core.effects import Effect
from weft.core.jaxpr import eval_closed
from weft.core.primitive import Primitive
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, closed_call_jaxpr, is_array_like, typeof
from weft.core.tree import flatten, tree_map
from weft.lowering.context import dense_attr
from weft.ops.dtype_casts import HOST_NUMBERS, host_number
from weft.ops.elementwise_api import (
    add,
    bitwise_and,
    convert,
    mul,
    shift_right_arithmetic_p,
    shift_right_logical_p,
)
from weft.ops.joining import concatenate
from weft.ops.promote import broadcast_to, promote_lax
from weft.runtime.array import ArrayImpl
from weft.runtime.device_put import device_put
from weft.sharding.mesh import AbstractMesh, Mesh, context_mesh
from weft.sharding.named import is_over_nothing, type_sharding

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.core.jaxpr import ClosedJaxpr
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike, DTypeLike

# split -----------------------------------------------------------------------------------------


def _split_abstract(x: ShapedArray, *, sizes: tuple[int, ...], axis: int) -> list[ShapedArray]:
    if any(s < 0 for s in sizes) or sum(sizes) != x.shape[axis]:
        raise ValueError(
            f"split: sizes {sizes} must be nonnegative and add up to dimension {axis} of "
            f"{x.str_short()}, which has size {x.shape[axis]}"
        )
    return [
        ShapedArray((*x.shape[:axis], s, *x.shape[axis + 1 :]), x.dtype, x.weak_type) for s in sizes
    ]


def _split_transpose(
    cts: Sequence[Any], x: UndefinedPrimal, *, sizes: tuple[int, ...], axis: int
) -> list:
    avals = _split_abstract(x.aval, sizes=sizes, axis=axis)
    return [concatenate(filled_cotangents([a.update(mat=x.aval.mat) for a in avals], cts), axis)]


def _split_batch(
    data: AxisData, args: list, dims: list, *, sizes: tuple[int, ...], axis: int
) -> tuple:
    dim = dims[0]
    outs = split_p.bind(args[0], sizes=sizes, axis=axis + (axis >= dim))
    return outs, [dim] * len(outs)


def _split_lower(ctx: RuleContext, x: object, *, sizes: tuple[int, ...], axis: int) -> list:
    shape = ctx.avals_in[0].shape
    ones = ctx.i64s((1,) * len(shape))
    outs, start = [], 0
    for size, kind in zip(sizes, ctx.out_types(), strict=True):
        low = [start if d == axis else 0 for d in range(len(shape))]
        high = [start + size if d == axis else n for d, n in enumerate(shape)]
        attrs = {"start_indices": ctx.i64s(low), "limit_indices": ctx.i64s(high), "strides": ones}
        outs.append(ctx.op("stablehlo.slice", [x], [kind], attrs)[0])
        start += size
    return outs


split_p = Primitive(
    "split",
    abstract=_split_abstract,
    jvp="linear",
    transpose=_split_transpose,
    batch=_split_batch,
    lower=_split_lower,
    sharding="split",
    multiple_results=True,
    structural=True,
    linear=(0,),
)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list:
    """Consecutive parts of the given sizes along a dimension.

    >>> import weft
    >>> weft.lax.split(weft.numpy.arange(3), (1, 2))
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    axis = canonical_axis(axis, typeof(operand).ndim)
    return split_p.bind(operand, sizes=static_ints("split", "sizes", sizes), axis=axis)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Join arrays of one shape along a new dimension.

    >>> from weft import lax, numpy as wnp
    >>> lax.stack([wnp.array([1, 2]), wnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    operands = list(operands)
    if not operands:
        raise ValueError("stack: needs at least one operand, got none")
    axis = canonical_axis(axis, typeof(operands[0]).ndim + 1)
    return concatenate([expand_dims(x, (axis,)) for x in operands], axis)


def unstack(x: Any, axis: int = 0) -> tuple:
    """Return the elements along a dimension, as arrays without it.

    >>> from weft import lax, numpy as wnp
    >>> lax.unstack(wnp.array([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    aval = typeof(x)
    axis = canonical_axis(axis, aval.ndim)
    return tuple(squeeze(part, (axis,)) for part in split(x, (1,) * aval.shape[axis], axis))


def tile(operand: ArrayLike, reps: Sequence[int]) -> Any:
    """Return the operand repeated reps[i] times along dimension i.

    >>> import weft
    >>> weft.lax.tile(weft.numpy.arange(2), (2,))
    Array([0, 1, 0, 1], dtype=int32)
    """
    aval = typeof(operand)
    reps = check_shape(tuple(reps), "reps")
    if len(reps) != aval.ndim:
        raise ValueError(
            f"tile: reps {reps} must have an entry for each dimension of {aval.str_short()}; "
            "weft.numpy.tile adds dimensions"
        )
    wide = [s for pair in zip(reps, aval.shape, strict=True) for s in pair]
    out = broadcast_in_dim(operand, wide, tuple(range(1, 2 * aval.ndim, 2)))
    return reshape(out, tuple(r * s for r, s in zip(reps, aval.shape, strict=True)))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Make dimensions [start, stop) one.

    >>> import weft
    >>> weft.lax.collapse(weft.numpy.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = typeof(operand).shape
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise ValueError(
            f"collapse: no dimensions between {start_dimension} and {stop_dimension} "
            f"of an array of shape {shape}; stop_dimension is exclusive"
        )
    return reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def broadcast_like(arr: ArrayLike, like_arr: object) -> Any:
    """arr broadcast by NumPy's rules to the shape, and placed as, like_arr.

    >>> from weft import lax, numpy as wnp
    >>> lax.broadcast_like(wnp.ones(3), wnp.zeros((2, 3))).shape
    (2, 3)
    """
    return _place(broadcast_to(arr, typeof(like_arr).shape), _placement_of(like_arr))


# full ------------------------------------------------------------------------------------------


def full(
    shape: Sequence[int], fill_value: Any, dtype: Any = None, *, sharding: object = None
) -> Any:
    """Return an array of one repeated scalar; dtype by default that of the scalar.

    >>> import weft
    >>> weft.lax.full((2,), 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    if (
        isinstance(dtype, np.dtype) and dtype == dtypes.float0
    ):  # cotangents of integers, of which only the shape counts
        return np.zeros(check_shape(shape), dtypes.float0)
    aval = typeof(fill_value)
    if aval.ndim:
        raise TypeError(f"full: fill_value must be a scalar, got {aval.str_short()}")
    if dtype is None:
        value = convert(fill_value, aval.dtype, aval.weak_type)
    else:
        dtype = dtypes.canonicalize_dtype(dtype)
        is_host_number = isinstance(fill_value, HOST_NUMBERS) and not dtypes.is_extended(dtype)
        value = host_number(fill_value, dtype) if is_host_number else convert(fill_value, dtype)
    out = broadcast_in_dim(value, check_shape(shape), ())
    if sharding is None or is_over_nothing(sharding):
        return out
    return device_put(out, sharding)


def full_like(
    x: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: int | Sequence[int] | None = None,
    sharding: object = None,
) -> Any:
    """`full` with x's shape, dtype and placement where none is given.

    >>> import weft
    >>> weft.lax.full_like(weft.numpy.arange(2), 7)
    Array([7, 7], dtype=int32)
    """
    if hasattr(x, "shape") and not is_array_like(x):  # described by a ShapeDtypeStruct
        mat = getattr(x, "mat", NO_MAT)
        aval = ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype), mat=mat)
    else:
        aval = typeof(x)
    of_same_shape = shape is None
    shape = aval.shape if of_same_shape else check_shape(shape)
    weak = dtype is None and aval.weak_type
    out = full(shape, fill_value, aval.dtype if dtype is None else dtype, sharding=sharding)
    if weak:
        out = convert(out, aval.dtype, True)
    elif sharding is None:
        out = stand_like(out, x, of_same_shape)
    return vary_like(out, aval.mat)


def stand_like(out: Any, x: Any, own_shape: bool = True) -> Any:
    """Fill an array where x is: of the same explicit type, or on a committed array's devices.

    own_shape: whether the shape was taken from x and not given.
    """
    if isinstance(x, Tracer):
        return _place(out, _placement_of(x)) if own_shape else out
    sharding = getattr(x, "sharding", None)
    if sharding is None or not getattr(x, "committed", True):
        return out
    if out.shape != x.shape and not sharding.is_fully_replicated:
        return out

    if isinstance(getattr(sharding, "mesh", None), AbstractMesh) and context_mesh() is None:
        return out
    if state.trace is not EVAL or isinstance(getattr(sharding, "mesh", None), AbstractMesh):
        return _place(out, type_sharding(sharding, out.ndim))

    return device_put(out, sharding)


def _placement_of(x: object) -> Any:
    """Return the explicit sharding of x's type, on the mesh of the array x stands for, if known."""
    sharding = typeof(x).sharding
    while isinstance(x, Tracer):  # mapped or differentiated
        x = getattr(x, "val", getattr(x, "primal", None))
    mesh = getattr(getattr(x, "sharding", None), "mesh", None)
    return (
        sharding.update(mesh=mesh) if sharding is not None and isinstance(mesh, Mesh) else sharding
    )


def vary_like(x: ArrayLike, mat: Mat) -> Any:
    """Return the value cast to vary, inside shard_map, over the axes that a type varies over."""
    axes = mat.varying.intersection(state.axes)
    if not axes:
        return x
    from weft.autodiff.manual_casts import cast_to

    return cast_to(x, Mat(axes))


def empty(shape: Sequence[int], dtype: DTypeLike | None, *, out_sharding: object = None) -> Any:
    """Return an array whose elements nobody should read; zeros.

    >>> from weft import lax, numpy as wnp
    >>> lax.empty((2, 3), "int8").shape
    (2, 3)
    """
    return _place(full(shape, 0, dtype), out_sharding)


def dtype(x: object) -> Any:
    """Get the dtype of an array, of a Python scalar, or of a type or a name.

    >>> from weft import lax, numpy as wnp
    >>> lax.dtype(3), lax.dtype(wnp.ones(2, "bfloat16"))
    (dtype('int32'), dtype(bfloat16))
    """
    if x is None:
        raise ValueError("weft.lax.dtype: x must be an array, a number or a dtype, got None")
    if isinstance(x, type | str | np.dtype) or dtypes.is_extended(x):
        return dtypes.canonicalize_dtype(x)
    return typeof(x).dtype


def shape_as_value(shape: Sequence[int]) -> np.ndarray:
    """Return a shape as an int32 array.

    >>> from weft import lax, numpy as wnp
    >>> lax.shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    return np.asarray(check_shape(shape), np.int32)


# Others ----------------------------------------------------------------------------------------


def _mulhi_lower(ctx: RuleContext, x: object, y: object) -> Any:
    """Through the double width, or for 64 bits by halves (quirks.MULHI)."""
    dtype = ctx.avals_out[0].dtype
    aval = ShapedArray(ctx.avals_out[0].shape, dtype)
    formula = _mulhi_wide if dtype.itemsize < 8 else _mulhi_halves
    return ctx.lower_fun(formula, *ctx.spread((x, y)), avals=[aval, aval])[0]


def _shift(x: object, bits: int) -> Any:
    kind = typeof(x).dtype
    prim = shift_right_arithmetic_p if dtypes.is_signed(kind) else shift_right_logical_p
    # A constant of 64 bits would be one of 32 while x64 is off.
    return prim.bind(x, convert(np.int32(bits), kind))


def _mulhi_wide(x: object, y: object) -> Any:
    kind = typeof(x).dtype
    wide = dtypes.int64 if dtypes.is_signed(kind) else dtypes.uint64
    product = mul(convert(x, wide), convert(y, wide))
    return convert(_shift(product, 8 * kind.itemsize), kind)


def _mulhi_halves(x: object, y: object) -> Any:
    """Multiply halves: x = x1 2^32 + x0 with 0 <= x0 < 2^32, and y likewise."""
    low = typeof(x).dtype.type(0xFFFFFFFF)
    x0, x1, y0, y1 = bitwise_and(x, low), _shift(x, 32), bitwise_and(y, low), _shift(y, 32)
    first = convert(mul(convert(x0, dtypes.uint64), convert(y0, dtypes.uint64)), dtypes.uint64)
    carry = convert(_shift(first, 32), typeof(x).dtype)
    middle = add(mul(x1, y0), carry)
    other = add(mul(x0, y1), bitwise_and(middle, low))
    return add(add(mul(x1, y1), _shift(middle, 32)), _shift(other, 32))


mulhi_p = elementwise("mulhi", _mulhi_lower, accepts=INTEGER)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Any:
    """Return the high half of the bits of the product of two integers.

    >>> import weft, numpy as np
    >>> weft.lax.mulhi(np.uint32(2**31), np.uint32(4))
    Array(2, dtype=uint32)
    """
    x, y = promote_lax(x, y)
    return mulhi_p.bind(x, y)


def stage(x: ArrayLike, /) -> Any:
    """Return the value in the current trace: traced in an active one, else an array.

    >>> from weft import lax, numpy as wnp
    >>> lax.stage(wnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    return x if type(x) is ArrayImpl and state.trace is EVAL else copy_p.bind(x)


after_all_p = Primitive(
    "after_all",
    abstract=lambda *tokens: TOKEN,
    batch=lambda axis, args, dims: (after_all_p.bind(*args), None),
    lower=lambda ctx, *tokens: ctx.op("stablehlo.after_all", list(tokens), [ctx.token_type()])[0],
    own_types=True,
)


def after_all(*operands: object) -> Any:
    """Return a token that comes after all the given ones.

    >>> from weft import lax, numpy as wnp
    >>> token = lax.after_all(lax.create_token(), lax.create_token())
    """
    for i, operand in enumerate(operands):
        if typeof(operand) is not TOKEN:
            raise TypeError(
                f"after_all: operand {i} must be a token (weft.lax.create_token), got "
                f"{typeof(operand).str_short()}"
            )
    return after_all_p.bind(*operands)


KEPT = Effect("Kept")

dce_sink_p = Primitive(
    "dce_sink",
    abstract=lambda x: [],
    jvp=lambda primals, tangents: (dce_sink_p.bind(primals[0]), []),
    batch=lambda axis, args, dims: (dce_sink_p.bind(args[0]), []),
    lower=lambda ctx, x: [],
    effects=lambda avals, params: frozenset((KEPT,)),
    sharding="elementwise",
    multiple_results=True,
)


def dce_sink(val: ArrayLike, *, prevent_mlir_dce: bool = False) -> None:
    """Keep a value in the jaxpr though no equation uses it.

    XLA still drops it; with prevent_mlir_dce the value passes an optimization barrier first.

    >>> from weft import lax, numpy as wnp
    >>> lax.dce_sink(wnp.ones(3))
    """
    tree_map(dce_sink_p.bind, optimization_barrier(val) if prevent_mlir_dce else val)


# composite -------------------------------------------------------------------------------------


def _composite_abstract(*avals: ShapedArray, jaxpr: ClosedJaxpr, **_: object) -> list:
    return list(jaxpr.out_avals)


def _composite_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, **_: object
) -> tuple:
    return jvp_flat(lambda *xs: eval_closed(jaxpr, *xs), primals, tangents)


def _composite_batch(
    axis: AxisData, args: list, dims: list, *, jaxpr: ClosedJaxpr, **_: object
) -> tuple:
    return batch_flat(lambda *xs: eval_closed(jaxpr, *xs), axis, args, dims)


def _composite_lower(
    ctx: RuleContext,
    *args: ir.Value,
    jaxpr: ClosedJaxpr,
    name: str,
    version: int,
    attributes: tuple,
) -> list:
    if ctx.module.num_partitions > 1:
        # The name is for the backend of one device; the partitioner sees the decomposition.
        return ctx.call(jaxpr, args, name.split(".")[-1])
    symbol = ctx.module.symbol(name.split(".")[-1])
    ctx.module.emit_function(symbol, jaxpr)
    config = ", ".join(f"{k} = {_attribute_text(v)}" for k, v in attributes)
    attrs = {
        "name": ctx.string(name),
        "decomposition": ctx.attr(f"@{symbol}"),
        "composite_attributes": ctx.attr(f"{{{config}}}"),
        "version": ctx.i32(version),
    }
    operation = ctx.operation("stablehlo.composite", list(args), ctx.out_types(), attrs)
    if name.startswith(NATIVE):
        ctx.mark(operation, name.removeprefix(NATIVE), dict(attributes).get("number", 0))
    return list(operation.results)


NATIVE = "weft_native."
"""The first part of the names of composites that weft/native has rules for."""


def _attribute_text(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{value:e} : f32"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, np.ndarray):
        return str(dense_attr(value))
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_attribute_text, value)) + "]"
    raise TypeError(
        "composite: attributes are bools, ints, floats, strings and sequences of them, "
        f"got {value!r}"
    )


composite_p = Primitive(
    "composite",
    abstract=_composite_abstract,
    calls=True,
    jvp=_composite_jvp,
    batch=_composite_batch,
    lower=_composite_lower,
    sharding="call",
    multiple_results=True,
    own_types=True,
    higher_order=True,
)


def composite(decomposition: Callable, name: str, version: int = 0) -> Callable:
    """Mark a function as a named composite, which a backend may replace by its own implementation.

    Any other backend computes `decomposition`. Keyword arguments are attributes; derivatives and
    batching are those of the decomposition.

    Source: StableHLO specification, `composite`.

    >>> import weft
    >>> tangent = weft.lax.composite(lambda x: weft.lax.sin(x) / weft.lax.cos(x), "my.tangent")
    >>> tangent(0.0)
    Array(0., dtype=float32, weak_type=True)
    """

    def called(*args: object, **attributes: Any) -> Any:
        leaves, tree = flatten(args)
        out_tree: list = []

        def run(*xs: object) -> list:
            out, tree_ = flatten(decomposition(*tree.unflatten(xs), **attributes))
            out_tree[:] = [tree_]
            return out

        jaxpr, consts = closed_call_jaxpr(run, [typeof(x) for x in leaves], name)
        attribute_items = tuple(
            sorted((k, _hashable(v)) for k, v in attributes.items() if v is not None)
        )
        outs = composite_p.bind(
            *consts,
            *leaves,
            jaxpr=jaxpr,
            name=name,
            version=int(version),
            attributes=attribute_items,
        )
        return out_tree[0].unflatten(outs)

    return called


def _hashable(value: float) -> Any:
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
