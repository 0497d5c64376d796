# Tests: tests/ops/test_scan_products.py
"""Sums over a loop's steps of products, computed as one product behind the loop.

The cotangent of a constant of a scan, such as a recurrent network's weights, is Σ_t x_tᵀ g_t. Added
up step by step, it is read and written as a whole in each; the operands stacked over the steps are
often smaller, and their product has the steps as one more dimension to sum over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from weft.autodiff.shape import reshape_p, transpose_p
from weft.autodiff.zeros import add_any_p
from weft.core.aval import ShapedArray
from weft.core.jaxpr import Eqn, Literal, Var
from weft.ops.dot import dot_general_p
from weft.ops.dtype_casts import convert_element_type_p

LEAST = 1 << 12
"""Elements from which on a sum is taken out of the loop."""
_LINEAR = (reshape_p, transpose_p, convert_element_type_p)


class StackedProducts:
    """The sums of a body's outputs that become products of stacked operands."""

    __slots__ = ("_made", "operands", "taken")

    operands: list[Var]
    taken: list[bool]

    def __init__(
        self, eqns: Sequence[Eqn], outputs: Sequence[Any], xs: Sequence[Var], fixed: Sequence[Var]
    ) -> None:
        """
        Args:
          outputs: what is summed over the steps.
          xs: inputs of the body that are stacked already.
          fixed: inputs that are the same in every step.
        """
        self._made = {v: eqn for eqn in eqns for v in eqn.outvars}
        self.operands, self.taken = [], []
        constant = frozenset(fixed)
        # What is stacked beyond the operands takes at most as much memory again as they do.
        room = sum(v.aval.size for v in xs if v.aval.__class__ is ShapedArray)
        for output in outputs:
            operands = self._operands(output, constant) or []
            new = dict.fromkeys(v for v in operands if v not in self.operands)
            cost = sum(v.aval.size for v in new if v not in xs)
            take = bool(operands) and cost <= min(room, output.aval.size // 2)
            if take:
                room -= cost
                self.operands += new
            self.taken.append(take)

    def _operands(self, v: Any, fixed: frozenset[Var]) -> list[Var] | None:
        """Return the operands of the products that v is a sum of; None if it is none."""
        eqn = self._made.get(v)
        if eqn is None or v.aval.size < LEAST or v.aval.sharding is not None:
            return None
        if eqn.primitive is dot_general_p:
            operands = [x for x in eqn.invars if _varies(x, fixed)]
            plain = eqn.rule_params["out_sharding"] is None
            return operands if plain and len(operands) == len(eqn.invars) else None
        if eqn.primitive is add_any_p or eqn.primitive in _LINEAR:
            parts = [self._operands(x, fixed) for x in eqn.invars]
            return None if None in parts else [x for part in parts for x in part or ()]
        return None

    def total(self, v: Any, stacked: Mapping[Any, Any]) -> Any:
        """Return the sum of v over the steps."""
        eqn = self._made[v]
        if eqn.primitive is not dot_general_p:
            return eqn.primitive.bind(
                *(self.total(x, stacked) for x in eqn.invars), **eqn.rule_params
            )
        (lc, rc), (lb, rb) = (
            tuple(tuple(d + 1 for d in dims) for dims in pair)
            for pair in eqn.rule_params["dimension_numbers"]
        )
        numbers = ((0, *lc), (0, *rc)), (lb, rb)
        params = {**eqn.rule_params, "dimension_numbers": numbers}
        return dot_general_p.bind(*(stacked[x] for x in eqn.invars), **params)


def _varies(x: Var | Literal, fixed: frozenset[Var]) -> TypeGuard[Var]:
    return isinstance(x, Var) and x not in fixed and x.aval.sharding is None
