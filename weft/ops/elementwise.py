"""Elementwise ops: a table of definitions, then the public functions over them."""

from __future__ import annotations

import math
from typing import Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.base import (
    ANY,
    BITS,
    COMPLEX,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMBER,
    REAL,
    elementwise,
    scalar,
    unbroadcast,
)
from weft.ops.promote import promote_lax
from weft.transforms.transpose import is_undefined

# Short forms used in derivative rules ----------------------------------------------------------


def _times(x: Any, c: float) -> Any:
    return mul_p.bind(x, scalar(c, x))


def _plus(x: Any, c: float) -> Any:
    return add_p.bind(x, scalar(c, x))


def _one_minus(x: Any) -> Any:
    return sub_p.bind(scalar(1, x), x)


def _square(x: Any) -> Any:
    return mul_p.bind(x, x)


def _mul(x: Any, y: Any) -> Any:
    return mul_p.bind(x, y)


def _div(x: Any, y: Any) -> Any:
    return div_p.bind(x, y)


def _replace_zero(x: Any) -> Any:
    """Ones where x is zero, so that a quotient's derivative stays finite."""
    one = scalar(1, x)
    return select_n_p.bind(eq_p.bind(x, scalar(0, x)), x, _like(one, x))


def _like(c: Any, x: Any) -> Any:
    from weft.ops.shape import broadcast_in_dim

    return broadcast_in_dim(c, typeof(x).shape, ())


def _real_dtype(dtype: Any) -> Any:
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)


def _complex_dtype(dtype: Any) -> Any:
    return {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}[dtype]


# Linear ----------------------------------------------------------------------------------------

neg_p = elementwise(
    "neg",
    "stablehlo.negate",
    jvps=[lambda t, out, x: neg_p.bind(t)],
    transpose=lambda ct, x: [neg_p.bind(ct)],
)
add_p = elementwise(
    "add",
    "stablehlo.add",
    accepts=ANY,
    jvps=[lambda t, out, x, y: t, lambda t, out, x, y: t],
    transpose=lambda ct, x, y: [unbroadcast(ct, a) if is_undefined(a) else None for a in (x, y)],
)
sub_p = elementwise(
    "sub",
    "stablehlo.subtract",
    jvps=[lambda t, out, x, y: t, lambda t, out, x, y: neg_p.bind(t)],
    transpose=lambda ct, x, y: [
        unbroadcast(ct, x) if is_undefined(x) else None,
        unbroadcast(neg_p.bind(ct), y) if is_undefined(y) else None,
    ],
)
mul_p = elementwise(
    "mul",
    "stablehlo.multiply",
    accepts=ANY,
    jvps=[lambda t, out, x, y: mul_p.bind(t, y), lambda t, out, x, y: mul_p.bind(x, t)],
    transpose=lambda ct, x, y: (
        [unbroadcast(mul_p.bind(ct, y), x), None]
        if is_undefined(x)
        else [None, unbroadcast(mul_p.bind(x, ct), y)]
    ),
)


def _div_jvp_denominator(t: Any, out: Any, x: Any, y: Any) -> Any:
    return neg_p.bind(_mul(t, _div(out, y)))


div_p = elementwise(
    "div",
    "stablehlo.divide",
    jvps=[lambda t, out, x, y: div_p.bind(t, y), _div_jvp_denominator],
    transpose=lambda ct, x, y: [unbroadcast(div_p.bind(ct, y), x), None],
)
rem_p = elementwise(
    "rem",
    "stablehlo.remainder",
    accepts=REAL,
    jvps=[
        lambda t, out, x, y: t,
        lambda t, out, x, y: neg_p.bind(_mul(t, round_to_zero(_div(x, y)))),
    ],
)


def _complex_abstract(re: ShapedArray, im: ShapedArray) -> ShapedArray:
    from weft.ops.base import common_dtype, common_shape

    dtype, weak = common_dtype("complex", (re, im))
    if dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"complex takes float32 or float64 parts, got {dtypes.short_name(dtype)}")
    return ShapedArray(common_shape("complex", (re, im)), _complex_dtype(dtype), weak)


