# Tests: tests/pallas/test_transforms.py
"""Kernels without manual-axis types: inside a kernel there are no devices to vary over."""

from __future__ import annotations

from typing import Any

from weft.core.aval import NO_MAT
from weft.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var


def without_manual_types(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with plain types, its casts between states of mesh axes dropped.

    A kernel in a shard_map that closes over a value which varies along a mesh axis has such types.
    """
    return _rewrite(jaxpr) if _is_typed(jaxpr) else jaxpr


def _is_typed(jaxpr: Jaxpr) -> bool:
    return any(v.aval.mat is not NO_MAT for v in (*jaxpr.constvars, *jaxpr.invars))


def _rewrite(jaxpr: Jaxpr) -> Jaxpr:
    new: dict[Var, Atom] = {}

    def fresh(v: Var) -> Var:
        var = Var(_plain(v.aval))
        new[v] = var
        return var

    def read(v: Atom) -> Atom:
        return v if isinstance(v, Literal) else new[v]

    constvars = [fresh(v) for v in jaxpr.constvars]
    invars = [fresh(v) for v in jaxpr.invars]
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        ins = [read(v) for v in eqn.invars]
        if eqn.primitive.name == "pcast":
            new[eqn.outvars[0]] = ins[0]
            continue
        params = {name: _param(value) for name, value in eqn.params.items()}
        eqns.append(eqn.replace(invars=ins, outvars=[fresh(v) for v in eqn.outvars], params=params))
    outvars = [read(v) for v in jaxpr.outvars]
    return jaxpr.replace(constvars=constvars, invars=invars, outvars=outvars, eqns=eqns)


def _plain(aval: Any) -> Any:
    return aval.update(mat=NO_MAT) if aval.mat is not NO_MAT else aval


def _param(value: object) -> Any:
    if isinstance(value, ClosedJaxpr):
        return ClosedJaxpr(_rewrite(value.jaxpr), value.consts)
    if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr) for v in value):
        return tuple(_param(v) for v in value)
    return value
