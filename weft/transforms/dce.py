"""Dead code elimination: equations whose results nobody reads and that do nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Var


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr with only the used outputs; also which inputs are still read.

    Inputs stay: the caller drops those it wants to drop.
    """
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live: set[Var] = {v for v in outvars if isinstance(v, Var)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(v in live for v in eqn.outvars):
            kept.append(eqn)
            live.update(v for v in eqn.invars if isinstance(v, Var))
    kept.reverse()
    new = jaxpr.replace(outvars=outvars, eqns=kept)
    return new, [v in live for v in jaxpr.invars]


def dce_closed(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without dead equations and unread constants."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    if not closed.consts:
        return ClosedJaxpr(jaxpr)
    live: set = {v for v in jaxpr.outvars if isinstance(v, Var)}
    for eqn in jaxpr.eqns:
        live.update(v for v in eqn.invars if isinstance(v, Var))
    pairs = [p for p in zip(jaxpr.constvars, closed.consts, strict=True) if p[0] in live]
    return ClosedJaxpr(jaxpr.replace(constvars=[v for v, _ in pairs]), [c for _, c in pairs])
