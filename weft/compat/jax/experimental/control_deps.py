# Tests: tests/compat/test_other_modules.py
"""jax.experimental.control_deps: an order between values that do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import lax

__all__ = ["control_dep", "schedule"]


def control_dep(src: object, dst: object) -> Any:
    """Return dst, whose computation waits for src."""
    return lax.optimization_barrier((src, dst))[1]


def schedule(ops: Sequence[Callable[..., Any]]) -> list:
    """Return the results of functions of no arguments, computed one after the other."""
    results: list = []
    for op in ops:
        out = op()
        results.append(control_dep(results[-1], out) if results else out)
    return results
