# Tests: tests/compat/test_experimental.py
"""jax.experimental.ode, for bijx: what odeint does with pytrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.compat.jax import api_util as api_util
from weft.flatten_util import ravel_pytree


def ravel_first_arg(f: Callable, unravel: Callable, debug_info: object = None) -> Callable:
    """Return f as a function of vectors: its first argument and its result are raveled."""

    def of_vectors(y: Any, *args: Any) -> Any:
        return ravel_pytree(f(unravel(y), *args))[0]

    return of_vectors
