"""Blocks of equations that a program repeats, such as its layers and their derivatives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, assign

SHORTEST = 16
"""Equations that a block has at least."""
_CANDIDATES = 24
"""Periods that are tried, the most frequent distances between equal equations."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Equations [start + k · period, start + (k + 1) · period) are equal for all k < count.

    externals: for each block, the variables that it reads and others make, in the same order.
    """

    start: int
    period: int
    count: int
    externals: tuple[tuple[Var, ...], ...]

    @property
    def end(self) -> int:
        return self.start + self.period * self.count

    @property
    def saved(self) -> int:
        """The number of equations that need no compilation of their own."""
        return self.period * (self.count - 1)


def flattened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with the bodies of its plain calls in their place."""
    eqns: list[Eqn] = []
    outs = _inline(closed.jaxpr, {}, eqns)
    jaxpr = closed.jaxpr
    for v in outs:
        if not isinstance(v, Var | Literal):
            raise TypeError(f"a result is {v!r}, which is no variable")
    return ClosedJaxpr(jaxpr.replace(eqns=eqns, outvars=outs), closed.consts)


def _inline(jaxpr: Jaxpr, env: dict[Atom, Atom], eqns: list[Eqn]) -> list[Atom]:
    def read(v: Atom) -> Atom:
        return env.get(v, v)

    for eqn in jaxpr.eqns:
        ins = [read(v) for v in eqn.invars]
        body = _plain_body(eqn)
        if body is not None:
            inner: dict[Atom, Atom] = dict(zip(body.jaxpr.invars, ins, strict=True))
            assign(env, eqn, _inline(body.jaxpr, inner, eqns))
        else:
            # An inlined body may be called twice, so that its variables must be made anew.
            outs = [Var(v.aval) for v in eqn.outvars]
            env.update(zip(eqn.outvars, outs, strict=True))
            eqns.append(eqn.replace(invars=ins, outvars=outs))
    return [read(v) for v in jaxpr.outvars]


def _plain_body(eqn: Eqn) -> ClosedJaxpr | None:
    """Return the body of a call that is nothing but its body."""
    body = eqn.rule_params.get("jaxpr")
    if not isinstance(body, ClosedJaxpr) or body.consts:
        return None
    if eqn.primitive.name == "jit":
        placed = (*eqn.rule_params["in_shardings"], *eqn.rule_params["out_shardings"])
        if any(placed) or any(eqn.rule_params["donated"]) or eqn.rule_params["options"]:
            return None
        return body
    return body if "call" in eqn.rule_params and "num_consts" in eqn.rule_params else None


def find_repeats(jaxpr: Jaxpr, work: int = 0) -> list[Repeat]:
    """Return disjoint repeats in order, the one that saves most chosen first.

    work: elements that the equations of a block compute together at least.
    """
    sizes = [sum(math.prod(getattr(v.aval, "shape", ())) for v in e.outvars) for e in jaxpr.eqns]
    if sum(sizes) < 2 * work:
        return []
    totals = np.cumsum([0, *sizes])
    keys: dict[Any, int] = {}
    rows = np.array([keys.setdefault(_key(e), len(keys)) for e in jaxpr.eqns], np.int64)
    uses = _Uses(jaxpr)
    repeats: list[Repeat] = []
    left = [(0, len(rows))]
    while left:
        low, high = left.pop()
        repeat = _best(jaxpr, rows, uses, low, high, totals, work)
        if repeat is not None:
            repeats.append(repeat)
            left += [(low, repeat.start), (repeat.end, high)]
    return sorted(repeats, key=lambda r: r.start)


