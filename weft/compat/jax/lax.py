# Tests: tests/compat/test_other_modules.py
"""Primitives of JAX's whose functions weft makes of other primitives, for quax.

Programs can give them rules, and `bind` calls the function; no equation of weft's names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import lax
from weft.api.linear_solves import linear_solve_p
from weft.compat.primitive import Primitive
from weft.core.primitive import PRIMITIVES
from weft.sharding.placement import device_put_p, sharding_constraint_p


class FunctionPrimitive(Primitive):
    """A primitive that binds the equations of its function."""

    def __init__(self, name: str, function: Callable, *, multiple_results: bool = False) -> None:
        super().__init__(name)
        if PRIMITIVES[name] is self:  # not in the table: no equation of weft's names it
            del PRIMITIVES[name]
        self.function = function
        self.multiple_results = multiple_results

    def bind(self, *args: object, **params: object) -> Any:
        results = self.function(*args, **params)
        return list(results) if self.multiple_results else results


def _approx_top_k(operand: Any, *, is_max_k: bool, **params: Any) -> list:
    return (lax.approx_max_k if is_max_k else lax.approx_min_k)(operand, **params)


def _scatter_sub(*operands: Any, dimension_numbers: Any, update_jaxpr: Any, **params: Any) -> Any:
    params.pop("update_consts", None)
    operand, indices, updates = operands
    return lax.scatter_sub(operand, indices, updates, dimension_numbers, **params)


def _select_and_scatter(*operands: Any, **params: Any) -> Any:
    raise NotImplementedError(
        "select_and_scatter_p.bind: weft scatters to the greatest or least of each window only; "
        "differentiate lax.reduce_window, or bind lax.select_and_scatter_add_p"
    )


approx_top_k_p = FunctionPrimitive("approx_top_k", _approx_top_k, multiple_results=True)
scatter_sub_p = FunctionPrimitive("scatter-sub", _scatter_sub)
select_and_scatter_p = FunctionPrimitive("select_and_scatter", _select_and_scatter)
square_p = FunctionPrimitive("square", lax.square)
squeeze_p = FunctionPrimitive("squeeze", lax.squeeze)
stack_p = FunctionPrimitive("stack", lambda *arrays, axis: lax.stack(arrays, axis))
stage_p = FunctionPrimitive("stage", lax.stage)
tile_p = FunctionPrimitive("tile", lax.tile)
unstack_p = FunctionPrimitive("unstack", lax.unstack, multiple_results=True)

__all__ = ["device_put_p", "linear_solve_p", "sharding_constraint_p"]
