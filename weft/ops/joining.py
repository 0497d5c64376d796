# Tests: tests/ops/test_table.py
"""Arrays side by side, padded, reversed: concatenate, pad, rev."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import (
    PYTHON_NUMBERS,
    batch_in_front,
    canonical_axes,
    canonical_axis,
    linear_unary,
    scalar_for,
    static_ints,
)
from weft.autodiff.shape import broadcast_in_dim
from weft.autodiff.vmap import in_front
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError, ShapeError, mark_difference, mark_dimensions
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.ops.elementwise_api import select, sub
from weft.ops.slicing import slice as slice_op
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


def _concatenate_abstract(*avals: ShapedArray, dimension: int) -> ShapedArray:
    first = avals[0]
    for i, a in enumerate(avals):
        same = a.ndim == first.ndim and all(
            x == y
            for d, (x, y) in enumerate(zip(a.shape, first.shape, strict=True))
            if d != dimension
        )
        if not same or a.dtype != first.dtype:
            differing = [
                d
                for d, (x, y) in enumerate(zip(a.shape, first.shape, strict=False))
                if x != y and d != dimension
            ]
            raise (ShapeError if a.dtype == first.dtype else TypeError)(
                f"concatenate: operands 0 and {i} differ; dtypes must be equal, and shapes in all "
                f"dimensions but {dimension}:\n"
                + (
                    mark_dimensions(("operand 0", first, differing), (f"operand {i}", a, differing))
                    if differing and a.ndim == first.ndim and a.dtype == first.dtype
                    else mark_difference(first.str_short(), a.str_short())
                )
            )
    if not 0 <= dimension < first.ndim:
        raise ValueError(f"concatenate: dimension {dimension} is not one of {first.str_short()}")
    shape = list(first.shape)
    shape[dimension] = sum(a.shape[dimension] for a in avals)
    return ShapedArray(tuple(shape), first.dtype, all(a.weak_type for a in avals))


def _concatenate_transpose(ct: Any, *operands: Any, dimension: int) -> list:
    cts, start = [], 0
    for x in operands:
        size = (x.aval if is_undefined(x) else typeof(x)).shape[dimension]
        linear = is_undefined(x)
        cts.append(slice_in_dim(ct, start, start + size, axis=dimension) if linear else None)
        start += size
    return cts


concatenate_p = Primitive(
    "concatenate",
    abstract=_concatenate_abstract,
    jvp="linear",
    transpose=_concatenate_transpose,
    batch=batch_in_front(lambda: concatenate_p, lambda p: {"dimension": p["dimension"] + 1}),
    lower=lambda ctx, *xs, dimension: ctx.moves(
        "stablehlo.concatenate", list(xs), {"dimension": ctx.i64(dimension)}
    ),
    sharding="concatenate",
    structural=True,
    linear=(0, ...),
)


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Join arrays of equal dtype along an existing dimension.

    >>> import weft
    >>> weft.lax.concatenate([weft.numpy.arange(2), weft.numpy.arange(1)], 0)
    Array([0, 1, 0], dtype=int32)
    """
    operands = list(operands)
    if not operands:
        raise ValueError("concatenate: needs at least one operand, got none")
    dimension = canonical_axis(dimension, typeof(operands[0]).ndim, "dimension")
    if len(operands) == 1 and not isinstance(operands[0], np.ndarray):
        return operands[0]
    return concatenate_p.bind(*operands, dimension=dimension)


PaddingConfig = tuple[tuple[int, int, int], ...]


def _pad_abstract(x: ShapedArray, value: ShapedArray, *, padding_config: PaddingConfig) -> Any:
    if x.dtype != value.dtype or value.ndim:
        raise TypeError(
            f"pad: padding_value must be a scalar of dtype {dtypes.short_name(x.dtype)}, got "
            f"{value.str_short()}"
        )
    if len(padding_config) != x.ndim:
        raise ValueError(
            f"pad: padding_config has {len(padding_config)} entries for {x.str_short()}; give "
            "(low, high, interior) for every dimension"
        )
    shape = []
    for d, (lo, hi, interior) in zip(x.shape, padding_config, strict=True):
        if interior < 0:
            raise ValueError(f"pad: interior padding must be nonnegative, got {interior}")
        size = lo + hi + d + max(0, d - 1) * interior
        if size < 0:
            raise ValueError(f"pad: padding {lo, hi, interior} of size {d} gives a negative size")
        shape.append(size)
    return ShapedArray(tuple(shape), x.dtype, x.weak_type)


