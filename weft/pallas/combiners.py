"""Reductions and running totals: the op that combines elements, and what it starts from."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops.reduce import highest, lowest

REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}
CUMULATIVE = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}


def neutral(op: str, dtype: np.dtype) -> Any:
    """The element that changes no other one."""
    if op in ("max", "min"):
        return lowest(dtype) if op == "max" else highest(dtype)
    return np.asarray({"mul": 1, "and": -1}.get(op, 0)).astype(dtype)[()]
