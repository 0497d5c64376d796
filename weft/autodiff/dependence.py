# Tests: tests/autodiff/test_dce.py
"""Which results of an equation depend on which of its operands, inner programs included."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.jaxpr import ClosedJaxpr, Eqn, Var


def depends(eqn: Eqn, marked: Sequence[bool]) -> list[bool]:
    """Return which results are computed from the marked operands; an upper bound for opaque ops."""
    if not any(marked):
        return [False] * len(eqn.outvars)
    rule = eqn.primitive.depends
    if rule is not None:
        return list(rule(eqn.rule_params, marked))
    if eqn.primitive.calls and eqn.rule_params["jaxpr"] is not None:
        return program_depends(eqn.rule_params["jaxpr"], marked)
    return [True] * len(eqn.outvars)


def program_depends(closed: ClosedJaxpr, marked: Sequence[bool]) -> list[bool]:
    """Return which results of a program are computed from the marked inputs."""

    def find() -> list[bool]:
        jaxpr = closed.jaxpr
        dependent = {v for v, m in zip(jaxpr.invars, marked, strict=True) if m}
        for eqn in jaxpr.eqns:
            mask = [v.__class__ is Var and v in dependent for v in eqn.invars]
            if any(mask):
                outs = depends(eqn, mask)
                dependent.update(v for v, m in zip(eqn.outvars, outs, strict=True) if m)
        return [v.__class__ is Var and v in dependent for v in jaxpr.outvars]

    return list(closed.memo(("depends", tuple(marked)), find))
