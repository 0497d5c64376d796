# Tests: tests/compat/test_other_modules.py
"""jax.extend.mlir: jaxlib's bindings of MLIR, for lowering rules."""

from weft._xla.mlir import ir

__all__ = ["ir"]
