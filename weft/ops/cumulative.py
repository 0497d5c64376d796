"""Cumulative sums, products, extrema and log-sum-exps along one dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.jvp import jvp_flat
from weft.autodiff.op_families import INEXACT, NUMBER, canonical_axis, check_kind
from weft.core.aval import ShapedArray
from weft.core.dtypes import is_complex
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.composite import logaddexp
from weft.ops.elementwise_api import add, max, min, mul
from weft.ops.joining import concatenate, pad, rev
from weft.ops.reduce import highest, lowest
from weft.ops.slicing import slice_in_dim
from weft.ops.window import cumulative_window, emit_window

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def prefix(combine: Callable, x: ArrayLike, axis: int) -> Any:
    """combine over x[0:k+1] for every k, in about 2 n combinations and 2 log n steps.

    Pairs are combined first, then the scan of the pairs gives every second result (Blelloch,
    "Prefix sums and their applications", 1990).
    """
    n = typeof(x).shape[axis]
    if n < 2:
        return x

    def part(v: ArrayLike, start: int, stop: int, stride: int) -> Any:
        return slice_in_dim(v, start, stop, stride, axis)

    odd = prefix(combine, combine(part(x, 0, n - 1, 2), part(x, 1, n, 2)), axis)
    first = part(x, 0, 1, 1)
    if n > 2:
        rest = combine(part(odd, 0, (n - 1) // 2, 1), part(x, 2, n, 2))
        first = concatenate([first, rest], axis)
    return add(_spread(first, axis, 0, n), _spread(odd, axis, 1, n))


def _spread(x: ArrayLike, axis: int, start: int, size: int) -> Any:
    """Return x at every second place of zeros, from `start` on."""
    aval = typeof(x)
    used = 2 * aval.shape[axis] - 1
    config = [(0, 0, 0)] * aval.ndim
    config[axis] = (start, size - start - used, 1)
    return pad(x, aval.dtype.type(0), config)


_NATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
"""Those with a native kernel; the position is its name there."""


def _cumulative(
    name: str, combine: Callable, identity: Callable, accepts: str, linear: bool = False
) -> tuple[Primitive, Callable]:
    def abstract(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        check_kind(name, x.dtype, accepts)
        return x

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool) -> tuple:
        (x,), (t,) = primals, tangents

        # Prefixes by pairs, whose derivative is that of the combiner.
        def scan(v: ArrayLike) -> list:
            v = rev(v, (axis,)) if reverse else v
            v = prefix(combine, v, axis)
            return [rev(v, (axis,)) if reverse else v]

        (out,), (out_tangent,) = jvp_flat(scan, [x], [t])
        return out, out_tangent

    # An element is in the sums from its place on: cotangents are summed from the other end.
    def transpose(ct: object, x: object, *, axis: int, reverse: bool) -> list:
        return [prim.bind(ct, axis=axis, reverse=not reverse)]

    def batch(axis_data: AxisData, args: list, dims: list, *, axis: int, reverse: bool) -> tuple:
        dim = dims[0]
        return prim.bind(args[0], axis=axis + (axis >= dim), reverse=reverse), dim

    def lower(ctx: RuleContext, x: ir.Value, *, axis: int, reverse: bool) -> Any:
        """Return a window as long as the dimension; XLA rewrites it to a blocked scan."""
        aval = ctx.avals_in[0]
        if aval.size == 0 or aval.shape[axis] == 1:
            return x
        scalar = ShapedArray((), aval.dtype)
        init = ctx.splat(identity(aval.dtype), (), aval.dtype)
        window = cumulative_window(aval.shape[axis], axis, aval.ndim, reverse)

        def body(a: ir.Value, b: ir.Value) -> list:
            return ctx.lower_fun(combine, a, b, avals=[scalar, scalar])

        (out,) = emit_window(ctx, [x], [init], body, window)
        # Behind partitioning a kernel takes the place of the window.
        if name in _NATIVE:
            ctx.mark(out.owner, "scan", _NATIVE.index(name))
        return out

    prim = Primitive(
        name,
        abstract=abstract,
        jvp="linear" if linear else jvp,
        transpose=transpose if linear else None,
        batch=batch,
        lower=lower,
        sharding="cumulative",
        linear=(0,) if linear else (),
    )

    def public(operand: object, axis: int = 0, reverse: bool = False) -> Any:
        axis = canonical_axis(axis, typeof(operand).ndim)
        return prim.bind(operand, axis=axis, reverse=bool(reverse))

    public.__name__ = public.__qualname__ = name
    return prim, public


cumsum_p, cumsum = _cumulative("cumsum", add, lambda d: d.type(0), NUMBER, linear=True)
cumprod_p, cumprod = _cumulative("cumprod", mul, lambda d: d.type(1), NUMBER)
cummax_p, cummax = _cumulative("cummax", max, lowest, NUMBER)
cummin_p, cummin = _cumulative("cummin", min, highest, NUMBER)
cumlogsumexp_p, cumlogsumexp = _cumulative(
    "cumlogsumexp", logaddexp, lambda d: d.type(-np.inf) if is_complex(d) else lowest(d), INEXACT
)

for _function, _what in (
    (cumsum, "sum"),
    (cumprod, "product"),
    (cummax, "greatest"),
    (cummin, "least"),
    (cumlogsumexp, "log of the sum of the exponentials"),
):
    _function.__doc__ = (
        f"Along `axis`, the {_what} of each element and those before it (after it if `reverse`)."
    )