real_p = elementwise(
    "real",
    "stablehlo.real",
    accepts=COMPLEX,
    result=_real_dtype,
    jvps=[lambda t, out, x: real_p.bind(t)],
    transpose=lambda ct, x: [complex_p.bind(ct, _zeros(ct))],
)
imag_p = elementwise(
    "imag",
    "stablehlo.imag",
    accepts=COMPLEX,
    result=_real_dtype,
    jvps=[lambda t, out, x: imag_p.bind(t)],
    # The pairing of weft's complex cotangents is bilinear, as JAX's: ct of z = x + iy is c - id.
    transpose=lambda ct, x: [complex_p.bind(_zeros(ct), neg_p.bind(ct))],
)
complex_p = elementwise(
    "complex",
    "stablehlo.complex",
    accepts=FLOAT,
    jvps=[
        lambda t, out, x, y: complex_p.bind(t, _zeros(t)),
        lambda t, out, x, y: complex_p.bind(_zeros(t), t),
    ],
    transpose=lambda ct, x, y: [
        unbroadcast(real_p.bind(ct), x) if is_undefined(x) else None,
        unbroadcast(imag_p.bind(neg_p.bind(ct)), y) if is_undefined(y) else None,
    ],
)
complex_p.abstract = _complex_abstract


def _zeros(x: Any) -> Any:
    return _like(scalar(0, x), x)


# convert_element_type -------------------------------------------------------------------------


def _convert_abstract(x: ShapedArray, *, new_dtype: Any, weak_type: bool) -> ShapedArray:
    return ShapedArray(x.shape, new_dtype, weak_type)


def _convert_jvp(primals: Any, tangents: Any, *, new_dtype: Any, weak_type: bool) -> tuple:
    out = convert_element_type_p.bind(primals[0], new_dtype=new_dtype, weak_type=weak_type)
    if not dtypes.is_inexact(new_dtype):
        return out, None
    return out, convert_element_type_p.bind(tangents[0], new_dtype=new_dtype, weak_type=False)


def _convert_lower(ctx: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
    old = ctx.avals_in[0].dtype
    if dtypes.is_complex(old) and not dtypes.is_complex(new_dtype):
        real = ctx.tensor(ctx.avals_in[0].shape, _real_dtype(old))
        if not dtypes.is_bool(new_dtype):
            x = ctx.op("stablehlo.real", [x], [real])[0]
    if dtypes.is_bool(new_dtype) and not dtypes.is_bool(old):
        zero = ctx.splat(0, ctx.avals_in[0].shape, old)
        return ctx.compare(x, zero, "NE", old)
    return ctx.op("stablehlo.convert", [x], ctx.out_types())[0]


convert_element_type_p = Primitive(
    "convert_element_type",
    abstract=_convert_abstract,
    jvp=_convert_jvp,
    transpose=lambda ct, x, *, new_dtype, weak_type: [
        convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=False)
    ],
    batch=lambda axis, args, dims, **params: (
        convert_element_type_p.bind(args[0], **params),
        dims[0],
    ),
    lower=_convert_lower,
    sharding="elementwise",
)


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """The operand in another dtype; float → int truncates, complex → real drops the imaginary part.

    Source: StableHLO specification, `convert`.

    >>> import weft
    >>> weft.lax.convert_element_type(weft.numpy.array([1.7]), "int32")
    Array([1], dtype=int32)
    """
    weak = new_dtype in (int, float, complex)
    return convert(operand, dtypes.canonicalize_dtype(new_dtype), weak)


def convert(operand: Any, dtype: Any, weak_type: bool = False) -> Any:
    """Conversion to a canonical dtype, none if the operand has it."""
    aval = typeof(operand)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return operand
    if dtypes.is_extended(dtype) or dtypes.is_extended(aval.dtype):
        raise TypeError(
            f"cannot convert {aval.str_short()} to {dtypes.short_name(dtype)}: random keys do not "
            "convert; see weft.random.key_data and weft.random.wrap_key_data"
        )
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=weak_type)


