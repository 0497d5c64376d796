# Tests: tests/compat/test_other_modules.py
"""jax.experimental.xla_metadata: notes on operations, which weft writes into their names."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import weft
from weft import tree

__all__ = ["set_xla_metadata"]


@contextlib.contextmanager
def _noted(text: str) -> Iterator[None]:
    with weft.named_scope(text):
        yield


def set_xla_metadata(x: object = None, **kwargs: object) -> Any:
    """A context or decorator whose operations carry notes, or a value that carries them.

    The notes are part of the operations' names (`op_name` of the compiled program), where a
    profile shows them; no compiler reads them.
    """
    if not kwargs:
        raise ValueError("set_xla_metadata: give notes as keywords, like set_xla_metadata(a=1)")
    text = "xla_metadata(" + ",".join(f"{k}={v}" for k, v in sorted(kwargs.items())) + ")"
    if x is None:
        return _noted(text)
    if callable(x):
        return functools.wraps(x)(_noted(text)(x))
    with _noted(text):
        return tree.map(weft.lax.optimization_barrier, x)
