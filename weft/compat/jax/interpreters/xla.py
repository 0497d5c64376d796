"""jax.interpreters.xla"""

from typing import Any

from weft.compat.primitive import apply_primitive

Backend = Any

__all__ = ["Backend", "apply_primitive"]
