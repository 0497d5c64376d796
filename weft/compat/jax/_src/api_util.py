# Tests: tests/compat/test_as_jax.py
"""jax._src.api_util, for e3nn_jax and adv-jax-math."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence

from weft.api.grad_arguments import argnums_of, partial_of
from weft.driver.staging import check_callable as _check_callable


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


def check_callable(fun: Callable) -> None:
    _check_callable(fun, "jax")


def _ensure_index_tuple(numbers: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(map(operator.index, numbers if isinstance(numbers, Iterable) else [numbers]))


def _ensure_index(numbers: int | Sequence[int]) -> int | tuple[int, ...]:
    indices = _ensure_index_tuple(numbers)
    return indices if isinstance(numbers, Iterable) else indices[0]


def _ensure_inbounds(allow_invalid: bool, n: int, numbers: Sequence[int]) -> tuple[int, ...]:
    """Return positions of n arguments counted from the first, without those beyond if allowed."""
    return argnums_of([i for i in numbers if i < n or not allow_invalid], n, "jax")


def argnums_partial2(
    f: Callable, dyn_argnums: int | Sequence[int], args: Sequence[object], kwargs: dict
) -> tuple[Callable, tuple]:
    """Return the function of some of its arguments, the others fixed, and those arguments."""
    numbers = argnums_of(dyn_argnums, len(args), "jax")
    return partial_of(f, args, numbers, kwargs), tuple(args[i] for i in numbers)
