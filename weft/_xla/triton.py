# Tests: tests/pallas/test_gpu_compile.py
"""The pointer type of the Triton dialect."""

from __future__ import annotations

from weft._xla.mlir import ir


def pointer_type(element: ir.Type) -> ir.Type:
    """Return a pointer to elements in global memory."""
    from jaxlib.mlir._mlir_libs import _triton_ext

    return _triton_ext.PointerType.get(element, 1)
