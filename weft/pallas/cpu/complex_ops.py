"""Ops on complex numbers, as pairs of real ones.

Formulas: R. L. Smith, "Algorithm 116: Complex division", CACM 5 (1962); W. Kahan, "Branch cuts for
complex elementary functions", 1987 (square root, logarithm, the order of cases).
"""

from __future__ import annotations

import math as host_math
from collections.abc import Callable
from typing import Any

from weft.core import dtypes
from weft.pallas.cpu import functions, math, types
from weft.pallas.cpu.llvm import Function
from weft.pallas.cpu.math import Real

Pair = tuple[str, str]
"""Real and imaginary part."""

PAIRS: dict[str, Callable[..., Pair]] = {}
"""Op name → function (real ops, *pairs, **params) to a pair."""
REALS: dict[str, Callable[..., str]] = {}
"""The same, for ops that give a number or a truth value."""


def part_type(dtype: Any) -> str:
    """The type of the parts of a complex dtype in registers."""
    return "float" if dtype == dtypes.complex64 else "double"


def parts(f: Function, value: str, dtype: Any) -> Pair:
    type_ = types.register(dtype)
    return f.op(f"extractvalue {type_} {value}, 0"), f.op(f"extractvalue {type_} {value}, 1")


def pair(f: Function, re: str, im: str, dtype: Any) -> str:
    part, type_ = part_type(dtype), types.register(dtype)
    half = f.op(f"insertvalue {type_} poison, {part} {re}, 0")
    return f.op(f"insertvalue {type_} {half}, {part} {im}, 1")


def has(name: str) -> bool:
    return name in PAIRS or name in REALS or name in _KEPT


_KEPT = ("copy", "stop_gradient", "complex")


def emit(f: Function, name: str, dtype: Any, operands: list[str], params: dict, result: Any) -> str:
    """The code of an op with complex operands or a complex result."""
    if name == "complex":
        re, im = operands
        return pair(f, re, im, result)
    if name in _KEPT:
        return operands[0]
    m = Real(f, part_type(dtype))
    pairs = [parts(f, o, dtype) for o in operands]
    if name in REALS:
        return REALS[name](m, *pairs)
    exponent = {"y": params["y"]} if name == "integer_pow" else {}
    re, im = PAIRS[name](m, *pairs, **exponent)
    return pair(f, re, im, dtype)


def convert(f: Function, value: str, old: Any, new: Any) -> str:
    """Between complex dtypes, and from and to real ones (the real part)."""
    from weft.pallas.cpu import scalar

    of = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
    if old not in of:
        real = scalar.convert(f, value, old, of[new])
        return pair(f, real, types.constant(0, of[new]), new)
    re, im = parts(f, value, old)
    if new not in of:
        if new == dtypes.bool_:
            return _differs(Real(f, part_type(old)), (re, im), ("0.0", "0.0"))
        return scalar.convert(f, re, of[old], new)
    re, im = (scalar.convert(f, x, of[old], of[new]) for x in (re, im))
    return pair(f, re, im, new)


# Arithmetic ------------------------------------------------------------------------------------


def _add(m: Real, x: Pair, y: Pair) -> Pair:
    return m.add(x[0], y[0]), m.add(x[1], y[1])


def _sub(m: Real, x: Pair, y: Pair) -> Pair:
    return m.sub(x[0], y[0]), m.sub(x[1], y[1])


def _mul(m: Real, x: Pair, y: Pair) -> Pair:
    re = m.fma(x[0], y[0], m.neg(m.mul(x[1], y[1])))
    return re, m.fma(x[0], y[1], m.mul(x[1], y[0]))


def _div(m: Real, x: Pair, y: Pair) -> Pair:
    first = m.compare("oge", m.abs(y[0]), m.abs(y[1]))
    large, small = m.select(first, y[0], y[1]), m.select(first, y[1], y[0])
    ratio = m.div(small, large)
    below = m.fma(small, ratio, large)
    a, b = m.select(first, x[0], x[1]), m.select(first, x[1], x[0])
    re = m.div(m.fma(b, ratio, a), below)
    # (b - a r) where the real part of y is the larger one, else (b r - a) with a, b exchanged
    im = m.fma(m.neg(a), ratio, b)
    im = m.div(m.select(first, im, m.neg(im)), below)
    zero = m.compare("oeq", large, m.c(0))
    return m.select(zero, m.div(x[0], large), re), m.select(zero, m.div(x[1], large), im)


