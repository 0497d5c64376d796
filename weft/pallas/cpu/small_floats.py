"""Floats of 16 and 8 bits: as float32, in which they are computed, and back.

LLVM converts 16 bits where the processor does. A float of 8 bits is an i8 in registers; its value
comes from a table, its code from rounding the float32's bits (to nearest, ties to even; subnormals
by adding a number whose last bit is theirs; P. Micikevicius et al., "FP8 formats for deep
learning", 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.native.engine import host
from weft.pallas.cpu import types
from weft.pallas.cpu.llvm import Function
from weft.pallas.cpu.math import Real


def widen(f: Function, value: str, dtype: Any) -> str:
    """A small float as float32."""
    if not types.is_float8(dtype):
        return f.op(f"fpext {types.register(dtype)} {value} to float")
    index = f.op(f"zext i8 {value} to i64")
    return f.load("float", f.op(f"getelementptr float, ptr {_table(f, dtype)}, i64 {index}"))


def _table(f: Function, dtype: Any) -> str:
    """The value of each code, as read-only data of the module."""
    name = f"@values_of_{dtype.name}"
    if name not in f.module.globals:
        values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32).view(np.uint32)
        listing = ", ".join(f"i32 {v}" for v in values)
        f.module.globals[name] = f"private unnamed_addr constant [256 x i32] [{listing}], align 64"
    return name


def narrow(f: Function, value: str, dtype: Any) -> str:
    """A float32 as a small float."""
    if dtype.name == "bfloat16" and not _has_bfloat16():
        return _upper_half(f, value)
    if not types.is_float8(dtype):
        return f.op(f"fptrunc float {value} to {types.register(dtype)}")
    if dtype.name == "float8_e8m0fnu":
        return _power_of_two(f, value)
    import ml_dtypes

    info = ml_dtypes.finfo(dtype)
    mantissa = info.nmant
    bias = 1 - round(float(np.log2(float(info.smallest_normal))))

    def code_of(x: Any) -> int:
        return int(np.asarray(x, np.float32).astype(dtype).view(np.uint8))

    m = Real(f, "float")
    size = m.abs(value)
    bits, drop = m.bits(size), m.mantissa - mantissa
    odd = m.integer("and", m.integer("lshr", bits, drop), 1)
    rounded = m.integer("add", m.integer("add", bits, odd), (1 << (drop - 1)) - 1)
    normal = m.integer("sub", m.integer("lshr", rounded, drop), (m.bias - bias) << mantissa)
    _, small = m.round_by(size, 2.0 ** (bias - 1 + mantissa))
    below = m.compare("olt", size, m.c(float(info.smallest_normal)))
    code = f.op(f"select i1 {below}, i32 {small}, i32 {normal}")
    sign = m.integer("and", m.integer("lshr", m.bits(value), 24), 0x80)
    unsigned_zero = code_of(-0.0) == 0
    if unsigned_zero:  # the code of -0 is that of NaN, which has no sign
        zero = f.op(f"icmp eq i32 {code}, 0")
        sign = f.op(f"select i1 {zero}, i32 0, i32 {sign}")
    signed = m.integer("or", code, sign)
    for condition, special in (
        (f.op(f"icmp ugt i32 {code}, {code_of(float(info.max))}"), code_of(np.inf)),
        (m.compare("uno", value, value), code_of(np.nan) & (0xFF if unsigned_zero else 0x7F)),
    ):
        answer = str(special) if unsigned_zero else m.integer("or", sign, special)
        signed = f.op(f"select i1 {condition}, i32 {answer}, i32 {signed}")
    return f.op(f"trunc i32 {signed} to i8")


def _has_bfloat16() -> bool:
    """Whether LLVM converts to bfloat16 without a call of compiler-rt, which jaxlib lacks."""
    own = host()
    return not own.triple.startswith("x86") or {"avx512bf16", "avx512vl"} <= own.able


def _upper_half(f: Function, value: str) -> str:
    """A float32 rounded to the bfloat16 that is its upper half, to nearest, ties to even."""
    m = Real(f, "float")
    bits = m.bits(value)
    odd = m.integer("and", m.integer("lshr", bits, 16), 1)
    rounded = m.integer("add", m.integer("add", bits, odd), 0x7FFF)
    quiet = m.integer("or", bits, 0x400000)  # a NaN stays one, whatever its lower half
    chosen = f.op(f"select i1 {m.compare('uno', value, value)}, i32 {quiet}, i32 {rounded}")
    half = f.op(f"trunc i32 {m.integer('lshr', chosen, 16)} to i16")
    return f.op(f"bitcast i16 {half} to bfloat")


def _power_of_two(f: Function, value: str) -> str:
    """The exponent of the nearest power of two, the higher one of two; NaN unless positive.

    Source: Open Compute Project, "OCP microscaling formats (MX) specification", 2023, E8M0.
    """
    m = Real(f, "float")
    bits = m.bits(value)
    normal = m.integer("lshr", m.integer("add", bits, 1 << (m.mantissa - 1)), m.mantissa)
    # The lowest power, 2^-127, is a subnormal float32; XLA and ml_dtypes round all above it up.
    high = f.op(f"icmp ugt i32 {bits}, {1 << (m.mantissa - 1)}")
    low = f.op(f"select i1 {high}, i32 1, i32 0")
    below = f.op(f"icmp ult i32 {bits}, {1 << m.mantissa}")
    code = f.op(f"select i1 {below}, i32 {low}, i32 {normal}")
    positive = f.op(f"icmp sgt i32 {bits}, 0")  # of floats, subnormals would count as 0
    fits = f.op(f"icmp ult i32 {code}, 255")
    number = f.op(f"and i1 {positive}, {fits}")
    return f.op(f"trunc i32 {f.op(f'select i1 {number}, i32 {code}, i32 255')} to i8")
