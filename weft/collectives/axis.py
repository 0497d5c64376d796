"""axis_index and axis_size: where a device stands along named axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.collectives.groups import AxisGroup, axis_group_of, named_axes, needs_shardy, split
from weft.core import dtypes
from weft.core.aval import Mat, ShapedArray
from weft.core.primitive import Primitive
from weft.lowering.manual import manual_region

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext


def _batch(axis: AxisData, args: list, dims: list, *, over: AxisGroup) -> tuple:
    s = split(over, axis.name)
    table = s.row(s.member)
    return table.astype(np.int32) if isinstance(table, np.ndarray) else table, 0


def _lower(ctx: RuleContext, *, over: AxisGroup) -> Any:
    int32 = dtypes.int32
    if over.size == 1:
        return ctx.splat(0, (), int32)
    module = ctx.module
    mesh = module.mesh
    free = [n for n in mesh.axis_names if n not in module.manual_axes]
    if any(mesh.shape[n] > 1 for n in free):
        return _partly_manual(ctx, over, tuple(free))
    return _from_partition_id(ctx, over)


def _from_partition_id(ctx: RuleContext, over: AxisGroup) -> Any:
    """Return the index by arithmetic on the device's position in the program."""
    int32, mesh = dtypes.int32, ctx.module.mesh
    scalar = ctx.tensor((), int32)
    position = ctx.op("stablehlo.partition_id", [], [ctx.type("tensor<ui32>")])[0]
    position = ctx.op("stablehlo.convert", [position], [scalar])[0]

    def apply(hlo: str, x: ir.Value, n: int) -> Any:
        if n == 1 and hlo != "stablehlo.remainder":
            return x
        return ctx.op(hlo, [x, ctx.splat(n, (), int32)], [scalar])[0]

    total = None
    stride = over.size
    for name, size in zip(over.names, over.sizes, strict=True):
        stride //= size
        at = mesh.axis_names.index(name)
        below = math.prod(mesh.axis_sizes[at + 1 :])
        index = apply("stablehlo.divide", position, below)
        if math.prod(mesh.axis_sizes[:at]) > 1:
            index = apply("stablehlo.remainder", index, size)
        index = apply("stablehlo.multiply", index, stride)
        total = index if total is None else ctx.op("stablehlo.add", [total, index], [scalar])[0]
    return total


def _partly_manual(ctx: RuleContext, over: AxisGroup, free: tuple) -> Any:
    """partition_id is defined only where all axes are manual: a nested region makes them so."""
    needs_shardy(ctx, "axis_index")
    module = ctx.module
    before = module.manual_axes
    module.manual_axes = before | frozenset(free)
    try:
        return manual_region(
            ctx,
            free,
            [],
            [],
            [((), ctx.tensor((), dtypes.int32))],
            lambda: [_from_partition_id(ctx, over)],
        )[0]
    finally:
        module.manual_axes = before


axis_index_p = Primitive(
    "axis_index",
    abstract=lambda *, over: ShapedArray((), dtypes.int32, False, None, Mat(over.tracked)),
    batch=_batch,
    lower=_lower,
    named_axes=named_axes,
    silent=True,
    own_types=True,
)


def axis_index(axis_name: object) -> Any:
    """Return the index of the device (or vmapped example) along a named axis, an int32 scalar.

    axis_name: an axis in scope, or a tuple of them: then the row-major index, the first axis
    major.

    Raises:
      NameError: an axis is not in scope; the message lists those that are.

    >>> import weft
    >>> weft.vmap(lambda x: x + weft.lax.axis_index("i"), axis_name="i")(weft.numpy.zeros(3, int))
    Array([0, 1, 2], dtype=int32)
    """
    return axis_index_p.bind(over=axis_group_of("axis_index", axis_name))


def axis_size(axis_name: object) -> int:
    """Return the size of a named axis, a Python int; of a tuple of axes, their product.

    Raises:
      NameError: an axis is not in scope.

    >>> import weft
    >>> weft.vmap(lambda x: x * weft.lax.axis_size("i"), axis_name="i")(weft.numpy.ones(3))
    Array([3., 3., 3.], dtype=float32)
    """
    return axis_group_of("axis_size", axis_name).size
