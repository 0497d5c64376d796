# Tests: tests/ops/test_conv.py
"""The convolution op, with strides, dilations and groups, and all its rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import bilinear_jvp
from weft.autodiff.shape import moveaxis, reshape, transpose
from weft.autodiff.vmap import add_dim, remove_dim
from weft.autodiff.zeros import instantiate_zero
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.lowering.sharding import whole_for_xla
from weft.ops.conv_decompose import of_complex, of_integers
from weft.ops.conv_shapes import ConvDimensionNumbers, Dims, Pads, dilated, window_count
from weft.ops.dot import in_bytes
from weft.ops.dtype_casts import convert
from weft.ops.joining import rev
from weft.ops.precision import precision_attrs, product_dtype, swapped
from weft.ops.reduce import reduce_sum_p

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _abstract(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    window_strides: Dims,
    padding: Pads,
    lhs_dilation: Dims,
    rhs_dilation: Dims,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: Any,
    **_: object,
) -> ShapedArray:
    ls, rs, os = dimension_numbers
    features, out_features = lhs.shape[ls[1]], rhs.shape[rs[0]]
    if features != rhs.shape[rs[1]] * feature_group_count:
        raise ValueError(
            f"convolution: lhs {lhs.str_short()} has {features} features (dimension {ls[1]}), but "
            f"rhs {rhs.str_short()} takes {rhs.shape[rs[1]]} (dimension {rs[1]}) in each of "
            f"{feature_group_count} feature groups; the product must equal lhs's"
        )
    for kind, groups in (("feature", feature_group_count), ("batch", batch_group_count)):
        if groups < 1 or out_features % groups:
            raise ValueError(
                f"convolution: {kind}_group_count {groups} must be positive and divide rhs's "
                f"{out_features} output features (dimension {rs[0]} of {rhs.str_short()})"
            )
    if lhs.shape[ls[0]] % batch_group_count:
        raise ValueError(
            f"convolution: batch_group_count {batch_group_count} must divide lhs's batch of "
            f"{lhs.shape[ls[0]]} (dimension {ls[0]} of {lhs.str_short()})"
        )
    if feature_group_count > 1 and batch_group_count > 1:
        raise ValueError(
            "convolution: feature_group_count and batch_group_count cannot both exceed 1, got "
            f"{feature_group_count} and {batch_group_count}"
        )
    shape = [0] * lhs.ndim
    shape[os[0]] = lhs.shape[ls[0]] // batch_group_count
    shape[os[1]] = out_features
    for i in range(lhs.ndim - 2):
        low, high = padding[i]
        size = dilated(lhs.shape[ls[2 + i]], lhs_dilation[i]) + low + high
        window = dilated(rhs.shape[rs[2 + i]], rhs_dilation[i])
        shape[os[2 + i]] = window_count(max(size, 0), window, window_strides[i])
    dtype = product_dtype("convolution", lhs, rhs, preferred_element_type)
    return ShapedArray(tuple(shape), dtype, lhs.weak_type and rhs.weak_type)


# Moving a factor of one dimension to another, for groups and batches ---------------------------


def _merge(x: ArrayLike, source: int, target: int) -> Any:
    """Make dimension `source` the slow factor of dimension `target` (numbered without it)."""
    x = moveaxis(x, source, target)
    shape = typeof(x).shape
    return reshape(x, (*shape[:target], shape[target] * shape[target + 1], *shape[target + 2 :]))


def _split(x: Array, dim: int, size: int) -> Any:
    """Make the slow factor of dimension `dim`, of that size, a dimension in front of it."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:dim], size, shape[dim] // size, *shape[dim + 1 :]))


def _move_factor(x: Array, source: int, target: int, size: int) -> Any:
    """Move the slow factor of dimension `source` to be the slow factor of `target`."""
    x = _split(x, source, size)  # the factor stands at `source`, the rest one further
    return _merge(x, source, target)


# Cotangents: convolutions with the roles of batch, features and window exchanged ---------------


