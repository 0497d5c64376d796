"""Optimizations on the local program's collectives."""

from __future__ import annotations

from weft._xla import passes
from weft._xla.mlir import ir
from weft.partition.layout import DeviceMesh


def optimize(module: ir.Module, mesh: DeviceMesh, *, overlap: bool = False) -> ir.Module:
    """Improves a local module in place."""
    del mesh, overlap
    return passes.run(module, "cse")
