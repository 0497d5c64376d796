# Tests: tests/bucketing/test_call.py
"""Two traces of one function compared: their common form, and the numbers that differ.

A function is traced at its arguments' sizes and at the padded ones. The two jaxprs must agree in
all but numbers: dimensions, numbers among the params, literals and constants. Each number has a
slot, counted in the order of a walk, so that the same slot means the same in every trace.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, open_jaxpr


@dataclasses.dataclass(slots=True, eq=False)
class EqnSlots:
    """The slots of an equation: of its literals, of numbers among its params, of result shapes."""

    literals: tuple[int | None, ...]
    params: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(slots=True, eq=False)
class JaxprSlots:
    """The slots of a jaxpr: of its inputs' shapes, its constants, equations, and literal results"""

    shapes: tuple[tuple[int, ...], ...]
    consts: tuple[int, ...]
    eqns: list[EqnSlots]
    outs: tuple[int | None, ...]


class Numbered:
    """A jaxpr with its numbers taken out: the numbers in the order of their slots, and the rest."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.closed = closed
        self.numbers: list[Any] = []
        self.rest: list[tuple[Eqn | None, Any]] = []
        self.eqn: Eqn | None = None
        self.slots = self._jaxpr(closed)

    def _slot(self, value: object) -> int:
        self.numbers.append(value)
        return len(self.numbers) - 1

    def _keep(self, value: object) -> None:
        self.rest.append((self.eqn, value))

    def _shape(self, aval: object) -> tuple[int, ...]:
        shape = getattr(aval, "shape", ())
        self._keep((type(aval), getattr(aval, "dtype", None), len(shape)))
        return tuple([self._slot(int(d)) for d in shape])

    def _jaxpr(self, jaxpr: Jaxpr | ClosedJaxpr) -> JaxprSlots:
        inner = open_jaxpr(jaxpr)
        index: dict[Var, int] = {}

        def bound(variables: list[Var]) -> tuple:
            for v in variables:
                index[v] = len(index)
            return tuple([self._shape(v.aval) for v in variables])

        shapes = bound([*inner.constvars, *inner.invars])
        consts = tuple(
            [self._slot(c) for c in (jaxpr.consts if isinstance(jaxpr, ClosedJaxpr) else ())]
        )
        eqns = []
        outer = self.eqn
        for eqn in inner.eqns:
            self.eqn = eqn
            self._keep(eqn.primitive)
            literals = tuple([self._atom(v, index) for v in eqn.invars])
            self._keep(tuple(eqn.rule_params))
            params = {name: self._param(value) for name, value in eqn.rule_params.items()}
            eqns.append(EqnSlots(literals, params, bound(eqn.outvars)))
        self.eqn = outer
        outs = tuple([self._atom(v, index) for v in inner.outvars])
        return JaxprSlots(shapes, consts, eqns, outs)

    def _atom(self, v: object, index: dict) -> int | None:
        if isinstance(v, Literal):
            self._keep(("literal", v.aval.dtype))
            return self._slot(v.val)
        self._keep(index[v])
        return None

    def _param(self, value: Any) -> Any:
        """Return the slots of the numbers in a param, nested as they are."""
        if isinstance(value, Jaxpr | ClosedJaxpr):
            return self._jaxpr(value)
        if type(value) in (tuple, list):
            self._keep(len(value))
            return tuple([self._param(x) for x in value])
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return self._slot(int(value))
        if isinstance(value, float | np.floating | np.ndarray):
            return self._slot(value)
        # Functions are made anew by each trace.
        self._keep(type(value) if callable(value) and not isinstance(value, type) else value)
        return None


def _is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(np.array_equal(a, b, equal_nan=True))
    except TypeError:  # of a dtype without NaN
        return bool(np.array_equal(a, b))


def differing(a: Numbered, b: Numbered) -> frozenset[int]:
    """Return the slots whose numbers differ."""
    return frozenset(
        i for i, (x, y) in enumerate(zip(a.numbers, b.numbers, strict=True)) if not _is_same(x, y)
    )


def first_difference(a: Numbered, b: Numbered) -> tuple[Eqn | None, Eqn | None] | None:
    """Return the equations where two jaxprs first differ in more than numbers, None if nowhere."""
    for (p, x), (q, y) in zip(a.rest, b.rest, strict=False):
        try:
            same = x is y or bool(x == y)
        except (TypeError, ValueError):
            same = False
        if not same:
            return p, q
    if len(a.rest) != len(b.rest):
        longer = max(a.rest, b.rest, key=len)
        return longer[min(len(a.rest), len(b.rest))][0], None
    return None