def _bitcast_abstract(x: ShapedArray, *, new_dtype: Any) -> ShapedArray:
    old, new = _bits(x.dtype), _bits(new_dtype)
    shape = x.shape
    if old > new:
        shape = (*shape, old // new)
    elif old < new:
        if not shape or shape[-1] != new // old:
            raise ValueError(
                f"bitcast_convert_type: to become {dtypes.short_name(new_dtype)}, the last "
                f"dimension of {x.str_short()} must have size {new // old}"
            )
        shape = shape[:-1]
    return ShapedArray(shape, new_dtype)


def _bits(dtype: Any) -> int:
    if dtype.name in ("int4", "uint4", "float4_e2m1fn"):
        return 4
    return 2 if dtype.name in ("int2", "uint2") else dtype.itemsize * 8


def _bitcast_batch(axis: Any, args: Any, dims: Any, *, new_dtype: Any) -> tuple:
    from weft.ops.shape import moveaxis

    return bitcast_convert_type_p.bind(moveaxis(args[0], dims[0], 0), new_dtype=new_dtype), 0


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type",
    abstract=_bitcast_abstract,
    jvp=lambda primals, tangents, *, new_dtype: (
        bitcast_convert_type_p.bind(primals[0], new_dtype=new_dtype),
        None,
    ),
    batch=_bitcast_batch,
    lower=lambda ctx, x, *, new_dtype: ctx.op("stablehlo.bitcast_convert", [x], ctx.out_types())[0],
    sharding="elementwise",
)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The operand's bits read as another dtype; a narrower one adds a last dimension."""
    return bitcast_convert_type_p.bind(operand, new_dtype=dtypes.canonicalize_dtype(new_dtype))


# select ----------------------------------------------------------------------------------------


