# Tests: tests/pallas/api/test_call.py
"""Constants of kernels: what a kernel closes over becomes inputs, or is written into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.aval import ShapedArray
from weft.core.jaxpr import NO_EFFECTS, Eqn, Jaxpr, Var
from weft.core.ref import AbstractRef, whole
from weft.core.source import UNKNOWN
from weft.core.trace import typeof
from weft.refs.ops import get_p


def with_constants(
    jaxpr: Jaxpr, consts: Sequence[Any], at: int, all_consts: Sequence[Any]
) -> Jaxpr:
    """Return the jaxpr with a ref argument for each of `all_consts`, from position `at` on.

    consts: those of the jaxpr's constvars, some of all_consts. A constant array is read from its
    ref once, at the start; a constant ref is the argument itself.
    """
    where = {id(c): v for c, v in zip(consts, jaxpr.constvars, strict=True)}
    refs: list[Var] = []
    reads: list[Eqn] = []
    for c in all_consts:
        aval = typeof(c)
        var = where.get(id(c))
        if isinstance(aval, AbstractRef):
            refs.append(Var(aval) if var is None else var)
            continue
        ref = Var(AbstractRef(ShapedArray(aval.shape, aval.dtype)))
        refs.append(ref)
        if var is not None:
            params = {"indexer": whole(aval.shape), "masked": False, "has_other": False}
            reads.append(Eqn(get_p, [ref], [var], params, NO_EFFECTS, UNKNOWN))
    invars = [*jaxpr.invars[:at], *refs, *jaxpr.invars[at:]]
    return jaxpr.replace(constvars=[], invars=invars, eqns=[*reads, *jaxpr.eqns])
