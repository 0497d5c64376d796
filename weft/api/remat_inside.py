"""Values that checkpoint's policies keep inside of scan and cond.

A loop or a branch is computed again as a whole, but for the values of its body that the policy
keeps: the forward program returns them, stacked by scan, and the program that computes again takes
them in place of the equations that make them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.autodiff.vmap import AxisData, add_dim
from weft.autodiff.zeros import instantiate_zero
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Eqn, Var, eval_closed
from weft.core.trace import trace_to_jaxpr
from weft.ops.control.cond_op import cond_p
from weft.ops.control.scan_op import scan_p


@dataclass(frozen=True)
class Inside:
    """An equation whose body has values to keep, in two forms.

    forward: gives them behind its own results. again: takes them behind its own operands.
    """

    forward: Eqn
    again: Eqn
    kept: dict[Var, Any]  # what forward gives besides, with the policy's word for each


@dataclass(frozen=True)
class _Body:
    forward: ClosedJaxpr
    again: ClosedJaxpr
    kept: list[tuple[ShapedArray, Any]]


def look_inside(eqn: Eqn, policy: Callable, inline: Callable) -> Inside | None:
    """Return the two forms of a scan or cond, None of others and where nothing is to be kept.

    policy: says of an equation whether its results are kept. inline: replaces jitted calls in a
    jaxpr by their equations.
    """
    if eqn.primitive is scan_p:
        return _of_scan(eqn, policy, inline)
    if eqn.primitive is cond_p:
        return _of_cond(eqn, policy, inline)
    return None


def _of_scan(eqn: Eqn, policy: Callable, inline: Callable) -> Inside | None:
    body = _of_body(eqn.rule_params["jaxpr"], policy, inline)
    if body is None:
        return None
    length = eqn.rule_params["length"]
    kept = {Var(add_dim(aval, 0, AxisData(None, length))): how for aval, how in body.kept}
    return Inside(
        eqn.replace(
            outvars=[*eqn.outvars, *kept], rule_params={**eqn.rule_params, "jaxpr": body.forward}
        ),
        eqn.replace(
            invars=[*eqn.invars, *kept], rule_params={**eqn.rule_params, "jaxpr": body.again}
        ),
        kept,
    )


def _of_cond(eqn: Eqn, policy: Callable, inline: Callable) -> Inside | None:
    branches = eqn.rule_params["branches"]
    bodies = [_of_body(b, policy, inline) for b in branches]
    if not any(bodies):
        return None
    every = [pair for body in bodies if body is not None for pair in body.kept]
    forward, again = [], []
    start = 0
    for branch, body in zip(branches, bodies, strict=True):
        branch_kept = [] if body is None else body.kept
        before, after = every[:start], every[start + len(branch_kept) :]
        forward.append(
            _with_zeros(branch if body is None else body.forward, before, after, len(branch_kept))
        )
        again.append(
            _with_unread(branch if body is None else body.again, before, after, len(branch_kept))
        )
        start += len(branch_kept)
    kept = {Var(aval): how for aval, how in every}
    return Inside(
        eqn.replace(
            outvars=[*eqn.outvars, *kept], params={**eqn.rule_params, "branches": tuple(forward)}
        ),
        eqn.replace(
            invars=[*eqn.invars, *kept], rule_params={**eqn.rule_params, "branches": tuple(again)}
        ),
        kept,
    )


def _with_zeros(branch: ClosedJaxpr, before: list, after: list, num_kept: int) -> ClosedJaxpr:
    """Return the branch with zeros around its last results, for what other branches keep."""

    def run(*operands: object) -> list:
        outs = eval_closed(branch, *operands)
        n = len(outs) - num_kept
        zeros = [[instantiate_zero(aval) for aval, _ in part] for part in (before, after)]
        return [*outs[:n], *zeros[0], *outs[n:], *zeros[1]]

    jaxpr, consts = trace_to_jaxpr(run, branch.in_avals, branch.jaxpr.debug)
    return ClosedJaxpr(jaxpr, consts)


def _with_unread(branch: ClosedJaxpr, before: list, after: list, num_kept: int) -> ClosedJaxpr:
    """Return the branch with operands around its last ones, which only other branches read."""
    j = branch.jaxpr
    n = len(j.invars) - num_kept
    unread = [[Var(aval) for aval, _ in part] for part in (before, after)]
    invars = [*j.invars[:n], *unread[0], *j.invars[n:], *unread[1]]
    return ClosedJaxpr(j.replace(invars=invars), branch.consts)


def _of_body(closed: ClosedJaxpr, policy: Callable, inline: Callable) -> _Body | None:
    closed = inline(closed)
    forward: list[Eqn] = []
    again: list[Eqn] = []
    kept: dict[Var, Any] = {}
    named: dict[Any, Var] = {}
    for eqn in closed.eqns:
        how = policy(eqn)
        inside = None if how else look_inside(eqn, policy, inline)
        if how:
            kept.update(dict.fromkeys(eqn.outvars, how))
            if eqn.primitive.name == "name":
                named[eqn.invars[0]] = eqn.outvars[0]  # the same value, which others may read
            forward.append(eqn)
        elif inside is not None:
            kept.update(inside.kept)
            forward.append(inside.forward)
            again.append(inside.again)
        else:
            forward.append(eqn)
            again.append(eqn)
    if not kept:
        return None
    j = closed.jaxpr
    again = [_renamed(eqn, named) for eqn in again]
    outvars = [named.get(v, v) for v in j.outvars]
    return _Body(
        ClosedJaxpr(j.replace(outvars=[*j.outvars, *kept], eqns=forward), closed.consts),
        ClosedJaxpr(
            j.replace(invars=[*j.invars, *kept], outvars=outvars, eqns=again), closed.consts
        ),
        [(v.aval, how) for v, how in kept.items()],
    )


def _renamed(eqn: Eqn, names: dict[Any, Var]) -> Eqn:
    """Keep the named values' equation; what makes such a value may still read it."""
    if not any(v in names for v in eqn.invars):
        return eqn
    return eqn.replace(invars=[names.get(v, v) for v in eqn.invars])
