"""Dead code elimination: equations whose results nobody reads and that do nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """Return the jaxpr with only the used outputs; also which inputs are still read.

    Inputs stay: the caller drops those it wants to drop.
    """
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    eqns, live = _live(jaxpr, outvars)
    new = jaxpr.replace(outvars=outvars, eqns=eqns)
    return new, [v in live for v in jaxpr.invars]


def _live(jaxpr: Jaxpr, outvars: Sequence[Atom]) -> tuple[list[Eqn], set]:
    """Return the equations that matter for `outvars`, and all atoms they and the outputs read."""
    live: set = set(outvars)
    kept: list[Eqn] = []
    update, keep = live.update, kept.append
    for eqn in reversed(jaxpr.eqns):
        if not eqn.effects and live.isdisjoint(eqn.outvars):
            continue
        rule = eqn.primitive.dce
        if rule is not None:
            eqn = rule(eqn, [v in live for v in eqn.outvars])
        keep(eqn)
        update(eqn.invars)
    kept.reverse()
    return kept, live


def dce_closed(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[bool]]:
    """Return the program without dead equations and unread constants; and the inputs it reads."""
    jaxpr = closed.jaxpr
    eqns, live = _live(jaxpr, jaxpr.outvars)
    pairs = [p for p in zip(jaxpr.constvars, closed.consts, strict=True) if p[0] in live]
    new = jaxpr.replace(constvars=[v for v, _ in pairs], eqns=eqns)
    return ClosedJaxpr(new, [c for _, c in pairs]), [v in live for v in jaxpr.invars]