def _select_abstract(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    first = cases[0]
    for i, case in enumerate(cases):
        if case.shape != first.shape or case.dtype != first.dtype:
            raise TypeError(
                f"select_n: case {i} is {case.str_short()} but case 0 is {first.str_short()}; all "
                "cases must have one shape and dtype"
            )
    if which.ndim and which.shape != first.shape:
        raise TypeError(
            f"select_n: which is {which.str_short()}; it must be a scalar or have the cases' "
            f"shape {first.shape}"
        )
    if not (dtypes.is_bool(which.dtype) or which.dtype == dtypes.int32):
        raise TypeError(f"select_n: which must be bool or int32, got {which.str_short()}")
    if dtypes.is_bool(which.dtype) and len(cases) > 2:
        raise TypeError(f"select_n: a bool selects among 2 cases, got {len(cases)}")
    return ShapedArray(first.shape, first.dtype, all(c.weak_type for c in cases))


def _select_jvp(primals: Any, tangents: Any) -> tuple:
    which, *cases = primals
    out = select_n_p.bind(*primals)
    from weft.ops.special import zeros_like

    ts = [zeros_like(c) if t is None else t for c, t in zip(cases, tangents[1:], strict=True)]
    return out, select_n_p.bind(which, *ts)


def _select_transpose(ct: Any, which: Any, *cases: Any) -> list:
    zero = _zeros(ct)
    cts = [
        select_n_p.bind(which, *(ct if j == i else zero for j in range(len(cases))))
        if is_undefined(case)
        else None
        for i, case in enumerate(cases)
    ]
    return [None, *cts]


def _select_batch(axis: Any, args: Any, dims: Any) -> tuple:
    from weft.ops.shape import broadcast_in_dim, broadcast_to_dim, moveaxis

    if dims[0] is None and typeof(args[0]).ndim == 0:
        moved = [
            broadcast_to_dim(a, 0, axis.size) if d is None else moveaxis(a, d, 0)
            for a, d in zip(args[1:], dims[1:], strict=True)
        ]
        return select_n_p.bind(args[0], *moved), 0
    moved = [
        broadcast_to_dim(a, 0, axis.size) if d is None else moveaxis(a, d, 0)
        for a, d in zip(args, dims, strict=True)
    ]
    shape = typeof(moved[1]).shape
    if typeof(moved[0]).shape != shape:
        moved[0] = broadcast_in_dim(moved[0], shape, (0,))
    return select_n_p.bind(*moved), 0


def _select_lower(ctx: Any, which: Any, *cases: Any) -> Any:
    aval = ctx.avals_in[0]
    if dtypes.is_bool(aval.dtype):
        if len(cases) == 1:
            return cases[0]
        return ctx.op("stablehlo.select", [which, cases[1], cases[0]], ctx.out_types())[0]

    def choose(lo: int, values: tuple) -> Any:
        if len(values) == 1:
            return values[0]
        mid = len(values) // 2
        bound = ctx.splat(lo + mid, aval.shape, aval.dtype)
        below = ctx.compare(which, bound, "LT", aval.dtype)
        left, right = choose(lo, values[:mid]), choose(lo + mid, values[mid:])
        return ctx.op("stablehlo.select", [below, left, right], ctx.out_types())[0]

    return choose(0, cases)


select_n_p = Primitive(
    "select_n",
    abstract=_select_abstract,
    jvp=_select_jvp,
    transpose=_select_transpose,
    batch=_select_batch,
    lower=_select_lower,
    sharding="elementwise",
    structural=True,
)


def select_n(which: Any, *cases: Any) -> Any:
    """Element by element, the case whose number `which` holds (False is 0, True is 1).

    >>> import weft
    >>> weft.lax.select_n(weft.numpy.array([True, False]), weft.numpy.zeros(2), weft.numpy.ones(2))
    Array([1., 0.], dtype=float32)
    """
    if not cases:
        raise ValueError("select_n: needs at least one case")
    return select_n_p.bind(which, *cases)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """on_true where pred holds, else on_false; equal shapes and dtypes."""
    return select_n_p.bind(pred, on_false, on_true)


# Comparison and logic --------------------------------------------------------------------------


def _comparison(name: str, direction: str, accepts: str, compare_type: str | None = None) -> Any:
    def lower(ctx: Any, x: Any, y: Any) -> Any:
        x, y = ctx.spread((x, y))
        return ctx.compare(x, y, direction, ctx.avals_in[0].dtype, compare_type)

    return elementwise(name, lower, accepts=accepts, result=dtypes.bool_)


eq_p = _comparison("eq", "EQ", ANY)
ne_p = _comparison("ne", "NE", ANY)
lt_p = _comparison("lt", "LT", ANY)
le_p = _comparison("le", "LE", ANY)
gt_p = _comparison("gt", "GT", ANY)
ge_p = _comparison("ge", "GE", ANY)
eq_to_p = _comparison("eq_to", "EQ", ANY, "TOTALORDER")
lt_to_p = _comparison("lt_to", "LT", ANY, "TOTALORDER")
le_to_p = _comparison("le_to", "LE", ANY, "TOTALORDER")

and_p = elementwise("and", "stablehlo.and", accepts=BITS)
or_p = elementwise("or", "stablehlo.or", accepts=BITS)
xor_p = elementwise("xor", "stablehlo.xor", accepts=BITS)
not_p = elementwise("not", "stablehlo.not", accepts=BITS)
shift_left_p = elementwise("shift_left", "stablehlo.shift_left", accepts=INTEGER)
shift_right_arithmetic_p = elementwise(
    "shift_right_arithmetic", "stablehlo.shift_right_arithmetic", accepts=INTEGER
)
shift_right_logical_p = elementwise(
    "shift_right_logical", "stablehlo.shift_right_logical", accepts=INTEGER
)
population_count_p = elementwise("population_count", "stablehlo.popcnt", accepts=INTEGER)
clz_p = elementwise("clz", "stablehlo.count_leading_zeros", accepts=INTEGER)


def _share(mine: str) -> Any:
    """The derivative of max or min: 1 where the operand wins, 1/2 at ties."""

    def rule(t: Any, out: Any, x: Any, y: Any) -> Any:
        a, b = (x, y) if mine == "x" else (y, x)
        one, half, zero = scalar(1, t), scalar(0.5, t), scalar(0, t)
        wins = select(eq_p.bind(a, out), _like(one, out), _like(zero, out))
        weight = select(eq_p.bind(a, b), _like(half, out), wins)
        return _mul(t, weight)

    return rule


def _lower_extremum(hlo: str) -> Any:
    def lower(ctx: Any, x: Any, y: Any) -> Any:
        return ctx.op(hlo, ctx.spread((x, y)), ctx.out_types())[0]

    return lower


max_p = elementwise("max", "stablehlo.maximum", accepts=ANY, jvps=[_share("x"), _share("y")])
min_p = elementwise("min", "stablehlo.minimum", accepts=ANY, jvps=[_share("x"), _share("y")])


def _clamp_jvp(t: Any, out: Any, lo: Any, x: Any, hi: Any) -> Any:
    inside = and_p.bind(gt_p.bind(x, lo), lt_p.bind(x, hi))
    return select(inside, t, _zeros(t))


clamp_p = elementwise(
    "clamp",
    lambda ctx, lo, x, hi: ctx.op("stablehlo.clamp", [lo, x, hi], ctx.out_types())[0],
    accepts=ANY,
    jvps=[
        lambda t, out, lo, x, hi: select(
            _bool_like(lt_p.bind(x, lo), out), _spread(t, out), _zeros(out)
        ),
        _clamp_jvp,
        lambda t, out, lo, x, hi: select(
            _bool_like(gt_p.bind(x, hi), out), _spread(t, out), _zeros(out)
        ),
    ],
)


def _spread(t: Any, like: Any) -> Any:
    return t if typeof(t).ndim == typeof(like).ndim else _like(t, like)


_bool_like = _spread

# Unary math ------------------------------------------------------------------------------------


def _unary(name: str, hlo: str, derivative: Any, accepts: str = INEXACT, result: Any = None) -> Any:
    """derivative(x, out) -> factor of the tangent."""
    jvps = [None if derivative is None else lambda t, out, x: _mul(t, derivative(x, out))]
    return elementwise(name, hlo, accepts=accepts, result=result, jvps=jvps)


def _accuracy(name: str, hlo: str, derivative: Any) -> Any:
    return _unary(name, hlo, derivative)


exp_p = _unary("exp", "stablehlo.exponential", lambda x, out: out)
exp2_p = elementwise(
    "exp2",
    lambda ctx, x: ctx.op(
        "stablehlo.exponential",
        [
            ctx.op(
                "stablehlo.multiply",
                [x, ctx.splat(math.log(2), ctx.avals_in[0].shape, ctx.avals_in[0].dtype)],
                ctx.out_types(),
            )[0]
        ],
        ctx.out_types(),
    )[0],
    accepts=INEXACT,
    jvps=[lambda t, out, x: _mul(t, _times(out, math.log(2)))],
)
log_p = elementwise("log", "stablehlo.log", accepts=INEXACT, jvps=[lambda t, out, x: _div(t, x)])
expm1_p = _unary("expm1", "stablehlo.exponential_minus_one", lambda x, out: _plus(out, 1))
log1p_p = elementwise(
    "log1p",
    "stablehlo.log_plus_one",
    accepts=INEXACT,
    jvps=[lambda t, out, x: _div(t, _plus(x, 1))],
)
tanh_p = _unary("tanh", "stablehlo.tanh", lambda x, out: _one_minus(_square(out)))
logistic_p = _unary("logistic", "stablehlo.logistic", lambda x, out: _mul(out, _one_minus(out)))
sin_p = _unary("sin", "stablehlo.sine", lambda x, out: cos_p.bind(x))
cos_p = _unary("cos", "stablehlo.cosine", lambda x, out: neg_p.bind(sin_p.bind(x)))
tan_p = _unary("tan", "stablehlo.tan", lambda x, out: _plus(_square(out), 1))
asin_p = _unary("asin", "chlo.asin", lambda x, out: rsqrt_p.bind(_one_minus(_square(x))))
acos_p = _unary(
    "acos", "chlo.acos", lambda x, out: neg_p.bind(rsqrt_p.bind(_one_minus(_square(x))))
)
atan_p = elementwise(
    "atan",
    "chlo.atan",
    accepts=INEXACT,
    jvps=[lambda t, out, x: _div(t, _plus(_square(x), 1))],
)
sinh_p = _unary("sinh", "chlo.sinh", lambda x, out: cosh_p.bind(x))
cosh_p = _unary("cosh", "chlo.cosh", lambda x, out: sinh_p.bind(x))
asinh_p = _unary("asinh", "chlo.asinh", lambda x, out: rsqrt_p.bind(_plus(_square(x), 1)))
acosh_p = _unary(
    "acosh",
    "chlo.acosh",
    lambda x, out: _mul(rsqrt_p.bind(_plus(x, -1)), rsqrt_p.bind(_plus(x, 1))),
)
atanh_p = elementwise(
    "atanh",
    "chlo.atanh",
    accepts=INEXACT,
    jvps=[lambda t, out, x: _div(t, _one_minus(_square(x)))],
)
sqrt_p = elementwise(
    "sqrt", "stablehlo.sqrt", accepts=INEXACT, jvps=[lambda t, out, x: _times(_div(t, out), 0.5)]
)
rsqrt_p = elementwise(
    "rsqrt",
    "stablehlo.rsqrt",
    accepts=INEXACT,
    jvps=[lambda t, out, x: _mul(t, _times(_div(out, x), -0.5))],
)
cbrt_p = elementwise(
    "cbrt",
    "stablehlo.cbrt",
    accepts=FLOAT,
    jvps=[lambda t, out, x: _mul(t, _times(_div(out, x), 1 / 3))],
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
floor_p = elementwise("floor", "stablehlo.floor", accepts=FLOAT)
ceil_p = elementwise("ceil", "stablehlo.ceil", accepts=FLOAT)
is_finite_p = elementwise("is_finite", "stablehlo.is_finite", accepts=FLOAT, result=dtypes.bool_)


def no_derivative(op: str, operand: str) -> Any:
    """Raises: the op is not differentiated with respect to that operand."""
    raise TypeError(
        f"{op} has no derivative with respect to {operand}: wrap {operand} in "
        "weft.lax.stop_gradient, or give a rule with weft.custom_jvp"
    )


def _trigamma(x: Any) -> Any:
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


def _sign_lower(ctx: Any, x: Any) -> Any:
    aval = ctx.avals_in[0]
    if dtypes.is_unsigned(aval.dtype):
        zero, one = ctx.splat(0, aval.shape, aval.dtype), ctx.splat(1, aval.shape, aval.dtype)
        nonzero = ctx.compare(x, zero, "NE", aval.dtype)
        return ctx.op("stablehlo.select", [nonzero, one, zero], ctx.out_types())[0]
    return ctx.op("stablehlo.sign", [x], ctx.out_types())[0]


def _sign_jvp(t: Any, out: Any, x: Any) -> Any:
    """Zero for reals; for complex x/|x|, the derivative of the direction."""
    if not dtypes.is_complex(typeof(x).dtype):
        return None
    magnitude = abs_p.bind(x)
    one = scalar(1, magnitude)
    safe = select(eq_p.bind(magnitude, scalar(0, magnitude)), _like(one, magnitude), magnitude)
    c = complex_p.bind(safe, _zeros(safe))
    along = real_p.bind(_mul(t, conj(out)))
    return _div(sub_p.bind(t, _mul(out, complex_p.bind(along, _zeros(along)))), c)


sign_p = elementwise("sign", _sign_lower, accepts=NUMBER, jvps=[_sign_jvp])


def _abs_lower(ctx: Any, x: Any) -> Any:
    if dtypes.is_unsigned(ctx.avals_in[0].dtype):
        return x
    return ctx.op("stablehlo.abs", [x], ctx.out_types())[0]


def _abs_jvp(t: Any, out: Any, x: Any) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        return real_p.bind(_mul(t, conj(sign_p.bind(x))))
    return _mul(t, sign_p.bind(x))


abs_p = elementwise("abs", _abs_lower, accepts=NUMBER, result=_real_dtype, jvps=[_abs_jvp])


def _round_lower(ctx: Any, x: Any, *, rounding_method: int) -> Any:
    name = "stablehlo.round_nearest_even" if rounding_method else "stablehlo.round_nearest_afz"
    return ctx.op(name, [x], ctx.out_types())[0]


def _no_param(prim: Primitive, *names: str) -> None:
    """Lets the shape rule of an elementwise op take parameters it does not look at."""
    rule = prim.abstract

    def abstract(*avals: Any, **params: Any) -> Any:
        return rule(*avals)

    prim.abstract = abstract


round_p = elementwise("round", _round_lower, accepts=FLOAT)
_no_param(round_p, "rounding_method")


def _power(x: Any, n: int) -> Any:
    return integer_pow_p.bind(x, y=n)


def _integer_pow_lower(ctx: Any, x: Any, *, y: int) -> Any:
    types = ctx.out_types()
    if y == 0:
        return ctx.splat(1, ctx.avals_in[0].shape, ctx.avals_in[0].dtype)
    n, acc, base = (y if y > 0 else -y), None, x  # `abs` is this module's own
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


def _integer_pow_jvp(t: Any, out: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return None
    return _mul(t, x if y == 1 else _times(_power(x, y - 1) if y != 2 else x, y))


integer_pow_p = elementwise("integer_pow", _integer_pow_lower, jvps=[_integer_pow_jvp])
_no_param(integer_pow_p, "y")


def _pow_abstract(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    from weft.ops.base import common_shape

    if not dtypes.is_inexact(x.dtype):
        raise TypeError(f"pow: the base must be a float or complex array, got {x.str_short()}")
    if y.dtype != x.dtype and not dtypes.is_integer(y.dtype):
        raise TypeError(
            f"pow: the exponent must be an integer or of the base's dtype, got {x.str_short()} to "
            f"the power {y.str_short()}"
        )
    return ShapedArray(common_shape("pow", (x, y)), x.dtype, x.weak_type and y.weak_type)


def _pow_lower(ctx: Any, x: Any, y: Any) -> Any:
    x, y = ctx.spread((x, y))
    if ctx.avals_in[1].dtype != ctx.avals_in[0].dtype:
        y = ctx.op("stablehlo.convert", [y], ctx.out_types())[0]
    return ctx.op("stablehlo.power", [x, y], ctx.out_types())[0]


def _pow_jvp_base(t: Any, out: Any, x: Any, y: Any) -> Any:
    y_inexact = convert(y, typeof(x).dtype)
    zero = scalar(0, typeof(x).dtype)
    one = scalar(1, typeof(x).dtype)
    y_zero = eq_p.bind(y_inexact, zero)
    safe_y = select(y_zero, _like(one, y_inexact), y_inexact)
    lowered = pow_p.bind(x, sub_p.bind(safe_y, one))
    factor = _mul(y_inexact, lowered)
    return _mul(t, factor)


def _pow_jvp_exponent(t: Any, out: Any, x: Any, y: Any) -> Any:
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
    accepts=FLOAT,
    jvps=[
        lambda t, out, x, y: _mul(t, _div(y, add_p.bind(_square(x), _square(y)))),
        lambda t, out, x, y: _mul(t, _div(neg_p.bind(x), add_p.bind(_square(x), _square(y)))),
    ],
)
nextafter_p = elementwise("nextafter", "chlo.next_after", accepts=FLOAT)

conj_p = elementwise(
    "conj",
    lambda ctx, x: _conj_lower(ctx, x),
    accepts=COMPLEX,
    jvps=[lambda t, out, x: conj_p.bind(t)],
    transpose=lambda ct, x: [conj_p.bind(ct)],
)


def _conj_lower(ctx: Any, x: Any) -> Any:
    part = ctx.tensor(ctx.avals_in[0].shape, _real_dtype(ctx.avals_in[0].dtype))
    re = ctx.op("stablehlo.real", [x], [part])[0]
    im = ctx.op("stablehlo.imag", [x], [part])[0]
    im = ctx.op("stablehlo.negate", [im], [part])[0]
    return ctx.op("stablehlo.complex", [re, im], ctx.out_types())[0]


def _reduce_precision_lower(ctx: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    attrs = {"exponent_bits": ctx.i32(exponent_bits), "mantissa_bits": ctx.i32(mantissa_bits)}
    return ctx.op("stablehlo.reduce_precision", [x], ctx.out_types(), attrs)[0]


reduce_precision_p = elementwise(
    "reduce_precision",
    _reduce_precision_lower,
    accepts=FLOAT,
    jvps=[lambda t, out, x, **bits: reduce_precision_p.bind(t, **bits)],
    transpose=lambda ct, x, **bits: [reduce_precision_p.bind(ct, **bits)],
)
_no_param(reduce_precision_p, "exponent_bits", "mantissa_bits")

# The public functions: operands are arrays of equal shape, or scalars --------------------------


def _public(prim: Primitive, doc: str) -> Any:
    name = prim.name

    def unary(x: Any) -> Any:
        return prim.bind(x)

    unary.__name__ = unary.__qualname__ = name
    unary.__doc__ = doc
    return unary


def _public2(prim: Primitive, doc: str) -> Any:
    name = prim.name

    def binary(x: Any, y: Any) -> Any:
        x, y = promote_lax(name, x, y)
        return prim.bind(x, y)

    binary.__name__ = binary.__qualname__ = name
    binary.__doc__ = doc
    return binary


neg = _public(neg_p, "-x, element by element.")
sign = _public(sign_p, "-1, 0 or 1 by the sign of x; x/|x| for complex x.")
floor = _public(floor_p, "The largest integer not above x, as a float.")
ceil = _public(ceil_p, "The smallest integer not below x, as a float.")
is_finite = _public(is_finite_p, "Whether x is neither infinite nor NaN.")
exp = _public(exp_p, "e to the power x.")
exp2 = _public(exp2_p, "2 to the power x.")
expm1 = _public(expm1_p, "e**x - 1, accurate near 0.")
log = _public(log_p, "The natural logarithm.")
log1p = _public(log1p_p, "log(1 + x), accurate near 0.")
tanh = _public(tanh_p, "The hyperbolic tangent.")
logistic = _public(logistic_p, "1 / (1 + exp(-x)).")
sin = _public(sin_p, "The sine of x in radians.")
cos = _public(cos_p, "The cosine of x in radians.")
tan = _public(tan_p, "The tangent of x in radians.")
asin = _public(asin_p, "The inverse sine, in radians.")
acos = _public(acos_p, "The inverse cosine, in radians.")
atan = _public(atan_p, "The inverse tangent, in radians.")
sinh = _public(sinh_p, "The hyperbolic sine.")
cosh = _public(cosh_p, "The hyperbolic cosine.")
asinh = _public(asinh_p, "The inverse hyperbolic sine.")
acosh = _public(acosh_p, "The inverse hyperbolic cosine.")
atanh = _public(atanh_p, "The inverse hyperbolic tangent.")
sqrt = _public(sqrt_p, "The square root.")
rsqrt = _public(rsqrt_p, "1 / sqrt(x).")
cbrt = _public(cbrt_p, "The cube root.")
erf = _public(erf_p, "The error function.")
erfc = _public(erfc_p, "1 - erf(x).")
erf_inv = _public(erf_inv_p, "The inverse of the error function.")
lgamma = _public(lgamma_p, "log |gamma(x)|.")
digamma = _public(digamma_p, "The derivative of log gamma.")
real = _public(real_p, "The real part of a complex array.")
imag = _public(imag_p, "The imaginary part of a complex array.")
bitwise_not = _public(not_p, "Bits inverted; for booleans, not.")
population_count = _public(population_count_p, "The number of 1 bits.")
clz = _public(clz_p, "The number of leading 0 bits.")

add = _public2(add_p, "x + y, element by element.")
sub = _public2(sub_p, "x - y, element by element.")
mul = _public2(mul_p, "x * y, element by element.")
div = _public2(div_p, "x / y; integer division truncates toward zero.")
rem = _public2(rem_p, "The remainder of x / y, with the sign of x.")
max = _public2(max_p, "The greater of x and y; NaN if either is.")
min = _public2(min_p, "The lesser of x and y; NaN if either is.")
atan2 = _public2(atan2_p, "The angle of the point (y, x), in radians.")
nextafter = _public2(nextafter_p, "The next float after x toward y.")
polygamma = _public2(polygamma_p, "The m-th derivative of digamma at x.")
complex = _public2(complex_p, "x + iy from real parts.")
eq = _public2(eq_p, "x == y.")
ne = _public2(ne_p, "x != y.")
lt = _public2(lt_p, "x < y.")
le = _public2(le_p, "x <= y.")
gt = _public2(gt_p, "x > y.")
ge = _public2(ge_p, "x >= y.")
bitwise_and = _public2(and_p, "Bits of x and y; for booleans, and.")
bitwise_or = _public2(or_p, "Bits of x or y; for booleans, or.")
bitwise_xor = _public2(xor_p, "Bits in which x and y differ.")
shift_left = _public2(shift_left_p, "x shifted left by y bits.")
shift_right_arithmetic = _public2(shift_right_arithmetic_p, "x shifted right, sign kept.")
shift_right_logical = _public2(shift_right_logical_p, "x shifted right, zeros filled in.")


def abs(x: Any) -> Any:
    """|x|; for complex x the magnitude, a real array."""
    return abs_p.bind(x)


def conj(x: Any) -> Any:
    """The complex conjugate."""
    return conj_p.bind(x) if dtypes.is_complex(typeof(x).dtype) else x


def round(x: Any, rounding_method: int = 0) -> Any:
    """The nearest integer as a float; halves away from zero (0) or to even (1)."""
    return round_p.bind(x, rounding_method=int(rounding_method))


class RoundingMethod:
    """How `round` treats halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round_to_zero(x: Any) -> Any:
    """x without its fraction."""
    return _mul(sign_p.bind(x), floor_p.bind(abs_p.bind(x)))


def square(x: Any) -> Any:
    """x * x."""
    return integer_pow_p.bind(x, y=2)


def reciprocal(x: Any) -> Any:
    """1 / x."""
    return integer_pow_p.bind(x, y=-1)


def integer_pow(x: Any, y: int) -> Any:
    """x to a fixed integer power, by repeated squaring."""
    return x if y == 1 else integer_pow_p.bind(x, y=int(y))


def pow(x: Any, y: Any) -> Any:
    """x to the power y; a Python int exponent is computed by multiplication."""
    if isinstance(y, int) and not isinstance(y, bool):
        return integer_pow(x, y)
    if not dtypes.is_integer(typeof(y).dtype):
        x, y = promote_lax("pow", x, y)
    return pow_p.bind(x, y)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """x limited to [min, max]; the bounds are scalars or of x's shape."""
    dtype = typeof(x).dtype
    lo, hi = (dtype.type(b) if isinstance(b, bool | int | float) else b for b in (min, max))
    return clamp_p.bind(lo, x, hi)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounds to a float format of the given numbers of bits; the dtype stays."""
    return reduce_precision_p.bind(
        operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )
