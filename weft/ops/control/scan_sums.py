# Tests: tests/ops/test_control.py
"""Sums that a transposed scan carries: what is nonzero in one place is added there, in place.

Reading a part of an array, `x[i]`, has as its cotangent zeros with the part's cotangent in its
place. A loop that adds such arrays up costs each step the whole array; adding to the part costs
the part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from weft.autodiff.zeros import add_any_p
from weft.core.jaxpr import NO_EFFECTS, Eqn, Literal, Var
from weft.core.source import UNKNOWN
from weft.core.state import state
from weft.ops.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from weft.ops.scatter import scatter_add_p


class Sums:
    """Writes sums into the equations of a loop's body.

    eqns: the body's, to which those of the sums are added. outvars: its results.
    """

    def __init__(self, eqns: list[Eqn], outvars: Sequence[Any]) -> None:
        self._eqns = eqns
        self._made: dict[Any, Eqn] = {v: eqn for eqn in eqns for v in eqn.outvars}
        self._uses = Counter(v for eqn in eqns for v in eqn.invars if v.__class__ is Var)
        self._uses.update(v for v in outvars if v.__class__ is Var)

    def add(self, accumulator: Var, term: Var) -> Var:
        """Return the variable of accumulator + term."""
        whole, parts = self._terms(term)
        return self._summed(accumulator, whole, parts)

    def continued(self, accumulator: Var, total: Any) -> Any:
        """Return a total that the body has computed, adding parts to its accumulator in place."""
        if total.__class__ is not Var:
            return total
        whole, parts = self._terms(total)
        if not parts or accumulator not in whole:
            return total
        whole.remove(accumulator)
        return self._summed(accumulator, whole, parts)

    def _terms(self, total: Var) -> tuple[list[Any], list[Eqn]]:
        """Return the terms of a sum, and the equations of those that are zero but for a part."""
        whole: list[Any] = []
        parts: list[Eqn] = []
        left: list[Any] = [total]
        while left:
            v = left.pop()
            eqn = self._made.get(v) if v.__class__ is Var and self._uses[v] == 1 else None
            if eqn is not None and eqn.primitive is add_any_p:
                left.extend(reversed(eqn.invars))
            elif eqn is not None and self._is_part(eqn):
                parts.append(eqn)
            else:
                whole.append(v)
        return whole, parts

    def _is_part(self, eqn: Eqn) -> bool:
        if eqn.primitive is not dynamic_update_slice_p and eqn.primitive is not scatter_add_p:
            return False
        if getattr(eqn.outvars[0].aval, "sharding", None) is not None:
            return False
        zeros = self._made.get(eqn.invars[0])
        return (
            zeros is not None
            and zeros.primitive.name == "broadcast_in_dim"
            and zeros.invars[0].__class__ is Literal
            and not zeros.invars[0].val
        )

    def _summed(self, total: Var, whole: list[Any], parts: list[Eqn]) -> Var:
        for v in whole:
            total = self._emit(add_any_p, [total, v], total.aval)
        for part in parts:
            if part.primitive is scatter_add_p:
                operands = [total, *part.invars[1:]]
            else:
                _, update, *starts = part.invars
                aval = update.aval.strip_weak_type()
                at = self._emit(dynamic_slice_p, [total, *starts], aval, slice_sizes=aval.shape)
                operands = [total, self._emit(add_any_p, [at, update], aval), *starts]
            total = self._emit(part.primitive, operands, total.aval, **part.params)
        return total

    def _emit(self, prim: Any, operands: list[Any], aval: Any, **params: object) -> Var:
        result = Var(aval)
        source = state.source or UNKNOWN
        self._eqns.append(Eqn(prim, operands, [result], params, NO_EFFECTS, source))
        return result
