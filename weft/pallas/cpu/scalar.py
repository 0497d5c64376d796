# Tests: tests/pallas/test_cpu.py
"""Ops on one element in a register: a table from primitive name to code.

A rule is rule(f, dtype, operands, params, result dtype) -> register. An op that has none for a
dtype is written by its formula (weft/formulas).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.pallas.cpu.types as types
import weft.pallas.cpu.vectors as vectors
from weft.core import dtypes
from weft.core.jaxpr import Literal
from weft.formulas.elements import element_formula, has_formula
from weft.native.engine import host
from weft.pallas.cpu.llvm import Function

if TYPE_CHECKING:
    from weft.core.jaxpr import Atom

Rule = Callable[[Function, Any, list[str], dict[str, Any], Any], str]

RULES: dict[str, Rule] = {}
COSTS: dict[str, int] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic"), 16),
    **dict.fromkeys(("sin", "cos", "tan"), 16),
    **dict.fromkeys(("atan", "atan2", "asin", "acos", "sinh", "cosh", "asinh", "acosh"), 60),
    **dict.fromkeys(("atanh", "cbrt", "erf", "erfc", "erf_inv", "lgamma"), 60),
    "pow": 80,
    "rsqrt": 6,
    "integer_pow": 3,
    **dict.fromkeys(("clamp", "sign", "is_finite"), 2),
}
"""Cost of an op, in additions; 1 where not named."""


def has_code(name: str) -> bool:
    """Return whether `emit` has code for an op."""
    return name in RULES or has_formula(name)


def emit(
    f: Function, name: str, dtype: np.dtype, operands: list[str], params: dict, result: np.dtype
) -> str:
    """Return the code of an op whose operands have one dtype."""
    if name in RULES and (name != "exp" or dtype == dtypes.float32 and vectors.has_exp()):
        return RULES[name](f, dtype, operands, params, result)
    exponent = (("y", params["y"]),) if name == "integer_pow" else ()
    return _by_formula(f, name, (dtype,) * len(operands), result, operands, exponent)


_OF_ANY_BITS = ("select_n", "convert_element_type", "bitcast_convert_type")
"""Ops that need no arithmetic of their operands' dtype."""


def narrowest(name: str) -> int:
    """Return the bytes of the narrowest floats that an op is computed in."""
    if name in _OF_ANY_BITS or not has_code(name):
        return 1
    return 2 if name in ("neg", "abs") else 4


def add(f: Function, dtype: np.dtype, x: str, y: str) -> str:
    """Return the sum of two elements, of narrow floats by way of float32."""
    wide = dtypes.float32 if types.is_small_float(dtype) else dtype
    x, y = (convert(f, v, dtype, wide) for v in (x, y))
    return convert(f, emit(f, "add", wide, [x, y], {}, wide), wide, dtype)


def _by_formula(
    f: Function,
    name: str,
    kinds: tuple,
    result: np.dtype,
    operands: Sequence[str],
    params: tuple = (),
) -> str:
    """Return the code of an op by its formula, with every sum and product rounded."""
    before, f.exact = f.exact, True
    jaxpr = element_formula(name, kinds, result, params).jaxpr
    values: dict[Any, str] = dict(zip(jaxpr.invars, operands, strict=True))

    def read(atom: Atom) -> str:
        if atom.__class__ is Literal:
            return types.constant(atom.val, atom.aval.dtype)
        return values[atom]

    for eqn in jaxpr.eqns:
        name, out = eqn.primitive.name, eqn.outvars[0]
        texts = [read(a) for a in eqn.invars]
        dtype = eqn.invars[-1 if name == "select_n" else 0].aval.dtype
        values[out] = emit(f, name, dtype, texts, eqn.rule_params, out.aval.dtype)
    f.exact = before
    return read(jaxpr.outvars[0])


def rule(*names: str, cost: int = 1) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
            COSTS[name] = cost
        return function

    return add


# Arithmetic ------------------------------------------------------------------------------------


