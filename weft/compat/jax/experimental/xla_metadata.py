# Tests: tests/compat/test_other_modules.py
"""jax.experimental.xla_metadata: frontend attributes of operations."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import weft
from weft import tree
from weft.lowering.metadata import scope

__all__ = ["set_xla_metadata"]


@contextlib.contextmanager
def _noted(text: str) -> Iterator[None]:
    with weft.named_scope(text):
        yield


def set_xla_metadata(x: object = None, **kwargs: object) -> Any:
    """Return a context or decorator whose operations carry notes, or a value that carries them.

    The notes are frontend attributes of the operations, which XLA's tools read, and part of their
    names (`op_name` of the compiled program), where a profile shows them. Those of a value are of
    the operation that made it, and are not its derivative's.
    """
    if not kwargs:
        raise ValueError("set_xla_metadata: give notes as keywords, like set_xla_metadata(a=1)")
    metadata = {k: attr_get(v) for k, v in kwargs.items()}
    if x is None:
        return _noted(scope(metadata))
    if callable(x):
        return functools.wraps(x)(_noted(scope(metadata))(x))
    with _noted(scope(metadata, of_value=True)):
        return tree.map(weft.lax.optimization_barrier, x)


def attr_get(x: object) -> str:
    """Return a note as XLA's attributes write it."""
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, int | float | str):
        return str(x)
    raise NotImplementedError(f"attr_get: notes are numbers and strings, got {type(x).__name__}")