def _lhs_cotangent(ct: object, lhs: ShapedArray, rhs: Array, params: dict) -> Any:
    ls, rs, os = params["dimension_numbers"]
    features, batches = params["feature_group_count"], params["batch_group_count"]
    strides, lhs_dilation = params["window_strides"], params["lhs_dilation"]
    rhs_dilation = params["rhs_dilation"]
    rhs_shape, out_shape = typeof(rhs).shape, typeof(ct).shape
    padding = []
    for i in range(len(strides)):
        window = dilated(rhs_shape[rs[2 + i]], rhs_dilation[i])
        size = dilated(lhs.shape[ls[2 + i]], lhs_dilation[i])
        low = window - 1 - params["padding"][i][0]
        padding.append((low, size + window - 1 - dilated(out_shape[os[2 + i]], strides[i]) - low))
    groups = max(features, batches)
    kernel = rev(rhs, rs[2:])
    if groups > 1:
        kernel = _move_factor(kernel, rs[0], rs[1], groups)
    out = conv_general_dilated_p.bind(
        ct,
        kernel,
        **{
            **params,
            "window_strides": lhs_dilation,
            "padding": tuple(padding),
            "lhs_dilation": strides,
            "dimension_numbers": ConvDimensionNumbers(os, (rs[1], rs[0], *rs[2:]), ls),
            "feature_group_count": groups,
            "batch_group_count": 1,
            "preferred_element_type": None,
        },
    )
    return _move_factor(out, ls[1], ls[0], batches) if batches > 1 else out


def _rhs_cotangent(ct: object, lhs: Array, rhs: ShapedArray, params: dict) -> Any:
    ls, rs, os = params["dimension_numbers"]
    features, batches = params["feature_group_count"], params["batch_group_count"]
    strides, lhs_dilation = params["window_strides"], params["lhs_dilation"]
    rhs_dilation = params["rhs_dilation"]
    lhs_shape, out_shape = typeof(lhs).shape, typeof(ct).shape
    padding = []
    for i in range(len(strides)):
        window = dilated(rhs.shape[rs[2 + i]], rhs_dilation[i])
        size = dilated(lhs_shape[ls[2 + i]], lhs_dilation[i])
        low = params["padding"][i][0]
        padding.append((low, window - 1 - low + dilated(out_shape[os[2 + i]], strides[i]) - size))
    return conv_general_dilated_p.bind(
        lhs,
        ct,
        **{
            **params,
            "window_strides": rhs_dilation,
            "padding": tuple(padding),
            "rhs_dilation": strides,
            # lhs's features become the batch, its batch the features that are summed over.
            "dimension_numbers": ConvDimensionNumbers(
                *((spec[1], spec[0], *spec[2:]) for spec in (ls, os, rs))
            ),
            "feature_group_count": batches,
            "batch_group_count": features,
            "precision": swapped(params["precision"]),
            "preferred_element_type": None,
        },
    )


def _transpose(ct: Array, x: Any, y: Any, **params: object) -> list:
    from weft.ops.elementwise_api import convert

    if is_undefined(x):
        return [convert(_lhs_cotangent(ct, x.aval, y, params), x.aval.dtype), None]
    return [None, convert(_rhs_cotangent(ct, x, y.aval, params), y.aval.dtype)]


def _batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> tuple:
    (x, y), (xd, yd) = args, dims
    ls, rs, os = params["dimension_numbers"]
    features, batches = params["feature_group_count"], params["batch_group_count"]

    def bind(lhs: object, rhs: object, **changes: object) -> Any:
        return conv_general_dilated_p.bind(lhs, rhs, **{**params, **changes})

    if axis.size == 0:  # there are no 0 groups
        one = _abstract(remove_dim(typeof(x), xd), remove_dim(typeof(y), yd), **params)
        return instantiate_zero(add_dim(one, 0, axis)), 0
    if xd is not None and yd is not None:
        # Every example is a group of its own.
        which = "feature_group_count" if batches == 1 else "batch_group_count"
        lhs = _merge(x, xd, ls[1] if batches == 1 else ls[0])
        out = bind(lhs, _merge(y, yd, rs[0]), **{which: params[which] * axis.size})
        return _split(out, os[1], axis.size), os[1]
    if xd is not None:
        if batches == 1:
            return _split(bind(_merge(x, xd, ls[0]), y), os[0], axis.size), os[0]
        # Examples go below the groups of the batch.
        x = _split(moveaxis(x, xd, 0), ls[0] + 1, batches)
        x = moveaxis(x, 0, ls[0] + 1)  # groups, examples, batch
        shape = typeof(x).shape
        d = ls[0]
        x = reshape(x, (*shape[:d], math.prod(shape[d : d + 3]), *shape[d + 3 :]))
        return _split(bind(x, y), os[0], axis.size), os[0]
    groups = max(features, batches)
    if groups == 1:
        return _split(bind(x, _merge(y, yd, rs[0])), os[1], axis.size), os[1]
    y = _split(moveaxis(y, yd, 0), rs[0] + 1, groups)
    y = moveaxis(y, 0, rs[0] + 1)
    shape = typeof(y).shape
    d = rs[0]
    y = reshape(y, (*shape[:d], math.prod(shape[d : d + 3]), *shape[d + 3 :]))
    out = bind(x, y)
    shape = typeof(out).shape
    d = os[1]
    rest = shape[d] // (groups * axis.size)
    out = reshape(out, (*shape[:d], groups, axis.size, rest, *shape[d + 1 :]))
    out = moveaxis(out, d + 1, 0)
    shape = typeof(out).shape
    return reshape(out, (*shape[: d + 1], groups * rest, *shape[d + 3 :])), 0


