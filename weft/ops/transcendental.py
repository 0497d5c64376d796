# Tests: tests/ops/test_elementwise_api.py
"""Exponentials, logarithms, powers, trigonometry, gamma and error functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import (
    FLOAT,
    INEXACT,
    common_shape,
    elementwise,
    scalar,
)
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import MissingRuleError
from weft.core.trace import typeof
from weft.lowering.marks import FORMULAS, mark_formula
from weft.ops import complex_values
from weft.ops.arithmetic import (
    _div,
    _like,
    _mul,
    _one_minus,
    _plus,
    _spread,
    _square,
    _times,
    add_p,
    and_p,
    clamp_p,
    eq_p,
    lt_p,
    neg_p,
    round_p,
    select,
    shift_left_p,
    sub_p,
)
from weft.ops.complex_logs import (
    complex_log,
    complex_log1p,
    complex_power,
    complex_rsqrt,
    wide_power,
)
from weft.ops.complex_trig import (
    complex_cos,
    complex_cosh,
    complex_exp,
    complex_exp2,
    complex_expm1,
    complex_logistic,
    complex_sin,
    complex_sinh,
    complex_tan,
    complex_tanh,
)
from weft.ops.dtype_casts import bitcast_convert_type, convert

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.ops.precision import AccuracyMode
    from weft.typing import ArrayLike


def _unary(
    name: str,
    hlo: str,
    derivative: Callable,
    accepts: str = INEXACT,
    repair: complex_values.Repair | None = None,
) -> Any:
    """derivative(x, out) -> factor of the tangent; repair: of XLA's results for complex numbers."""
    jvp = lambda t, out, x: _mul(t, derivative(x, out))
    if repair is None:
        return elementwise(name, hlo, accepts=accepts, jvps=[jvp])
    return _accurate(name, hlo, jvp, accepts, repair=repair)


_WAVES = ("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan")
"""Those with a native kernel; the position is its name there."""
_OF_WAVES = ("bfloat16", "float16", "float32", "float64")


def _accurate(
    name: str,
    hlo: str,
    jvp: Callable,
    accepts: str = INEXACT,
    of_complex: Callable | None = None,
    repair: complex_values.Repair | None = None,
) -> Any:
    """Make an op that may be asked for an accuracy: a parameter only if it was given.

    of_complex: a formula for complex numbers, where XLA's is not good enough.
    repair: of what XLA computes for complex numbers, at special values.
    """

    def lower(ctx: RuleContext, x: ir.Value, *, accuracy: AccuracyMode | None = None) -> Any:
        aval = ctx.avals_in[0]
        if of_complex is not None and dtypes.is_complex(aval.dtype):
            return ctx.lower_fun(of_complex, x, avals=[ShapedArray(aval.shape, aval.dtype)])[0]
        attrs = {} if accuracy is None else {"result_accuracy": ctx.attr(accuracy.attr_text())}
        operation = ctx.operation(hlo, [x], ctx.out_types(), attrs)
        if hlo in _WAVES and accuracy is None and aval.dtype.name in _OF_WAVES:
            ctx.mark(operation, "wave", _WAVES.index(hlo))
        elif hlo in FORMULAS and accuracy is None:
            mark_formula(ctx, operation)
        out = operation.results[0]
        if repair is not None and dtypes.is_complex(aval.dtype):
            return complex_values.lower_repaired(ctx, repair, x, out)
        return out

    rule = lambda t, out, x, **accuracy: jvp(t, out, x)
    prim = elementwise(name, lower, accepts=accepts, jvps=[rule])
    prim.hlo = None if hlo in _WAVES or hlo in FORMULAS else hlo
    return prim


exp_p = _accurate(
    "exp", "stablehlo.exponential", lambda t, out, x: _mul(t, out), of_complex=complex_exp
)


