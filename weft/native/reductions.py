"""Reductions and cumulative operations as calls of kernels, or as XLA makes vectors of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.lowering.context import MARK, in_memory
from weft.lowering.limits import (
    COLUMNS,
    DIVIDED,
    FEW_ROWS,
    LONG_ROWS,
    MATRIX,
    PLANE,
    READ_ONCE,
    ROWS,
    SMALLEST,
    UNROLLED,
    VECTOR,
)
from weft.native.calls import call, has_compiler, target
from weft.native.engine import host
from weft.native.parallel import threads
from weft.native.sorting import KINDS, bindings_of, counts_up
from weft.partition.emit import Emitter
from weft.partition.walk import combiner_of, maker, only_user, supersede


def _split(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    """Return elements in front of neighbouring dimensions, along them, behind them."""
    first, behind = min(dims, default=0), max(dims, default=-1) + 1
    return [math.prod(shape[:first]), math.prod(shape[first:behind]), math.prod(shape[behind:])]


LOGSUMEXP = 4
"""The number of cumulative log-sum-exps; those before it are in `kernels/scan.py`."""


def argreduce(e: Emitter, op: ir.Operation, least: int) -> Sequence[ir.Value] | None:
    """Replace a reduction of values and their indices along one dimension."""
    x, index, *_ = op.operands
    dims = list(op.attributes["dimensions"])
    if len(dims) != 1 or not counts_up(index, dims[0]):
        return None
    return argreduce_of(e, x, dims, bool(least), index.type.element_type)


def argreduce_of(
    e: Emitter, x: ir.Value, dims: list[int], least: bool, index: ir.Type | None = None
) -> Sequence[ir.Value] | None:
    """Return the extrema along neighbouring dimensions and, of an index type, their places."""
    name, shape, last = str(x.type.element_type), list(x.type.shape), max(dims)
    first, n = min(dims), math.prod(shape[min(dims) : last + 1])
    if math.prod(shape) < SMALLEST or name not in KINDS or not has_compiler():
        return None
    if last - first + 1 != len(dims) or n >= 2**32:
        return None
    kind, bits, _ = KINDS[name]
    outer, inner = math.prod(shape[:first]), math.prod(shape[last + 1 :])
    if n < (UNROLLED if bits in (8, 32) else UNROLLED // 2) and outer * inner % threads() == 0:
        return None
    known = name not in ("f16", "bf16")
    bindings = bindings_of(
        name, S=f"i{bits}", E=f"{'uif'[kind] if known else 'i'}{bits}", NARROW=int(not known),
        SUMMED=int(known and kind == 2), LEAST=int(least), LANES=1024 // bits,
        PLACES=int(not known or index is not None), I=f"u{KINDS[str(index or e.i32)][1]}",
    )  # fmt: skip
    kernel = target("argreduce", "argreduce", bindings)
    kept = [*shape[:first], *shape[last + 1 :]]
    results = [e.type(kept, x.type.element_type), e.type(kept, index or e.i32)]
    return call(e, kernel, [x], results, [outer, n, inner])[: 1 if index is None else 2]


def columns(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a sum or a product over neighbouring dimensions of what is in memory."""
    kind = {"stablehlo.add": SUM, "stablehlo.multiply": PRODUCT}.get(combiner_of(op))
    result = _sum_of_products(e, op) if kind == SUM else None
    if result is None and kind is not None:
        result = columns_of(e, op, kind)
    return written_out(e, op) if result is None else result


def _sum_of_products(e: Emitter, op: ir.Operation) -> Sequence[ir.Value] | None:
    """Call the kernel on what a product over the last dimensions is made of.

    XLA fuses sums with products, but adds up rows one after the other, in few vectors.
    """
    source, shape = maker(op.operands[0]), op.operands[0].type.shape
    summed = sorted(op.attributes["dimensions"])
    first = len(shape) - len(summed)
    if (
        source is None
        or source.name != "stablehlo.multiply"
        or summed != [*range(first, len(shape))]
    ):
        return None
    one, other = source.operands
    outer, n, _ = _split(shape, summed)
    return _of_products(e, op, one, other, [outer, n, 1], n)