def _lower(
    ctx: Any,
    x: ir.Value,
    y: ir.Value,
    *,
    window_strides: Dims,
    padding: Pads,
    lhs_dilation: Dims,
    rhs_dilation: Dims,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    **_: object,
) -> Any:
    lhs, rhs = ctx.avals_in
    out = ctx.avals_out[0]
    if 0 in (lhs.size, rhs.size, out.size):  # XLA takes no window of size 0
        return ctx.splat(0, out.shape, out.dtype)
    params = {
        "window_strides": window_strides,
        "padding": padding,
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "dimension_numbers": dimension_numbers,
        "batch_group_count": batch_group_count,
        "precision": precision,
    }
    # The libraries of accelerators convolve floats only.
    if ctx.module.platforms[0] != "cpu" and not dtypes.is_float(out.dtype) and out.size:
        return _lower_in_parts(ctx, x, y, feature_group_count=feature_group_count, **params)
    if ctx.module.for_xla and batch_group_count > 1:
        return _lower_by_feature_groups(ctx, x, y, **params)
    x, y = (
        whole_for_xla(ctx, v, a, spec[2:])
        for v, a, spec in zip((x, y), (lhs, rhs), dimension_numbers, strict=False)
    )
    if any(min(p) < 0 < max(p) for p in padding):  # quirks.MIXED_PADDING
        x, padding, lhs_dilation = _cut(ctx, x, dimension_numbers[0][2:], padding, lhs_dilation)
    if lhs.dtype != rhs.dtype:
        x, y = (
            v
            if a.dtype == out.dtype
            else ctx.op("stablehlo.convert", [v], [ctx.tensor(a.shape, out.dtype)])[0]
            for v, a in ((x, lhs), (y, rhs))
        )
    else:
        x, y = in_bytes(ctx, out.dtype, x, y)
    specs = [
        _spec_text(spec, letters)
        for spec, letters in zip(dimension_numbers, ("bf", "oi", "bf"), strict=True)
    ]
    attrs = {
        "window_strides": ctx.i64s(window_strides),
        "padding": ctx.int_matrix(np.reshape(np.asarray(padding, np.int64), (-1, 2))),
        "lhs_dilation": ctx.i64s(lhs_dilation),
        "rhs_dilation": ctx.i64s(rhs_dilation),
        "dimension_numbers": ctx.attr(f"#stablehlo.conv<{specs[0]}x{specs[1]}->{specs[2]}>"),
        "feature_group_count": ctx.i64(feature_group_count),
        "batch_group_count": ctx.i64(batch_group_count),
        **precision_attrs(ctx, precision),
    }
    operation = ctx.operation("stablehlo.convolution", [x, y], ctx.out_types(), attrs)
    # weft/native looks at the marked ones, where XLA:CPU is slow.
    if feature_group_count > 1 or batch_group_count > 1 or lhs.shape[dimension_numbers[0][1]] == 1:
        ctx.mark(operation, "depthwise")
    elif all(rhs.shape[d] == 1 for d in dimension_numbers[1][2:]):
        ctx.mark(operation, "pointwise")
    elif dimension_numbers[0][1] < dimension_numbers[0][0]:  # what gradients of filters sum over
        ctx.mark(operation, "filters")
    else:
        ctx.mark(operation, "dense")
    return whole_for_xla(ctx, operation.results[0], out, dimension_numbers[2][2:])


