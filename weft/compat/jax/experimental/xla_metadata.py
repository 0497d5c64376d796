# Tests: tests/compat/test_other_modules.py
"""jax.experimental.xla_metadata: frontend attributes of operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import weft
from weft import tree
from weft._xla.config import state, traced_options
from weft.lowering.metadata import scope

__all__ = ["set_xla_metadata"]


# A function traced with other notes is another program.
_NOTES = state("xla_metadata", ())
traced_options.add(_NOTES)


class _Notes(contextlib.ContextDecorator):
    """The scope of notes, as a context and as a decorator; a jitted function keeps its stages."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._entered: list[tuple[AbstractContextManager, Any]] = []

    def __enter__(self) -> None:
        named = weft.named_scope(self._text)
        named.__enter__()
        self._entered.append((named, _NOTES.swap_local((*_NOTES.value, self._text))))
        traced_options.publish_locals()

    def __exit__(self, *exception: object) -> None:
        named, before = self._entered.pop()
        named.__exit__(None, None, None)
        _NOTES.set_local(before)
        traced_options.publish_locals()

    def __call__(self, fun: Callable) -> Any:
        noted = super().__call__(fun)
        for stage in ("lower", "trace", "eval_shape"):
            if hasattr(fun, stage):
                setattr(noted, stage, super().__call__(getattr(fun, stage)))
        return noted


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
        return _Notes(scope(metadata))
    if callable(x):
        return _Notes(scope(metadata))(x)
    with weft.named_scope(scope(metadata, of_value=True)):
        return tree.map(weft.lax.optimization_barrier, x)


def attr_get(x: object) -> str:
    """Return a note as XLA's attributes write it."""
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, int | float | str):
        return str(x)
    raise NotImplementedError(f"attr_get: notes are numbers and strings, got {type(x).__name__}")
