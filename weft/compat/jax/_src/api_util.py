# Tests: tests/compat/test_as_jax.py
"""jax._src.api_util, for e3nn_jax."""

from __future__ import annotations

import inspect
from collections.abc import Iterable


def infer_argnums_and_argnames(
    sig: inspect.Signature,
    argnums: int | Iterable[int] | None,
    argnames: str | Iterable[str] | None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return positions and names of arguments; of which one is None, it follows from the other."""
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames or ())
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums or ())
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    positional = [(i, n) for i, (n, p) in enumerate(sig.parameters.items()) if p.kind is kind]
    if argnums is None:
        numbers = tuple(i for i, n in positional if n in names)
    elif argnames is None:
        names = tuple(n for i, n in positional if i in numbers)
    return numbers, names
