"""The operations of a block and of the regions in it, in an order that allows rewriting."""

from __future__ import annotations

from collections.abc import Iterator

from weft._xla.mlir import ir

# Their regions hold a few scalar operations, which nothing here rewrites.
COMBINING = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_reduce", "reduce", "reduce_scatter", "reduce_window"),
        *("scatter", "select_and_scatter", "sort"),
    )
)


def inner_first(block: ir.Block) -> Iterator[ir.Operation]:
    """What a region holds before the operation that has it; the regions of combiners are left out.

    A block's operations are listed when its walk begins, so that the caller may replace the one
    it is at, and add others.
    """
    for view in list(block.operations):
        op = view.operation
        if op.name not in COMBINING:
            for region in op.regions:
                for inner in region.blocks:
                    yield from inner_first(inner)
        yield op
