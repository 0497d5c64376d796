"""Jaxprs in JAX's operations, as programs that were written for JAX read them.

weft records some functions as one equation for which JAX has no primitive: `relu`, `softmax`. Who
reads equations by a table of primitives gets a call instead, with the formula as its program and
weft's derivative as its rule. Casts and sums of manual axes have the names that JAX gives them.
"""

from __future__ import annotations

import copy
from typing import Any

from weft.api.custom_jvp import custom_jvp_p
from weft.autodiff.jvp import _linear_rule
from weft.autodiff.manual_casts import pcast_p
from weft.collectives.reduce import psum_p
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from weft.core.trace import trace_to_jaxpr


class OneOp:
    """The function and the rule of a call that stands for one op."""

    __slots__ = ("name", "params", "prim")

    def __init__(self, prim: Any, params: dict[str, Any]) -> None:
        self.prim = prim
        self.params = params
        self.name = prim.name

    def fun(self, *args: Any) -> list:
        return [self.prim.formula(*args, **self.params)]

    def rule(self, consts: Any, primals: Any, tangents: Any) -> tuple[list, list]:
        primals, tangents = list(primals), list(tangents)
        if self.prim.jvp == "linear":
            out, tangent = _linear_rule(self.prim, primals, tangents, self.params)
        else:
            out, tangent = self.prim.jvp(primals, tangents, **self.params)
        return [out], [tangent]


def _alias(prim: Any, name: str) -> Any:
    """Return the primitive under another name; what binds it binds the primitive."""
    kind: Any = type(prim)
    members = {"__slots__": (), "bind": lambda self, *args, **params: prim.bind(*args, **params)}
    alias = copy.copy(prim)
    alias.__class__ = type(kind.__name__, (kind,), members)
    alias.name = name
    return alias


psum_invariant_p = _alias(psum_p, "psum_invariant")
pvary_p = _alias(pcast_p, "pvary")


def spelled(jaxpr: Any) -> Any:
    """Return the closed or open jaxpr, and those inside, without operations that JAX lacks."""
    return jaxpr.memo("spelled", lambda: _spell(jaxpr))


def _spell(jaxpr: Any) -> Any:
    if isinstance(jaxpr, ClosedJaxpr):
        inner = spelled(jaxpr.jaxpr)
        return jaxpr if inner is jaxpr.jaxpr else ClosedJaxpr(inner, jaxpr.consts)
    eqns = [_equation(eqn) for eqn in jaxpr.eqns]
    if all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True)):
        return jaxpr
    return jaxpr.replace(eqns=eqns)


def _equation(eqn: Eqn) -> Eqn:
    prim, params = eqn.primitive, eqn.rule_params
    if prim is psum_p and params["over"].typed:
        return eqn.replace(primitive=psum_invariant_p)
    if prim is pcast_p and params["to"] == "varying":
        return eqn.replace(primitive=pvary_p)
    if prim.formula is not None:
        call = OneOp(prim, params)
        traced, consts = trace_to_jaxpr(call.fun, [v.aval for v in eqn.invars], prim.name)
        body = spelled(ClosedJaxpr(traced, consts))
        rule_params = {"call": call, "jaxpr": body, "num_consts": 0}
        return eqn.replace(primitive=custom_jvp_p, rule_params=rule_params)
    inner = {name: _value(value) for name, value in params.items()}
    if all(inner[name] is value for name, value in params.items()):
        return eqn
    return eqn.replace(rule_params=inner)


def _value(value: Any) -> Any:
    if isinstance(value, ClosedJaxpr | Jaxpr):
        return spelled(value)
    if type(value) is tuple and any(isinstance(v, ClosedJaxpr | Jaxpr) for v in value):
        return tuple(map(_value, value))
    return value
