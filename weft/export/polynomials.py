# Tests: tests/export/test_symbolic.py
"""Polynomials of unknown sizes: arithmetic, equalities that rewrite them, values and bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

# An atom is a variable's name or (operation, polynomial, polynomial); a polynomial is a sorted
# tuple of (tuple of atoms, coefficient).
Poly = tuple
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}


def polynomial(terms: dict) -> Poly:
    return tuple(sorted(((m, c) for m, c in terms.items() if c), key=repr))


def constant(value: int) -> Poly:
    return polynomial({(): value})


def add(a: Poly, b: Poly, scale: int = 1) -> Poly:
    terms = dict(a)
    for monomial, c in b:
        terms[monomial] = terms.get(monomial, 0) + scale * c
    return polynomial(terms)


def multiply(a: Poly, b: Poly) -> Poly:
    terms: dict = {}
    for (m, c), (n, d) in itertools.product(a, b):
        key = tuple(sorted((*m, *n), key=repr))
        terms[key] = terms.get(key, 0) + c * d
    return polynomial(terms)


def value_of(a: Poly) -> int | None:
    """Return the value of a constant polynomial."""
    return 0 if not a else a[0][1] if len(a) == 1 and a[0][0] == () else None


def operate(name: str, a: Poly, b: Poly) -> Poly:
    x, y = value_of(a), value_of(b)
    if y == 0 and name in ("floordiv", "mod"):
        raise ZeroDivisionError("division of a symbolic dimension by zero")
    if x is not None and y is not None:
        return constant(OPERATIONS[name](x, y))
    if a == b:
        return {"floordiv": constant(1), "mod": constant(0)}.get(name, a)
    if y is not None and name in ("floordiv", "mod"):
        whole = polynomial({m: c // y for m, c in a if c % y == 0})
        rest = polynomial({m: c for m, c in a if c % y})
        if not rest or value_of(rest) is not None and 0 <= (value_of(rest) or 0) < y:
            return whole if name == "floordiv" else rest
        if name == "mod":
            a = rest
        elif whole:
            return add(whole, operate(name, rest, b))
    if name == "floordiv" and (exact := _quotient(a, b)) is not None:
        return exact
    if name == "mod" and _quotient(a, b) is not None:
        return ()
    return (((((name, a, b)),), 1),)


def _quotient(a: Poly, b: Poly) -> Poly | None:
    """Return a / b where b is one term that divides all of a's."""
    if len(b) != 1:
        return None
    (atoms, c), terms = b[0], {}
    for m, d in a:
        left = _without(m, atoms)
        if left is None or d % c:
            return None
        terms[left] = d // c
    return polynomial(terms)


def _without(monomial: tuple, atoms: tuple) -> tuple | None:
    """Return the monomial divided by these atoms, or None where it does not have them all."""
    left = list(monomial)
    for atom in atoms:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def rewrite(p: Poly, equalities: Sequence[tuple[Poly, Poly]]) -> Poly:
    """Replace products that are left sides of equalities by the right ones, as far as it goes."""
    for _ in range(100):  # equalities may lead in a circle
        for (((atoms, k),), right), (m, c) in itertools.product(equalities, p):
            left = _without(m, atoms)
            if left is not None and c % k == 0:
                p = add(add(p, ((m, c),), -1), multiply(((left, c // k),), right))
                break
        else:
            break
    return p


def evaluate(a: Poly, sizes: dict[str, int]) -> int:
    """Return the value for given sizes; KeyError names a variable that has none."""
    return sum(c * math.prod(_atom_value(x, sizes) for x in m) for m, c in a)


def _atom_value(atom: Any, sizes: dict[str, int]) -> int:
    if isinstance(atom, str):
        return sizes[atom]
    name, a, b = atom
    return OPERATIONS[name](evaluate(a, sizes), evaluate(b, sizes))


def variables(a: Poly) -> set[str]:
    """Return the names of the variables."""
    names: set[str] = set()
    for atom in (x for m, _ in a for x in m):
        names |= {atom} if isinstance(atom, str) else variables(atom[1]) | variables(atom[2])
    return names


def show(a: Poly) -> str:
    """Return the polynomial as `symbolic_shape` reads it."""
    if not a:
        return "0"
    words = []
    for m, c in sorted(a, key=lambda term: (-len(term[0]), repr(term[0]))):
        factors = [x if isinstance(x, str) else f"{x[0]}({show(x[1])}, {show(x[2])})" for x in m]
        text = "*".join([*([str(abs(c))] if abs(c) != 1 or not m else []), *factors])
        words.append((" - " if c < 0 else " + ") + text)
    first = words[0]
    return ("-" if first[1] == "-" else "") + first[3:] + "".join(words[1:])


def bounds(p: Poly, limits: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """Bound a polynomial by an interval."""
    low = high = 0.0
    for m, c in p:
        at: tuple[float, float] = (1, 1)
        for atom in m:
            at = _times(at, _atom_bounds(atom, limits))
        ends = _times(at, (c, c))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _times(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    ends = [0.0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(ends), max(ends)


def _atom_bounds(atom: Any, limits: dict[str, tuple[float, float]]) -> tuple[float, float]:
    if isinstance(atom, str):
        return limits.get(atom, (1, math.inf))
    name, a, b = atom
    x, y = bounds(a, limits), bounds(b, limits)
    if name in ("max", "min"):
        pick = OPERATIONS[name]
        return pick(x[0], y[0]), pick(x[1], y[1])  # type: ignore[arg-type]
    if y[0] <= 0:
        return -math.inf, math.inf
    if name == "mod":
        return 0, y[1] - 1
    floor = lambda v, by: v if math.isinf(v) else math.floor(v / by)
    return floor(x[0], y[1] if x[0] >= 0 else y[0]), floor(x[1], y[0] if x[1] >= 0 else y[1])
