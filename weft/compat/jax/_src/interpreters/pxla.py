# Tests: tests/compat/test_as_jax.py
"""jax._src.interpreters.pxla, for flax: it adds its types to a table that weft has no need of."""

from collections.abc import Callable
from typing import Any

global_result_handlers: dict[Any, Callable] = {}
