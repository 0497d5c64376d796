# Tests: tests/native/test_reductions.py
"""Replaces marked operations of a device's program by what is faster on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

from weft._xla import mlir, passes
from weft._xla.mlir import ir
from weft.lowering.context import MARK
from weft.lowering.limits import UNEVEN
from weft.partition.axis_layout import DeviceMesh
from weft.partition.emit import Emitter
from weft.partition.ops import facts
from weft.partition.walk import clone, forget, functions

Rule = Callable[[Emitter, ir.Operation, int], Sequence[ir.Value] | None]
"""(emitter in front of the operation, operation, number) → its results, or None to leave it."""
RULES = {
    "argreduce": "reductions.argreduce",
    "batches": "batches.batches",
    "columns": "reductions.columns",
    "compare": "extrema.elementwise",
    "counts": "reductions.counts",
    "dense": "dense.dense",
    "depthwise": "convolution.depthwise",
    "extremum": "extrema.extremum",
    "fft": "fourier.fft",
    "filters": "filters.filters",
    "formula": "formulas.formula",
    "lapack": "lapack.lapack",
    "lu": "small.lu",
    "lu_solve": "small.solve",
    "moves": "moves.moves",
    "packbits": "selections.bits",
    "partition": "selections.partition",
    "partition_indices": "selections.partition",
    "pointwise": "pointwise.pointwise",
    "positions": "selections.positions",
    "power": "elementwise.power",
    "product": "small.product",
    "quotient": "formulas.quotient",
    "remainder": "elementwise.remainder",
    "repaired": "formulas.repaired",
    "scan": "reductions.scan",
    "search": "selections.search",
    "softmax": "softmax.softmax",
    "sort": "sorting.sort",
    "stacked": "loops.stacked",
    "take": "moves.take",
    "top_k": "sorting.top_k",
    "unpackbits": "selections.bits",
    "vectors": "reductions.vectors",
    "wave": "elementwise.wave",
    "widened": "formulas.widened",
}
"""The module and the function of each rule, loaded for the first operation with its mark."""


@cache
def rule(name: str) -> Rule:
    module, function = RULES[name].split(".")
    return getattr(import_module(f"weft.native.{module}"), function)


FUSED = ("compare", "formula", "quotient", "repaired", "widened")
"""Rules whose results are parts of loops, which read no vector from memory."""
FEW_ELEMENTS = f"{MARK}.few_elements"
"""On a module while it is rewritten: whether XLA runs it on the caller's thread, once counted."""
_ONE_DEVICE = DeviceMesh({})


def rewrite(module: ir.Module) -> ir.Module:
    """Replace marked operations by native kernels; the module itself where none is marked."""
    with mlir.context(), mlir.unknown_location():
        if not _marked(module):
            return module
        module = clone(module)
        if _found(module, _makes_much):
            passes.run(module, "inline{default-pipeline= },symbol-dce")
        # Composites first: what those are made of that kernels replace is of no interest.
        for op in [op for op in _marked(module) if op.name == "stablehlo.composite"]:
            formula = op.attributes["decomposition"].value
            if _replace(op):
                functions(module)[formula].erase()
        for op in _marked(module):
            _replace(op)
        forget(module.operation, FEW_ELEMENTS)
    return module


def _replace(op: ir.Operation) -> bool:
    """Apply a marked operation's rule; tell whether the operation is gone."""
    name, number = op.attributes[MARK].value.split()
    if name not in FUSED:
        from weft.native import uneven  # with kernels, of which programs without know nothing

        uneven.feed(op, _ONE_DEVICE)
    del op.attributes[MARK]
    if name == "uneven":  # only what it reads is of interest
        return False
    results = rule(name)(Emitter.before(op, _ONE_DEVICE), op, int(number))
    if results is None:
        return False
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return True


def _marked(module: ir.Module) -> list[ir.Operation]:
    """List the marked operations outside combiners, inner ones first."""
    return [op for op in _found(module, lambda op: MARK in op.attributes) if not _combines(op)]


def _found(module: ir.Module, test: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """List operations of a module, inner ones first.

    Iterators over blocks would load the bindings of all of StableHLO, which takes 15 ms.
    """
    marked: list[ir.Operation] = []

    def look(op: ir.Operation) -> ir.WalkResult:
        if test(op):
            marked.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return marked


def _combines(op: ir.Operation) -> bool:
    """Return whether an operation is in the combiner of a reduction, a scatter or a sort."""
    parent = op.parent
    while parent is not None:
        if facts(parent).combines:
            return True
        parent = parent.parent
    return False


def _makes_much(op: ir.Operation) -> bool:
    """Return whether a rule may have to see how a called function makes a large array."""
    types = [r.type for r in op.results] if op.name == "func.call" else []
    return any(isinstance(t, ir.RankedTensorType) and math.prod(t.shape) >= UNEVEN for t in types)
