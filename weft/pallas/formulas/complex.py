# Tests: tests/pallas/test_cpu_math.py
"""Ops on complex numbers, as formulas of pairs: the real and the imaginary parts.

Formulas: R. L. Smith, "Algorithm 116: Complex division", CACM 5 (1962); W. Kahan, "Branch cuts for
complex elementary functions", 1987 (square root, logarithm, the order of cases).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Eqn
from weft.core.trace import trace_to_jaxpr
from weft.formulas.language import by_squaring, clamp, copysign, fma, is_wide, where
from weft.ops.argreduce import folded
from weft.ops.arithmetic import complex_p, imag_p, is_finite_p, mul_p, real_p
from weft.ops.elementwise_api import mul
from weft.ops.transcendental import (
    atan2_p,
    cos_p,
    cosh_p,
    exp_p,
    expm1_p,
    log1p_p,
    log_p,
    sin_p,
    sinh_p,
    sqrt_p,
)
from weft.pallas.formulas.arrays import cumulative

if TYPE_CHECKING:
    from weft.runtime.array import Array

Pair = tuple[Any, Any]
"""Real and imaginary part."""

# Arithmetic ---------------------------------------------------------------------------------------


def _mul(x: Pair, y: Pair) -> Pair:
    return fma(x[0], y[0], -(x[1] * y[1])), fma(x[0], y[1], x[1] * y[0])


def _div(x: Pair, y: Pair) -> Pair:
    first = abs(y[0]) >= abs(y[1])
    large, small = where(first, y[0], y[1]), where(first, y[1], y[0])
    ratio = small / large
    below = fma(small, ratio, large)
    a, b = where(first, x[0], x[1]), where(first, x[1], x[0])
    # (b - a r) where the real part of y is the larger one, else (b r - a) with a, b exchanged
    im = fma(-a, ratio, b)
    im = where(first, im, -im) / below
    zero = large == 0
    return where(zero, x[0] / large, fma(b, ratio, a) / below), where(zero, x[1] / large, im)


def _inverse(x: Pair) -> Pair:
    return _div((x[0].dtype.type(1), x[0].dtype.type(0)), x)


def _integer_pow(x: Pair, y: int) -> Pair:
    if not y:
        one = x[0].dtype.type(1)
        return where(x[0] == x[0], one, one), where(x[0] == x[0], 0 * one, 0 * one)
    power = by_squaring(x, abs(y), _mul)
    return _inverse(power) if y < 0 else power


def _sizes(x: Pair) -> Pair:
    """Return the larger one of the parts' sizes, and the smaller one."""
    a, b = abs(x[0]), abs(x[1])
    return where(a > b, a, b), where(a > b, b, a)


def _abs(x: Pair) -> Array:
    large, small = _sizes(x)
    ratio = small / large
    size = where(large == 0, 0.0, large * sqrt_p.bind(fma(ratio, ratio, 1.0)))
    size = where((x[0] != x[0]) | (x[1] != x[1]), large + small, size)
    return where((abs(x[0]) == math.inf) | (abs(x[1]) == math.inf), math.inf, size)


def _sign(x: Pair) -> Pair:
    size = _abs(x)
    zero = size == 0
    return where(zero, x[0], x[0] / size), where(zero, x[1], x[1] / size)


# Functions ----------------------------------------------------------------------------------------


def _exp(x: Pair) -> Pair:
    size, real = exp_p.bind(x[0]), x[1] == 0
    im = where(real, x[1], size * sin_p.bind(x[1]))
    return where(real, size, size * cos_p.bind(x[1])), im


def _log(x: Pair) -> Pair:
    large, small = _sizes(x)
    size = _abs(x)
    # Near |x| = 1 by what it differs from 1.
    near = log1p_p.bind(fma(small, small, (large - 1) * (large + 1))) * 0.5
    middle = (size > 0.5) & (size < 2)
    return where(middle, near, log_p.bind(size)), atan2_p.bind(x[1], x[0])


def _sqrt(x: Pair) -> Pair:
    root = sqrt_p.bind(fma(abs(x[0]), 0.5, _abs(x) * 0.5))
    other = abs(x[1]) / (root * 2)
    right, zero = x[0] >= 0, root == 0
    im = where(zero, 0.0, where(right, other, root))
    return where(zero, 0.0, where(right, root, other)), copysign(im, x[1])


def _pow(x: Pair, y: Pair) -> Pair:
    re, im = _exp(_mul(y, _log(x)))
    base = _abs(x) == 0
    at_zero = where(_abs(y) == 0, re.dtype.type(1), 0.0)
    return where(base, at_zero, re), where(base, 0.0, im)


def _sinh(x: Pair) -> Pair:
    return sinh_p.bind(x[0]) * cos_p.bind(x[1]), cosh_p.bind(x[0]) * sin_p.bind(x[1])


def _cosh(x: Pair) -> Pair:
    return cosh_p.bind(x[0]) * cos_p.bind(x[1]), sinh_p.bind(x[0]) * sin_p.bind(x[1])


