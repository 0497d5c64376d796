"""Integers of 2 and 4 bits as bytes, which all processors compute with: a part of `legalize`.

A byte holds the same number: what an op makes of bytes is wrapped around at the narrow width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import Eqn, Var
from weft.ops.arithmetic import max_p, min_p
from weft.pallas.formulas.complex import PARTS

if TYPE_CHECKING:
    from weft.core.ref import AbstractRef
    from weft.runtime.array import Array

_EXACT = PARTS | {"max", "min", "set", "addupdate", "cummax", "cummin", "reduce_max", "reduce_min"}
_EXACT -= {"reduce_sum", "cumsum"}
"""Ops whose results are in range where their operands are."""

ATOMIC = ("add", "and", "or", "xor", "xchg")
"""Atomic ops that may leave numbers in memory to be wrapped around where they are read."""


def is_narrow(dtype: np.dtype) -> bool:
    return dtype.name in dtypes.int4_names


def byte_of(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a byte that holds numbers of a narrow dtype; others stay."""
    if not is_narrow(dtype):
        return dtype
    return dtypes.uint8 if dtypes.is_unsigned(dtype) else dtypes.int8


def in_bytes(aval: ShapedArray | AbstractRef) -> Any:
    return aval.update(dtype=byte_of(aval.dtype)) if is_narrow(aval.dtype) else aval


def concerns(eqn: Eqn) -> bool:
    return any(is_narrow(v.aval.dtype) for v in (*eqn.invars, *eqn.outvars))


def equation_in_bytes(eqn: Eqn) -> Eqn:
    """Return the equation of operands in bytes; its formula is `on_bytes` of the original."""
    return eqn.replace(invars=[Var(in_bytes(v.aval)) for v in eqn.invars])


def _bits(x: Array, dtype: np.dtype) -> Array:
    """Return the byte with all bits 0 that a narrow number lacks."""
    return x & x.dtype.type((1 << dtypes.iinfo(dtype).bits) - 1)


def _wrapped(x: Array, dtype: np.dtype) -> Array:
    if dtypes.is_unsigned(dtype):
        return _bits(x, dtype)
    missing = x.dtype.type(8 - dtypes.iinfo(dtype).bits)
    return (x << missing) >> missing


def on_bytes(eqn: Eqn) -> Callable:
    """Return the function of operands in bytes that an equation of narrow integers stands for."""
    name, kinds = eqn.primitive.name, [v.aval.dtype for v in eqn.invars]
    params = {k: byte_of(v) if isinstance(v, np.dtype) else v for k, v in eqn.rule_params.items()}

    def function(*operands: Array) -> list[Array]:
        xs = list(operands)
        if name in ("shift_right_logical", "population_count", "clz"):
            xs[0] = _bits(xs[0], kinds[0])
        out = eqn.outvars[0].aval.dtype if eqn.outvars else None
        if (
            name == "convert_element_type"
            and out is not None
            and is_narrow(out)
            and dtypes.is_float(kinds[0])
        ):
            limits = dtypes.iinfo(out)  # floats saturate
            low, high = (np.asarray(v).astype(kinds[0])[()] for v in (limits.min, limits.max))
            xs[0] = min_p.bind(max_p.bind(xs[0], low), high)
        outs = eqn.primitive.bind(*xs, **params)
        outs = list(outs) if eqn.primitive.multiple_results else [outs]
        if name == "clz":
            outs = [outs[0] - outs[0].dtype.type(8 - dtypes.iinfo(kinds[0]).bits)]
        if name in _EXACT:
            return outs
        return [
            _wrapped(x, v.aval.dtype) if is_narrow(v.aval.dtype) else x
            for x, v in zip(outs, eqn.outvars, strict=True)
        ]

    return function
