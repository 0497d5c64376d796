# Tests: tests/test_layout.py
"""with_layout_constraint: how a value lies in memory where it stands in the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.op_families import linear_unary
from weft.core.trace import typeof
from weft.core.tree import broadcast_prefix, flatten
from weft.runtime.device_put import device_put
from weft.runtime.memory_layouts import relaid
from weft.sharding.memory_layout import Layout
from weft.sharding.text import batch_rule_text

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def _batch(axis: object, x: object, dim: int, *, layout: Layout) -> tuple:
    order = (dim, *(d + (d >= dim) for d in layout.major_to_minor))
    return layout_constraint_p.bind(x, layout=Layout(order)), dim


def _lower(ctx: RuleContext, x: ir.Value, *, layout: Layout) -> Any:
    return lay_out(ctx, x, ctx.avals_in[0].shape, layout.major_to_minor)


def lay_out(ctx: RuleContext, x: ir.Value, shape: Sequence[int], major_to_minor: Any) -> Any:
    """Return the value in memory with its dimensions in this order, the outermost first."""
    if not shape:
        return x
    n = len(shape)

    def order(dims: Any) -> Any:
        return ctx.attr(f"[dense<{list(dims)}> : tensor<{n}xindex>]")

    attrs = {
        "call_target_name": ctx.string("LayoutConstraint"),
        "operand_layouts": order(reversed(range(n))),
        "result_layouts": order(major_to_minor[::-1]),
        "sdy.sharding_rule": ctx.attr(batch_rule_text([tuple(shape)] * 2, 1, tuple(shape))),
    }
    return ctx.op("stablehlo.custom_call", [x], [x.type], attrs)[0]


layout_constraint_p = linear_unary(
    "layout_constraint",
    abstract=lambda x, *, layout: x,
    transpose=lambda ct, aval, *, layout: layout_constraint_p.bind(ct, layout=layout),
    batch=_batch,
    lower=_lower,
    sharding="elementwise",
)


def _place_now(x: ArrayLike, *, layout: Layout) -> Any:
    return relaid(device_put(x), layout)


layout_constraint_p.impl = _place_now


def with_layout_constraint(x: ArrayLike, layouts: object) -> Any:
    """Ask XLA to lay out arrays in memory in given orders, at this point of the program.

    x: a pytree of arrays. layouts: a `Layout`, or a pytree of them that is a prefix of x. A result
    of the jitted function keeps the layout.

    Raises TypeError for what is no `Layout`, ValueError for one of another rank or with tiles.

    >>> import weft
    >>> from weft.layout import Layout, with_layout_constraint
    >>> f = weft.jit(lambda x: with_layout_constraint(x + 1, Layout((1, 0))))
    >>> f(weft.numpy.ones((2, 3))).format.layout.major_to_minor
    (1, 0)
    """
    leaves, tree = flatten(x)
    leaf_layouts = broadcast_prefix(
        layouts, tree, "with_layout_constraint: layouts", lambda v: isinstance(v, Layout)
    )
    outs = []
    for leaf, layout in zip(leaves, leaf_layouts, strict=True):
        if not isinstance(layout, Layout):
            raise TypeError(
                f"with_layout_constraint: layouts must be a Layout, got {layout!r:.100}"
            )
        layout.check_compatible_aval(typeof(leaf).shape, "with_layout_constraint")
        if layout.tiling is not None:
            raise ValueError(
                f"with_layout_constraint: {layout!r} has tiles, which only arrays have"
            )
        outs.append(layout_constraint_p.bind(leaf, layout=layout))
    return tree.unflatten(outs)
