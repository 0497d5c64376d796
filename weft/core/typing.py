# Tests: tests/core/test_check.py
"""Types of an equation's results: the op's own rule, then manual axes and shardings joined.

Ops state only shape and dtype. What happens to varying axes and explicit shardings is the same
for all of them and stands here once; collectives and calls (`own_types`) say it themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.aval import NO_MAT, Mat
from weft.core.dtypes import is_extended
from weft.core.jaxpr import NO_EFFECTS
from weft.core.primitive import Primitive

join_shardings: list[Callable] = []
"""Set by weft.sharding.factors: (prim, avals, outs, params) -> outs with explicit shardings."""


def infer(prim: Primitive, avals: Sequence[Any], params: dict[str, Any]) -> tuple:
    """(out aval or list of avals, effects, casts or None) of `prim` on operands of these types."""
    effects = prim.effects(avals, params) if prim.effects is not None else NO_EFFECTS
    if prim.structural and any(is_extended(a.dtype) for a in avals):
        from weft.core.trace import EXTENDED

        return None, NO_EFFECTS, EXTENDED
    if prim.own_types:
        return prim.abstract(*avals, **params), effects, None
    mat = NO_MAT
    if any(a.mat is not NO_MAT for a in avals):
        mat, casts = join_mats(prim, avals, params)
        if casts is not None:
            return None, NO_EFFECTS, casts
    out = prim.abstract(*avals, **params)
    if mat is not NO_MAT:
        if prim.multiple_results:
            out = [o.update(mat=mat) for o in out]
        else:
            out = out.update(mat=mat)
    if join_shardings and any(a.sharding is not None for a in avals):
        out = join_shardings[0](prim, avals, out, params)
    return out, effects, None


def join_mats(
    prim: Primitive, avals: Sequence[Any], params: dict[str, Any]
) -> tuple[Mat, tuple | None]:
    """Return the results' manual-axis type, and for each operand the casts it needs first.

    Casts are (axes, state) pairs: invarying and reduced operands become varying where others vary,
    and invarying ones reduced beside reduced and unreduced ones, whose derivatives need it. Where
    an op adds them to partial sums, they become unreduced: whoever casts holds that they are zero.
    """
    varying = frozenset().union(*(a.mat.varying for a in avals))
    unreduced = frozenset().union(*(a.mat.unreduced for a in avals))
    reduced = frozenset().union(*(a.mat.reduced for a in avals))
    casts: list[tuple] = [()] * len(avals)
    for axis in sorted(unreduced | reduced, key=str):
        for i, to in _partial(prim, avals, axis, params):
            casts[i] = (*casts[i], ((axis,), to))
    for i, a in enumerate(avals):
        for missing in (varying - a.mat.varying - a.mat.reduced, varying & a.mat.reduced):
            if missing:
                casts[i] = (*casts[i], (tuple(sorted(missing, key=str)), "varying"))
    if any(casts):
        return NO_MAT, tuple(casts)
    return Mat(varying, unreduced, reduced - unreduced), None


def _partial(
    prim: Primitive, avals: Sequence[Any], axis: str, params: dict[str, Any]
) -> list[tuple[int, str]]:
    """Return the operands to cast along an axis where some are unreduced or reduced, and how."""
    states = [a.mat.state(axis) for a in avals]
    partial = [i for i, s in enumerate(states) if s == "unreduced"]
    others = {s for s in states if s != "unreduced"}
    if not partial and "varying" in others:
        return []
    invarying = [i for i, s in enumerate(states) if s == "invarying"]
    if not partial:
        return [(i, "reduced") for i in invarying]
    linear = linear_operands(prim, avals, params)
    if others <= {"invarying", "reduced"}:
        if len(partial) == 1 and not linear and partial[0] in prim.bilinear:
            return [(i, "reduced") for i in invarying]
        if all(i in linear for i in partial) and all(states[i] != "reduced" for i in linear):
            return [(i, "unreduced" if i in linear else "reduced") for i in invarying]
    raise mixed(prim, avals, axis)


def linear_operands(prim: Primitive, avals: Sequence[Any], params: dict[str, Any]) -> Sequence[int]:
    """Return the operands in which the op is linear, taken together."""
    which = prim.linear(avals, params) if callable(prim.linear) else prim.linear
    return range(which[0], len(avals)) if which[1:] == (...,) else which


def mixed(prim: Primitive, avals: Sequence[Any], axis: str) -> TypeError:
    """Return the error for operands in states that the op does not take together."""
    states = [a.mat.state(axis) for a in avals]
    others = {s for s in states if s != "unreduced"}
    listing = ", ".join(a.str_short() for a in avals)
    if len(avals) == 1:
        return TypeError(
            f"{prim.name}: the operand of type {listing} is {states[0]} over mesh axis {axis!r}, a "
            "partial sum, which enters only ops that are linear in it. Add the partial sums up "
            f"first: weft.lax.psum(x, {axis!r})"
        )
    advice = f"Add the partial sums up first: weft.lax.psum(x, {axis!r})"
    if others == {"varying"} and prim.linear == (0, ...):
        advice += f"; or count the varying one in: weft.lax.pcast(x, {axis!r}, to='unreduced')"
    elif others == {"invarying"} and prim.linear:
        advice += (
            f"; or, if the others are zero, count them in: weft.lax.pcast(weft.lax.pvary(x, "
            f"{axis!r}), {axis!r}, to='unreduced')"
        )
    return TypeError(
        f"{prim.name}: operands of types {listing} have states {', '.join(states)} over mesh "
        f"axis {axis!r}, which do not mix. {advice}"
    )
