"""softmax(q @ kᵀ) @ v as a call of a kernel, which holds some weights at a time.

XLA:CPU writes all scores and weights to memory, and reads them several times.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.native.calls import call, target
from weft.native.engine import host
from weft.native.parallel import threads
from weft.native.softmax import shifted_rows
from weft.partition.emit import Emitter
from weft.partition.walk import maker, only_user, splat_of

_LARGE = 1 << 19
"""Elements that a part packs, from which on there are no more parts than threads."""


@dataclass(slots=True)
class Scores:
    """The operand of a softmax: a product, times a number, plus a bias, some of it hidden."""

    product: ir.Operation
    scale: float = 1.0
    bias: ir.Value | None = None
    mask: ir.Value | None = None
    hides: int = 2
    hidden: float = 0.0


def attention(e: Emitter, op: ir.Operation, side: int) -> Sequence[ir.Value] | None:
    """Replace a product of float32 whose operand `side` is a softmax that nothing else reads."""
    weights, value, out = op.operands[side], op.operands[1 - side], op.results[0]
    scores = _scores(weights)
    if scores is None:
        return None
    # With rules and kernels of convolutions, which other products need not load.
    from weft.native.dense import tile
    from weft.native.kernels.attention import MOST, SOME_KEYS, SOME_QUERIES

    q, key = scores.product.operands
    rank, shape = weights.type.rank, list(weights.type.shape)
    if rank > 4 or any(_kind(x) != ("f32", rank) for x in (weights, q, key, value, out)):
        return None
    first, second = (
        stablehlo.dot_dimensions(x.attributes["dot_dimension_numbers"])
        for x in (scores.product, op)
    )
    batch = list(range(rank - 2))
    sides = ((second.lhs_batch, second.lhs_contract), (second.rhs_batch, second.rhs_contract))
    of_value = sides[1 - side]
    if [list(dims) for dims in sides[side]] != [batch, [rank - 1]] or len(first.lhs_contract) != 1:
        return None
    size = q.type.shape[first.lhs_contract[0]]
    if size > MOST or 0 in (size, *out.type.shape):
        return None
    features = out.type.shape[rank - 1 - side]
    steps = [
        *_steps(q, first.lhs_batch, first.lhs_contract[0]),
        *_steps(key, first.rhs_batch, first.rhs_contract[0]),
        *_steps(value, of_value[0], _free(value, *of_value)),
    ]
    of_scores = [(q, [0] * 4), (q, [0] * 4)]  # where there is no bias, and no mask
    for k, x in enumerate((scores.bias, scores.mask)):
        if x is not None:
            of_scores[k] = _spread(x)

    lanes = host().vector_bytes // 4
    rows, vectors = tile(features, lanes)
    rows, width = min(rows, 8), vectors * lanes
    _, heads, queries, keys = [1] * (4 - rank) + shape
    jobs = math.prod(shape[:-2]) * -(-queries // SOME_QUERIES)
    panels = -(-features // width)
    packed = -(-keys // width) * width * size + panels * width * keys
    scratch = packed + SOME_QUERIES * (SOME_KEYS + width + (2 + panels) * width)
    parts = min(jobs, threads() * (4 if packed < _LARGE else 1))
    parameters = [
        heads, queries, keys, size, features, jobs, parts, scratch,
        _bits(scores.scale), int(scores.bias is not None), scores.hides, _bits(scores.hidden),
        *steps, *of_scores[0][1], *of_scores[1][1], *_steps(out, batch, rank - 1 - side),
    ]  # fmt: skip
    bindings: dict[str, str | int] = {"T": "f32", "LANES": lanes, "ROWS": rows, "VECTORS": vectors}
    operands = [q, key, value, of_scores[0][0], of_scores[1][0]]
    types = [out.type, e.type([parts * scratch], out.type.element_type)]
    return [call(e, target("attention", "attention", bindings), operands, types, parameters)[0]]


def _scores(weights: ir.Value) -> Scores | None:
    """Read the operations before a softmax, backwards; None if others need their results."""
    divide = maker(weights)
    shifted = None if divide is None else shifted_rows(divide)
    if (
        divide is None
        or shifted is None
        or not only_user(weights)
        or not only_user(shifted.results[0])
    ):
        return None
    x = shifted.operands[0]
    if any(_uses(v) != 2 for v in (x, divide.operands[0])):  # by an extremum or a sum, too
        return None
    scores = Scores(shifted)
    if (op := maker(x)) is not None and op.name == "stablehlo.select":
        hidden = [splat_of(v) for v in op.operands[1:]]
        if (hidden[0] is None) == (hidden[1] is None):
            return None
        scores.mask, scores.hides = op.operands[0], int(hidden[0] is not None)
        scores.hidden = hidden[1 - scores.hides] or 0.0
        x = op.operands[2 if scores.hides else 1]
        if not only_user(x) or scores.mask.type.rank == 0:
            return None
    if (op := maker(x)) is not None and op.name == "stablehlo.add":
        k = 0 if _leads_to_product(op.operands[0]) else 1
        x, scores.bias = op.operands[k], op.operands[1 - k]
        if not only_user(x):
            return None
    if (op := maker(x)) is not None and op.name in ("stablehlo.multiply", "stablehlo.divide"):
        factor = splat_of(op.operands[1])
        if not factor or not math.isfinite(factor) or not only_user(op.operands[0]):
            return None
        x, scores.scale = op.operands[0], factor if "multiply" in op.name else 1 / factor
    if (op := maker(x)) is None or op.name != "stablehlo.dot_general":
        return None
    scores.product = op
    return scores


def _leads_to_product(x: ir.Value) -> bool:
    op = maker(x)
    if op is not None and op.name in ("stablehlo.multiply", "stablehlo.divide"):
        op = maker(op.operands[0])
    return op is not None and op.name == "stablehlo.dot_general"


def _uses(x: ir.Value) -> int:
    return sum(1 for _ in x.uses)


def _kind(x: ir.Value) -> tuple[str, int]:
    return str(x.type.element_type), x.type.rank


def _bits(number: float) -> int:
    return struct.unpack("<I", struct.pack("<f", number))[0]


def _free(x: ir.Value, batch: Sequence[int], summed: Sequence[int]) -> int:
    return next(k for k in range(x.type.rank) if k not in (*batch, *summed))


def _apart(x: ir.Value) -> list[int]:
    return [math.prod(x.type.shape[k + 1 :]) for k in range(x.type.rank)]


def _steps(x: ir.Value, batch: Sequence[int], last: int) -> list[int]:
    """Return the distances of elements along two batch dimensions, the one left, and the last."""
    order = (*batch, _free(x, batch, [last]), last)
    return [*[0] * (4 - len(order)), *(_apart(x)[k] for k in order)]


def _spread(x: ir.Value) -> tuple[ir.Value, list[int]]:
    """Return what was spread over scores, and how far apart its elements are along theirs."""
    rank, op = x.type.rank, maker(x)
    along = list(range(rank))
    if op is not None and op.name == "stablehlo.broadcast_in_dim":
        x, along = op.operands[0], list(op.attributes["broadcast_dimensions"])
    steps = [0] * 4
    for k, apart in enumerate(_apart(x)):
        steps[4 - rank + along[k]] = apart if x.type.shape[k] > 1 else 0
    return x, steps