def _real_exp2(x: ArrayLike, **accuracy: AccuracyMode) -> Any:
    """Return exp(f ln 2) 2**n, where x = f + n and |f| <= 1/2: x ln 2 would round n's bits off."""
    dtype = typeof(x).dtype
    is_double = dtype == dtypes.float64
    wide = dtype if is_double else dtypes.float32
    integer, mantissa, bias = (dtypes.int64, 52, 1023) if is_double else (dtypes.int32, 23, 127)
    # At the bounds the bits are those of 0 and infinity, so that infinite x have results, too.
    x = convert(x, wide)
    x = clamp_p.bind(scalar(-bias, x), x, scalar(bias + 1, x))
    n = round_p.bind(x, rounding_method=1)
    power = exp_p.bind(_times(sub_p.bind(x, n), math.log(2)), **accuracy)
    n = convert(n, integer)
    exponent = shift_left_p.bind(n, scalar(mantissa, n))
    bits = add_p.bind(bitcast_convert_type(power, integer), exponent)
    # Below 2**(1 - bias) bits are no more those of a power: XLA counts such numbers as 0.
    small = lt_p.bind(x, scalar(1 - bias, x))
    out = select(small, _times(x, -0.0), bitcast_convert_type(bits, wide))
    return convert(out, dtype)


def _exp2_lower(ctx: RuleContext, x: ir.Value, *, accuracy: AccuracyMode | None = None) -> Any:
    aval = ShapedArray(ctx.avals_in[0].shape, ctx.avals_in[0].dtype)
    if dtypes.is_complex(aval.dtype):
        return ctx.lower_fun(complex_exp2, x, avals=[aval])[0]
    asked = {} if accuracy is None else {"accuracy": accuracy}
    return ctx.lower_fun(lambda x: _real_exp2(x, **asked), x, avals=[aval])[0]