def _neg(m: Real, x: Pair) -> Pair:
    return m.neg(x[0]), m.neg(x[1])


def _integer_pow(m: Real, x: Pair, y: int) -> Pair:
    total: Pair | None = None
    square, n = x, abs(y)
    while n:
        if n & 1:
            total = square if total is None else _mul(m, total, square)
        n >>= 1
        if n:
            square = _mul(m, square, square)
    one = m.c(1), m.c(0)
    total = one if total is None else total
    return _div(m, one, total) if y < 0 else total


def _abs(m: Real, x: Pair) -> str:
    a, b = m.abs(x[0]), m.abs(x[1])
    more = m.compare("ogt", a, b)
    large, small = m.select(more, a, b), m.select(more, b, a)
    ratio = m.div(small, large)
    size = m.mul(large, m.call("sqrt", m.fma(ratio, ratio, m.c(1))))
    size = m.select(m.compare("oeq", large, m.c(0)), m.c(0), size)
    size = m.select(m.compare("uno", x[0], x[1]), m.add(a, b), size)
    infinite = m.f.op(
        f"or i1 {m.compare('oeq', a, m.c(host_math.inf))}, "
        f"{m.compare('oeq', b, m.c(host_math.inf))}"
    )
    return m.select(infinite, m.c(host_math.inf), size)


def _sign(m: Real, x: Pair) -> Pair:
    size = _abs(m, x)
    zero = m.compare("oeq", size, m.c(0))
    return m.select(zero, x[0], m.div(x[0], size)), m.select(zero, x[1], m.div(x[1], size))


def _equal(m: Real, x: Pair, y: Pair) -> str:
    return m.f.op(f"and i1 {m.compare('oeq', x[0], y[0])}, {m.compare('oeq', x[1], y[1])}")


def _differs(m: Real, x: Pair, y: Pair) -> str:
    return m.f.op(f"or i1 {m.compare('une', x[0], y[0])}, {m.compare('une', x[1], y[1])}")


def _is_finite(m: Real, x: Pair) -> str:
    inf = m.c(host_math.inf)
    below = [m.compare("olt", m.abs(v), inf) for v in x]
    return m.f.op(f"and i1 {below[0]}, {below[1]}")


# Functions -------------------------------------------------------------------------------------


def _exp(m: Real, x: Pair) -> Pair:
    size = math.exp(m, x[0])
    real = m.compare("oeq", x[1], m.c(0))
    im = m.select(real, x[1], m.mul(size, math.sin(m, x[1])))
    return m.select(real, size, m.mul(size, math.cos(m, x[1]))), im


def _log(m: Real, x: Pair) -> Pair:
    a, b = m.abs(x[0]), m.abs(x[1])
    more = m.compare("ogt", a, b)
    large, small = m.select(more, a, b), m.select(more, b, a)
    size = _abs(m, x)
    # Near |x| = 1 by what it differs from 1.
    excess = m.mul(m.sub(large, m.c(1)), m.add(large, m.c(1)))
    near = m.mul(math.log1p(m, m.fma(small, small, excess)), m.c(0.5))
    middle = m.f.op(f"and i1 {m.compare('ogt', size, m.c(0.5))}, {m.compare('olt', size, m.c(2))}")
    return m.select(middle, near, math.log(m, size)), functions.atan2(m, x[1], x[0])


def _sqrt(m: Real, x: Pair) -> Pair:
    size = _abs(m, x)
    half = m.c(0.5)
    root = m.call("sqrt", m.fma(m.abs(x[0]), half, m.mul(size, half)))
    other = m.div(m.abs(x[1]), m.mul(root, m.c(2)))
    right = m.compare("oge", x[0], m.c(0))
    zero = m.compare("oeq", root, m.c(0))
    re = m.select(zero, m.c(0), m.select(right, root, other))
    im = m.select(zero, m.c(0), m.select(right, other, root))
    return re, m.call("copysign", im, x[1])


