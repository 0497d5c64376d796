"""Floats of 8 bits on the GPU: conversions that round and overflow as everywhere else.

GPUs from compute capability 8.9 on convert them by instructions, which make numbers that are too
large the largest one; elsewhere float8_e4m3fn is put together from its bits.

Source: P. Micikevicius et al., "FP8 formats for deep learning", 2022, table 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from weft._xla.mlir import ir
from weft.core.aval import ShapedArray
from weft.core.config import options
from weft.core.jaxpr import ClosedJaxpr
from weft.core.trace import trace_to_jaxpr
from weft.formulas import floats
from weft.pallas.gpu.emitter import Emitter, i32_attr, target_of
from weft.pallas.legalize import legalize

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
_F16, _F32, _BYTE = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.int8)


def to_float32(e: Emitter, x: ir.Value, dtype: np.dtype) -> ir.Value:
    sizes = e.sizes(x)
    if dtype == E4M3 and not e.converts_float8:
        return _by_formula(e, x, dtype, floats.widen)
    if e.converts_float8:
        return e.value("tt.fp_to_fp", [x], e.type(sizes, _F32))
    x = e.value("tt.fp_to_fp", [x], e.type(sizes, _F16))
    return e.value("arith.extf", [x], e.type(sizes, _F32))


def to_float16(e: Emitter, x: ir.Value, dtype: Any) -> ir.Value:
    """Both kinds are exact in float16."""
    if dtype == E4M3 and not e.converts_float8:
        return e.value("arith.truncf", [to_float32(e, x, dtype)], e.type(e.sizes(x), _F16))
    return e.value("tt.fp_to_fp", [x], e.type(e.sizes(x), _F16))


def from_float32(e: Emitter, x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Round to nearest, ties to even; too large ones are NaN, in float8_e5m2 infinite."""
    sizes = e.sizes(x)
    if dtype == E4M3 and not e.converts_float8:
        return _by_formula(e, x, _F32, lambda x: floats.narrow(x, E4M3))
    type_ = e.type(sizes, dtype)
    rounded = e.value("tt.fp_to_fp", [x], type_, rounding=i32_attr(1))
    size, bits = e.same("math.absf", x), e.value("tt.bitcast", [rounded], e.type(sizes, _BYTE))
    how, limit, special = ("gt", 464.0, 0x7F) if dtype == E4M3 else ("ge", 61440.0, 0x7C)
    large = e.compare(how, size, e.constant(limit, sizes, _F32), _F32)
    special = e.constant(special, sizes, _BYTE)
    sign = e.binary("and", bits, e.constant(-128, sizes, _BYTE), _BYTE)
    bits = e.select(large, e.binary("or", sign, special, _BYTE), bits)
    return e.value("tt.bitcast", [bits], type_)


def _by_formula(e: Emitter, x: ir.Value, old: np.dtype, formula: Callable) -> ir.Value:
    """Return the value of a formula on a tensor (weft/formulas/floats.py)."""
    aval = ShapedArray(e.sizes(x), old)
    with options["enable_x64"](True):
        jaxpr = ClosedJaxpr(*trace_to_jaxpr(lambda x: [formula(x)], [aval], "float8"))
    (out,) = e.run(legalize(jaxpr, target_of(e.platform), e.call), [x])
    return out
