# Tests: tests/native/test_small_matrices.py
"""Many small matrices: decompositions as calls of kernels, products written out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.lowering.context import in_memory
from weft.native.batches import places_of
from weft.native.calls import call, has_compiler, target
from weft.native.engine import host
from weft.native.parallel import threads
from weft.partition.emit import Emitter

_BYTES = {"f32": 4, "f64": 8}
_SHARED = 4096  # matrices from which all threads share them


def _bindings(x: ir.Value) -> dict[str, str | int] | None:
    """Return the bindings for matrices of a dtype and size that the kernels take."""
    name = str(x.type.element_type)
    if name not in _BYTES or not has_compiler():
        return None
    return {"T": name, "N": x.type.shape[-1], "LANES": host().vector_bytes // _BYTES[name]}


def lu(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace the factors, pivots and permutations of square matrices."""
    (x,), types = op.operands, [r.type for r in op.results]
    bindings, batch = _bindings(x), math.prod(x.type.shape[:-2])
    if bindings is None:
        return None
    parameters = [batch, threads() if batch >= _SHARED else 1]
    return call(e, target("small", "lu", bindings), [x], types, parameters)


def solve(e: Emitter, op: ir.Operation, transposed: int) -> Sequence[ir.Value] | None:
    """Replace the solutions of systems of which there are factors and permutations."""
    packed, order, b = op.operands
    bindings, batch = _bindings(packed), math.prod(packed.type.shape[:-2])
    if bindings is None:
        return None
    parts = threads() if batch >= _SHARED else 1
    parameters = [batch, b.type.shape[-1], transposed, parts]
    kernel = target("small", "solve", bindings)
    return call(e, kernel, [packed, order, b], [op.results[0].type], parameters)


def product(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace the products of small matrices by sums of what a column and a row make.

    XLA makes vectors across the matrices. Its library takes a microsecond for each of them.
    """
    d = stablehlo.dot_dimensions(op.attributes["dot_dimension_numbers"])
    out, contracted = op.results[0].type, (*d.lhs_contract, *d.rhs_contract)
    kinds = {str(t.element_type) for t in (out, *(x.type for x in op.operands))}
    if len(contracted) != 2 or kinds not in ({"f32"}, {"f64"}):
        return None
    places = places_of(op)
    spread = []  # for each operand, where its other dimensions are in the result
    for side, (x, summed) in enumerate(zip(op.operands, contracted, strict=True)):
        at = {pair[side]: k for k, pair in enumerate(places)}
        spread.append([at[k] for k in range(x.type.rank) if k != summed])
    # What makes the operands is not to be computed once for every element that reads it.
    operands = [x if in_memory(x) else e.keep_in_memory(x) for x in op.operands]
    total: ir.Value | None = None
    for k in range(operands[0].type.shape[contracted[0]]):
        parts = []
        for x, summed, dims in zip(operands, contracted, spread, strict=True):
            part = e.slice(x, summed, k, k + 1)
            part = e.reshape(part, [n for i, n in enumerate(x.type.shape) if i != summed])
            parts.append(e.broadcast(part, out.shape, dims))
        term = e.mul(*parts)
        total = term if total is None else e.add(total, term)
    return None if total is None else [e.keep_in_memory(total)]
