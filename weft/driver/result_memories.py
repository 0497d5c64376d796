# Tests: tests/runtime/test_memories.py
"""Which results of a program are in another memory: those that it puts there, or leaves there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.jaxpr import ClosedJaxpr, Var
from weft.driver.jit_op import jit_p
from weft.sharding.placement import device_put_p


def in_other_memory(
    closed: ClosedJaxpr, arg_shardings: Sequence[Any], asked: Sequence[Any]
) -> list[Any]:
    """Return the results' shardings as asked for, or else those that name another memory.

    arg_shardings: the arguments' shardings. None stands for a placement that propagation decides.
    """
    moved = []
    for sharding, origin in zip(asked, _origins(closed), strict=True):
        if sharding is None:
            sharding = arg_shardings[origin] if isinstance(origin, int) else origin
            sharding = sharding if getattr(sharding, "other_memory", None) else None
        moved.append(sharding)
    return moved


def _origins(closed: ClosedJaxpr) -> tuple:
    """Return the argument that each result is, or where device_put put it; None for others."""

    def find() -> tuple:
        origin: dict[Var, Any] = {v: i for i, v in enumerate(closed.jaxpr.invars)}
        for eqn in closed.eqns:
            if eqn.primitive is device_put_p:
                origin[eqn.outvars[0]] = eqn.rule_params["sharding"]
            elif eqn.primitive is jit_p:
                inner = _origins(eqn.rule_params["jaxpr"])
                for var, at, asked in zip(
                    eqn.outvars, inner, eqn.rule_params["out_shardings"], strict=True
                ):
                    atom = eqn.invars[at] if isinstance(at, int) else None
                    at = origin.get(atom) if isinstance(atom, Var) else at
                    origin[var] = at if asked is None else asked
        return tuple(origin.get(v) if isinstance(v, Var) else None for v in closed.jaxpr.outvars)

    return closed.memo("origins", find)
