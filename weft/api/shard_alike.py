"""shard_alike: two values that are placed alike, wherever that is."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from weft.autodiff.shape import broadcast_to_dim, moveaxis
from weft.autodiff.vmap import AxisData
from weft.core.boundary import api_boundary
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.tree import flatten
from weft.lowering.context import string_attr

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.aval import ShapedArray
    from weft.lowering.context import RuleContext


@api_boundary
def shard_alike(x: object, y: object) -> tuple[Any, Any]:
    """Return two trees of arrays as they are, which partitioners will split alike.

    Where propagation gives a leaf of one tree a sharding, the leaf at its place in the other gets
    the same. Their cotangents are split alike as well.

    Args:
      x, y: trees of one structure, leaf by leaf of equal shapes; dtypes may differ.

    Raises:
      ValueError: the structures or shapes differ, or the leaves have different constraints.

    Source: Shardy's `sdy.sharding_group`.

    >>> import weft
    >>> from weft.shard_alike import shard_alike
    >>> mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    >>> x = weft.device_put(weft.numpy.ones(8), weft.NamedSharding(mesh, weft.P("x")))
    >>> weft.jit(lambda x: shard_alike(x, weft.numpy.zeros(8))[1])(x).sharding.spec
    P('x',)
    """
    xs, tree = flatten(x)
    ys, other = flatten(y)
    if tree != other:
        raise ValueError(f"shard_alike: x has the structure {tree}, y has {other}; give them one")
    pairs = []
    for i, (a, b) in enumerate(zip(xs, ys, strict=True)):
        if typeof(a).shape != typeof(b).shape:
            raise ValueError(
                f"shard_alike: leaf {i} has type {typeof(a).str_short()} in x and "
                f"{typeof(b).str_short()} in y; values of equal shapes can be split alike"
            )
        pairs.append(shard_alike_p.bind(a, b))
    return tree.unflatten([a for a, _ in pairs]), tree.unflatten([b for _, b in pairs])


_groups = count()


def _jvp(primals: list, tangents: list) -> tuple:
    outs = shard_alike_p.bind(*primals)
    if any(t is None for t in tangents):
        return outs, tangents
    return outs, shard_alike_p.bind(*tangents)


def _transpose(cts: list, *args: object) -> list:
    return cts if any(ct is None for ct in cts) else shard_alike_p.bind(*cts)


def _batch(axis: AxisData, args: list, dims: list) -> tuple:
    moved = [
        broadcast_to_dim(x, 0, axis.size) if d is None else moveaxis(x, d, 0)
        for x, d in zip(args, dims, strict=True)
    ]
    return shard_alike_p.bind(*moved), [0, 0]


def _lower(ctx: RuleContext, *operands: ir.Value) -> list:
    module = ctx.module
    if module.mesh is None or set(module.mesh.axis_names) <= module.manual_axes:
        return list(operands)
    number = next(_groups)
    if module.use_shardy:
        for x in operands:
            ctx.op("sdy.sharding_group", [x], [], {"group_id": ctx.i64(number)})
        return list(operands)
    attrs = {
        "call_target_name": ctx.string("Sharding"),
        "mhlo.sharding": string_attr(f"{{unknown shard_as {number}}}"),
        "has_side_effect": ctx.bool(True),
        "api_version": ctx.i32(1),
    }
    return [ctx.op("stablehlo.custom_call", [x], [x.type], attrs)[0] for x in operands]


def _abstract(x: ShapedArray, y: ShapedArray) -> list:
    return [x, y]


shard_alike_p = Primitive(
    "shard_alike",
    abstract=_abstract,
    impl=lambda *operands: list(operands),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    linear=(0, 1),
    multiple_results=True,
    own_types=True,
)
