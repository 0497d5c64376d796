# Tests: tests/pallas/test_gpu_limits.py
"""Hoist the work of a kernel's first or last step out of its innermost loop.

`pl.when(program_id(2) == 0)` clears an accumulator, and the last step writes it out. Inside the
loop both would be choices between whole tensors at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from weft.pallas.order import step_of


@dataclass(frozen=True, slots=True)
class Steps:
    """A body in three: branches taken at the first step, what every step does, those at the last.

    A branch is its jaxpr and the operand of the body that each of its own operands is.
    """

    first: tuple[tuple[ClosedJaxpr, tuple[int, ...]], ...]
    every: ClosedJaxpr
    last: tuple[tuple[ClosedJaxpr, tuple[int, ...]], ...]


def steps_of(closed: ClosedJaxpr, axis: int, length: int) -> Steps:
    """Return a kernel's steps along `axis` of its grid, which has that length."""
    jaxpr = closed.jaxpr
    definitions = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    acting = [eqn for eqn in jaxpr.eqns if eqn.effects]

    def taken(eqns: list[Eqn], step: int) -> list[Eqn]:
        matches: list[Eqn] = []
        for eqn in eqns:
            if not _is_at(eqn, jaxpr, definitions, axis, step):
                break
            matches.append(eqn)
        return matches

    first = taken(acting, 0)
    last = taken(acting[: len(first) - 1 if first else None : -1], length - 1)[::-1]
    gone = {id(eqn) for eqn in (*first, *last)}
    every = jaxpr.replace(eqns=[eqn for eqn in jaxpr.eqns if id(eqn) not in gone])
    position: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}

    def branches(eqns: list[Eqn]) -> tuple:
        return tuple(
            (eqn.rule_params["branches"][1], tuple(position[v] for v in eqn.invars[1:]))
            for eqn in eqns
        )

    return Steps(branches(first), ClosedJaxpr(every, closed.consts), branches(last))


def _is_at(eqn: Eqn, jaxpr: Jaxpr, definitions: dict, axis: int, step: int) -> bool:
    """Return whether an equation is `pl.when(program_id(axis) == step)` over refs of the kernel."""
    if eqn.primitive.name != "cond" or eqn.outvars or len(eqn.rule_params["branches"]) != 2:
        return False
    refs = set(jaxpr.invars)
    if eqn.rule_params["branches"][0].jaxpr.eqns or not all(v in refs for v in eqn.invars[1:]):
        return False
    return step_of(eqn.invars[0], definitions) == (axis, step)
