"""The backward pass of eager differentiation, compiled once for each linear program.

Every call of `weft.grad(f)` outside of jit records a linear program anew. Programs of one structure
have one backward pass, so that its second run is a single dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.jvp import cotangent_aval
from weft.autodiff.transpose import backward_pass
from weft.autodiff.zeros import match_type
from weft.core.caches import clearable, make_room
from weft.core.config import config
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Var, subjaxprs
from weft.core.state import state
from weft.core.trace import EVAL
from weft.core.undefined import UndefinedPrimal, Unwanted
from weft.driver.jit import jit
from weft.sharding.placement import moves_between_devices

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.core.jaxpr import Eqn

LARGEST = 64
"""Longer programs run op by op: compiling them as a whole would take long."""

KEPT = 512
_compiled: dict[tuple, Callable | None] = clearable({})
"""Structure -> compiled backward pass, of programs without inner ones."""


def cotangents(
    jaxpr: Jaxpr,
    residuals: Sequence[Any],
    cts: Sequence[Any] | None,
    into: Sequence[Any] | None = None,
) -> list:
    """Return cotangents of the linear program's inputs, None where zero.

    cts: of its outputs; None stands for a one, of the only output.
    into: for each input whether its cotangent is wanted, or a ref to add it to, for which the
    result is None.
    """
    if len(jaxpr.eqns) <= LARGEST and _is_eager():
        wanted = None if into is None else tuple(x if isinstance(x, bool) else None for x in into)
        run = _find(jaxpr, cts is None, wanted)
        if run is not None:
            refs = [x for x in into or () if not isinstance(x, bool)]
            return run(residuals, cts, refs)
    return _run(jaxpr, residuals, cts, into)


def _run(
    jaxpr: Jaxpr,
    residuals: Sequence[Any],
    cts: Sequence[Any] | None,
    into: Sequence[Any] | None,
) -> list:
    if cts is None:
        cts = [one_like(v.aval) for v in jaxpr.outvars]
    if into is None:
        into = [True] * len(jaxpr.invars)
    args = [
        (UndefinedPrimal if x is not False else Unwanted)(v.aval)
        for v, x in zip(jaxpr.invars, into, strict=True)
    ]
    pairs = zip(jaxpr.invars, into, strict=True)
    refs = {v: x for v, x in pairs if not isinstance(x, bool)}
    return backward_pass(jaxpr, residuals, args, cts, refs)


def one_like(aval: ShapedArray) -> Any:
    """Return the cotangent 1 of a value of this type."""
    return match_type(aval.dtype.type(1), cotangent_aval(aval))


def _is_eager() -> bool:
    """Return whether ops under the current trace, below all transformations, run at once."""
    trace = state.trace
    while trace is not EVAL:
        trace = getattr(trace, "parent", None)
        if trace is None:
            return False
    return not (config.disable_jit or config.debug_nans or config.debug_infs)


def _find(jaxpr: Jaxpr, unit: bool, wanted: tuple | None) -> Callable | None:
    """Return the compiled backward pass of programs like this one."""
    if jaxpr.effects or not jaxpr.eqns or any(map(_stands_alone, jaxpr.eqns)):
        return None
    table = _compiled
    nested = next((e for e in jaxpr.eqns if e.primitive.higher_order), None)
    if nested is not None:
        # Inner programs are compared by identity, and the backward pass lives as long as they do.
        inner = next(
            (p for _, p in subjaxprs(nested.rule_params) if isinstance(p, ClosedJaxpr)), None
        )
        if inner is None:
            return None
        table = inner.memo("backward", dict)
    key = (unit, wanted, *structure(jaxpr))
    try:
        run = table.get(key)
    except TypeError:  # a literal or parameter without hash
        return None
    if run is not None:
        return run
    if nested is not None and key not in table:
        table[key] = None  # an inner program made for one call does not come a second time
        return None

    def backward(residuals: Sequence[Any], cts: Sequence[Any] | None, refs: list) -> list:
        accumulators = iter(refs)
        into = None if wanted is None else [next(accumulators) if x is None else x for x in wanted]
        return _run(jaxpr, residuals, cts, into)

    if table is _compiled:
        make_room(table, KEPT)
    run = table[key] = jit(backward)
    return run


def _stands_alone(eqn: Eqn) -> bool:
    """Return whether an equation changes devices, or has options of the compiler for itself."""
    if eqn.rule_params.get("options"):
        return True
    if eqn.primitive.name != "device_put":
        return False

    return moves_between_devices(eqn.rule_params)


def structure(jaxpr: Jaxpr) -> tuple:
    """Return a key of a program's computation, without variable names or constants' values."""
    index: dict[Any, int] = {}
    parts: list[Any] = [len(jaxpr.constvars)]
    for v in (*jaxpr.constvars, *jaxpr.invars):
        index[v] = len(index)
        parts.append(v.aval)
    for e in jaxpr.eqns:
        ins = [index[v] if v.__class__ is Var else _literal(v) for v in e.invars]
        parts.append((e.primitive, *ins, *e.rule_params.items()))
        for v in e.outvars:
            index[v] = len(index)
    parts += [index[v] if v.__class__ is Var else _literal(v) for v in jaxpr.outvars]
    return tuple(parts)


def _literal(atom: Any) -> tuple:
    # 0.0 equals -0.0.
    return atom.aval, atom.val, str(atom.val) if atom.val == 0 else None