exp2_p = elementwise(
    "exp2",
    _exp2_lower,
    accepts=INEXACT,
    jvps=[lambda t, out, x, **accuracy: _mul(t, _times(out, math.log(2)))],
)
log_p = _accurate("log", "stablehlo.log", lambda t, out, x: _div(t, x), of_complex=complex_log)
expm1_p = _accurate(
    "expm1",
    "stablehlo.exponential_minus_one",
    lambda t, out, x: _mul(t, _plus(out, 1)),
    of_complex=complex_expm1,
)
log1p_p = _accurate(
    "log1p",
    "stablehlo.log_plus_one",
    lambda t, out, x: _div(t, _plus(x, 1)),
    of_complex=complex_log1p,
)
tanh_p = _accurate(
    "tanh",
    "stablehlo.tanh",
    lambda t, out, x: _mul(t, _one_minus(_square(out))),
    of_complex=complex_tanh,
)
logistic_p = _accurate(
    "logistic",
    "stablehlo.logistic",
    lambda t, out, x: _mul(t, _mul(out, _one_minus(out))),
    of_complex=complex_logistic,
)
sin_p = _accurate(
    "sin",
    "stablehlo.sine",
    lambda t, out, x: _mul(t, cos_p.bind(x)),
    of_complex=complex_sin,
)
cos_p = _accurate(
    "cos",
    "stablehlo.cosine",
    lambda t, out, x: _mul(t, neg_p.bind(sin_p.bind(x))),
    of_complex=complex_cos,
)
tan_p = _accurate(
    "tan",
    "stablehlo.tan",
    lambda t, out, x: _mul(t, _plus(_square(out), 1)),
    of_complex=complex_tan,
)
asin_p = _unary(
    "asin",
    "chlo.asin",
    lambda x, out: rsqrt_p.bind(_one_minus(_square(x))),
    repair=complex_values.turned(complex_values.asinh),
)
acos_p = _unary(
    "acos",
    "chlo.acos",
    lambda x, out: neg_p.bind(rsqrt_p.bind(_one_minus(_square(x)))),
    repair=complex_values.acos,
)
atan_p = _accurate(
    "atan",
    "chlo.atan",
    lambda t, out, x: _div(t, _plus(_square(x), 1)),
    repair=complex_values.turned(complex_values.atanh),
)
sinh_p = _accurate(
    "sinh",
    "chlo.sinh",
    lambda t, out, x: _mul(t, cosh_p.bind(x)),
    of_complex=complex_sinh,
)
cosh_p = _accurate(
    "cosh",
    "chlo.cosh",
    lambda t, out, x: _mul(t, sinh_p.bind(x)),
    of_complex=complex_cosh,
)
asinh_p = _unary(
    "asinh",
    "chlo.asinh",
    lambda x, out: rsqrt_p.bind(_plus(_square(x), 1)),
    repair=complex_values.asinh,
)
acosh_p = _unary(
    "acosh",
    "chlo.acosh",
    lambda x, out: _mul(rsqrt_p.bind(_plus(x, -1)), rsqrt_p.bind(_plus(x, 1))),
    repair=complex_values.acosh,
)
atanh_p = _accurate(
    "atanh",
    "chlo.atanh",
    lambda t, out, x: _div(t, _one_minus(_square(x))),
    repair=complex_values.atanh,
)
sqrt_p = _accurate(
    "sqrt",
    "stablehlo.sqrt",
    lambda t, out, x: _times(_div(t, out), 0.5),
    repair=complex_values.sqrt,
)
rsqrt_p = _accurate(
    "rsqrt",
    "stablehlo.rsqrt",
    lambda t, out, x: _mul(t, _times(_div(out, x), -0.5)),
    of_complex=complex_rsqrt,
)
cbrt_p = _accurate(
    "cbrt", "stablehlo.cbrt", lambda t, out, x: _times(_div(t, _square(out)), 1 / 3), FLOAT
)
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
erf_p = _unary(
    "erf",
    "chlo.erf",
    lambda x, out: _times(exp_p.bind(neg_p.bind(_square(x))), _TWO_OVER_SQRT_PI),
    FLOAT,
)
erfc_p = _unary(
    "erfc",
    "chlo.erfc",
    lambda x, out: _times(exp_p.bind(neg_p.bind(_square(x))), -_TWO_OVER_SQRT_PI),
    FLOAT,
)
erf_inv_p = _unary(
    "erf_inv",
    "chlo.erf_inv",
    lambda x, out: _times(exp_p.bind(_square(out)), math.sqrt(math.pi) / 2),
    FLOAT,
)
lgamma_p = _unary("lgamma", "chlo.lgamma", lambda x, out: digamma_p.bind(x), FLOAT)
digamma_p = _unary("digamma", "chlo.digamma", lambda x, out: _trigamma(x), FLOAT)


def no_derivative(op: str, operand: str) -> Any:
    """Raise: the op is not differentiated with respect to that operand."""
    raise MissingRuleError(
        f"{op} has no derivative with respect to {operand}: wrap {operand} in "
        "weft.lax.stop_gradient, or give a rule with weft.custom_jvp"
    )


def _trigamma(x: ArrayLike) -> Any:
    return polygamma_p.bind(_like(scalar(1, x), x), x)


polygamma_p = elementwise(
    "polygamma",
    "chlo.polygamma",
    accepts=FLOAT,
    jvps=[
        lambda t, out, m, x: no_derivative("polygamma", "m"),
        lambda t, out, m, x: _mul(t, polygamma_p.bind(_plus(m, 1), x)),
    ],
)


def _power(x: ArrayLike, n: int) -> Any:
    return integer_pow_p.bind(x, y=n)


def _integer_pow_lower(ctx: RuleContext, x: ir.Value, *, y: int) -> Any:
    types = ctx.out_types()
    if y == 0:
        return ctx.splat(1, ctx.avals_in[0].shape, ctx.avals_in[0].dtype)
    n, acc, base = abs(y), None, x
    while n:
        if n & 1:
            acc = base if acc is None else ctx.op("stablehlo.multiply", [acc, base], types)[0]
        n >>= 1
        if n:
            base = ctx.op("stablehlo.multiply", [base, base], types)[0]
    if y < 0:
        one = ctx.splat(1, ctx.avals_in[0].shape, ctx.avals_in[0].dtype)
        return ctx.op("stablehlo.divide", [one, acc], types)[0]
    return acc


