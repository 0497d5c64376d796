# Tests: tests/ops/test_argreduce.py, tests/ops/test_table.py
"""Reductions over dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from weft.autodiff.op_families import ANY, BITS, NUMBER, canonical_axes, check_kind
from weft.autodiff.shape import (
    bind_placed,
    broadcast_in_dim,
    broadcast_in_dim_p,
    reshape,
    transpose,
)
from weft.autodiff.zeros import full
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.lowering.context import in_memory
from weft.lowering.limits import FEW_ROWS, LARGE_SUMS
from weft.ops.elementwise_api import convert, div, eq, mul
from weft.ops.joining import concatenate
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Axes = tuple[int, ...]

EXTREMA = ("reduce_max", "reduce_min")


def _rule(name: str, aval: ShapedArray, axes: Axes, x: ir.Value) -> str | None:
    """Return the rule of weft/native for a reduction that XLA:CPU computes slowly."""
    if name in EXTREMA and dtypes.is_float(aval.dtype):
        return "extremum" if axes else None  # quirks.LOST_NANS
    if aval.size < LARGE_SUMS:
        return None
    if name in ("reduce_sum", "reduce_prod"):
        made = getattr(x.owner, "operation", None)  # an argument has none
        stored = made.operands[0] if made is not None and made.name == "stablehlo.convert" else x
        if str(stored.type.element_type) == "i1":
            return "counts" if dtypes.is_integer(aval.dtype) else None
        few = len(axes) == 1 and 1 < aval.shape[axes[0]] <= FEW_ROWS and axes != (aval.ndim - 1,)
        few = few and aval.dtype == np.float32 and name == "reduce_sum"
        products = made is not None and made.name == "stablehlo.multiply"
        return "columns" if few or products or in_memory(stored) else None
    truths = dtypes.is_bool(aval.dtype) and name in ("reduce_or", "reduce_and")
    whole = name in EXTREMA and dtypes.is_integer(aval.dtype)
    return "counts" if in_memory(x) and (truths or whole) else None


def _reduced(x: ShapedArray, axes: Axes) -> tuple[int, ...]:
    return tuple(s for i, s in enumerate(x.shape) if i not in axes)


def reduction(
    name: str,
    hlo: str,
    identity: Callable[[Any], Any],
    *,
    accepts: str = NUMBER,
    jvp: Callable | Literal["linear"] | None = None,
    transpose: Callable | None = None,
) -> Primitive:
    """Make a reduction by an associative StableHLO op; identity(dtype) is its neutral element."""

    def abstract(x: ShapedArray, *, axes: Axes) -> ShapedArray:
        check_kind(name, x.dtype, accepts)
        if any(not 0 <= a < x.ndim for a in axes) or len(set(axes)) != len(axes):
            raise ValueError(f"{name}: axes {axes} are not distinct dimensions of {x.str_short()}")
        return ShapedArray(_reduced(x, axes), x.dtype, x.weak_type)

    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], *, axes: Axes) -> tuple:
        dim = dims[0]
        out = prim.bind(args[0], axes=tuple(a + (a >= dim) for a in axes))
        return out, dim - sum(a < dim for a in axes)

    def lower(ctx: RuleContext, x: ir.Value, *, axes: Axes) -> Any:
        aval = ctx.avals_in[0]
        out = ctx.reduce(hlo, x, identity(aval.dtype), axes, aval.dtype)
        rule = _rule(name, aval, axes, x)
        if rule is not None:
            ctx.mark(out.owner, rule)
        return out

    prim = Primitive(
        name,
        abstract=abstract,
        jvp=jvp or (lambda primals, tangents, *, axes: (prim.bind(primals[0], axes=axes), None)),
        transpose=transpose,
        batch=batch,
        lower=lower,
        sharding="reduce",
        linear=(0,) if hlo == "stablehlo.add" else (),
    )
    return prim


def _sum_transpose(ct: ArrayLike, x: UndefinedPrimal, *, axes: Axes) -> list:
    kept = tuple(i for i in range(x.aval.ndim) if i not in axes)
    shape = x.aval.shape
    placement = x.aval.sharding  # of the operand: it may split dimensions that ct lacks
    return [bind_placed(broadcast_in_dim_p, placement, ct, shape=shape, broadcast_dimensions=kept)]


reduce_sum_p = reduction(
    "reduce_sum",
    "stablehlo.add",
    lambda d: d.type(0),
    jvp="linear",
    transpose=_sum_transpose,
)


def _extremum_jvp(primals: list, tangents: list, *, axes: Axes, prim: Primitive) -> tuple:
    """Average the tangents at the places that attain the extremum."""
    (x,), (t,) = primals, tangents
    out = prim.bind(x, axes=axes)
    at = convert(eq(x, _spread_back(out, typeof(x), axes)), typeof(x).dtype)
    count = reduce_sum(at, axes)
    return out, div(reduce_sum(mul(t, at), axes), count)


def _spread_back(reduced: Any, like: Any, axes: Axes) -> Any:
    kept = tuple(i for i in range(like.ndim) if i not in axes)
    return broadcast_in_dim(reduced, like.shape, kept)


def lowest(dtype: np.dtype) -> Any:
    """Return the neutral element of max."""
    if dtypes.is_bool(dtype):
        return np.bool_(False)
    if dtypes.is_integer(dtype):
        return dtype.type(dtypes.iinfo(dtype).min)
    info = dtypes.finfo(dtype)
    if dtypes.is_complex(dtype):
        return dtype.type(complex(-np.inf, -np.inf))
    return dtype.type(-np.inf) if _has_inf(dtype) else dtype.type(info.min)


def highest(dtype: np.dtype) -> Any:
    """Return the neutral element of min."""
    if dtypes.is_bool(dtype):
        return np.bool_(True)
    if dtypes.is_integer(dtype):
        return dtype.type(dtypes.iinfo(dtype).max)
    info = dtypes.finfo(dtype)
    if dtypes.is_complex(dtype):
        return dtype.type(complex(np.inf, np.inf))
    return dtype.type(np.inf) if _has_inf(dtype) else dtype.type(info.max)


def _has_inf(dtype: np.dtype) -> bool:
    return bool(np.isinf(np.asarray(np.inf).astype(dtype).astype(np.float32)))


reduce_max_p = reduction(
    "reduce_max",
    "stablehlo.maximum",
    lowest,
    accepts=ANY,
    jvp=lambda p, t, *, axes: _extremum_jvp(p, t, axes=axes, prim=reduce_max_p),
)
reduce_min_p = reduction(
    "reduce_min",
    "stablehlo.minimum",
    highest,
    accepts=ANY,
    jvp=lambda p, t, *, axes: _extremum_jvp(p, t, axes=axes, prim=reduce_min_p),
)


def _prod_jvp(primals: list, tangents: list, *, axes: Axes) -> tuple:
    """Weigh each tangent with the product of the other elements: of those before and after it."""
    from weft.ops.cumulative import cumprod

    (x,), (t,) = primals, tangents
    out = reduce_prod_p.bind(x, axes=axes)
    aval = typeof(x)
    kept = tuple(i for i in range(aval.ndim) if i not in axes)
    shape = tuple(aval.shape[i] for i in kept)
    n = 1
    for a in axes:
        n *= aval.shape[a]
    if n == 0:
        return out, None
    xs, ts = (reshape(transpose(v, (*axes, *kept)), (n, *shape)) for v in (x, t))
    one = full((1, *shape), aval.dtype.type(1), aval.dtype)
    before = concatenate([one, slice_in_dim(cumprod(xs, 0), 0, n - 1)], 0)
    after = concatenate([slice_in_dim(cumprod(xs, 0, reverse=True), 1, n), one], 0)
    return out, reduce_sum(mul(ts, mul(before, after)), (0,))


reduce_prod_p = reduction("reduce_prod", "stablehlo.multiply", lambda d: d.type(1), jvp=_prod_jvp)
reduce_and_p = reduction(
    "reduce_and",
    "stablehlo.and",
    lambda d: (
        np.bool_(True)
        if dtypes.is_bool(d)
        else d.type(-1 if dtypes.is_signed(d) else dtypes.iinfo(d).max)
    ),
    accepts=BITS,
)
reduce_or_p = reduction("reduce_or", "stablehlo.or", lambda d: d.type(0), accepts=BITS)
reduce_xor_p = reduction("reduce_xor", "stablehlo.xor", lambda d: d.type(0), accepts=BITS)


def _public(prim: Primitive, summary: str) -> Callable:
    def reduce(operand: ArrayLike, axes: Sequence[int]) -> Any:
        axes = canonical_axes(axes, typeof(operand).ndim)
        return prim.bind(operand, axes=axes) if axes else operand

    reduce.__name__ = reduce.__qualname__ = prim.name
    reduce.__doc__ = f"{summary} over the dimensions `axes`."
    return reduce


def reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding: object = None) -> Any:
    """Return the sum over the dimensions `axes`. out_sharding: of the result.

    >>> import weft
    >>> weft.lax.reduce_sum(weft.numpy.ones((2, 3)), axes=(1,))
    Array([3., 3.], dtype=float32)
    """
    from weft.sharding.explicit import placed

    axes = canonical_axes(axes, typeof(operand).ndim)
    if out_sharding is not None:
        return placed(lambda x: reduce_sum(x, axes), out_sharding, operand)
    return reduce_sum_p.bind(operand, axes=axes) if axes else operand


reduce_max = _public(reduce_max_p, "Return the greatest element")
reduce_min = _public(reduce_min_p, "Return the least element")
reduce_prod = _public(reduce_prod_p, "Return the product")
reduce_and = _public(reduce_and_p, "Return the conjunction of bits")
reduce_or = _public(reduce_or_p, "Return the disjunction of bits")
reduce_xor = _public(reduce_xor_p, "Return the exclusive or of bits")
