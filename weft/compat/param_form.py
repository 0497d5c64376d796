# Tests: tests/compat/test_equations.py
"""How JAX names and writes the parameters of one primitive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Value = Callable[[dict[str, Any], Sequence[Any]], Any]
"""A value of a parameter of JAX's, from weft's parameters and the operands."""


class Form:
    """The parameters of a primitive as JAX has them.

    names: weft's name -> JAX's, where they differ. only: parameters that only JAX has, each with
    its value, or a function of weft's parameters and the operands. fixed: those of them that weft
    takes with that value alone. optional: parameters that weft has where they were given, each with
    a function of the primitive's name and a value that returns the value as weft has it, or None.
    seen, taken: functions that write a value as JAX has it, by JAX's name, and as weft has it, by
    weft's. defaults: the parameters that only weft has, each with its value, or a function of JAX's
    parameters.
    """

    __slots__ = (
        *("_names", "_only", "_seen", "_taken"),
        *("back", "defaults", "fixed", "marks", "optional"),
    )

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        only: Mapping[str, Any] | None = None,
        fixed: Mapping[str, Any] | None = None,
        optional: Mapping[str, Callable] | None = None,
        seen: Mapping[str, Callable] | None = None,
        taken: Mapping[str, Callable] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self._names = names or {}
        self.back = {theirs: ours for ours, theirs in self._names.items()}
        self.fixed = fixed or {}
        self.optional = optional or {}
        self._only = {**(only or {}), **self.fixed}
        self._seen = seen or {}
        self._taken = taken or {}
        self.defaults = defaults or {}
        names_of_jax = frozenset({*self._only, *self.back, *self.optional})
        self.marks = frozenset() if self.defaults else names_of_jax  # by which JAX's are known

    def seen(self, rule_params: dict[str, Any], operands: Sequence[Any]) -> dict[str, Any]:
        result = {
            self._names.get(n, n): v for n, v in rule_params.items() if n not in self.defaults
        }
        for name, write in self._seen.items():
            if name in result:
                result[name] = write(result[name])
        for name, value in self._only.items():
            result[name] = value(rule_params, operands) if callable(value) else value
        for name in self.optional:
            result.setdefault(name, None)
        return result

    def is_of_jax(self, params: dict[str, Any]) -> bool:
        return (
            not self._only.keys().isdisjoint(params)
            or not self.back.keys().isdisjoint(params)
            or not self.defaults.keys() <= params.keys()
            or any(params.get(name, 0) is None for name in self.optional)
        )

    def taken(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        for fixed, value in self.fixed.items():
            if params.get(fixed) not in (None, value):
                raise NotImplementedError(
                    f"{name}_p.bind: {fixed} must be {value}, got {params[fixed]!r}: leave it out"
                )
        result = {self.back.get(n, n): v for n, v in params.items() if n not in self._only}
        for optional, canonical in self.optional.items():
            value = result.pop(optional, None)
            if value is not None and (value := canonical(name, value)) is not None:
                result[optional] = value
        for ours, default in self.defaults.items():
            if ours not in result:
                result[ours] = default(params) if callable(default) else default
        for ours, write in self._taken.items():
            if ours in result:
                result[ours] = write(result[ours])
        return result
