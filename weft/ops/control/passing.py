# Tests: tests/ops/test_control_diverging.py
"""Results that a program only passes on: which input each of them is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.jaxpr import ClosedJaxpr

Positions = list[int | None]


def passed_on(closed: ClosedJaxpr) -> Positions:
    """Return for each result the position of the input it is; None where it is computed."""
    positions: Positions = closed.memo("passed on", lambda: _passed_on(closed))
    return positions


def _passed_on(closed: ClosedJaxpr) -> Positions:
    jaxpr = closed.jaxpr
    position: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    for eqn in jaxpr.eqns:
        rule = _RULES.get(eqn.primitive.name)
        if rule is None:
            continue
        for out, i in zip(eqn.outvars, rule(eqn.rule_params), strict=True):
            if i is not None and (source := position.get(eqn.invars[i])) is not None:
                position[out] = source
    return [position.get(v) for v in jaxpr.outvars]


def passed_by_all(branches: tuple[ClosedJaxpr, ...]) -> Positions:
    """Return for each result the position of the input that every branch passes on for it."""
    columns = zip(*(passed_on(b) for b in branches), strict=True)
    return [column[0] if len(set(column)) == 1 else None for column in columns]


def passed_by_body(body: ClosedJaxpr, num_consts: int, num_carry: int) -> list[bool]:
    """Return which carries every step of a loop leaves as they are."""
    results = passed_on(body)[:num_carry]
    return [i == num_consts + k for k, i in enumerate(results)]


def _of_jit(params: dict[str, Any]) -> Positions:
    placed = params["out_shardings"]
    return [
        None if s is not None else i
        for i, s in zip(passed_on(params["jaxpr"]), placed, strict=True)
    ]


def _of_cond(params: dict[str, Any]) -> Positions:
    return [None if i is None else i + 1 for i in passed_by_all(params["branches"])]


def _of_while(params: dict[str, Any]) -> Positions:
    body, num_consts = params["body_jaxpr"], params["body_nconsts"]
    first = params["cond_nconsts"] + num_consts
    kept = passed_by_body(body, num_consts, len(body.out_avals))
    return [first + k if same else None for k, same in enumerate(kept)]


def _of_scan(params: dict[str, Any]) -> Positions:
    body, first = params["jaxpr"], params["num_consts"]
    kept = passed_by_body(body, first, params["num_carry"])
    stacked = len(body.out_avals) - len(kept)
    return [first + k if same else None for k, same in enumerate(kept)] + [None] * stacked


_RULES: dict[str, Callable[[dict[str, Any]], Positions]] = {
    "jit": _of_jit,
    "cond": _of_cond,
    "while": _of_while,
    "scan": _of_scan,
}
