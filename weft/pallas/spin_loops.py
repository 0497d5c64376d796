# Tests: tests/pallas/cpu/test_waits.py
"""Loops that may only be looking for what others do: at semaphores, locks, flags in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.core.jaxpr import open_jaxpr, walk_eqns

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn

_LOOKS = frozenset(("semaphore_read", "atomic_cas"))
_CHANGES = frozenset(
    (
        *("set", "swap", "addupdate", "debug_print", "async_copy_start"),
        *("semaphore_signal", "semaphore_wait", "core_barrier"),
    )
)


def limit_text(seconds: float) -> str:
    """Name the limit of waiting, and where it is set, for errors."""
    return (
        f"{seconds:g} s, the limit of waiting "
        "(pl.CompilerParams(wait_limit=...), weft.config.pallas_wait_limit)"
    )


def _looks(jaxprs: Sequence[Any]) -> bool:
    """Return whether a loop of these jaxprs may only be looking for what others do: it looks at a
    semaphore, or it looks at a lock or at memory and changes nothing."""
    eqns = [e for jaxpr in jaxprs for e in walk_eqns(jaxpr)]
    if any(e.primitive.name == "semaphore_read" for e in eqns):
        return True
    return any(_is_look(e) for e in eqns) and not any(_is_change(e) for e in eqns)


def _is_look(eqn: Eqn) -> bool:
    name = eqn.primitive.name
    return name in _LOOKS or name == "get" or (name == "atomic_rmw" and not _is_change(eqn))


def _is_change(eqn: Eqn) -> bool:
    name = eqn.primitive.name
    return name in _CHANGES or (name == "atomic_rmw" and eqn.rule_params["op"] != "xchg")


def polls(eqn: Eqn) -> bool:
    """Return whether a while equation is such a loop."""
    cond, body = eqn.rule_params["cond_jaxpr"], eqn.rule_params["body_jaxpr"]

    def find() -> bool:
        return not counts(eqn) and _looks((cond, body))

    return open_jaxpr(body).memo("polls", find)


def counts(eqn: Eqn) -> bool:
    """Tell whether the condition of a while equation compares a number that every turn adds to."""
    cond, body = (open_jaxpr(eqn.rule_params[name]) for name in ("cond_jaxpr", "body_jaxpr"))
    consts = eqn.rule_params["body_nconsts"]
    if len(cond.eqns) != 1 or cond.eqns[0].primitive.name not in ("lt", "le", "gt", "ge"):
        return False
    carried = len(body.invars) - consts
    for v in cond.eqns[0].invars:
        position = cond.invars.index(v) - (len(cond.invars) - carried) if v in cond.invars else -1
        if position >= 0:
            before, after = body.invars[consts + position], body.outvars[position]
            if any(
                e.primitive.name in ("add", "sub") and after in e.outvars and before in e.invars
                for e in body.eqns
            ):
                return True
    return False
