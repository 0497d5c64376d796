"""Elementwise vectors whose length XLA:CPU's threads do not divide, in two parts.

XLA cuts a loop over a vector into one piece for each thread, and where they are not of one length
asks of every element whether it is still one: loops with that question are not vectorized, and take
five to ten times the time. Here the elements that the threads can share are computed by themselves,
the few others too, and a kernel puts both together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.lowering.context import MARK
from weft.native.calls import call, has_compiler, target
from weft.native.parallel import threads
from weft.native.sorting import KINDS
from weft.partition.emit import Emitter
from weft.partition.ops import facts
from weft.partition.walk import attributes_of, maker

ALIGNED = 64


def uneven(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replaces a vector that a program returns."""
    result = op.results[0].type
    (n,), name = result.shape, str(result.element_type)
    # XLA takes all threads, or where memory is the limit, as many as the root of their number.
    pieces = math.lcm(threads(), math.isqrt(threads() - 1) + 1)
    if n % pieces == 0 or not facts(op).pointwise or name not in KINDS or not has_compiler():
        return None
    cluster = _cluster(op, n)
    if all(x.name in _VECTORIZED for x in cluster):
        return None
    cut = n - n % (pieces * ALIGNED)
    parts = [_part(e, cluster, op, start, stop) for start, stop in ((0, cut), (cut, n))]
    kernel = target("join", "join", {"U": f"u{KINDS[name][1]}"})
    return call(e, kernel, parts, [result], [cut, n])


_VECTORIZED = {
    "chlo.erf",
    *(
        f"stablehlo.{name}"
        for name in (
            *("abs", "add", "and", "compare", "convert", "divide", "exponential", "iota", "log"),
            *("exponential_minus_one", "log_plus_one", "maximum", "minimum", "multiply", "negate"),
            *("not", "or", "rsqrt", "select", "sqrt", "subtract", "tanh", "xor"),
        )
    ),
}
"""Operations whose loops are vectorized all the same, as long as there are no constants."""


def _cluster(op: ir.Operation, n: int) -> list[ir.Operation]:
    """The elementwise operations on vectors of n elements that make a result, in their order."""
    found, waiting = {op}, [op]
    while waiting:
        for operand in waiting.pop().operands:
            source = maker(operand)
            if source is None or source in found or list(operand.type.shape) != [n]:
                continue
            if facts(source).pointwise and len(source.results) == 1 or _is_source(source):
                found.add(source)
                waiting.append(source)
    block = op.block
    return [view.operation for view in block.operations if view.operation in found]


def _is_source(op: ir.Operation) -> bool:
    """Whether a vector is made of nothing, of a scalar, or of equal numbers."""
    if op.name == "stablehlo.broadcast_in_dim":
        return op.operands[0].type.rank == 0
    if op.name == "stablehlo.constant":
        return ir.DenseElementsAttr(op.attributes["value"]).is_splat
    return op.name == "stablehlo.iota"


def _part(
    e: Emitter, cluster: list[ir.Operation], op: ir.Operation, start: int, stop: int
) -> ir.Value:
    """Emits the operations for some of the elements."""
    values: dict[ir.Value, ir.Value] = {}

    def part(x: ir.Value) -> ir.Value:
        if x.type.rank == 0:
            return x
        if x not in values:
            values[x] = e.slice(x, 0, start, stop)
        return values[x]

    for source in cluster:
        old = source.results[0]
        element = old.type.element_type
        type_ = e.type([stop - start], element)
        if source.name == "stablehlo.constant":
            splat = ir.DenseElementsAttr(source.attributes["value"]).get_splat_value()
            new = e.constant(ir.DenseElementsAttr.get_splat(type_, splat))
        elif source.name == "stablehlo.iota":
            new = e.iota([stop - start], 0, element)
            new = e.add(new, e.splat(start, [stop - start], element)) if start else new
        else:
            operands = [part(x) for x in source.operands]
            new = e.op(source.name, operands, [type_], attributes_of(source, MARK)).results[0]
        values[old] = new
    return values[op.results[0]]