def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: PaddingConfig) -> list:
    from weft.ops.reduce import reduce_sum

    negative = tuple((-lo, -hi, 0) for lo, hi, _ in padding_config)
    zero = ct.dtype.type(0)
    unpadded = pad_p.bind(ct, zero, padding_config=negative)
    strides = tuple(interior + 1 for _, _, interior in padding_config)
    shape = typeof(unpadded).shape
    inner = slice_op(unpadded, (0,) * len(shape), shape, strides)
    ct_value = None
    if is_undefined(value):
        dims = tuple(range(len(padding_config)))
        ct_value = sub(reduce_sum(ct, dims), reduce_sum(inner, dims))
    return [inner if is_undefined(x) else None, ct_value]


def _pad_batch(axis: AxisData, args: list, dims: list, *, padding_config: PaddingConfig) -> tuple:
    (x, value), (xd, vd) = args, dims
    (x,) = in_front(axis, [x], [xd])
    config = ((0, 0, 0), *padding_config)
    if vd is None:
        return pad_p.bind(x, value, padding_config=config), 0
    zero = typeof(x).dtype.type(0)
    out = pad_p.bind(x, zero, padding_config=config)
    inside = broadcast_in_dim(np.bool_(True), typeof(x).shape, ())
    mask = pad_p.bind(inside, np.bool_(False), padding_config=config)
    return select(mask, out, broadcast_in_dim(value, typeof(out).shape, (0,))), 0


def _pad_lower(
    ctx: RuleContext, x: ir.Value, value: ir.Value, *, padding_config: PaddingConfig
) -> Any:
    lo, hi, interior = zip(*padding_config, strict=True) if padding_config else ((), (), ())
    if ctx.module.for_xla and min((*lo, *hi), default=0) < 0:  # quirks.GSPMD_NEGATIVE_PADDING
        shape = ctx.avals_out[0].shape

        def pad_then_cut(x: ArrayLike, value: ArrayLike) -> Any:
            grown = [(max(a, 0), max(b, 0), i) for a, b, i in padding_config]
            starts = [max(-a, 0) for a in lo]
            ends = [s + n for s, n in zip(starts, shape, strict=True)]
            return slice_op(pad_p.bind(x, value, padding_config=tuple(grown)), starts, ends)

        avals = [ShapedArray(a.shape, a.dtype) for a in ctx.avals_in]
        return ctx.lower_fun(pad_then_cut, x, value, avals=avals)[0]
    attrs = {
        "edge_padding_low": ctx.i64s(lo),
        "edge_padding_high": ctx.i64s(hi),
        "interior_padding": ctx.i64s(interior),
    }
    return ctx.moves("stablehlo.pad", [x, value], attrs)


pad_p = Primitive(
    "pad",
    abstract=_pad_abstract,
    jvp="linear",
    transpose=_pad_transpose,
    batch=_pad_batch,
    lower=_pad_lower,
    sharding="pad",
    structural=True,
    linear=(0, ...),
    mixes=True,
)


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Any:
    """Pad low, high and between elements; negative edge padding removes elements.

    Source: StableHLO specification, `pad`.

    >>> import weft
    >>> weft.lax.pad(weft.numpy.ones(2), 0.0, [(1, 0, 1)])
    Array([0., 1., 0., 1.], dtype=float32)
    """
    config = tuple([static_ints("pad", "padding_config", row) for row in padding_config])
    if any([len(row) != 3 for row in config]):
        raise ArgumentError(
            f"pad: padding_config must hold (low, high, interior) for each dimension, got {config}"
        )
    if padding_value.__class__ in PYTHON_NUMBERS:
        padding_value = scalar_for("pad: padding_value", padding_value, typeof(operand))
    return pad_p.bind(operand, padding_value, padding_config=config)


def _rev_batch(axis: object, x: object, dim: int, *, dimensions: Shape) -> tuple[Any, int]:
    return rev_p.bind(x, dimensions=tuple(d + (d >= dim) for d in dimensions)), dim


rev_p = linear_unary(
    "rev",
    abstract=lambda x, *, dimensions: x,
    transpose=lambda ct, aval, *, dimensions: rev(ct, dimensions),
    batch=_rev_batch,
    lower=lambda ctx, x, *, dimensions: ctx.op(
        "stablehlo.reverse", [x], ctx.out_types(), {"dimensions": ctx.i64s(dimensions)}
    )[0],
    sharding="rev",
    structural=True,
)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Any:
    """Reverse the order of elements along dimensions.

    >>> import weft
    >>> weft.lax.rev(weft.numpy.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    dims = canonical_axes(tuple(dimensions), typeof(operand).ndim, "dimensions")
    return rev_p.bind(operand, dimensions=dims) if dims else operand
