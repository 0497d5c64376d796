"""The Triton dialect in the shared MLIR context, and its pointer type."""

from __future__ import annotations

import functools

from weft._xla.mlir import context, ir


@functools.cache
def load() -> None:
    """Registers the dialect, once."""
    from jaxlib.mlir._mlir_libs import _triton_ext

    _triton_ext.register_dialect(context())


def pointer_type(element: ir.Type) -> ir.Type:
    """A pointer to elements in global memory."""
    from jaxlib.mlir._mlir_libs import _triton_ext

    load()
    return _triton_ext.PointerType.get(element, 1)
