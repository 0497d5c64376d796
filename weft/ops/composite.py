"""Elementwise ops made of others whose derivatives are better written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.autodiff.op_families import FLOAT, elementwise
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.elementwise_api import (
    _like,
    _mul,
    _times,
    abs_p,
    add_p,
    and_p,
    atan2_p,
    complex_p,
    cos_p,
    div_p,
    eq_p,
    exp2_p,
    exp_p,
    ge_p,
    gt_p,
    imag_p,
    log,
    log1p_p,
    log_p,
    logistic_p,
    max_p,
    mul_p,
    ne_p,
    neg_p,
    real_p,
    round_p,
    scalar,
    select,
    sin_p,
    sub_p,
)

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def _composite(name: str, formula: Callable, jvps: list) -> Primitive:
    """Return an elementwise op lowered by a formula of other ops."""

    def lower(ctx: RuleContext, *operands: ir.Value) -> Any:
        shape = ctx.avals_out[0].shape
        avals = [ShapedArray(shape, a.dtype) for a in ctx.avals_in]
        spread = ctx.spread(operands)
        return ctx.lower_fun(formula, *spread, avals=avals)[0]

    prim = elementwise(name, lower, accepts=FLOAT, jvps=jvps)
    prim.formula = formula
    return prim


def _logaddexp(log1p: Callable, exp: Callable) -> Callable:
    def formula(x: object, y: object) -> Any:
        gap = sub_p.bind(x, y)
        tail = log1p(exp(neg_p.bind(abs_p.bind(gap))))
        # Equal infinities and NaNs have a NaN gap; there the sum is the value.
        return select(ne_p.bind(gap, gap), add_p.bind(x, y), add_p.bind(max_p.bind(x, y), tail))

    return formula


def _within_turn(phase: Any, turn: float) -> Any:
    """Return the phase without whole turns, which sine and cosine reduce exactly where large."""
    angle = _times(phase, 2 * math.pi / turn)
    inside = _times(atan2_p.bind(sin_p.bind(angle), cos_p.bind(angle)), turn / (2 * math.pi))
    return select(gt_p.bind(abs_p.bind(phase), scalar(turn, phase)), inside, phase)


def complex_log_sum(x: ArrayLike, y: ArrayLike, exp: Callable, log: Callable, turn: float) -> Any:
    """log(exp(x) + exp(y)) of complex numbers without overflow; turn: the period of the phase.

    The result's phase lies between -turn / 2 and turn / 2.
    """
    first = ge_p.bind(real_p.bind(x), real_p.bind(y))
    big, small = select(first, x, y), select(first, y, x)
    big = complex_p.bind(real_p.bind(big), _within_turn(imag_p.bind(big), turn))
    out = add_p.bind(big, log(add_p.bind(exp(sub_p.bind(small, big)), scalar(1, x))))
    phase = imag_p.bind(out)
    turns = round_p.bind(_times(phase, 1 / turn), rounding_method=1)
    return complex_p.bind(real_p.bind(out), sub_p.bind(phase, _times(turns, turn)))


def _share(t: object, x: object, y: object, rate: float) -> Any:
    """Weight x's tangent: by the logistic of the gap, a half at equal infinities."""
    gap = sub_p.bind(x, y)
    infinite = and_p.bind(eq_p.bind(x, y), ne_p.bind(gap, gap))
    gap = select(infinite, _like(scalar(0, gap), gap), gap)
    return _mul(t, logistic_p.bind(_times(gap, rate)))


def _shares(rate: float) -> list:
    return [
        lambda t, out, x, y: _share(t, x, y, rate),
        lambda t, out, x, y: _share(t, y, x, rate),
    ]


def logaddexp(x: ArrayLike, y: ArrayLike) -> Any:
    """log(exp(x) + exp(y)) of floats or complex numbers of one dtype."""
    if dtypes.is_complex(typeof(x).dtype):
        return complex_log_sum(x, y, exp_p.bind, log_p.bind, 2 * math.pi)
    return logaddexp_p.bind(x, y)


logaddexp_p = _composite("logaddexp", _logaddexp(log1p_p.bind, exp_p.bind), _shares(1.0))
logaddexp2_p = _composite(
    "logaddexp2",
    _logaddexp(lambda x: _times(log1p_p.bind(x), 1 / math.log(2)), exp2_p.bind),
    _shares(math.log(2)),
)


def _log_base(factor: float, rest: float) -> Callable:
    """Return the logarithm times a factor and the rest that float64 lacks of it."""

    def formula(x: ArrayLike) -> Any:
        y = log_p.bind(x)
        # In two parts, since the error of one is as large as that of the logarithm: the first is
        # cut, not rounded, so that infinities times both have one sign.
        grid = 2.0 ** dtypes.finfo(typeof(x).dtype).nmant
        high = math.floor(factor * grid) / grid
        return add_p.bind(_times(y, high), _times(y, (factor - high) + rest))

    return formula


log2_p = _composite(
    "log2",
    _log_base(1.4426950408889634, 2.0355273740931033e-17),
    [lambda t, out, x: div_p.bind(_times(t, 1 / math.log(2)), x)],
)
log10_p = _composite(
    "log10",
    _log_base(0.4342944819032518, 1.098319650216765e-17),
    [lambda t, out, x: div_p.bind(_times(t, 1 / math.log(10)), x)],
)


def log2(x: ArrayLike, *, accuracy: object = None) -> Any:
    """Return the logarithm to base 2 of a float or complex array.

    accuracy: None, or a `lax.Tolerance` or `lax.AccuracyMode`, of the natural logarithm.

    >>> import weft
    >>> weft.lax.log2(weft.numpy.array([1.0, 8.0]))
    Array([0., 3.], dtype=float32)
    """
    if accuracy is None and not dtypes.is_complex(typeof(x).dtype):
        return log2_p.bind(x)
    y = log(x, accuracy)
    if not dtypes.is_complex(typeof(y).dtype):
        return _times(y, 1 / math.log(2))
    return complex_p.bind(*(_times(part.bind(y), 1 / math.log(2)) for part in (real_p, imag_p)))


def _one_minus_square(x: object) -> Any:
    return mul_p.bind(add_p.bind(x, scalar(1, x)), sub_p.bind(scalar(1, x), x))


def _one_minus_square_lower(ctx: RuleContext, x: object) -> Any:
    (aval,) = ctx.avals_in
    return ctx.lower_fun(_one_minus_square, x, avals=[ShapedArray(aval.shape, aval.dtype)])[0]


one_minus_square_p = elementwise(
    "one_minus_square",
    _one_minus_square_lower,
    jvps=[lambda t, out, x: _mul(t, _times(x, -2))],
)
one_minus_square_p.formula = _one_minus_square


def one_minus_square(x: ArrayLike) -> Any:
    """1 - x**2 as (1 + x) (1 - x): accurate near 1, as its derivative -2 x is near 0.

    >>> import weft
    >>> weft.lax.one_minus_square(weft.numpy.array([0.5, 1 - 2.0**-24]))
    Array([7.5000000e-01, 1.1920929e-07], dtype=float32)
    """
    return one_minus_square_p.bind(x)
