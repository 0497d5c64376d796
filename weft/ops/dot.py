"""dot_general: products summed over contracting dimensions, by batch dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import bilinear_jvp, canonical_axes
from weft.autodiff.shape import transpose_p
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import (
    ArgumentError,
    AxisError,
    ShapeError,
    ShardingTypeError,
    mark_dimensions,
)
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.lowering.limits import LARGE_OPERAND, LARGE_SUMS, SMALL_FACTOR, SMALLEST
from weft.ops.dtype_casts import convert
from weft.ops.precision import (
    CanonicalPrecision,
    DotAlgorithm,
    DotAlgorithmPreset,
    canonical_precision,
    precision_attrs,
    product_dtype,
    swapped,
)
from weft.sharding.explicit import in_parts, placed, reshard
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.sharding.named import NamedSharding
    from weft.typing import ArrayLike, DTypeLike

Dims = tuple[int, ...]
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]
"""((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""
Numbers = tuple[tuple[Dims, Dims], tuple[Dims, Dims]]


def _free(ndim: int, contracting: Dims, batch: Dims) -> Dims:
    return tuple(d for d in range(ndim) if d not in contracting and d not in batch)


def _abstract(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: Numbers,
    precision: CanonicalPrecision,
    preferred_element_type: np.dtype | None,
    out_sharding: object,
) -> ShapedArray:
    (lc, rc), (lb, rb) = dimension_numbers
    for kind, ls, rs in (("contracting", lc, rc), ("batch", lb, rb)):
        if len(ls) != len(rs):
            raise TypeError(
                f"dot_general: {kind} dimensions {ls} of lhs and {rs} of rhs must be as many"
            )
        for i, j in zip(ls, rs, strict=True):
            if lhs.shape[i] != rhs.shape[j]:
                raise ShapeError(
                    f"dot_general: {kind} dimension {i} of lhs has size {lhs.shape[i]}, but "
                    f"dimension {j} of rhs has size {rhs.shape[j]}; they must be equal:\n"
                    + mark_dimensions(("lhs", lhs, [i]), ("rhs", rhs, [j]))
                )
    for kind, x, contracting, batch in (("lhs", lhs, lc, lb), ("rhs", rhs, rc, rb)):
        if len({*contracting, *batch}) != len(contracting) + len(batch):
            raise TypeError(
                f"dot_general: contracting dimensions {contracting} and batch dimensions {batch} "
                f"of {kind} {x.str_short()} name a dimension twice"
            )
    shape = (
        *(lhs.shape[d] for d in lb),
        *(lhs.shape[d] for d in _free(lhs.ndim, lc, lb)),
        *(rhs.shape[d] for d in _free(rhs.ndim, rc, rb)),
    )
    dtype = product_dtype("dot_general", lhs, rhs, preferred_element_type)
    return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)


@lru_cache(maxsize=4096)
def _cotangent_plan(
    ndim: int, other_ndim: int, numbers: tuple[Dims, Dims, Dims, Dims], linear_first: bool
) -> tuple[bool, Numbers, Dims | None]:
    """Return how a linear operand's cotangent is a product of ct with the other operand.

    numbers: contracting and batch dimensions of the linear operand, then of the other. Gives
    whether ct stands first, the product's numbers, and the permutation it needs, if any. Of the
    two orders of the factors, the one without a permutation is taken.
    """
    c, b, other_c, other_b = numbers
    nb = len(b)
    free, other_free = _free(ndim, c, b), _free(other_ndim, other_c, other_b)
    start = nb + len(free) if linear_first else nb
    ct_side = (tuple(range(start, start + len(other_free))), tuple(range(nb)))
    other_side = (other_free, other_b)
    summed = tuple(d for _, d in sorted(zip(other_c, c, strict=True)))
    for ct_first in (True, False):
        order = (*b, *free, *summed) if ct_first else (*b, *summed, *free)
        permutation = tuple(order.index(d) for d in range(ndim))
        x, y = (ct_side, other_side) if ct_first else (other_side, ct_side)
        plan = ct_first, ((x[0], y[0]), (x[1], y[1]))
        if permutation == tuple(range(ndim)):
            return *plan, None
        if ct_first:
            first = *plan, permutation
    return first


def _transpose(
    ct: ArrayLike,
    x: Any,
    y: Any,
    *,
    dimension_numbers: Numbers,
    precision: CanonicalPrecision,
    preferred_element_type: np.dtype | None,
    out_sharding: object,
) -> list:
    (lc, rc), (lb, rb) = dimension_numbers
    left = is_undefined(x)
    if left:
        linear, other, dims = x.aval, y, (lc, lb, rc, rb)
    else:
        linear, other, dims = y.aval, x, (rc, rb, lc, lb)
    ct_first, numbers, permutation = _cotangent_plan(linear.ndim, typeof(other).ndim, dims, left)
    x, y = (ct, other) if ct_first else (other, ct)
    parts = None
    if linear.sharding is not None and linear.sharding.spec.reduced:
        # The cotangent is wanted as a partial sum: the product over a split dimension is one.
        parts = sharding_in_parts(typeof(x), typeof(y), numbers)
    result = dot_general_p.bind(
        x,
        y,
        dimension_numbers=numbers,
        precision=precision if ct_first is left else swapped(precision),
        preferred_element_type=None,
        out_sharding=parts,
    )
    if result.dtype != linear.dtype:
        from weft.ops.elementwise_api import convert

        result = convert(result, linear.dtype)
    if permutation is not None:
        result = transpose_p.bind(result, permutation=permutation)
    return [result, None] if left else [None, result]


def _shift(dims: Dims, dim: int) -> Dims:
    return tuple(d + (d >= dim) for d in dims)


def _batch(
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    dimension_numbers: Numbers,
    out_sharding: NamedSharding | None,
    **params: object,
) -> tuple[Any, int]:
    (x, y), (xd, yd) = args, dims
    (lc, rc), (lb, rb) = dimension_numbers
    if xd is not None:
        lc, lb = _shift(lc, xd), _shift(lb, xd)
    if yd is not None:
        rc, rb = _shift(rc, yd), _shift(rb, yd)
    if xd is not None and yd is not None:
        lb, rb, out_dim = (xd, *lb), (yd, *rb), 0
    elif xd is not None:
        out_dim = len(lb) + _free(typeof(x).ndim, lc, lb).index(xd)
    else:
        lhs_free = typeof(x).ndim - len(lc) - len(lb)
        out_dim = len(lb) + lhs_free + _free(typeof(y).ndim, rc, rb).index(yd)
    if out_sharding is not None:
        out_sharding = out_sharding.with_dim(out_dim, axis.spmd_name)
    numbers = ((lc, rc), (lb, rb))
    out = dot_general_p.bind(x, y, dimension_numbers=numbers, out_sharding=out_sharding, **params)
    return out, out_dim


def _lower(
    ctx: RuleContext,
    x: ir.Value,
    y: ir.Value,
    *,
    dimension_numbers: Numbers,
    precision: CanonicalPrecision,
    preferred_element_type: np.dtype | None,
    out_sharding: object,
) -> Any:
    (lc, rc), (lb, rb) = dimension_numbers
    lhs, rhs = ctx.avals_in
    out = ctx.avals_out[0]
    attrs = {
        "dot_dimension_numbers": ctx.attr(_numbers_text(lc, rc, lb, rb)),
        **precision_attrs(ctx, precision),
    }
    result = out.dtype
    if isinstance(precision, DotAlgorithmPreset):
        precision = precision.algorithm(lhs.dtype, rhs.dtype, out.dtype)
    if isinstance(precision, DotAlgorithm):
        if ctx.module.platforms[0] != "cpu":  # quirks.DOT_ALGORITHM
            attrs["algorithm"] = ctx.attr(precision.attr_text())
        result = precision.result_dtype()
        operand = precision.operand_dtype()
        x, y = _converted(ctx, x, lhs, operand), _converted(ctx, y, rhs, operand)
    elif lhs.dtype != rhs.dtype and not (lhs.dtype.itemsize == rhs.dtype.itemsize == 1):
        x, y = _converted(ctx, x, lhs, result), _converted(ctx, y, rhs, result)
    else:
        if out.dtype in _TWO_BITS:
            result = _byte(out.dtype)
        x, y = in_bytes(ctx, result, x, y)
    value = ctx.op("stablehlo.dot_general", [x, y], [ctx.tensor(out.shape, result)], attrs)[0]
    if lb and max(lhs.size, rhs.size) >= max(LARGE_OPERAND, 2 * out.size):
        ctx.mark(value.owner, "batches")
    elif lb and out.size >= SMALLEST and _are_small(lhs, lb) and _are_small(rhs, rb):
        ctx.mark(value.owner, "product")
    elif max(lhs.size, rhs.size) >= LARGE_SUMS and not lb and _is_vector(lhs, lc, rhs, rc):
        ctx.mark(value.owner, "vectors")
    if result != out.dtype:
        if out.sharding is not None and out.sharding.spec.unreduced:
            value = ctx.constrain(value, out.sharding, out, by_type=True)
        value = ctx.op("stablehlo.convert", [value], ctx.out_types())[0]
    return value


def _is_vector(lhs: ShapedArray, lc: Dims, rhs: ShapedArray, rc: Dims) -> bool:
    """Return whether neighbours are summed over, in the same order, and one operand has no more."""
    neighbors = all(dims == tuple(range(dims[0], dims[-1] + 1)) for dims in (lc, rc) if dims)
    return neighbors and min(lhs.size, rhs.size) == math.prod(lhs.shape[d] for d in lc)


def _are_small(x: ShapedArray, batch: Dims) -> bool:
    others = [n for d, n in enumerate(x.shape) if d not in batch]
    return len(others) <= 2 and max(others, default=0) <= SMALL_FACTOR


@lru_cache(maxsize=4096)
def _numbers_text(lc: Dims, rc: Dims, lb: Dims, rb: Dims) -> str:
    return (
        f"#stablehlo.dot<lhs_batching_dimensions = {list(lb)}, "
        f"rhs_batching_dimensions = {list(rb)}, lhs_contracting_dimensions = {list(lc)}, "
        f"rhs_contracting_dimensions = {list(rc)}>"
    )


def _converted(ctx: RuleContext, x: ir.Value, aval: ShapedArray, dtype: np.dtype) -> Any:
    if aval.dtype == dtype:
        return x
    return ctx.op("stablehlo.convert", [x], [ctx.tensor(aval.shape, dtype)])[0]


_TWO_BITS = frozenset(d for d in dtypes.int4_types if d.name.endswith("int2"))


def in_bytes(ctx: RuleContext, result: np.dtype, *operands: ir.Value) -> list:
    """Return a product's operands; of two and four bits, as bytes where the result is wider.

    XLA:CPU compiles no product of such operands with a wider result, and no product of matrices
    of two bits (quirks.NARROW_DOT).
    """
    narrow = dtypes.int4_types
    if result in narrow or not any(a.dtype in narrow for a in ctx.avals_in):
        return list(operands)
    return [
        _converted(ctx, x, a, _byte(a.dtype)) if a.dtype in narrow else x
        for x, a in zip(operands, ctx.avals_in, strict=True)
    ]


def _byte(dtype: np.dtype) -> Any:
    return dtypes.int8 if dtypes.is_signed(dtype) else dtypes.uint8


def sharding_in_parts(
    lhs: ShapedArray, rhs: ShapedArray, dimension_numbers: Numbers
) -> NamedSharding | None:
    """Return the sharding of a product whose parts over the summed axes are not added up.

    None where no axis splits the contracting dimensions of both operands alike, or where the
    result could be split in more than one way.
    """
    if lhs.sharding is None or rhs.sharding is None or lhs.sharding.mesh is not rhs.sharding.mesh:
        return None
    (lc, rc), (lb, rb) = dimension_numbers
    left, right = lhs.sharding.spec, rhs.sharding.spec
    pairs = zip((*lc, *lb), (*rc, *rb), strict=True)
    if any(left.axes_of(i) != right.axes_of(j) for i, j in pairs):
        return None
    summed = frozenset(axis for i in lc for axis in left.axes_of(i))
    dims = [left.axes_of(d) for d in lb]
    dims += [left.axes_of(d) for d in _free(lhs.ndim, lc, lb)]
    dims += [right.axes_of(d) for d in _free(rhs.ndim, rc, rb)]
    used = [axis for axes in dims for axis in axes]
    if not summed or len({*used, *summed}) != len(used) + len(summed):
        return None
    return NamedSharding(lhs.sharding.mesh, PartitionSpec(*dims, unreduced=summed))


def product_in_parts(
    lhs: ArrayLike,
    rhs: ArrayLike,
    numbers: tuple,
    precision: object,
    preferred_element_type: DTypeLike | None,
    out_sharding: NamedSharding,
) -> Any:
    """dot_general with a result that is unreduced over the axes that split the sum."""
    parts = sharding_in_parts(typeof(lhs), typeof(rhs), numbers)
    wanted = out_sharding.spec.unreduced
    if parts is None or parts.spec.unreduced != wanted:
        have = "no axis splits" if parts is None else f"{set(parts.spec.unreduced)} split"
        raise ShardingTypeError(
            f"dot_general of {typeof(lhs).str_short()} and {typeof(rhs).str_short()}: out_sharding "
            f"{out_sharding.spec!r} asks for partial sums over {set(wanted)}, but {have} the "
            "contracting dimensions of both operands. Split both by these axes first, with "
            "weft.reshard(x, P(...)), or leave unreduced out"
        )
    out = dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=numbers,
        precision=canonical_precision("dot_general", precision),
        preferred_element_type=preferred_element_type,
        out_sharding=parts,
    )
    return reshard(out, out_sharding)