def _tanh(x: Pair) -> Pair:
    end = 20.0 if is_wide(x[0]) else 10.0
    a = clamp(x[0], -end, end)
    sinh, cosh = sinh_p.bind(a), cosh_p.bind(a)
    sin, cos = sin_p.bind(x[1]), cos_p.bind(x[1])
    below = fma(sinh, sinh, cos * cos)
    return sinh * cosh / below, sin * cos / below


def _turned(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """-i f(i x): sin from sinh, tan from tanh."""

    def turned(x: Pair) -> Pair:
        re, im = function((-x[1], x[0]))
        return im, -re

    return turned


def _logistic(x: Pair) -> Pair:
    re, im = _tanh((x[0] * 0.5, x[1] * 0.5))
    return fma(re, 0.5, 0.5), im * 0.5


def _expm1(x: Pair) -> Pair:
    """expm1(a) cos b - 2 sin²(b/2), exp(a) sin b."""
    s = sin_p.bind(x[1] * 0.5)
    return fma(expm1_p.bind(x[0]), cos_p.bind(x[1]), (s * s) * -2), _exp(x)[1]


def _log1p(x: Pair) -> Pair:
    """Half of log1p(a (2 + a) + b²), or log of the sum where that is large."""
    a, b = x
    near = log1p_p.bind(fma(b, b, a * (a + 2))) * 0.5
    re, im = _log((a + 1, b))
    return where(_abs(x) < 0.5, near, re), im


def _exp2(x: Pair) -> Pair:
    return _exp((x[0] * math.log(2), x[1] * math.log(2)))


def _convert(eqn: Eqn, x: Array) -> Array:
    """To and from complex numbers: real ones have no imaginary part, of which they lack one."""
    new = eqn.rule_params["new_dtype"]
    if not isinstance(x, tuple):
        re = x.astype(part_dtype(new))
        return re, re * 0
    if dtypes.is_bool(new):
        return (x[0] != 0) | (x[1] != 0)
    if not dtypes.is_complex(new):
        return x[0].astype(new)
    return tuple(v.astype(part_dtype(new)) for v in x)


def part_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the parts of a complex one."""
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


_OF_PAIRS: dict[str, Callable] = {
    "real": lambda x: x[0],
    "imag": lambda x: x[1],
    "complex": lambda a, b: (a, b),
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[0], x[1] - y[1]),
    "mul": _mul,
    "div": _div,
    "neg": lambda x: (-x[0], -x[1]),
    "conj": lambda x: (x[0], -x[1]),
    "square": lambda x: _mul(x, x),
    "sign": _sign,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": lambda x: _inverse(_sqrt(x)),
    "pow": _pow,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sin": _turned(_sinh),
    "cos": lambda x: _cosh((-x[1], x[0])),
    "tan": _turned(_tanh),
    "logistic": _logistic,
    "abs": _abs,
    "eq": lambda x, y: (x[0] == y[0]) & (x[1] == y[1]),
    "ne": lambda x, y: (x[0] != y[0]) | (x[1] != y[1]),
    "is_finite": lambda x: is_finite_p.bind(x[0]) & is_finite_p.bind(x[1]),
}

ELEMENTS: dict[str, Callable] = {
    name: lambda eqn, *operands, function=function: function(*operands)
    for name, function in _OF_PAIRS.items()
} | {
    "integer_pow": lambda eqn, x: _integer_pow(x, eqn.rule_params["y"]),
    "convert_element_type": _convert,
}
"""Op → function(equation, *operands) of numbers and pairs, giving one of them."""

PARTS = frozenset(
    (
        *("broadcast_in_dim", "reshape", "transpose", "slice", "dynamic_slice", "concatenate"),
        *("dynamic_update_slice", "pad", "rev", "select_n", "reduce_sum", "cumsum", "elements"),
    )
)
"""Ops that are done to each part."""


def _product(eqn: Eqn, x: Array, y: Array) -> Array:
    """Return a dot_general from the four products of the parts."""
    result = eqn.outvars[0].aval.dtype
    params = {**eqn.rule_params, "preferred_element_type": part_dtype(result)}
    pairs = [(real_p.bind(v), imag_p.bind(v)) for v in (x.astype(result), y.astype(result))]
    rr, ri, ir, ii = (eqn.primitive.bind(a, b, **params) for a in pairs[0] for b in pairs[1])
    return complex_p.bind(rr - ii, ri + ir)


def _iota(eqn: Eqn) -> Array:
    params = {**eqn.rule_params, "dtype": part_dtype(eqn.rule_params["dtype"])}
    return eqn.primitive.bind(**params).astype(eqn.rule_params["dtype"])


def _reduce_prod(eqn: Eqn, x: Array) -> Array:
    number = ShapedArray((), x.dtype)
    jaxpr = ClosedJaxpr(*trace_to_jaxpr(lambda a, b: [mul_p.bind(a, b)], [number] * 2, "product"))
    return folded([x, x.dtype.type(1)], jaxpr, eqn.rule_params["axes"])[0]


ARRAYS: dict[str, Callable] = {
    "dot_general": _product,
    "iota": _iota,
    "reduce_prod": _reduce_prod,
    "cumprod": lambda eqn, x: cumulative(mul, eqn, x),
}
"""Op on arrays of complex numbers → function(equation, *operands) of such arrays."""
