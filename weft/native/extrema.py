"""Maxima and minima of floats that keep NaNs: XLA:CPU's library drops them (quirks.LOST_NANS).

The library takes reductions of more than a few thousand elements, and what computes their operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from weft._xla.mlir import ir
from weft.lowering.context import in_memory
from weft.lowering.limits import LANES, LIBRARY, STEPPED, STEPS
from weft.native.calls import has_compiler
from weft.native.reductions import MAXIMUM, MINIMUM, argreduce_of, columns_of, written_out
from weft.partition.emit import Emitter
from weft.partition.ops import facts
from weft.partition.walk import combiner_of, maker

_FLOATS = ("f32", "f64")
_REDUCTIONS = ("stablehlo.reduce", "stablehlo.reduce_window")
_FAR = 64
"""How many uses of a value are followed."""


def extremum(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a reduction by maximum or minimum, or the function it reduces by."""
    x = op.operands[0]
    summed = any(user.name in _REDUCTIONS for user in readers(op))
    if op.name == "stablehlo.reduce" and not summed:  # else the library may read what is written
        few = written_out(e, op)
        if few is not None:
            return few
    if not _is_concerned(x) or _shows_in_sums(x, op.results[0]):
        return None
    if op.name == "stablehlo.reduce" and has_compiler():
        parts = x if in_memory(x) else _parts(e, op)
        if parts is not None:
            op.operands[0] = parts
            dims, least = list(op.attributes["dimensions"]), combiner_of(op) == "stablehlo.minimum"
            if max(dims) == x.type.rank - 1:
                result = argreduce_of(e, parts, dims, least)
            else:
                result = columns_of(e, op, MINIMUM if least else MAXIMUM)
            if result is not None:
                return result
    _keep_nans(e, op)
    return None


def _parts(e: Emitter, op: ir.Operation) -> ir.Value | None:
    """Take extrema of a few elements each of a program's values, which XLA fuses with them.

    Rows of parts are apart as far as they can be: XLA makes vectors of what lies between.
    """
    x, init = op.operands
    shape, dims = list(x.type.shape), list(op.attributes["dimensions"])
    first, last = min(dims), max(dims)
    n, inner = math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])
    steps = [k for k in STEPS if n // k * inner >= LANES]
    if not steps or last - first + 1 != len(dims) or math.prod(shape) < STEPPED:
        return None
    step = max(steps, key=lambda k: (n % k == 0, k))
    lanes, left = divmod(n, step)
    outer = math.prod(shape[:first])
    rows = e.reshape(x, [outer, n, inner])
    whole = e.slice(rows, 1, 0, n - left) if left else rows
    whole = e.reshape(whole, [outer, step, lanes * inner])
    parts = e.reduce(whole, init, 1, combiner_of(op))
    _keep_nans(e, parts.owner)
    # Fused into what follows, they would be computed one by one.
    parts = e.keep_in_memory(parts)
    parts = e.reshape(parts, [outer, lanes, inner])
    if left:
        parts = e.concatenate([parts, e.slice(rows, 1, n - left, n)], 1)
    kept = [*shape[:first], lanes + left, *[1] * (len(dims) - 1), *shape[last + 1 :]]
    return e.reshape(parts, kept)


def _keep_nans(e: Emitter, op: ir.Operation) -> None:
    """Let a reduction combine by clamp, which the library does not know, and XLA vectorizes."""
    inner = op.regions[0].blocks[0].operations[0].operation
    inside = Emitter.before(inner, e.mesh)
    (a, b), kind = inner.operands, inner.results[0].type
    least = inner.name == "stablehlo.minimum"
    bound = ir.FloatAttr.get(kind.element_type, -math.inf if least else math.inf)
    bound = inside.constant(ir.DenseElementsAttr.get_splat(kind, bound))
    kept = inside.make("stablehlo.clamp", [bound, b, a] if least else [a, b, bound], kind)
    inner.results[0].replace_all_uses_with(kept)
    inner.erase()


def elementwise(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace the maximum or minimum of two arrays that a reduction may read at once.

    The library gives the second operand where either is NaN. XLA puts constants there.
    """
    x, y = op.operands
    if not _is_concerned(x) or not any(user.name in _REDUCTIONS for user in readers(op)):
        return None
    name = op.name.removeprefix("stablehlo.")
    for value, other in ((y, x), (x, y)):
        number = _number(value)
        if number is None:
            continue
        if any(v.name != op.name and any(map(_number, v.operands)) for v in _beside(op)):
            return None  # XLA makes clamp of two bounds, which the library does not know
        scalar = e.constant(number)
        hidden = e.keep_in_memory(scalar)
        return [e.binary(name, e.broadcast(hidden, other.type.shape), other)]
    return [e.select(e.compare(x, x, "NE"), x, e.binary(name, x, y))]


def _beside(op: ir.Operation) -> Iterator[ir.Operation]:
    """Return the maxima and minima that make the operands or use the result."""
    around = [*map(maker, op.operands), *(use.owner.operation for use in op.results[0].uses)]
    names = ("stablehlo.maximum", "stablehlo.minimum")
    return (v for v in around if v is not None and v.name in names)


def _is_concerned(x: ir.Value) -> bool:
    return str(x.type.element_type) in _FLOATS and math.prod(x.type.shape) >= LIBRARY


def _number(x: ir.Value) -> ir.Attribute | None:
    """Return the number that all elements are, if they are one that is no NaN."""
    op = maker(x)
    while op is not None and op.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
        op = maker(op.operands[0])
    if op is None or op.name != "stablehlo.constant":
        return None
    values = ir.DenseElementsAttr(op.attributes["value"])
    if not values.is_splat:
        return None
    number = values.get_splat_value()
    scalar = ir.RankedTensorType.get([], op.results[0].type.element_type)
    is_nan = math.isnan(ir.FloatAttr(number).value)
    return None if is_nan else ir.DenseElementsAttr.get_splat(scalar, number)


def readers(op: ir.Operation) -> Iterator[ir.Operation]:
    """Return the operations that read a value or what is computed of it element by element."""
    waiting, seen = list(op.results), 0
    while waiting:
        for use in waiting.pop().uses:
            user, seen = use.owner.operation, seen + 1
            if seen > _FAR:
                return
            yield user
            if facts(user).pointwise or user.name in _MOVES:
                waiting += user.results


_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose")


def _shows_in_sums(x: ir.Value, extremum: ir.Value) -> bool:
    """Tell whether an extremum is of a softmax or log-sum-exp: sums of exp(x - m) have the NaN."""
    for user in readers(extremum.owner.operation):
        if user.name == "stablehlo.subtract" and user.operands[0] == x:
            for reader in readers(user):
                if reader.name == "stablehlo.exponential":
                    return any(u.name == "stablehlo.reduce" for u in readers(reader))
    return False