def _sharding(
    avals: Sequence[ShapedArray],
    outs: list,
    *,
    dimension_numbers: Numbers,
    out_sharding: NamedSharding | None,
    **_: object,
) -> Any:
    if out_sharding is not None:
        return [out_sharding]
    (lc, rc), (lb, rb) = dimension_numbers
    left = [f"i{d}" for d in range(avals[0].ndim)]
    right = [f"j{d}" for d in range(avals[1].ndim)]
    for i, j in zip((*lc, *lb), (*rc, *rb), strict=True):
        right[j] = left[i]
    out = [left[d] for d in lb]
    out += [left[d] for d in _free(avals[0].ndim, lc, lb)]
    out += [right[d] for d in _free(avals[1].ndim, rc, rb)]
    return f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}"


dot_general_p = Primitive(
    "dot_general",
    abstract=_abstract,
    jvp=bilinear_jvp(lambda: dot_general_p),
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    sharding=_sharding,
    bilinear=(0, 1),
)


@lru_cache(maxsize=4096)
def _numbers(numbers: Any, lhs_ndim: int, rhs_ndim: int) -> Numbers:
    (lc, rc), (lb, rb) = numbers
    return (
        (
            canonical_axes(lc, lhs_ndim, "dot_general: lhs contracting dimensions"),
            canonical_axes(rc, rhs_ndim, "dot_general: rhs contracting dimensions"),
        ),
        (
            canonical_axes(lb, lhs_ndim, "dot_general: lhs batch dimensions"),
            canonical_axes(rb, rhs_ndim, "dot_general: rhs batch dimensions"),
        ),
    )


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers | None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Any:
    """Sum products over contracting dimensions, for each index of batch dimensions.

    Args:
      lhs, rhs: arrays; dtypes may differ.
      dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)); None
        contracts the last dimension of lhs with the first of rhs.
      precision: None, `Precision`, its name, a pair of them, or a `DotAlgorithmPreset`.
      preferred_element_type: dtype of the sum and the result. Products of integers need one at
        least as wide as theirs; products of floats are converted to an integer dtype at the end.
      out_sharding: of the result, where the operands' explicit shardings leave it open.

    The result has the batch dimensions, then those left of lhs, then those left of rhs.
    Raises TypeError where sizes of paired dimensions differ.

    Source: StableHLO specification, `dot_general`.

    >>> import weft
    >>> x = weft.numpy.ones((2, 3))
    >>> weft.lax.dot_general(x, x, (((1,), (1,)), ((), ())))
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    lhs_ndim, rhs_ndim = typeof(lhs).ndim, typeof(rhs).ndim
    if dimension_numbers is None:
        dimension_numbers = (((-1,), (0,)), ((), ()))
    # Normal numbers are cached by value, which lists have none of.
    try:
        numbers = _numbers(dimension_numbers, lhs_ndim, rhs_ndim)
    except AxisError:
        raise
    except TypeError:  # lists: not hashable
        try:
            (lc, rc), (lb, rb) = dimension_numbers
            numbers = _numbers(((tuple(lc), tuple(rc)), (tuple(lb), tuple(rb))), lhs_ndim, rhs_ndim)
        except AxisError:
            raise
        except (TypeError, ValueError):
            raise TypeError(
                "dot_general: dimension_numbers must be ((lhs contracting, rhs contracting), "
                f"(lhs batch, rhs batch)) with dimensions in range, got {dimension_numbers}"
            ) from None
    if preferred_element_type is not None:
        preferred_element_type = dtypes.canonicalize_dtype(preferred_element_type)
    if out_sharding is not None:
        parts = in_parts(out_sharding, lhs, rhs)
        if parts is not None:
            return product_in_parts(lhs, rhs, numbers, precision, preferred_element_type, parts)
        return placed(
            lambda x, y: dot_general(x, y, numbers, precision, preferred_element_type),
            out_sharding,
            lhs,
            rhs,
        )
    # A dtype that no product has is converted to at the end.
    result_dtype = None
    if preferred_element_type is not None:
        result_dtype = _given(typeof(lhs), typeof(rhs), preferred_element_type)
    out = dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=numbers,
        precision=canonical_precision("dot_general", precision),
        preferred_element_type=preferred_element_type if result_dtype is None else None,
        out_sharding=None,
    )
    return out if result_dtype is None else convert(out, result_dtype, typeof(out).weak_type)


def _given(lhs: Any, rhs: Any, preferred: Any) -> Any:
    """Return the preferred dtype where the product is computed in its own and then converted.

    This is so for integers from floats, and for reals from complex numbers, whose real parts are
    meant; those must not be narrower.
    """
    computed = product_dtype("dot_general", lhs, rhs, None)
    if dtypes.is_float(computed):
        return None if dtypes.is_inexact(preferred) else preferred
    if not dtypes.is_complex(computed) or dtypes.is_complex(preferred):
        return None
    return preferred if 2 * preferred.itemsize >= computed.itemsize else None


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *args: Any,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: object = None,
) -> Any:
    """Vector-vector, matrix-vector or matrix-matrix product; with dimension_numbers, dot_general.

    >>> import weft
    >>> weft.lax.dot(weft.numpy.arange(3.0), weft.numpy.arange(3.0))
    Array(5., dtype=float32)
    """
    if args:
        # The older positional form: dot(lhs, rhs, precision, preferred_element_type).
        precision, preferred_element_type = (*args, preferred_element_type)[:2]
    if dimension_numbers is None:
        a, b = typeof(lhs), typeof(rhs)
        if not (1 <= a.ndim <= 2 and 1 <= b.ndim <= 2 and a.shape[-1] == b.shape[0]):
            raise ArgumentError(
                f"dot takes vectors and matrices with lhs.shape[-1] == rhs.shape[0], got "
                f"{a.str_short()} and {b.str_short()}; see dot_general"
            )
        dimension_numbers = (((a.ndim - 1,), (0,)), ((), ()))
    return dot_general(
        lhs,
        rhs,
        dimension_numbers,
        precision,
        preferred_element_type,
        out_sharding=out_sharding,
    )


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: object = None) -> Any:
    """Matrix products over equal leading dimensions: (…, i, k) by (…, k, j) to (…, i, j).

    >>> from weft import lax, numpy as wnp
    >>> lax.batch_matmul(wnp.ones((5, 2, 3)), wnp.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    a, b = typeof(lhs), typeof(rhs)
    if a.ndim < 2 or a.ndim != b.ndim:
        raise ValueError(
            "batch_matmul takes arrays of equal rank, at least 2, got "
            f"{a.str_short()} and {b.str_short()}"
        )
    lead = tuple(range(a.ndim - 2))
    return dot_general(lhs, rhs, (((a.ndim - 1,), (a.ndim - 2,)), (lead, lead)), precision)