def _cut(ctx: RuleContext, x: ir.Value, dims: Dims, padding: Pads, dilation: Dims) -> tuple:
    """Do what negative padding and dilation do to the operand; the padding and dilation left."""
    aval = ctx.avals_in[0]
    low, high, interior, shape = ([0] * aval.ndim for _ in range(4))
    for d, p, step in zip(dims, padding, dilation, strict=True):
        low[d], high[d], interior[d] = min(p[0], 0), min(p[1], 0), step - 1
    for d, n in enumerate(aval.shape):
        shape[d] = n + max(n - 1, 0) * interior[d] + low[d] + high[d]
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    attrs = dict(zip(names, map(ctx.i64s, (low, high, interior)), strict=True))
    zero, kind = ctx.splat(0, (), aval.dtype), ctx.tensor(tuple(shape), aval.dtype)
    cut = ctx.op("stablehlo.pad", [x, zero], [kind], attrs)[0]
    return cut, [(max(a, 0), max(b, 0)) for a, b in padding], (1,) * len(dims)


def _lower_in_parts(ctx: RuleContext, x: object, y: object, **params: object) -> Any:
    """Lower a convolution to convolutions of floats, for dtypes that XLA has none of."""
    out = ctx.avals_out[0].dtype

    def convolve(a: object, b: object) -> Any:
        return conv_general_dilated_p.bind(a, b, preferred_element_type=None, **params)

    def run(a: object, b: object) -> Any:
        if dtypes.is_complex(out):
            return of_complex(convolve, convert(a, out), convert(b, out))
        return of_integers(convolve, a, b, out)

    avals = [ShapedArray(a.shape, a.dtype) for a in ctx.avals_in]
    return ctx.lower_fun(run, x, y, avals=avals)[0]


def _lower_by_feature_groups(
    ctx: RuleContext,
    x: ir.Value,
    y: ir.Value,
    *,
    dimension_numbers: ConvDimensionNumbers,
    batch_group_count: int,
    **params: object,
) -> Any:
    """Group the batch as groups of features, each feature convolved alone and then added up.

    XLA's partitioner has this right also where it splits the features (quirks.GSPMD_WINDOWS).
    """
    out, groups = ctx.avals_out[0].dtype, batch_group_count
    narrow = dtypes.is_float(out) and out.itemsize < 4
    total = np.dtype(np.float32) if narrow else out
    plain = [tuple(range(len(spec))) for spec in dimension_numbers]

    def run(x: Any, y: Any) -> Any:
        x, y = (
            transpose(convert(v, out), spec)
            for v, spec in zip((x, y), dimension_numbers, strict=False)
        )
        batch, features, *space = x.shape
        # Features are the slow factor, so that their split is one of the groups.
        x = transpose(
            reshape(x, (groups, batch // groups, features, math.prod(space))), (1, 2, 0, 3)
        )
        x = reshape(x, (batch // groups, features * groups, *space))
        y = reshape(moveaxis(y, 1, 0), (features * y.shape[0], 1, *y.shape[2:]))
        terms = conv_general_dilated_p.bind(
            x,
            y,
            dimension_numbers=ConvDimensionNumbers(*plain),
            feature_group_count=features * groups,
            batch_group_count=1,
            preferred_element_type=total if narrow else None,
            **params,
        )
        sums = reduce_sum_p.bind(_split(terms, 1, features), axes=(1,))
        places = np.argsort(dimension_numbers[2]).tolist()
        return convert(transpose(sums, places), out)

    avals = [ShapedArray(a.shape, a.dtype) for a in ctx.avals_in]
    return ctx.lower_fun(run, x, y, avals=avals)[0]


def _spec_text(spec: Dims, letters: str) -> str:
    names = [""] * len(spec)
    for position, name in zip(spec, (*letters, *map(str, range(len(spec) - 2))), strict=True):
        names[position] = name
    return f"[{', '.join(names)}]"


def _sharding(
    avals: Sequence[ShapedArray],
    outs: list,
    *,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    **_: object,
) -> str:
    """Batch, features and space: result windows start where those of the operand do."""
    shared = "b" if feature_group_count > 1 else "" if batch_group_count > 1 else "bfo"
    terms = []
    for k, (spec, letters) in enumerate(zip(dimension_numbers, ("bf", "of", "bo"), strict=True)):
        text = [""] * len(spec)
        for d, letter in zip(spec, letters, strict=False):
            text[d] = letter if letter in shared else f"{letter}{k}"
        for i, d in enumerate(spec[2:]):
            text[d] = f"k{i}" if k == 1 else f"s{i}"
        terms.append(" ".join(text))
    return f"{terms[0]}, {terms[1]} -> {terms[2]}"


conv_general_dilated_p = Primitive(
    "conv_general_dilated",
    abstract=_abstract,
    jvp=bilinear_jvp(lambda: conv_general_dilated_p),
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    sharding=_sharding,
    bilinear=(0, 1),
)
