# Tests: tests/driver/test_jit.py
"""Arguments that jit is told of by position or by name: static and donated ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

from weft.core.errors import kind_of
from weft.core.source import function_name
from weft.core.trace import Tracer, is_array_like
from weft.core.tree import position_names


def _numbers(value: int | tuple | None, label: str) -> tuple[int, ...]:
    if value is None:
        return ()
    if isinstance(value, int):
        return (value,)
    try:
        result = tuple(int(v) for v in value)
    except (TypeError, ValueError):
        raise TypeError(
            f"jit: {label} must be an int or a sequence of ints, got {value!r}"
        ) from None
    return result


def _names(value: Any, label: str) -> tuple[str, ...]:
    if value is None:
        return ()
    names = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(v, str) for v in names):
        raise TypeError(f"jit: {label} must be a string or strings, got {value!r}")
    return names


def _complete(
    fun: Callable, numbers: tuple, names: tuple, label: str, as_given: bool
) -> tuple[tuple, tuple]:
    """Return positions and names of the same arguments, each completed from the other.

    as_given: both are the caller's, such as those of a wrapper that takes other arguments than the
    signature of what it wraps says: they are checked only.
    """
    if not numbers and not names:
        return (), ()
    import inspect

    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return numbers, names
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    keywords = any(p.kind == p.VAR_KEYWORD for p in parameters)
    for i in numbers:
        if not variadic and not -len(positional) <= i < len(positional):
            raise ValueError(
                f"jit: {label}_argnums {i} is out of range for {function_name(fun)}, which takes "
                f"{len(positional)} positional arguments"
            )
    parameter_names = {p.name for p in parameters}
    for name in names:
        if name not in parameter_names and not keywords:
            raise ValueError(
                f"jit: {label}_argnames {name!r} is not an argument of {function_name(fun)}; its "
                f"arguments are {', '.join(sorted(parameter_names))}"
            )
    if as_given:
        return numbers, names
    all_numbers = dict.fromkeys(numbers)
    for name in names:
        if name in positional:
            all_numbers[positional.index(name)] = None
    all_names = dict.fromkeys(names)
    for i in numbers:
        if -len(positional) <= i < len(positional):
            p = positional[i]
            if next(q for q in parameters if q.name == p).kind != inspect.Parameter.POSITIONAL_ONLY:
                all_names[p] = None
    return tuple(all_numbers), tuple(all_names)


def named_arguments(
    fun: Callable, numbers: Any, names: object, label: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """List the arguments that `{what}_argnums` or `_argnames` name, by number and by name."""
    return _complete(
        fun,
        _numbers(numbers, f"{label}_argnums"),
        _names(names, f"{label}_argnames"),
        label,
        numbers is not None and names is not None,
    )


def unhashable(fun: Callable, where: int | str, value: Any) -> str:
    """Describe why a static argument's value will not do, "" if it will."""
    try:
        hash(value)
    except TypeError:
        name = where if isinstance(where, str) else position_names(fun, where + 1)[where]
        return (
            f"jit of {function_name(fun)}: static argument {name!r} must be hashable, got "
            f"{kind_of(value)}, {value!r:.60}; {_hashable_instead(value)}, or make the "
            "argument dynamic by leaving it out of static_argnums and static_argnames"
        )
    return ""


def _hashable_instead(value: object) -> str:
    """Say what to give in place of a static argument that does not hash."""
    if isinstance(value, Tracer):
        return "mark it static in the outer transformation too"
    if is_array_like(value):
        return "give a number or a tuple that is computed from it"
    if is_dataclass(value):
        return "give its class @dataclass(frozen=True)"
    return "use a tuple instead of a list"
