"""How much work a program of a kernel is."""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import open_jaxpr, subjaxprs
from weft.pallas.cpu import scalar
from weft.pallas.cpu.values import size_of


def work_of(jaxpr: Any) -> int:
    """About how many vector operations one run of a jaxpr takes."""
    total = 0
    for eqn in open_jaxpr(jaxpr).eqns:
        inner = [work_of(j) for _, j in subjaxprs(eqn.params)]
        if inner:
            repeats = eqn.params.get("length", 8 if eqn.primitive.name == "while" else 1)
            total += repeats * max(inner)
            continue
        sizes = [size_of(v.aval.shape) for v in (*eqn.invars, *eqn.outvars)]
        cost = scalar.COSTS.get(eqn.primitive.name, 1)
        if eqn.primitive.name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            cost = size_of([eqn.invars[0].aval.shape[d] for d in contracted])
            sizes = [size_of(eqn.outvars[0].aval.shape)]
        total += cost * max(sizes, default=1) // 8 + 1
    return total
