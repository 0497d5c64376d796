"""Elementwise ops on one element in a register: a table from primitive name to code.

A rule is rule(f, dtypes, operands, params, result dtype) -> register. Small floats are widened to
float32 and rounded after every op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.pallas.cpu import complex_ops, functions, math, special, types
from weft.pallas.cpu.llvm import Function
from weft.pallas.cpu.small_floats import narrow, widen

Rule = Callable[[Function, Any, list[str], dict[str, Any], Any], str]

RULES: dict[str, Rule] = {}
COSTS: dict[str, int] = {}
"""Cost of an op, in additions; 1 where not named."""


def emit(f: Function, name: str, dtype: Any, operands: list[str], params: dict, result: Any) -> str:
    """The code of an op whose operands have one dtype."""
    if types.is_complex(dtype) or (result is not None and types.is_complex(result)):
        return complex_ops.emit(f, name, dtype, operands, params, result)
    rule = RULES[name]
    untouched = _MOVES if types.is_float8(dtype) else UNTOUCHED
    if types.is_small_float(dtype) and name not in untouched:
        wide = [widen(f, o, dtype) for o in operands]
        value = rule(f, dtypes.float32, wide, params, result)
        return narrow(f, value, dtype) if result == dtype else value
    return rule(f, dtype, operands, params, result)


_MOVES = {"copy", "stop_gradient"}
UNTOUCHED = {"neg", "abs", *_MOVES}
"""Ops that small floats need no widening for."""


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
    def code(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
        if types.is_float(dtype):
            op = float_op
        elif dtype.name == "bool":
            op = boolean
        else:
            op = signed if types.is_signed(dtype) else unsigned
        return f.op(f"{op} {types.register(dtype)} {o[0]}, {o[1]}")


_binary("add", "fadd contract", "add", "add", "or", 1)
_binary("add_any", "fadd contract", "add", "add", "or", 1)
_binary("sub", "fsub contract", "sub", "sub", "xor", 1)
_binary("mul", "fmul contract", "mul", "mul", "and", 1)
_binary("and", "and", "and", "and", "and", 1)
_binary("or", "or", "or", "or", "or", 1)
_binary("xor", "xor", "xor", "xor", "xor", 1)


@rule("div", cost=4)
def _div(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    type_ = types.register(dtype)
    if types.is_float(dtype):
        return f.op(f"fdiv {type_} {o[0]}, {o[1]}")
    return _safe_division(f, dtype, o, "div")


@rule("rem", cost=8)
def _rem(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    if types.is_float(dtype):
        return f.op(f"frem {types.register(dtype)} {o[0]}, {o[1]}")
    return _safe_division(f, dtype, o, "rem")


def _safe_division(f: Function, dtype: Any, o: list[str], what: str) -> str:
    """As StableHLO on XLA: x / 0 = -1, x rem 0 = x; the smallest / -1 is itself, rem 0."""
    t = types.register(dtype)
    signed = types.is_signed(dtype)
    zero = f.op(f"icmp eq {t} {o[1]}, 0")
    edge = zero
    if signed:
        low = -(2 ** (types.bits(dtype) - 1))
        smallest = f.op(f"icmp eq {t} {o[0]}, {low}")
        minus = f.op(f"icmp eq {t} {o[1]}, -1")
        overflow = f.op(f"and i1 {smallest}, {minus}")
        edge = f.op(f"or i1 {zero}, {overflow}")
    safe = f.op(f"select i1 {edge}, {t} 1, {t} {o[1]}")
    value = f.op(f"{'s' if signed else 'u'}{what} {t} {o[0]}, {safe}")
    if what == "div":
        return f.op(f"select i1 {zero}, {t} -1, {t} {value}")
    return f.op(f"select i1 {zero}, {t} {o[0]}, {t} {value}")


@rule("neg")
def _neg(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    t = types.register(dtype)
    return f.op(f"fneg {t} {o[0]}") if types.is_float(dtype) else f.op(f"sub {t} 0, {o[0]}")


@rule("not")
def _not(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    ones = "true" if dtype.name == "bool" else "-1"
    return f.op(f"xor {types.register(dtype)} {o[0]}, {ones}")


def _extremum(name: str, float_op: str, signed: str, unsigned: str, boolean: str) -> None:
    @rule(name)
    def code(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
        t = types.register(dtype)
        if types.is_float(dtype):
            listing = f"{t} {o[0]}, {t} {o[1]}"
            suffix = {"float": "f32", "double": "f64"}[t]
            f.module.declare(f"llvm.{float_op}.{suffix}", t, f"{t}, {t}")
            return f.op(f"call {t} @llvm.{float_op}.{suffix}({listing})")
        if dtype.name == "bool":
            return f.op(f"{boolean} i1 {o[0]}, {o[1]}")
        which = signed if types.is_signed(dtype) else unsigned
        return f.intrinsic(f"llvm.{which}.{t}", t, (t, o[0]), (t, o[1]))


_extremum("max", "maximum", "smax", "umax", "or")
_extremum("min", "minimum", "smin", "umin", "and")


@rule("clamp", cost=2)
def _clamp(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    low, x, high = o
    raised = RULES["max"](f, dtype, [low, x], params, result)
    return RULES["min"](f, dtype, [raised, high], params, result)


@rule("abs")
def _abs(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    t = types.register(dtype)
    if types.is_float(dtype):
        suffix = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}[t]
        return f.intrinsic(f"llvm.fabs.{suffix}", t, (t, o[0]))
    if not types.is_signed(dtype):
        return o[0]
    f.module.declare(f"llvm.abs.{t}", t, f"{t}, i1")
    return f.op(f"call {t} @llvm.abs.{t}({t} {o[0]}, i1 false)")


@rule("sign", cost=2)
def _sign(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    t = types.register(dtype)
    if types.is_float(dtype):
        one, zero = types.float_constant(1, t), types.float_constant(0, t)
        signed = math.Real(f, t).call("copysign", one, o[0])
        # Zeros keep their sign, NaN stays.
        plain = f.op(f"fcmp ueq {t} {o[0]}, {zero}")
        return f.op(f"select i1 {plain}, {t} {o[0]}, {t} {signed}")
    positive = f.op(f"icmp {'sgt' if types.is_signed(dtype) else 'ugt'} {t} {o[0]}, 0")
    one = f.op(f"zext i1 {positive} to {t}")
    if not types.is_signed(dtype):
        return one
    return f.op(f"select i1 {f.op(f'icmp slt {t} {o[0]}, 0')}, {t} -1, {t} {one}")


@rule("integer_pow", cost=3)
def _integer_pow(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    exponent = params["y"]
    t = types.register(dtype)
    op = "fmul" if types.is_float(dtype) else "mul"
    one = types.constant(1, dtype)
    total, square, n = None, o[0], abs(exponent)
    while n:
        if n & 1:
            total = square if total is None else f.op(f"{op} {t} {total}, {square}")
        n >>= 1
        if n:
            square = f.op(f"{op} {t} {square}, {square}")
    total = one if total is None else total
    return f.op(f"fdiv {t} {one}, {total}") if exponent < 0 else total


# Bits ------------------------------------------------------------------------------------------


def _shift(name: str, op: str, fill: str) -> None:
    @rule(name, cost=2)
    def code(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
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


@rule("population_count", cost=2)
def _popcount(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    t = types.register(dtype)
    return f.intrinsic(f"llvm.ctpop.{t}", t, (t, o[0]))


@rule("clz", cost=2)
def _clz(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    t = types.register(dtype)
    f.module.declare(f"llvm.ctlz.{t}", t, f"{t}, i1")
    return f.op(f"call {t} @llvm.ctlz.{t}({t} {o[0]}, i1 false)")


# Comparison ------------------------------------------------------------------------------------


def _comparison(name: str, float_op: str, signed: str, unsigned: str) -> None:
    @rule(name)
    def code(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
        t = types.register(dtype)
        if types.is_float(dtype):
            return f.op(f"fcmp {float_op} {t} {o[0]}, {o[1]}")
        op = signed if types.is_signed(dtype) else unsigned
        return f.op(f"icmp {op} {t} {o[0]}, {o[1]}")


for _name, _ops in {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}.items():
    _comparison(_name, *_ops)


@rule("is_finite", cost=2)
def _is_finite(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    m = math.Real(f, types.register(dtype))
    return m.compare("olt", m.abs(o[0]), m.c(float("inf")))


# Functions -------------------------------------------------------------------------------------


def _real(names: dict[str, Callable[..., str]], cost: int) -> None:
    for name, function in names.items():

        def code(
            f: Function,
            dtype: Any,
            o: list[str],
            params: dict,
            result: Any,
            function: Any = function,
        ) -> str:
            return function(math.Real(f, types.register(dtype)), *o)

        rule(name, cost=cost)(code)


_real(
    {
        "exp": math.exp,
        "exp2": math.exp2,
        "expm1": math.expm1,
        "log": math.log,
        "log1p": math.log1p,
        "tanh": math.tanh,
        "logistic": math.logistic,
        "sin": math.sin,
        "cos": math.cos,
        "tan": math.tan,
    },
    16,
)
_real(
    {
        "atan": functions.atan,
        "atan2": functions.atan2,
        "asin": functions.asin,
        "acos": functions.acos,
        "sinh": functions.sinh,
        "cosh": functions.cosh,
        "asinh": functions.asinh,
        "acosh": functions.acosh,
        "atanh": functions.atanh,
        "cbrt": functions.cbrt,
        "erf": special.erf,
        "erfc": special.erfc,
        "erf_inv": special.erf_inv,
        "lgamma": special.lgamma,
        "real_pow": functions.power,
    },
    60,
)
_real(
    {
        "sqrt": lambda m, x: m.call("sqrt", x),
        "rsqrt": lambda m, x: m.div(m.c(1), m.call("sqrt", x)),
    },
    6,
)
_real({"floor": lambda m, x: m.call("floor", x), "ceil": lambda m, x: m.call("ceil", x)}, 1)


@rule("round", cost=2)
def _round(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    m = math.Real(f, types.register(dtype))
    if "AWAY" in str(next(iter(params.values()), "")).upper():
        return m.call("round", o[0])
    return m.call("roundeven", o[0])


@rule("copy", "stop_gradient", "multiple_of", cost=0)
def _copy(f: Function, dtype: Any, o: list[str], params: dict, result: Any) -> str:
    return o[0]


# Conversion ------------------------------------------------------------------------------------


def convert(f: Function, value: str, old: Any, new: Any) -> str:
    """An element of another dtype; floats saturate to integers as XLA's do."""
    if old == new:
        return value
    if types.is_complex(old) or types.is_complex(new):
        return complex_ops.convert(f, value, old, new)
    if types.is_float8(old):
        return convert(f, widen(f, value, old), dtypes.float32, new)
    if types.is_float8(new) or (new.name == "bfloat16" and old != dtypes.float32):
        return narrow(f, convert(f, value, old, dtypes.float32), new)
    a, b = types.register(old), types.register(new)
    if new.name == "bool":
        if types.is_float(old):
            return f.op(f"fcmp une {a} {value}, {types.float_constant(0, a)}")
        return f.op(f"icmp ne {a} {value}, 0")
    if types.is_float(old) and types.is_float(new):
        if types.is_small_float(old) and types.is_small_float(new):
            return narrow(f, widen(f, value, old), new)
        if new.name == "bfloat16":
            return narrow(f, value, new)
        return f.op(f"{'fpext' if new.itemsize > old.itemsize else 'fptrunc'} {a} {value} to {b}")
    if types.is_float(old):
        if types.is_small_float(old):
            value, a = widen(f, value, old), "float"
        sign = "s" if types.is_signed(new) else "u"
        suffix = f"{b}.{'f32' if a == 'float' else 'f64'}"
        return f.intrinsic(f"llvm.fpto{sign}i.sat.{suffix}", b, (a, value))
    signed = types.is_signed(old)
    if types.is_float(new):
        return f.op(f"{'s' if signed else 'u'}itofp {a} {value} to {b}")
    wide, had = types.bits(new), types.bits(old)
    if wide == had:
        return value
    op = "trunc" if wide < had else "sext" if signed else "zext"
    return f.op(f"{op} {a} {value} to {b}")


def identity_of(kind: str, dtype: Any) -> str:
    """The value that a reduction starts from."""
    if kind in ("sum", "or", "xor", "add"):
        return types.constant(0, dtype)
    if kind in ("prod", "mul"):
        return types.constant(1, dtype)
    if kind == "and":
        return "true" if dtype.name == "bool" else "-1"
    lowest = kind == "max"
    if types.is_float(dtype):
        return types.constant(-np.inf if lowest else np.inf, dtype)
    if dtype.name == "bool":
        return "false" if lowest else "true"
    info = dtypes.iinfo(dtype)
    return str(int(info.min if lowest else info.max))