def _binary(name: str, float_op: str, signed: str, unsigned: str, boolean: str, cost: int) -> None:
    @rule(name, cost=cost)
    def code(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
        if dtypes.is_float(dtype):
            op = float_op if f.exact else f"{float_op} contract"
        elif dtype.name == "bool":
            op = boolean
        else:
            op = signed if dtypes.is_signed(dtype) else unsigned
        return f.op(f"{op} {types.register(dtype)} {o[0]}, {o[1]}")


_binary("add", "fadd", "add", "add", "or", 1)
_binary("sub", "fsub", "sub", "sub", "xor", 1)
_binary("mul", "fmul", "mul", "mul", "and", 1)
_binary("and", "", "and", "and", "and", 1)
_binary("or", "", "or", "or", "or", 1)
_binary("xor", "", "xor", "xor", "xor", 1)


@rule("div", cost=4)
def _div(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    type_ = types.register(dtype)
    if dtypes.is_float(dtype):
        return f.op(f"fdiv {type_} {o[0]}, {o[1]}")
    return _safe_division(f, dtype, o, "div")


@rule("rem", cost=8)
def _rem(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    if dtypes.is_float(dtype):
        return f.op(f"frem {types.register(dtype)} {o[0]}, {o[1]}")
    return _safe_division(f, dtype, o, "rem")


def _safe_division(f: Function, dtype: np.dtype, o: list[str], operation: str) -> str:
    """Divide as XLA does: x / 0 = -1, x rem 0 = x; the smallest / -1 is itself, rem 0."""
    t = types.register(dtype)
    signed = dtypes.is_signed(dtype)
    zero = f.op(f"icmp eq {t} {o[1]}, 0")
    edge = zero
    if signed:
        low = -(2 ** (types.bits(dtype) - 1))
        smallest = f.op(f"icmp eq {t} {o[0]}, {low}")
        minus = f.op(f"icmp eq {t} {o[1]}, -1")
        overflow = f.op(f"and i1 {smallest}, {minus}")
        edge = f.op(f"or i1 {zero}, {overflow}")
    safe = f.op(f"select i1 {edge}, {t} 1, {t} {o[1]}")
    value = f.op(f"{'s' if signed else 'u'}{operation} {t} {o[0]}, {safe}")
    if operation == "div":
        return f.op(f"select i1 {zero}, {t} -1, {t} {value}")
    return f.op(f"select i1 {zero}, {t} {o[0]}, {t} {value}")


@rule("neg")
def _neg(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    t = types.register(dtype)
    return f.op(f"fneg {t} {o[0]}") if dtypes.is_float(dtype) else f.op(f"sub {t} 0, {o[0]}")


@rule("not")
def _not(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    ones = "true" if dtype.name == "bool" else "-1"
    return f.op(f"xor {types.register(dtype)} {o[0]}, {ones}")


_SUFFIXES = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def _intrinsic(f: Function, name: str, type_: str, *operands: str) -> str:
    """LLVM's intrinsic on floats of one type."""
    full = f"llvm.{name}.{_SUFFIXES[type_]}"
    return f.intrinsic(full, type_, *((type_, o) for o in operands))


def _extremum(name: str, float_op: str, signed: str, unsigned: str, boolean: str) -> None:
    @rule(name)
    def code(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
        t = types.register(dtype)
        if dtypes.is_float(dtype):
            return _intrinsic(f, float_op, t, *o)
        if dtype.name == "bool":
            return f.op(f"{boolean} i1 {o[0]}, {o[1]}")
        which = signed if dtypes.is_signed(dtype) else unsigned
        return f.intrinsic(f"llvm.{which}.{t}", t, (t, o[0]), (t, o[1]))


_extremum("max", "maximum", "smax", "umax", "or")
_extremum("min", "minimum", "smin", "umin", "and")


@rule("abs")
def _abs(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    t = types.register(dtype)
    if dtypes.is_float(dtype):
        return _intrinsic(f, "fabs", t, o[0])
    if not dtypes.is_signed(dtype):
        return o[0]
    f.module.declare(f"llvm.abs.{t}", t, f"{t}, i1")
    return f.op(f"call {t} @llvm.abs.{t}({t} {o[0]}, i1 false)")


# Bits ------------------------------------------------------------------------------------------


def _shift(name: str, op: str, fill: str) -> None:
    @rule(name, cost=2)
    def code(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
        t, n = types.register(dtype), types.bits(dtype)
        # LLVM leaves shifts by the width and more undefined; StableHLO does not.
        wide = f.op(f"icmp uge {t} {o[1]}, {n}")
        amount = f.op(f"select i1 {wide}, {t} 0, {t} {o[1]}")
        value = f.op(f"{op} {t} {o[0]}, {amount}")
        over = "0" if fill == "zero" else f.op(f"ashr {t} {o[0]}, {n - 1}")
        return f.op(f"select i1 {wide}, {t} {over}, {t} {value}")


_shift("shift_left", "shl", "zero")
_shift("shift_right_logical", "lshr", "zero")
_shift("shift_right_arithmetic", "ashr", "sign")


# Comparison ------------------------------------------------------------------------------------


def _comparison(name: str, float_op: str, signed: str, unsigned: str) -> None:
    @rule(name)
    def code(
        f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype | None
    ) -> str:
        t = types.register(dtype)
        if dtypes.is_float(dtype):
            return f.op(f"fcmp {float_op} {t} {o[0]}, {o[1]}")
        op = signed if dtypes.is_signed(dtype) else unsigned
        return f.op(f"icmp {op} {t} {o[0]}, {o[1]}")


for _name, _ops in {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
}.items():
    _comparison(_name, *_ops)


# Functions -------------------------------------------------------------------------------------


def _function(name: str, cost: int) -> None:
    @rule(name, cost=cost)
    def code(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
        return _intrinsic(f, name, types.register(dtype), *o)


_function("sqrt", 6)
_function("floor", 1)
_function("ceil", 1)
_function("fma", 1)


@rule("exp", cost=16)
def _exp(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    return vectors.exp(f, o[0])


@rule("ldexp", cost=4)
def _ldexp(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    type_, (x, n) = types.register(dtype), o
    if not host().features.get("avx512f"):
        kinds = dtype, np.dtype(f"int{types.bits(dtype)}")
        return _by_formula(f, "ldexp", kinds, result, o)
    if dtype == dtypes.float64:
        n = f.op(f"trunc i64 {n} to i32")
    return f.intrinsic(f"llvm.ldexp.{_SUFFIXES[type_]}.i32", type_, (type_, x), ("i32", n))


@rule("round", cost=2)
def _round(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    away = "AWAY" in str(next(iter(params.values()), "")).upper()
    return _intrinsic(f, "round" if away else "roundeven", types.register(dtype), o[0])


@rule("select_n")
def _select(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    """Select one of two by a truth value; arrays.py selects among more."""
    type_ = types.register(dtype)
    return f.op(f"select i1 {o[0]}, {type_} {o[2]}, {type_} {o[1]}")


# Conversion ------------------------------------------------------------------------------------


@rule("convert_element_type")
def _convert(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    return convert(f, o[0], dtype, result)


@rule("bitcast_convert_type")
def _bitcast(f: Function, dtype: np.dtype, o: list[str], params: dict, result: np.dtype) -> str:
    """Between dtypes of one size."""
    a, b = types.register(dtype), types.register(result)
    return o[0] if a == b else f.op(f"bitcast {a} {o[0]} to {b}")


def convert(f: Function, value: str, old: Any, new: Any) -> str:
    """Return an element of another dtype; floats saturate to integers as XLA's do."""
    if old == new:
        return value
    if types.is_float8(new) or new.name == "bfloat16":
        value, old = convert(f, value, old, dtypes.float32), dtypes.float32
    by_bits = new.name == "bfloat16" and not _has_bfloat16()
    if types.is_float8(old) or types.is_float8(new) or by_bits:
        near = dtypes.float32 if types.is_float8(old) else new
        value = _by_formula(f, "convert_element_type", (old,), near, [value])
        return convert(f, value, near, new)
    if old.name == "bfloat16" and not _has_bfloat16():
        # By bits: comparisons of extended numbers become those of bfloats (quirks.BFLOAT_COMPARED).
        low = f.op(f"zext i16 {f.op(f'bitcast bfloat {value} to i16')} to i32")
        number = f.op(f"bitcast i32 {f.op(f'shl i32 {low}, 16')} to float")
        return convert(f, number, dtypes.float32, new)
    a, b = types.register(old), types.register(new)
    if new.name == "bool":
        if dtypes.is_float(old):
            return f.op(f"fcmp une {a} {value}, {types.constant(0, old)}")
        return f.op(f"icmp ne {a} {value}, 0")
    if dtypes.is_float(old) and dtypes.is_float(new):
        if types.is_small_float(old) and types.is_small_float(new):
            value, a = f.op(f"fpext {a} {value} to float"), "float"
            return f.op(f"fptrunc float {value} to {b}")
        return f.op(f"{'fpext' if new.itemsize > old.itemsize else 'fptrunc'} {a} {value} to {b}")
    if dtypes.is_float(old):
        if types.is_small_float(old):
            value, a = f.op(f"fpext {a} {value} to float"), "float"
        sign = "s" if dtypes.is_signed(new) else "u"
        suffix = f"{b}.{'f32' if a == 'float' else 'f64'}"
        return f.intrinsic(f"llvm.fpto{sign}i.sat.{suffix}", b, (a, value))
    signed = dtypes.is_signed(old)
    if dtypes.is_float(new):
        return f.op(f"{'s' if signed else 'u'}itofp {a} {value} to {b}")
    wide, had = types.bits(new), types.bits(old)
    if wide == had:
        return value
    op = "trunc" if wide < had else "sext" if signed else "zext"
    return f.op(f"{op} {a} {value} to {b}")


def _has_bfloat16() -> bool:
    """Tell whether LLVM converts to bfloat16 without a call of compiler-rt, which jaxlib lacks."""
    processor = host()
    return not processor.triple.startswith("x86") or {"avx512bf16", "avx512vl"} <= processor.able
