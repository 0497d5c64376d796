# Tests: tests/compat/test_other_modules.py
"""jax.extend.mlir.dialects: the constructors of operations that jaxlib generates."""

from typing import Any

from weft._xla.mlir import dialect


def __getattr__(name: str) -> Any:
    try:
        return dialect("stablehlo" if name == "hlo" else name)
    except ModuleNotFoundError:
        raise AttributeError(f"jaxlib has no dialect {name!r}") from None
