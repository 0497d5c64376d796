# Tests: tests/pallas/gpu/test_float8.py, tests/pallas/test_cpu_dtypes.py
"""Floats of 8 bits from float32 and back, and bfloat16 from float32, by their bits.

Rounded to nearest, ties to even; subnormals by adding a number whose last bit is theirs (P.
Micikevicius et al., "FP8 formats for deep learning", 2022). No step depends on float32's
subnormals, which a thread may count as 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from weft.formulas.language import bits, from_bits, round_scaled, where
from weft.ops.arithmetic import shift_right_logical_p
from weft.ops.dtype_casts import bitcast_convert_type_p

if TYPE_CHECKING:
    from weft.runtime.array import Array

_UINT8 = np.dtype(np.uint8)


def _code_of(x: Array, dtype: np.dtype) -> int:
    return int(np.asarray(x, np.float32).astype(dtype).view(np.uint8))


def _format(dtype: np.dtype) -> tuple[int, int, bool]:
    """Return the mantissa's bits, the exponent's bias, whether there is no -0 (its code is NaN)."""
    info = ml_dtypes.finfo(dtype)
    bias = 1 - round(float(np.log2(float(info.smallest_normal))))
    return info.nmant, bias, _code_of(-0.0, dtype) == 0


def widen(x: Array) -> Array:
    """Return a float of 8 bits as float32."""
    dtype = x.dtype
    code = bitcast_convert_type_p.bind(x, new_dtype=_UINT8).astype("int32")
    if dtype.name == "float8_e8m0fnu":  # 2**-127 is a subnormal float32
        value = from_bits(where(code == 0, 1 << 22, code << 23))
        return where(code == 255, np.float32(np.nan), value)
    mantissa, bias, unsigned_zero = _format(dtype)
    size = code & 0x7F
    normal = from_bits((size << (23 - mantissa)) + ((127 - bias) << 23))
    small = size.astype("float32") * np.float32(2.0 ** (1 - bias - mantissa))
    value = where(size < (1 << mantissa), small, normal)
    if unsigned_zero:
        value = where(code == 0x80, np.float32(np.nan), value)
    else:
        largest = _code_of(ml_dtypes.finfo(dtype).max, dtype)
        value = where(size > largest, np.float32(np.nan), value)
        if np.isinf(np.float32(np.inf).astype(dtype).astype(np.float32)):
            value = where(size == _code_of(np.inf, dtype), np.float32(np.inf), value)
    return from_bits(bits(value) | ((code & 0x80) << 24))


def narrow(value: Array, dtype: np.dtype) -> Array:
    """Return a float32 as a float of 8 bits, or as the bfloat16 that is its upper half."""
    if dtype.name == "bfloat16":
        n = bits(value)
        rounded = (n + ((n >> 16) & 1)) + 0x7FFF
        n = where(value != value, n | 0x400000, rounded)  # a NaN stays one
        return bitcast_convert_type_p.bind((n >> 16).astype("int16"), new_dtype=dtype)
    code = _power_of_two(value) if dtype.name == "float8_e8m0fnu" else _code(value, dtype)
    return bitcast_convert_type_p.bind(code.astype("uint8"), new_dtype=dtype)


def _code(value: Array, dtype: np.dtype) -> Array:
    info = ml_dtypes.finfo(dtype)
    mantissa, bias, unsigned_zero = _format(dtype)
    size = abs(value)
    drop = 23 - mantissa
    odd = (bits(size) >> drop) & 1
    rounded = (bits(size) + odd) + ((1 << (drop - 1)) - 1)
    normal = (rounded >> drop) - ((127 - bias) << mantissa)
    _, small = round_scaled(size, 2.0 ** (bias - 1 + mantissa))
    code = where(size < float(info.smallest_normal), small, normal)
    sign = shift_right_logical_p.bind(bits(value), np.int32(24)) & 0x80
    if unsigned_zero:
        sign = where(code == 0, np.int32(0), sign)
    large, nan = _code_of(np.inf, dtype), _code_of(np.nan, dtype)
    if not unsigned_zero:
        large, nan = sign | large, sign | (nan & 0x7F)
    signed = where(code > _code_of(float(info.max), dtype), large, code | sign)
    return where(value != value, nan, signed)


def _power_of_two(value: Array) -> Array:
    """Return the exponent of the nearest power of two, the higher one of two; NaN unless positive.

    Source: Open Compute Project, "OCP microscaling formats (MX) specification", 2023, E8M0.
    """
    n = bits(value)
    normal = shift_right_logical_p.bind(n + (1 << 22), np.int32(23))
    # The lowest power, 2^-127, is a subnormal float32; XLA and ml_dtypes round all above it up.
    low = where(n > (1 << 22), np.int32(1), 0)
    code = where((n >= 0) & (n < (1 << 23)), low, normal)
    return where((n > 0) & (code < 255), code, 255)
