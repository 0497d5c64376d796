"""Named composites of selections and of bits as calls of kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.lowering.limits import SMALLEST
from weft.native.calls import call, has_compiler, target
from weft.native.parallel import threads
from weft.native.sorting import KINDS, bindings_of, vector_bindings, vector_widths
from weft.partition.emit import Emitter


def partition(e: Emitter, op: ir.Operation, rank: int) -> Sequence[ir.Value] | None:
    """Replace rows of the last dimension, or their indices, around the element of a rank."""
    (x,), (result,) = op.operands, op.results
    shape, name, element = list(x.type.shape), str(x.type.element_type), result.type.element_type
    wants_indices = isinstance(element, ir.IntegerType) and "indices" in op.attributes["name"].value
    if math.prod(shape) < SMALLEST or name not in KINDS or not has_compiler():
        return None
    n, rows, bits = shape[-1], math.prod(shape[:-1]), KINDS[name][1]
    if bits not in vector_widths() or n >= 2**31:
        return None
    parts = min(rows, threads())
    bindings, spare = bindings_of(name, **vector_bindings(bits)), parts * n
    if wants_indices:
        bindings["I"], spare = f"i{element.width}", 2 * spare
    kernel = target("partition", "indices" if wants_indices else "values", bindings)
    types = [result.type, e.type([spare], x.type.element_type)]
    return call(e, kernel, [x], types, [rows, n, parts, rank])[:1]


def positions(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace the positions of truths, and their number."""
    (x,), (result, total) = op.operands, op.results
    if x.type.rank != 1 or x.type.shape[0] < SMALLEST or not has_compiler():
        return None
    kernel = target(
        "positions", "positions", {"I": f"i{result.type.element_type.width}", "LANES": 64}
    )
    parameters = [x.type.shape[0], result.type.shape[0]]
    return call(e, kernel, [x], [result.type, total.type], parameters)


def search(e: Emitter, op: ir.Operation, right: int) -> Sequence[ir.Value] | None:
    """Replace the places of values in a sorted table."""
    *_, x, v = op.operands  # in front of them constants of the formula
    (result,) = op.results
    name, n, m = str(x.type.element_type), x.type.shape[0], math.prod(v.type.shape)
    if name not in KINDS or m < SMALLEST or not 0 < n < 2**31 or not has_compiler():
        return None
    ready = int(n <= m)
    index = f"i{result.type.element_type.width}"
    kernel = target("search", "search", bindings_of(name, I=index, RIGHT=right, READY=ready))
    scratch = e.type([n if ready else 0], x.type.element_type)
    return call(e, kernel, [x, v], [result.type, scratch], [n, m])[:1]


_PACK, _TAKE = (-0x7FBFDFEFF7FBFDFF, 0x0102040810204080), (0x0102040810204080, -0x7FBFDFEFF7FBFDFF)
"""By whether the first truth is the last bit: the factor that packs, the bits that are taken."""


def bits(e: Emitter, op: ir.Operation, little: int) -> Sequence[ir.Value] | None:
    """Replace eight truths to a byte, or the truths of bytes."""
    *_, x = op.operands  # in front of it constants of the formula
    (result,) = op.results
    size = min(math.prod(v.type.shape) for v in (x, result))
    if size < SMALLEST or not has_compiler():
        return None
    entry = op.attributes["name"].value.split(".")[-1]
    kernel = target("bits", entry, {"PACK": _PACK[little], "TAKE": _TAKE[little]})
    return call(e, kernel, [x], [result.type], [size])
