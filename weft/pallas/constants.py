"""Constants of kernels: what a kernel closes over becomes inputs, or is written into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.autodiff.shape import broadcast_in_dim_p
from weft.core.aval import ShapedArray
from weft.core.jaxpr import NO_EFFECTS, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from weft.core.ref import AbstractRef, whole
from weft.core.source import UNKNOWN
from weft.core.trace import typeof
from weft.refs.ops import get_p


def with_constants(
    jaxpr: Jaxpr, consts: Sequence[Any], at: int, all_consts: Sequence[Any]
) -> Jaxpr:
    """The jaxpr with a ref argument for each of `all_consts`, from position `at` on.

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


def inline_constants(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with its known constants written into it: literals, and arrays of one value."""
    jaxpr = closed.jaxpr
    fixed: dict[Var, Literal] = {}
    eqns: list[Eqn] = []
    for var, c in zip(jaxpr.constvars, closed.consts, strict=True):
        host = np.asarray(c).astype(var.aval.dtype)
        if not host.ndim:
            fixed[var] = Literal(host[()], var.aval)
        elif host.size and (host == host.flat[0]).all():
            value = host.flat[0]
            literal = Literal(value, var.aval.update(shape=()))
            params = {"shape": host.shape, "broadcast_dimensions": ()}
            eqns.append(Eqn(broadcast_in_dim_p, [literal], [var], params, NO_EFFECTS, UNKNOWN))
        else:
            raise TypeError(
                f"a kernel closes over an array of type {var.aval.str_short()} in a place where "
                "it cannot become an argument; pass it as an argument"
            )
    for eqn in jaxpr.eqns:
        if any(v in fixed for v in eqn.invars if v.__class__ is Var):
            eqn = eqn.replace(
                invars=[fixed.get(v, v) if v.__class__ is Var else v for v in eqn.invars]
            )
        eqns.append(eqn)
    outvars = [fixed.get(v, v) if v.__class__ is Var else v for v in jaxpr.outvars]
    return ClosedJaxpr(jaxpr.replace(constvars=[], eqns=eqns, outvars=outvars))
