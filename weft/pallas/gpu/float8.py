"""Floats of 8 bits on the GPU: conversions that round and overflow as everywhere else.

GPUs from compute capability 8.9 on convert them by instructions, which make numbers that are too
large the largest one; elsewhere float8_e4m3fn is put together from its bits.

Source: P. Micikevicius et al., "FP8 formats for deep learning", 2022, table 1.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from weft._xla.mlir import ir
from weft.pallas.gpu.emitter import Emitter, i32_attr

E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
_F16, _F32, _BITS = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.int32)
_BYTE, _SHORT = np.dtype(np.int8), np.dtype(np.int16)


def to_float32(e: Emitter, x: ir.Value, dtype: Any) -> ir.Value:
    sizes = e.sizes(x)
    if dtype == E4M3 and not e.converts_float8:
        x = _from_bits(e, x)
    elif e.converts_float8:
        return e.value("tt.fp_to_fp", [x], e.type(sizes, _F32))
    else:
        x = e.value("tt.fp_to_fp", [x], e.type(sizes, _F16))
    return e.value("arith.extf", [x], e.type(sizes, _F32))


def to_float16(e: Emitter, x: ir.Value, dtype: Any) -> ir.Value:
    """Both kinds are exact in float16."""
    if dtype == E4M3 and not e.converts_float8:
        return _from_bits(e, x)
    return e.value("tt.fp_to_fp", [x], e.type(e.sizes(x), _F16))


def from_float32(e: Emitter, x: ir.Value, dtype: Any) -> ir.Value:
    """Rounded to nearest, ties to even; what is too large is NaN, or infinite in float8_e5m2."""
    sizes = e.sizes(x)
    if dtype == E4M3 and not e.converts_float8:
        return _to_bits(e, x)
    type_ = e.type(sizes, dtype)
    found = e.value("tt.fp_to_fp", [x], type_, rounding=i32_attr(1))
    size, bits = e.same("math.absf", x), e.value("tt.bitcast", [found], e.type(sizes, _BYTE))
    how, limit, special = ("gt", 464.0, 0x7F) if dtype == E4M3 else ("ge", 61440.0, 0x7C)
    large = e.compare(how, size, e.constant(limit, sizes, _F32), _F32)
    special = e.constant(special, sizes, _BYTE)
    sign = e.binary("and", bits, e.constant(-128, sizes, _BYTE), _BYTE)
    bits = e.select(large, e.binary("or", sign, special, _BYTE), bits)
    return e.value("tt.bitcast", [bits], type_)


def _from_bits(e: Emitter, x: ir.Value) -> ir.Value:
    """float8_e4m3fn in float16: the same fields at the places of float16, 2**8 too small."""
    sizes = e.sizes(x)
    number = lambda value: e.constant(value, sizes, _SHORT)
    byte = e.value("tt.bitcast", [x], e.type(sizes, _BYTE))
    bits = e.value("arith.extsi", [byte], e.type(sizes, _SHORT))
    size = e.binary("and", bits, number(0x7F), _SHORT)
    sign = e.binary("and", bits, number(-(1 << 15)), _SHORT)
    places = e.same("arith.shli", size, number(7))
    half = e.value("tt.bitcast", [e.binary("or", sign, places, _SHORT)], e.type(sizes, _F16))
    value = e.binary("mul", half, e.constant(256.0, sizes, _F16), _F16)
    nan = e.compare("eq", size, number(0x7F), _SHORT)
    return e.select(nan, e.constant(np.nan, sizes, _F16), value)


def _to_bits(e: Emitter, x: ir.Value) -> ir.Value:
    sizes = e.sizes(x)
    number = lambda value: e.constant(value, sizes, _BITS)
    all_bits = e.value("tt.bitcast", [x], e.type(sizes, _BITS))
    size = e.same("math.absf", x)
    bits = e.value("tt.bitcast", [size], e.type(sizes, _BITS))
    last = e.binary("and", e.same("arith.shrui", bits, number(20)), number(1), _BITS)
    rounded = e.binary("add", bits, e.binary("add", last, number((1 << 19) - 1), _BITS), _BITS)
    normal = e.binary("sub", e.same("arith.shrui", rounded, number(20)), number(120 << 3), _BITS)
    # Below 2**-6 the result counts steps of 2**-9, those of float32 just above 2**14.
    step = e.binary("add", size, e.constant(2.0**14, sizes, _F32), _F32)
    steps = e.value("tt.bitcast", [step], e.type(sizes, _BITS))
    small = e.binary("sub", steps, number(int(np.float32(2.0**14).view(np.int32))), _BITS)
    is_small = e.compare("lt", size, e.constant(2.0**-6, sizes, _F32), _F32)
    fits = e.compare("le", size, e.constant(464.0, sizes, _F32), _F32)
    result = e.select(fits, e.select(is_small, small, normal), number(0x7F))
    sign = e.binary("and", e.same("arith.shrui", all_bits, number(24)), number(0x80), _BITS)
    byte = e.value("arith.trunci", [e.binary("or", result, sign, _BITS)], e.type(sizes, _BYTE))
    return e.value("tt.bitcast", [byte], e.type(sizes, E4M3))