def _integer_pow_jvp(t: object, out: object, x: ArrayLike, *, y: int) -> Any:
    if y == 0:
        return None
    return _mul(t, x if y == 1 else _times(_power(x, y - 1) if y != 2 else x, y))


integer_pow_p = elementwise("integer_pow", _integer_pow_lower, jvps=[_integer_pow_jvp])


def _pow_abstract(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    if not dtypes.is_inexact(x.dtype):
        raise TypeError(f"pow: the base must be a float or complex array, got {x.str_short()}")
    if y.dtype != x.dtype and not dtypes.is_integer(y.dtype):
        raise TypeError(
            f"pow: the exponent must be an integer or of the base's dtype, got {x.str_short()} to "
            f"the power {y.str_short()}"
        )
    return ShapedArray(common_shape("pow", (x, y)), x.dtype, x.weak_type and y.weak_type)


def _pow_lower(ctx: RuleContext, x: ir.Value, y: ir.Value) -> Any:
    x, y = ctx.spread((x, y))
    if ctx.avals_in[1].dtype != ctx.avals_in[0].dtype:
        y = ctx.op("stablehlo.convert", [y], ctx.out_types())[0]
    if dtypes.is_complex(ctx.avals_in[0].dtype):
        aval = ShapedArray(ctx.avals_out[0].shape, ctx.avals_out[0].dtype)
        wide = aval.dtype == dtypes.complex64 and ctx.module.platforms == ("cpu",)
        formula = wide_power if wide else complex_power
        return ctx.lower_fun(formula, x, y, avals=[aval, aval])[0]
    operation = ctx.operation("stablehlo.power", [x, y], ctx.out_types())
    if ctx.avals_in[0].dtype.name in _OF_WAVES[:-1]:
        ctx.mark(operation, "power", 0)
    else:
        mark_formula(ctx, operation)
    return operation.results[0]


def _pow_jvp_base(t: object, out: object, x: object, y: object) -> Any:
    exponent: Any = y
    if isinstance(y, int | float | np.generic):  # known on the host
        if y == 0:
            return None
        return _mul(t, _times(pow_p.bind(x, scalar(exponent - 1, x)), y))
    y_inexact = convert(y, typeof(x).dtype)
    zero = scalar(0, typeof(x).dtype)
    one = scalar(1, typeof(x).dtype)
    # Only 0**0 needs another exponent, of which the factor y makes 0.
    both_zero = and_p.bind(eq_p.bind(y_inexact, zero), eq_p.bind(x, zero))
    exponent = _spread(y_inexact, both_zero)
    safe_y = select(both_zero, _like(one, both_zero), exponent)
    lowered = pow_p.bind(x, sub_p.bind(safe_y, one))
    factor = _mul(y_inexact, lowered)
    return _mul(t, factor)


def _pow_jvp_exponent(t: object, out: object, x: ArrayLike, y: object) -> Any:
    if not dtypes.is_inexact(typeof(y).dtype):
        return None
    zero = eq_p.bind(x, scalar(0, x))
    one = _like(scalar(1, x), x)
    log_x = log_p.bind(select(zero, one, x))
    return _mul(t, _mul(out, log_x))


pow_p = elementwise("pow", _pow_lower, jvps=[_pow_jvp_base, _pow_jvp_exponent])
pow_p.abstract = _pow_abstract

atan2_p = elementwise(
    "atan2",
    "stablehlo.atan2",
    accepts=INEXACT,
    jvps=[
        lambda t, out, x, y: _mul(t, _div(y, add_p.bind(_square(x), _square(y)))),
        lambda t, out, x, y: _mul(t, _div(neg_p.bind(x), add_p.bind(_square(x), _square(y)))),
    ],
)
nextafter_p = elementwise("nextafter", "chlo.next_after", accepts=FLOAT)
