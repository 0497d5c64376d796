# Tests: tests/pallas/cpu/test_mpmd.py
"""How much work a program of a kernel, or one of its equations, is."""

from __future__ import annotations

from typing import Any

import weft.pallas.cpu.scalar as scalar
from weft.core.jaxpr import Eqn, open_jaxpr, subjaxprs
from weft.pallas.cpu.values import size_of

TURNS = 8
"""Of a while loop, whose turns nobody knows."""


def work_of(jaxpr: Any) -> int:
    """About how many vector operations one run of a jaxpr takes."""
    jaxpr = open_jaxpr(jaxpr)
    return jaxpr.memo("work", lambda: sum(map(work_of_equation, jaxpr.eqns)))


def work_of_equation(eqn: Eqn) -> int:
    inner = [work_of(j) for _, j in subjaxprs(eqn.rule_params)]
    if inner:
        turns = TURNS if eqn.primitive.name == "while" else eqn.rule_params.get("length", 1)
        return turns * max(inner)
    sizes = [size_of(v.aval.shape) for v in (*eqn.invars, *eqn.outvars)]
    cost = scalar.COSTS.get(eqn.primitive.name, 1)
    if eqn.primitive.name == "dot_general":
        cost = eqn.invars[0].aval.shape[-1]
        sizes = [size_of(eqn.outvars[0].aval.shape)]
    return cost * max(sizes, default=1) // 8 + 1
