"""Modules in the form that XLA's compiler for GPUs takes.

Its plugin takes no `async_start` (quirks.ASYNC_START_ON_GPU), and needs none: it starts every
collective itself where its operand is ready, and waits for it where it is used. An `all_reduce` of
several operands in a loop (quirks.LOOPED_ALL_REDUCE) becomes one of each operand, which XLA
combines again.
"""

from __future__ import annotations

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.partition.walk import attributes_of, inner_first, insert, ops_in, supersede


def for_gpu(module: ir.Module) -> ir.Module:
    """Rewrite a local module for XLA's GPU compiler, in a copy if anything changes."""
    if not any(map(_unfit, inner_first(module.body))):
        return module
    with module.context:
        copy = mlir.parse(mlir.bytecode(module))
        for op in inner_first(copy.body):
            if _unfit(op):
                (_end if op.name == "stablehlo.async_start" else _split)(op)
    return copy


def _unfit(op: ir.Operation) -> bool:
    if op.name == "stablehlo.all_reduce":
        return len(op.operands) > 1 and _in_loop(op)
    return op.name == "stablehlo.async_start"


def _in_loop(op: ir.Operation) -> bool:
    parent = op.parent
    while parent is not None and parent.name not in ("stablehlo.while", "func.func"):
        parent = parent.parent
    # A function may be called in a loop.
    return parent is not None and (
        parent.name == "stablehlo.while" or parent.attributes["sym_name"].value != "main"
    )


def _end(start: ir.Operation) -> None:
    """Replace a start by the operation it holds, and the result of the done by its value."""
    block = start.regions[0].blocks[0]
    for outer, inner in zip(start.operands, block.arguments, strict=True):
        inner.replace_all_uses_with(outer)
    *body, end = [view.operation for view in block.operations]
    for op in body:
        op.move_before(start)
    for use in list(start.results[0].uses):
        supersede(use.owner.operation, end.operands[0])
    start.erase()


def _split(reduce: ir.Operation) -> None:
    """Return an `all_reduce` for each operand."""
    attributes = attributes_of(reduce)
    combiner = reduce.regions[0].blocks[0]
    for operand, result in zip(reduce.operands, reduce.results, strict=True):
        one = insert(reduce, reduce.name, [result.type], [operand], attributes, regions=1)
        types = [a.type for a in combiner.arguments]
        block = one.regions[0].blocks.append(*types, arg_locs=[reduce.location] * len(types))
        copied = dict(zip(combiner.arguments, block.arguments, strict=True))
        for op in ops_in(combiner):
            new = op.clone(ip=ir.InsertionPoint(block))
            for i, value in enumerate(op.operands):
                new.operands[i] = copied[value]
            copied.update(zip(op.results, new.results, strict=True))
        result.replace_all_uses_with(one.results[0])
    reduce.erase()