def vectors(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace the product of two vectors, or of a matrix with one from either side."""
    numbers = stablehlo.dot_dimensions(op.attributes["dot_dimension_numbers"])
    (x, y), dims = op.operands, numbers.lhs_contract
    if math.prod(y.type.shape) > math.prod(x.type.shape):
        x, y, dims = y, x, numbers.rhs_contract
    made = maker(x)
    if made is not None and made.name == "stablehlo.transpose" and x.type.rank == 2 > len(dims):
        x, dims = made.operands[0], [1 - dims[0]]
    outer, n, inner = _split(x.type.shape, dims)
    long = outer > 1 and n > VECTOR and outer * n >= READ_ONCE
    if outer * inner > 1 and (outer * n * inner < MATRIX or 1 < inner < PLANE or long):
        return None
    return _of_products(e, op, x, y, [outer, n, inner], 0)


def _of_products(
    e: Emitter, op: ir.Operation, x: ir.Value, y: ir.Value, sizes: list[int], step: int
) -> Sequence[ir.Value] | None:
    """Call the kernel on two arrays in memory, to add up products along the middle of the sizes."""
    kinds = {str(v.type.element_type) for v in (x, y, op.results[0])}
    stored = in_memory(x) and in_memory(y)
    if not stored or kinds not in ({"f32"}, {"f64"}) or sizes[1] < ROWS or not has_compiler():
        return None
    (name,) = kinds
    bindings = {"T": name, "S": name, "OP": SUM, "FLOATS": 1, "PAIRED": 1}
    return _call_columns(e, op, x, y, bindings, sizes, step)


SUM, MAXIMUM, MINIMUM, PRODUCT = range(4)
"""What the kernel of columns computes."""


def columns_of(e: Emitter, op: ir.Operation, kind: int) -> Sequence[ir.Value] | None:
    """Call the kernel of columns on what is in memory, perhaps in another type of numbers."""
    x, source = op.operands[0], maker(op.operands[0])
    dims, shape, name = list(op.attributes["dimensions"]), x.type.shape, str(x.type.element_type)
    if source is not None and source.name == "stablehlo.convert":
        x = source.operands[0]
    stored = str(x.type.element_type)
    narrow = stored == "bf16" or (stored == "f16" and "f16c" in host().able)
    if name not in _TYPES or not (narrow or stored in _TYPES) or not in_memory(x):
        return None
    first, last = min(dims, default=0), max(dims, default=0)
    outer, inner = math.prod(shape[:first]), math.prod(shape[last + 1 :])
    n = math.prod(shape[first : last + 1])
    if last - first + 1 != len(dims) or n < 2 or n * inner < (COLUMNS if inner > 1 else ROWS):
        return None
    if (inner == 1 and kind == SUM and _is_subtracted(op.results[0], x)) or not has_compiler():
        return None
    bindings: dict[str, str | int] = {"S": _TYPES[name], "OP": kind, "FLOATS": int(name[0] == "f")}
    bindings |= {"T": stored if narrow else _TYPES[stored], "PAIRED": 0}
    return _call_columns(e, op, x, x, bindings, [outer, n, inner])


def _is_subtracted(total: ir.Value, x: ir.Value) -> bool:
    """Tell whether a mean is subtracted from its elements, as by variances.

    XLA's library then reads rows from memory once, for the mean and for what is made with it.
    """
    for use in total.uses:
        user = use.owner
        if user.name == "stablehlo.subtract":
            if user.operands[0] == x:
                return True
        elif user.name in _OF_MEANS and _is_subtracted(user.results[0], x):
            return True
    return False


_OF_MEANS = frozenset(
    f"stablehlo.{name}" for name in ("divide", "multiply", "reshape", "broadcast_in_dim")
)


def _call_columns(
    e: Emitter,
    op: ir.Operation,
    x: ir.Value,
    y: ir.Value,
    bindings: dict,
    sizes: list[int],
    step: int = 0,
) -> list[ir.Value]:
    """Call the kernel on x[outer, n, inner]; step: the distance of the rows of y."""
    (outer, n, inner), out = sizes, op.results[0].type
    length = max(64, (1 << 18) // inner) if inner > 1 else 1 << 15
    segments = -(-n // length)
    totals = e.type([outer * segments * inner if segments > 1 else 0], out.element_type)
    kernel = target("columns", "columns", bindings)
    quotient, divisor = _quotient(op) if bindings["FLOATS"] else (None, 1)
    parameters = [*sizes, length, step, divisor]
    results = call(e, kernel, [x, y], [out, totals], parameters)[:1]
    if quotient is not None:
        supersede(quotient, *results)
    return results


def _quotient(op: ir.Operation) -> tuple[ir.Operation | None, int]:
    """Return the only use of a result, if it is its division by a whole number, and that number.

    XLA hands programs with as many operations as a mean of 1000 rows has to another thread.
    """
    user = only_user(op.results[0])
    if user is None or user.name != "stablehlo.divide" or MARK in user.attributes:
        return None, 1
    by = maker(user.operands[1])
    few = math.prod(op.results[0].type.shape) <= DIVIDED
    if by is None or by.name != "stablehlo.constant" or not few:
        return None, 1
    values = ir.DenseElementsAttr(by.attributes["value"])
    divisor = values.get_splat_value().value if values.is_splat else 0.0
    whole = 1 < divisor < 2**31 and divisor == int(divisor)
    return (user, int(divisor)) if whole else (None, 1)


COUNTED = 512
"""Truths of a row from which a kernel counts them."""


def counts(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a sum of truths by sums of bytes, extrema of integers by a kernel."""
    x, init = op.operands
    dims, shape, combiner = list(op.attributes["dimensions"]), list(x.type.shape), combiner_of(op)
    first, last = min(dims), max(dims)
    if last - first + 1 != len(dims):
        return None
    if combiner != "stablehlo.add":
        least = combiner in ("stablehlo.minimum", "stablehlo.and")
        result = columns_of(e, op, MINIMUM if least else MAXIMUM)
        return result or (argreduce_of(e, x, dims, least) if in_memory(x) else None)
    source = maker(x)
    outer, n = math.prod(shape[:first]), math.prod(shape[first : last + 1])
    if last != len(shape) - 1 or source is None or source.name != "stablehlo.convert":
        return None
    truths = source.operands[0]
    if str(truths.type.element_type) != "i1" or n < COUNTED or not has_compiler():
        return None
    bindings: dict[str, str | int] = {"I": f"i{x.type.element_type.width}", "LANES": 64}
    total = call(
        e, target("counts", "counts", bindings), [truths], [op.results[0].type], [outer, n]
    )
    # XLA folds a sum with zero, the usual start.
    return [e.add(total[0], e.broadcast(init, op.results[0].type.shape))]


def written_out(e: Emitter, op: ir.Operation) -> Sequence[ir.Value] | None:
    """Combine a few rows one after the other, which XLA fuses with what makes them.

    The library that XLA gives them to takes ten to twenty times as long (quirks.FEW_ROWS).
    """
    x, init = op.operands
    (dim, *others), shape, out = op.attributes["dimensions"], x.type.shape, op.results[0].type
    if (
        others
        or not 1 < shape[dim] <= FEW_ROWS
        or math.prod(shape[dim + 1 :]) < LONG_ROWS
        or str(out.element_type) != "f32"
    ):
        return None
    name = combiner_of(op).removeprefix("stablehlo.")
    total = e.broadcast(init, out.shape)
    for i in range(shape[dim]):
        total = e.binary(name, total, e.reshape(e.slice(x, dim, i, i + 1), out.shape))
    return [total]


_TYPES = {"f32": "f32", "f64": "f64"} | {
    f"{sign}i{n}": f"{kind}{n}" for sign, kind in (("", "i"), ("u", "u")) for n in (8, 16, 32, 64)
}

_HALVES = ("f16", "bf16")  # accumulated as float32


def scan(e: Emitter, op: ir.Operation, which: int) -> Sequence[ir.Value] | None:
    """Replace a window as long as one dimension: sums, products, maxima, minima so far."""
    x = op.operands[0]
    shape, name = list(x.type.shape), str(x.type.element_type)
    if math.prod(shape) < SMALLEST or name not in {*_TYPES, *_HALVES} or not has_compiler():
        return None
    window = list(op.attributes["window_dimensions"])
    dims = [d for d, n in enumerate(window) if n > 1]
    if len(dims) != 1 or window[dims[0]] != shape[dims[0]]:
        return None
    (dim,) = dims
    n = shape[dim]
    padding = [int(p) for p in op.attributes["padding"]]
    low, high = padding[2 * dim : 2 * dim + 2]
    if sorted((low, high)) != [0, n - 1] or sum(padding) != n - 1:
        return None
    for strides in ("window_strides", "base_dilations", "window_dilations"):
        if strides in op.attributes and set(op.attributes[strides]) != {1}:
            return None
    step = 1 if low else -1
    if name in _HALVES:
        x = e.convert(x, ir.F32Type.get(e.context))
    results = _scanned(e, x, which, dim, step)
    if results is None or name not in _HALVES:
        return results
    return [e.convert(results[0], op.results[0].type.element_type)]


def _scanned(e: Emitter, x: ir.Value, which: int, dim: int, step: int) -> Sequence[ir.Value] | None:
    """Call the kernel of a cumulative operation."""
    if which == LOGSUMEXP:
        return _cumulative_logsumexp(e, x, dim, step)
    name, shape = str(x.type.element_type), list(x.type.shape)
    bindings: dict[str, str | int] = {"T": _TYPES[name], "OP": which}
    totals = e.type([shape[dim] // 4096 + 1], x.type.element_type)
    parameters = [*_split(shape, [dim]), step]
    kernel = target("scan", "scan", bindings)
    return call(e, kernel, [x], [x.type, totals], parameters)[:1]


def _cumulative_logsumexp(
    e: Emitter, x: ir.Value, dim: int, step: int
) -> Sequence[ir.Value] | None:
    """Call the kernel of rows; other dimensions are turned to be the last."""
    rank = x.type.rank
    if str(x.type.element_type) != "f32":
        return None
    order = [d for d in range(rank) if d != dim] + [dim]
    turned = x if dim == rank - 1 else e.transpose(x, order)
    n = turned.type.shape[-1]
    kernel = target("exponentials", "logsumexps", {})
    parameters = [math.prod(turned.type.shape) // n, n, step]
    (out,) = call(e, kernel, [turned], [turned.type], parameters)
    return [out if dim == rank - 1 else e.transpose(out, [order.index(d) for d in range(rank)])]
