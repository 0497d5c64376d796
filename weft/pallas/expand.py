"""Ops that are lowered by formulas of other ops, expanded: for backends that lack them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Eqn, eval_closed
from weft.core.trace import trace_to_jaxpr, typeof
from weft.ops.promote import broadcast_to
from weft.pallas import dense


class _Context:
    """Stands for a lowering context whose values are traced arrays."""

    def __init__(self, eqn: Eqn) -> None:
        self.eqn = eqn
        self.avals_in = [v.aval for v in eqn.invars]
        self.avals_out = [v.aval for v in eqn.outvars]

    def spread(self, operands: Sequence[Any]) -> list:
        shape = self.avals_out[0].shape
        return [broadcast_to(x, shape) if not typeof(x).shape else x for x in operands]

    def lower_fun(self, fun: Callable, *operands: Any, avals: Any = None) -> list:
        out = fun(*operands)
        return list(out) if isinstance(out, list | tuple) else [out]

    def inline(self, closed: ClosedJaxpr, *operands: Any) -> list:
        return eval_closed(closed, *operands)

    def call(self, closed: ClosedJaxpr, operands: Sequence[Any], name: str = "") -> list:
        return eval_closed(closed, *operands)


def formula(eqn: Eqn) -> ClosedJaxpr | None:
    """The jaxpr of other ops that an equation stands for, or None if there is none."""
    return dense.formula(eqn) or expanded(eqn)


def expanded(eqn: Eqn) -> ClosedJaxpr | None:
    """The formula that an equation is lowered by; random keys in it stand as their words."""
    prim = eqn.primitive
    if prim.lower is None:
        return None

    def flat(*args: Any) -> list:
        out = prim.lower(_Context(eqn), *args, **eqn.params)
        return list(out) if isinstance(out, list | tuple) else [out]

    try:
        jaxpr, consts = trace_to_jaxpr(flat, [_words(v.aval) for v in eqn.invars], prim.name)
    except (AttributeError, TypeError):  # its rule emits StableHLO itself
        return None
    return ClosedJaxpr(jaxpr, consts)


def _words(aval: Any) -> Any:
    if not dtypes.is_extended(aval.dtype):
        return aval
    return ShapedArray(aval.shape + aval.dtype.physical_shape, aval.dtype.physical_dtype)
