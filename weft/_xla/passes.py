# Tests: tests/xla/test_mlir.py
"""Runs MLIR pass pipelines on a module."""

from __future__ import annotations

import functools

from weft._xla.mlir import context, ir


@functools.cache
def _registered() -> None:
    from jaxlib.mlir._mlir_libs import _stablehlo

    _stablehlo.register_stablehlo_passes()


@functools.lru_cache(maxsize=256)
def _parse(pipeline: str):
    from jaxlib.mlir import passmanager

    _registered()
    try:
        return passmanager.PassManager.parse(f"builtin.module({pipeline})", context())
    except ValueError as error:
        raise ValueError(f"pass pipeline {pipeline!r} does not parse: {error}") from error


def run(module: ir.Module, pipeline: str) -> ir.Module:
    """Run ``pipeline`` (passes separated by commas) on ``module`` in place and return it.

    Raises ``ir.MLIRError`` with the failing operation's diagnostics.

    Example:
        >>> from weft._xla import mlir, passes
        >>> module = mlir.parse("module { func.func private @f() { return } }")
        >>> _ = passes.run(module, "symbol-dce")
        >>> "@f" in mlir.text(module)
        False
    """
    _parse(pipeline).run(module.operation)
    return module
