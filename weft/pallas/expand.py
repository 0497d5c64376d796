"""Ops that are lowered by formulas of other ops, expanded: for backends that lack them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Eqn, eval_closed
from weft.core.trace import trace_to_jaxpr, typeof
from weft.ops.promote import broadcast_to
from weft.pallas import scalar_formulas, windows
from weft.pallas.ir import OUTSIDE


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
    make = windows.FORMULAS.get(eqn.primitive.name)
    if make is not None:
        return traced(eqn, lambda *args: make(eqn, *args))
    function = scalar_formulas.FORMULAS.get(eqn.primitive.name)
    if function is not None:
        return traced(eqn, lambda *args: function(*args, **eqn.params))
    return None if eqn.primitive.name in OUTSIDE else expanded(eqn)


def traced(eqn: Eqn, function: Callable) -> ClosedJaxpr:
    """The jaxpr of a function of an equation's operands; random keys stand as their words."""

    def flat(*args: Any) -> list:
        out = function(*args)
        return list(out) if isinstance(out, list | tuple) else [out]

    avals = [_words(v.aval) for v in eqn.invars]
    return ClosedJaxpr(*trace_to_jaxpr(flat, avals, eqn.primitive.name))


def expanded(eqn: Eqn) -> ClosedJaxpr | None:
    """The formula that an equation is lowered by, if it is lowered by one."""
    lower = eqn.primitive.lower
    if lower is None:
        return None
    try:
        return traced(eqn, lambda *args: lower(_Context(eqn), *args, **eqn.params))
    except (AttributeError, TypeError):  # its rule emits StableHLO itself
        return None


def _words(aval: Any) -> Any:
    if not dtypes.is_extended(aval.dtype):
        return aval
    return ShapedArray(aval.shape + aval.dtype.physical_shape, aval.dtype.physical_dtype)