def _pow(m: Real, x: Pair, y: Pair) -> Pair:
    re, im = _exp(m, _mul(m, y, _log(m, x)))
    base = m.compare("oeq", _abs(m, x), m.c(0))
    exponent = m.compare("oeq", _abs(m, y), m.c(0))
    at_zero = m.select(exponent, m.c(1), m.c(0))
    return m.select(base, at_zero, re), m.select(base, m.c(0), im)


def _sinh(m: Real, x: Pair) -> Pair:
    sin, cos = math.sin(m, x[1]), math.cos(m, x[1])
    return m.mul(functions.sinh(m, x[0]), cos), m.mul(functions.cosh(m, x[0]), sin)


def _cosh(m: Real, x: Pair) -> Pair:
    sin, cos = math.sin(m, x[1]), math.cos(m, x[1])
    return m.mul(functions.cosh(m, x[0]), cos), m.mul(functions.sinh(m, x[0]), sin)


def _tanh(m: Real, x: Pair) -> Pair:
    a = m.clamp(x[0], *((-20.0, 20.0) if m.wide else (-10.0, 10.0)))
    sinh, cosh = functions.sinh(m, a), functions.cosh(m, a)
    sin, cos = math.sin(m, x[1]), math.cos(m, x[1])
    below = m.fma(sinh, sinh, m.mul(cos, cos))
    return m.div(m.mul(sinh, cosh), below), m.div(m.mul(sin, cos), below)


def _turned(function: Callable[[Real, Pair], Pair]) -> Callable[[Real, Pair], Pair]:
    """-i f(i x): sin from sinh, tan from tanh."""

    def turned(m: Real, x: Pair) -> Pair:
        re, im = function(m, (m.neg(x[1]), x[0]))
        return im, m.neg(re)

    return turned


def _logistic(m: Real, x: Pair) -> Pair:
    half = m.c(0.5)
    re, im = _tanh(m, (m.mul(x[0], half), m.mul(x[1], half)))
    return m.fma(re, half, half), m.mul(im, half)


def _expm1(m: Real, x: Pair) -> Pair:
    """expm1(a) cos b - 2 sin²(b/2), exp(a) sin b."""
    s = math.sin(m, m.mul(x[1], m.c(0.5)))
    cos = math.cos(m, x[1])
    re = m.fma(math.expm1(m, x[0]), cos, m.mul(m.mul(s, s), m.c(-2)))
    return re, _exp(m, x)[1]


def _log1p(m: Real, x: Pair) -> Pair:
    """Half of log1p(a (2 + a) + b²), or log of the sum where that is large."""
    a, b = x
    squares = m.fma(b, b, m.mul(a, m.add(a, m.c(2))))
    near = m.mul(math.log1p(m, squares), m.c(0.5))
    re, im = _log(m, (m.add(a, m.c(1)), b))
    close = m.compare("olt", _abs(m, x), m.c(0.5))
    return m.select(close, near, re), im


PAIRS |= {
    "add": _add,
    "add_any": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "conj": lambda m, x: (x[0], m.neg(x[1])),
    "integer_pow": _integer_pow,
    "square": lambda m, x: _mul(m, x, x),
    "sign": _sign,
    "exp": _exp,
    "exp2": lambda m, x: _exp(m, (m.mul(x[0], _ln2(m)), m.mul(x[1], _ln2(m)))),
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": lambda m, x: _div(m, (m.c(1), m.c(0)), _sqrt(m, x)),
    "real_pow": _pow,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sin": _turned(_sinh),
    "cos": lambda m, x: _cosh(m, (m.neg(x[1]), x[0])),
    "tan": _turned(_tanh),
    "logistic": _logistic,
}
REALS |= {
    "real": lambda m, x: x[0],
    "imag": lambda m, x: x[1],
    "abs": _abs,
    "eq": _equal,
    "ne": _differs,
    "is_finite": _is_finite,
}


def _ln2(m: Real) -> str:
    return m.c(host_math.log(2))
