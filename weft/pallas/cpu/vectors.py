"""Functions that LLVM's vectorizer takes as whole vectors, where instructions exist that it cannot
find in code of one element.

The call site of the scalar function names its vector form (LLVM's vector-function-abi-variant);
once loops are vectorized, what they call is written into them (`engine.optimized`).
"""

from __future__ import annotations

import math

from weft.core import dtypes
from weft.native.engine import host
from weft.pallas.cpu.llvm import Function, Module
from weft.pallas.cpu.types import constant

LANES = 16
NARROW = (8, 4, 2)
"""Shorter vectors, which stand in the first lanes of a long one."""
PARTS = 16
"""exp: the fractions of a power of two that one register holds."""
_EXP = (0.16667057573795319, 0.5000162124633789)
"""(exp(r) - 1 - r) / r**2 for |r| <= ln(2)/32, fitted by Remez' exchange; error of 0.03 ulp."""
_MAGIC = 1.5 * 2.0**19
"""A float32 added to it is rounded to a multiple of 1/16, whose last digits are its last bits."""


def has_exp() -> bool:
    return bool(host().features.get("avx512f"))


def exp(f: Function, x: str) -> str:
    """exp of a float32 register."""
    name = "vector_exp"
    if name not in f.module.functions:
        _define_exp(f.module, name)
    variants = ",".join(f"_ZGV_LLVM_N{n}v_{name}({name}_{n})" for n in (LANES, *NARROW))
    attributes = f'nounwind memory(none) willreturn "vector-function-abi-variant"="{variants}"'
    return f.op(f"call float @{name}(float {x}) {attributes}")


def _splat(value: float) -> str:
    one = f"float {constant(value, dtypes.float32)}"
    return f"<{', '.join([one] * LANES)}>"


def _define_exp(module: Module, name: str) -> None:
    """x = (n + k/16) ln 2 + r: 2**(k/16) comes from a register that holds all of them, 2**n from
    the instruction that scales by the whole part of a float."""
    v = f"<{LANES} x float>"
    pure = "nounwind memory(none) willreturn"
    f = Function(module, f"{name}_{LANES}", [(v, "x")], v, f"alwaysinline {pure}")

    def call(label: str, *operands: str) -> str:
        return f.intrinsic(f"llvm.{label}.v{LANES}f32", v, *((v, o) for o in operands))

    x = "%x"
    for how, bound in (("olt", -104.0), ("ogt", 89.0)):
        outside = f.op(f"fcmp {how} {v} {x}, {_splat(bound)}")
        x = f.op(f"select <{LANES} x i1> {outside}, {v} {_splat(bound)}, {v} {x}")
    shifted = call("fma", x, _splat(1 / math.log(2)), _splat(_MAGIC))
    whole = f.op(f"fsub {v} {shifted}, {_splat(_MAGIC)}")
    r = call("fma", whole, _splat(-0.693359375), x)
    r = call("fma", whole, _splat(2.12194440e-4), r)
    powers = [f"float {constant(2 ** (k / PARTS), dtypes.float32)}" for k in range(PARTS)]
    places = f.op(f"bitcast {v} {shifted} to <{LANES} x i32>")
    power = f.intrinsic(
        "llvm.x86.avx512.permvar.sf.512",
        v,
        (v, f"<{', '.join(powers)}>"),
        (f"<{LANES} x i32>", places),
    )
    fit = call("fma", r, _splat(_EXP[0]), _splat(_EXP[1]))
    rest = call("fma", f.op(f"fmul {v} {r}, {r}"), fit, r)
    value = call("fma", power, rest, power)
    module.declare("llvm.x86.avx512.mask.scalef.ps.512", v, f"{v}, {v}, {v}, i16, i32 immarg")
    result = f.op(
        f"call {v} @llvm.x86.avx512.mask.scalef.ps.512({v} {value}, {v} {whole}, "
        f"{v} zeroinitializer, i16 -1, i32 4)"
    )
    f.do(f"ret {v} {result}")
    f.finish()
    _define_narrow(module, name)


def _define_narrow(module: Module, name: str) -> None:
    """Return the function on shorter vectors and on one element, by way of the one on LANES."""
    v, pure = f"<{LANES} x float>", "nounwind memory(none) willreturn"

    def indices(count: int, known: int) -> str:
        listing = ", ".join(f"i32 {k}" if k < known else "i32 poison" for k in range(count))
        return f"<{count} x i32> <{listing}>"

    for n in NARROW:
        part = f"<{n} x float>"
        f = Function(module, f"{name}_{n}", [(part, "x")], part, f"alwaysinline {pure}")
        wide = f.op(f"shufflevector {part} %x, {part} poison, {indices(LANES, n)}")
        wide = f.op(f"call {v} @{name}_{LANES}({v} {wide})")
        first = f.op(f"shufflevector {v} {wide}, {v} poison, {indices(n, n)}")
        f.do(f"ret {part} {first}")
        f.finish()
    f = Function(module, name, [("float", "x")], "float", f"noinline {pure}")
    wide = f.op(f"insertelement {v} poison, float %x, i32 0")
    wide = f.op(f"call {v} @{name}_{LANES}({v} {wide})")
    f.do(f"ret float {f.op(f'extractelement {v} {wide}, i32 0')}")
    f.finish()
    names = ", ".join(f"ptr @{name}_{n}" for n in (LANES, *NARROW))
    used = f'appending global [{1 + len(NARROW)} x ptr] [{names}], section "llvm.metadata"'
    module.globals["@llvm.compiler.used"] = used
