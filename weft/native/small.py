# Tests: tests/native/test_small_matrices.py
"""Named composites of decompositions of many small matrices as calls of kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla.mlir import ir
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