class _Uses:
    """Where the variables of a jaxpr are made and last read."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.made: dict[Var, tuple[int, int]] = {}
        self.read: dict[Atom, list[int]] = {}
        for i, eqn in enumerate(jaxpr.eqns):
            for v in eqn.invars:
                self.read.setdefault(v, []).append(i)
            for k, out in enumerate(eqn.outvars):
                self.made[out] = i, k


def _best(
    jaxpr: Jaxpr,
    rows: np.ndarray,
    uses: _Uses,
    low: int,
    high: int,
    totals: np.ndarray,
    work: int,
) -> Repeat | None:
    """Return the repeat within [low, high) that saves most.

    totals: the elements that the equations before each one compute.
    """
    if high - low < 2 * SHORTEST or totals[high] - totals[low] < 2 * work:
        return None
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for i, key in enumerate(rows[low:high].tolist(), low):
        if key in last:
            distances[i - last[key]] += 1
        last[key] = i
    runs: list[tuple[int, int, int]] = []  # saved, period, start of its first block
    likely: dict[int, None] = {}
    for d, _ in distances.most_common(2 * _CANDIDATES):
        # A short block is compiled several at a time.
        multiples = range(d, 4 * SHORTEST, d) if d < SHORTEST else (d,)
        likely |= dict.fromkeys(m for m in multiples if m >= SHORTEST)
    for period in list(likely)[:_CANDIDATES]:
        if high - low < 2 * period:
            continue
        same = np.flatnonzero(rows[low : high - period] != rows[low + period : high])
        edges = np.concatenate(([-1], same, [high - low - period]))
        lengths = np.diff(edges) - 1
        for k in np.flatnonzero(lengths >= period):
            saved = int(lengths[k]) // period * period
            start = low + int(edges[k]) + 1
            # Wherever blocks begin within the run, each computes as much.
            if totals[start + period] - totals[start] >= work:
                runs.append((saved, period, start))
    best: Repeat | None = None
    for saved, period, start in sorted(runs, key=lambda r: (-r[0], r[1])):
        if best is not None and best.saved >= saved:
            break
        length = period  # of the whole run, found again from its start
        while start + length < high and rows[start + length] == rows[start + length - period]:
            length += 1
        repeat = _cut(jaxpr, uses, start, period, length)
        if repeat is not None and (best is None or repeat.saved > best.saved):
            best = repeat
    return best


def _cut(jaxpr: Jaxpr, uses: _Uses, start: int, period: int, length: int) -> Repeat | None:
    """Divide a run into blocks where least is passed from a block to the next."""
    slack = length % period
    if length // period < 2:
        return None
    middle = start + period * max(1, length // period // 2)  # blocks there are typical

    def passed(phase: int) -> int:
        cut = middle + phase
        total = 0
        for eqn in jaxpr.eqns[max(cut - period, 0) : cut]:
            for v in eqn.outvars:
                if any(cut <= i < cut + period for i in uses.read.get(v, ())):
                    total += int(np.prod(v.aval.shape))
        return total

    best: Repeat | None = None
    order = sorted(range(period), key=lambda phase: (passed(phase), phase > slack, phase))
    for phase in order[:4]:
        repeat = _equal_blocks(jaxpr, uses, start + phase, period, (length - phase) // period)
        if repeat is not None and (best is None or repeat.saved > best.saved + period):
            best = repeat
    return best


def _equal_blocks(jaxpr: Jaxpr, uses: _Uses, start: int, period: int, count: int) -> Repeat | None:
    """Return the longest row of blocks that also read the same from within."""
    patterns = [_pattern(jaxpr, uses, start + k * period, period) for k in range(count)]
    best, first = (0, 0), 0
    for k in range(1, count + 1):
        if k == count or patterns[k][0] != patterns[first][0]:
            best = max(best, (k - first, -first))
            first = k
    length, first = best[0], -best[1]
    if length < 2:
        return None
    externals = tuple(patterns[k][1] for k in range(first, first + length))
    return Repeat(start + first * period, period, length, externals)


def _pattern(jaxpr: Jaxpr, uses: _Uses, start: int, period: int) -> tuple[list, tuple[Var, ...]]:
    """Describe each operand of a block, and list the variables from outside the block."""
    outside: dict[Atom, int] = {}
    pattern: list = []
    for eqn in jaxpr.eqns[start : start + period]:
        for v in eqn.invars:
            if isinstance(v, Literal):
                continue
            i, k = uses.made.get(v, (-1, 0))
            if i >= start:
                pattern.append((i - start, k))
            else:
                pattern.append(outside.setdefault(v, len(outside)))
    return pattern, tuple(v for v in outside if isinstance(v, Var))


def _key(eqn: Eqn) -> tuple:
    """Make a key that is equal for equations that compute the same function of their operands."""
    ins = tuple(_plain(v.val) if isinstance(v, Literal) else None for v in eqn.invars)
    types = tuple(v.aval for v in (*eqn.invars, *eqn.outvars))
    params = tuple((name, _plain(value)) for name, value in sorted(eqn.rule_params.items()))
    return (id(eqn.primitive), ins, types, params)


def _plain(value: object) -> Any:
    """Return a hashable key of a parameter, equal for those that mean the same."""
    if isinstance(value, ClosedJaxpr):
        return ("closed", _plain(value.jaxpr), tuple(_plain(c) for c in value.consts))
    if isinstance(value, Jaxpr):
        return ("jaxpr", *_body(value))
    if isinstance(value, tuple | list):
        return (type(value), *map(_plain, value))
    if isinstance(value, np.ndarray | np.generic):
        return (value.dtype, value.shape, value.tobytes() if value.size < 4096 else id(value))
    if isinstance(value, float | complex):
        return (type(value), repr(value))
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))
    return (type(value), value)


def _body(jaxpr: Jaxpr) -> Iterator[Any]:
    """Return the equations of an inner jaxpr with its variables numbered."""
    numbers: dict[Atom, int] = {}

    def number(atoms: Sequence[Atom]) -> tuple:
        return tuple(
            _plain(v.val) if isinstance(v, Literal) else numbers.setdefault(v, len(numbers))
            for v in atoms
        )

    yield number([*jaxpr.constvars, *jaxpr.invars])
    yield tuple(v.aval for v in (*jaxpr.constvars, *jaxpr.invars))
    for eqn in jaxpr.eqns:
        yield _key(eqn), number(eqn.invars), number(eqn.outvars)
    yield number(jaxpr.outvars)
