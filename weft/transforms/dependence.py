"""Which results of an equation depend on which of its operands, inner programs included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.jaxpr import ClosedJaxpr, Eqn, Var


def depends(eqn: Eqn, marked: Sequence[bool]) -> list[bool]:
    """Which results are computed from the marked operands; an upper bound for opaque ops."""
    if not any(marked):
        return [False] * len(eqn.outvars)
    rule = _RULES.get(eqn.primitive.name)
    if rule is not None:
        return rule(eqn.params, marked)
    inner = eqn.params.get("jaxpr")
    if isinstance(inner, ClosedJaxpr) and len(inner.in_avals) == len(marked):
        return program_depends(inner, marked)
    return [True] * len(eqn.outvars)


def program_depends(closed: ClosedJaxpr, marked: Sequence[bool]) -> list[bool]:
    """Which results of a program are computed from the marked inputs."""

    def find() -> list[bool]:
        jaxpr = closed.jaxpr
        found = {v for v, m in zip(jaxpr.invars, marked, strict=True) if m}
        for eqn in jaxpr.eqns:
            mask = [v.__class__ is Var and v in found for v in eqn.invars]
            if any(mask):
                outs = depends(eqn, mask)
                found.update(v for v, m in zip(eqn.outvars, outs, strict=True) if m)
        return [v.__class__ is Var and v in found for v in jaxpr.outvars]

    return list(closed.memo(("depends", tuple(marked)), find))


def _cond(params: dict[str, Any], marked: Sequence[bool]) -> list[bool]:
    branches: Sequence[ClosedJaxpr] = params["branches"]
    if marked[0]:
        return [True] * len(branches[0].out_avals)
    columns = zip(*(program_depends(b, marked[1:]) for b in branches), strict=True)
    return [any(column) for column in columns]


def _scan(params: dict[str, Any], marked: Sequence[bool]) -> list[bool]:
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    mask = list(marked)
    while True:
        outs = program_depends(params["jaxpr"], mask)
        changed = False
        for i, m in enumerate(outs[:num_carry]):
            if m and not mask[num_consts + i]:
                mask[num_consts + i] = changed = True
        if not changed:
            return [*mask[num_consts : num_consts + num_carry], *outs[num_carry:]]


def _while(params: dict[str, Any], marked: Sequence[bool]) -> list[bool]:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    consts = list(marked[n_cond : n_cond + n_body])
    carry = list(marked[n_cond + n_body :])
    while True:
        outs = program_depends(params["body_jaxpr"], [*consts, *carry])
        joined = [a or b for a, b in zip(carry, outs, strict=True)]
        if program_depends(params["cond_jaxpr"], [*marked[:n_cond], *joined])[0]:
            return [True] * len(carry)
        if joined == carry:
            return carry
        carry = joined


_RULES: dict[str, Callable[[dict[str, Any], Sequence[bool]], list[bool]]] = {
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "optimization_barrier": lambda params, marked: list(marked),
}
"""Ops that are not a call of one program on all operands, by name."""
