"""Checks a module's sharding attributes before Shardy's passes, which end the process on some."""

from __future__ import annotations

from weft._xla.mlir import ir


def validate(module: ir.Module) -> None:
    """Raises ValueError for sharding attributes that do not fit the module."""
    if not module.operation.verify():
        raise ValueError("the module does not verify")
