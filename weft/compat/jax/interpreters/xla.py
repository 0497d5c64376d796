# Tests: tests/compat/test_as_jax.py
"""jax.interpreters.xla"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.compat.primitive import apply_primitive

Backend = Any

canonicalize_dtype_handlers: dict[type, Callable[[Any], Any]] = {np.ndarray: np.asarray}
"""Class of values that stand for arrays -> its conversion. weft converts by the value's type."""

__all__ = ["Backend", "apply_primitive", "canonicalize_dtype_handlers"]
