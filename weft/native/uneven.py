"""Elementwise vectors whose length XLA:CPU's threads do not divide, in two parts.

XLA cuts a loop over a vector into one piece for each thread, and where they are not of one length
asks of every element whether it is still one: loops with that question and a long formula are not
vectorized, and take five to ten times the time. Here two parts that the threads can share are
computed, of one length so that they overlap, and a kernel puts both together; where no vector is
read, some more elements than asked for are computed, and the kernel copies the others. That is
done to vectors which are in memory anyway: those that a program returns, or that are read by a
marked operation.

XLA compiles equal loops once. Those of both parts are equal because a kernel tells
where they start, which XLA cannot fold into them.
"""

from __future__ import annotations

import math

from weft._xla.mlir import ir
from weft.lowering.context import MARK
from weft.lowering.limits import UNEVEN
from weft.native.calls import call, has_compiler, target
from weft.native.engine import host
from weft.native.parallel import threads
from weft.native.sorting import KINDS
from weft.partition.axis_layout import DeviceMesh
from weft.partition.emit import Emitter
from weft.partition.ops import facts
from weft.partition.walk import attributes_of, maker

ALIGNED = 64


def feed(op: ir.Operation, mesh: DeviceMesh) -> None:
    """Replace the vectors that an operation reads from memory."""
    for x in op.operands:
        shape = _shape(x)
        if shape[1:] == [1] and (source := maker(x)) is not None:
            x = source.operands[0] if source.name == "stablehlo.reshape" else x
            shape = _shape(x)
        source = maker(x)
        if len(shape) != 1 or shape[0] < UNEVEN or source is None:
            continue
        if _is_elementwise(source, shape[0]) and (
            new := _in_two(Emitter.before(source, mesh), source)
        ):
            x.replace_all_uses_with(new)


def _shape(x: ir.Value) -> list[int]:
    return list(x.type.shape) if isinstance(x.type, ir.RankedTensorType) else []


def _in_two(e: Emitter, op: ir.Operation) -> ir.Value | None:
    result = op.results[0].type
    (n,), name = result.shape, str(result.element_type)
    # XLA takes all threads, or where memory is the limit, as many as the root of their number.
    pieces = math.lcm(threads(), math.isqrt(threads() - 1) + 1)
    if n % pieces == 0 or name not in KINDS or not has_compiler():
        return None
    cluster = _cluster(op, n)
    if "avx512bw" in host().able and name != "bf16" and all(x.name in _VECTORIZED for x in cluster):
        return None
    kernel = target("join", "join", {"U": f"u{KINDS[name][1]}"})
    made = {x.results[0] for x in cluster}
    length = pieces * ALIGNED
    if not any(x.type.rank and x not in made for source in cluster for x in source.operands):
        part = _part(e, cluster, op, None, -(-n // length) * length)
        return call(e, kernel, [part, part], [result], [n, n, 0])[0]
    half = -(-n // (2 * length)) * length
    if half > n:
        return None
    starts = call(e, target("join", "starts", {}), [], [e.type([], e.i32)] * 2, [0, n - half])
    parts = [_part(e, cluster, op, start, half) for start in starts]
    return call(e, kernel, parts, [result], [half, n, 2 * half - n])[0]


_VECTORIZED = {
    "chlo.erf",
    *(
        f"stablehlo.{name}"
        for name in (
            *("abs", "add", "and", "broadcast_in_dim", "ceil", "clamp", "compare", "constant"),
            *("convert", "divide", "exponential", "floor", "iota", "is_finite", "log", "logistic"),
            *("maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "remainder"),
            *("round_nearest_afz", "round_nearest_even", "rsqrt", "select", "shift_left"),
            *("shift_right_arithmetic", "shift_right_logical", "sign", "sqrt", "subtract", "xor"),
        )
    ),
}
"""Operations whose loops are vectorized all the same, with a mask: where AVX-512 has masks, as AVX2
has none for narrow elements and slow stores of others, and no bfloat16 is rounded."""


def _cluster(op: ir.Operation, n: int) -> list[ir.Operation]:
    """List the elementwise operations on vectors of n elements that make a result, in order."""
    cluster, waiting = {op}, [op]
    while waiting:
        for operand in waiting.pop().operands:
            source = maker(operand)
            if source is None or source in cluster or list(operand.type.shape) != [n]:
                continue
            if _is_elementwise(source, n) or _is_source(source):
                cluster.add(source)
                waiting.append(source)
    block = op.block
    return [view.operation for view in block.operations if view.operation in cluster]


def _is_elementwise(op: ir.Operation, n: int) -> bool:
    if op.name == "stablehlo.bitcast_convert":
        return list(op.operands[0].type.shape) == [n]
    return facts(op).pointwise and len(op.results) == 1


def _is_source(op: ir.Operation) -> bool:
    """Return whether a vector is made of nothing, of a scalar, or of equal numbers."""
    if op.name == "stablehlo.broadcast_in_dim":
        return op.operands[0].type.rank == 0
    if op.name == "stablehlo.constant":
        return ir.DenseElementsAttr(op.attributes["value"]).is_splat
    return op.name == "stablehlo.iota"


def _part(
    e: Emitter, cluster: list[ir.Operation], op: ir.Operation, start: ir.Value | None, size: int
) -> ir.Value:
    """Emit the operations for some of the elements."""
    values: dict[ir.Value, ir.Value] = {}

    def part(x: ir.Value) -> ir.Value:
        if x not in values:
            read = x.type.rank > 0 and start is not None
            values[x] = e.dynamic_slice(x, 0, start, size) if read else x
        return values[x]

    for source in cluster:
        old = source.results[0]
        element = old.type.element_type
        type_ = e.type([size], element)
        if source.name == "stablehlo.constant":
            splat = ir.DenseElementsAttr(source.attributes["value"]).get_splat_value()
            new = e.constant(ir.DenseElementsAttr.get_splat(type_, splat))
        elif source.name == "stablehlo.iota":
            new = e.iota([size], 0, element)
            if start is not None:
                new = e.add(new, e.broadcast(e.convert(start, element), [size], []))
        else:
            operands = [part(x) for x in source.operands]
            new = e.op(source.name, operands, [type_], attributes_of(source, MARK)).results[0]
        values[old] = new
    return values[op.results[0]]
