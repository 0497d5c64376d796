# Tests: tests/ops/test_scatter.py
"""scatter_apply: a function applied in place at an array of indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.jvp import has_tangent, jvp_flat, tangent_aval
from weft.autodiff.op_families import static_ints
from weft.autodiff.shape import broadcast_in_dim, moveaxis
from weft.autodiff.vmap import move_dim
from weft.autodiff.zeros import add_any, full, instantiate_zero
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.primitive import Primitive
from weft.core.trace import closed_call_jaxpr, trace_to_jaxpr, typeof
from weft.ops.elementwise_api import convert, mul
from weft.ops.gather import GatherScatterMode
from weft.ops.scatter import (
    ScatterDimensionNumbers,
    batched_dimensions,
    check_scatter,
    emit,
    window_sizes,
)

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

Shape = tuple[int, ...]


def _apply_abstract(
    *avals: ShapedArray,
    dimension_numbers: ScatterDimensionNumbers,
    update_shape: Shape,
    **_: object,
) -> list[ShapedArray]:
    *operands, indices = avals
    check_scatter("scatter_apply", operands[0], indices, update_shape, dimension_numbers)
    return [a.strip_weak_type() for a in operands]


def _apply_jvp(primals: list, tangents: list, *, jaxpr: ClosedJaxpr, **params: object) -> tuple:
    """Carry the Jacobian of the scalars along: element by element, out tangent = J in tangent."""
    *operands, indices = primals
    n = len(operands)
    avals = [typeof(x) for x in operands]
    active = [i for i, a in enumerate(avals) if has_tangent(a)]
    moving = [i for i in active if tangents[i] is not None]
    with_jacobian = jaxpr.memo(  # type: ignore[misc]
        ("scatter_apply", tuple(active), tuple(moving)),
        lambda: _with_jacobian(jaxpr, active, moving),
    )
    identity = [
        full(avals[i].shape, int(i == j), tangent_aval(avals[i]).dtype)
        for j in moving
        for i in active
    ]
    outs = scatter_apply_p.bind(*operands, *identity, indices, jaxpr=with_jacobian, **params)
    columns = iter(outs[n:])
    out_tangents: list[Any] = [None] * n
    for j in moving:
        for i in active:
            term = mul(tangents[j], next(columns))
            out_tangents[i] = term if out_tangents[i] is None else add_any(out_tangents[i], term)
    return outs[:n], out_tangents


def _with_jacobian(
    jaxpr: ClosedJaxpr, active: list[int], tangent_columns: list[int]
) -> ClosedJaxpr:
    """(scalars, columns of a matrix J) -> (f(scalars), the columns of f'(scalars) J)."""
    n = len(jaxpr.in_avals)

    def flat(*args: Array) -> list:
        xs, columns = args[:n], iter(args[n:])
        outs: list = []
        result: list = []
        for _ in tangent_columns:
            column: list[Any] = [None] * n
            for i in active:
                column[i] = next(columns)
            outs, tangents = jvp_flat(lambda *v: eval_closed(jaxpr, *v), xs, column)
            for i in active:
                t = tangents[i]
                result.append(instantiate_zero(tangent_aval(jaxpr.in_avals[i])) if t is None else t)
        return [*outs, *result]

    avals = list(jaxpr.in_avals)
    avals += [tangent_aval(jaxpr.in_avals[i]) for _ in tangent_columns for i in active]
    traced, consts = trace_to_jaxpr(flat, avals, "scatter_apply")
    return ClosedJaxpr(traced, consts)


def _apply_batch(
    axis: AxisData,
    args: list,
    dims: list,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    update_shape: Shape,
    **params: object,
) -> tuple:
    (*operands, indices), (*ods, idim) = args, dims
    operands = [move_dim(x, d, 0, axis) for x, d in zip(operands, ods, strict=True)]
    if idim is not None:
        indices = moveaxis(indices, idim, 0)
    outs = scatter_apply_p.bind(
        *operands,
        indices,
        dimension_numbers=batched_dimensions(dimension_numbers, idim is not None),
        update_shape=(axis.size, *update_shape),
        **params,
    )
    return outs, [0] * len(outs)


def _apply_lower(
    ctx: RuleContext, *args: ir.Value, jaxpr: ClosedJaxpr, update_shape: Shape, **params: Any
) -> Any:
    *operands, indices = args
    if 0 in update_shape:
        return operands
    n = len(operands)
    updates = [ctx.splat(0, update_shape, a.dtype) for a in ctx.avals_out]
    window = window_sizes(ctx.avals_in[0].shape, update_shape, params["dimension_numbers"])
    return emit(
        ctx, operands, indices, updates, window, params, lambda *xs: ctx.inline(jaxpr, *xs[:n])
    )


scatter_apply_p = Primitive(
    "scatter_apply",
    abstract=_apply_abstract,
    jvp=_apply_jvp,
    batch=_apply_batch,
    lower=_apply_lower,
    sharding="scatter_apply",
    multiple_results=True,
    higher_order=True,
)


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """Apply a function to the elements at the indices, as many times as each occurs.

    Args:
      operand: an array. scatter_indices: integers; the last dimension holds index vectors.
      func: takes and returns a scalar of the operand's dtype; it may close over scalars.
      dimension_numbers: a `ScatterDimensionNumbers`. update_shape: the shape that updates would
      have in `scatter`. indices_are_sorted, unique_indices, mode: as for `scatter`.

    Source: StableHLO specification, `scatter`.

    >>> import weft
    >>> from weft import lax
    >>> dnums = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, indices = weft.numpy.arange(3.0), weft.numpy.array([[1], [2], [2]])
    >>> lax.scatter_apply(x, indices, lambda v: v * 3, dnums, update_shape=(3,))
    Array([ 0.,  3., 18.], dtype=float32)
    """
    aval = typeof(operand)
    element = ShapedArray((), aval.dtype)

    def scalar_fun(x: Array) -> list:
        out = func(x)
        if typeof(out).shape != ():
            raise TypeError(
                f"scatter_apply: func must map a scalar to a scalar, got {typeof(out).str_short()}"
            )
        return [convert(out, aval.dtype)]

    closed, closed_over = closed_call_jaxpr(scalar_fun, [element], "scatter_apply")
    for c in closed_over:
        if typeof(c).shape != ():
            raise TypeError(
                "scatter_apply: func may close over scalars only, but it uses an array of type "
                f"{typeof(c).str_short()}; gather, compute and scatter instead"
            )
    if closed_over:  # they ride along as operands that the function leaves alone
        inner, k = closed, len(closed_over)
        traced, consts = trace_to_jaxpr(
            lambda x, *cs: [*eval_closed(inner, *cs, x), *cs],
            [element, *inner.in_avals[:k]],
            "scatter_apply",
        )
        closed = ClosedJaxpr(traced, consts)
    extra = [broadcast_in_dim(c, aval.shape, ()) for c in closed_over]
    outs = scatter_apply_p.bind(
        operand,
        *extra,
        scatter_indices,
        jaxpr=closed,
        dimension_numbers=dimension_numbers,
        update_shape=static_ints("scatter_apply", "update_shape", update_shape),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
    )
    return outs[0]
