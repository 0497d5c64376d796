"""The operations of a block and of the regions in it, in an order that allows rewriting."""

from __future__ import annotations

from collections.abc import Iterator

from weft._xla.mlir import ir


def inner_first(block: ir.Block) -> Iterator[ir.Operation]:
    """What a region holds before the operation that has it.

    A block's operations are listed when its walk begins, so that the caller may replace the one
    it is at, and add others.
    """
    for view in list(block.operations):
        op = view.operation
        for region in op.regions:
            for inner in region.blocks:
                yield from inner_first(inner)
        yield op
