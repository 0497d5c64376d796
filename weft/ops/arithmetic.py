# Tests: tests/ops/test_elementwise_api.py
"""Arithmetic, selection, comparison and bits, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.autodiff.op_families import (
    ANY,
    BITS,
    COMPLEX,
    FLOAT,
    INTEGER,
    NUMBER,
    ORDERED,
    REAL,
    common_dtype,
    common_shape,
    elementwise,
    scalar,
    unbroadcast,
)
from weft.autodiff.shape import broadcast_in_dim
from weft.autodiff.vmap import in_front
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.core.undefined import is_undefined
from weft.lowering.limits import QUOTIENTS
from weft.ops.dtype_casts import complex_dtype, convert, real_dtype

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

# Short forms used in derivative rules ----------------------------------------------------------


def _times(x: ArrayLike, c: Any) -> Any:
    return mul_p.bind(x, scalar(c, x))


def _plus(x: object, c: float) -> Any:
    return add_p.bind(x, scalar(c, x))


def _one_minus(x: object) -> Any:
    return sub_p.bind(scalar(1, x), x)


def _square(x: object) -> Any:
    return mul_p.bind(x, x)


def _mul(x: object, y: object) -> Any:
    return mul_p.bind(x, y)


def _div(x: ArrayLike, y: ArrayLike) -> Any:
    return div_p.bind(x, y)


def _like(c: ArrayLike, x: ArrayLike) -> Any:
    return broadcast_in_dim(c, typeof(x).shape, ())


# Linear ----------------------------------------------------------------------------------------

neg_p = elementwise(
    "neg",
    "stablehlo.negate",
    jvps=[lambda t, out, x: neg_p.bind(t)],
    transpose=lambda ct, x: [neg_p.bind(ct)],
    linear=(0,),
)


def _add_lower(ctx: RuleContext, x: ir.Value, y: ir.Value | None) -> Any:
    """Return the sum; that of booleans is their disjunction.

    XLA takes an add of booleans for one too, but not among constants (quirks.BOOL_ADD).
    """
    hlo = "stablehlo.or" if dtypes.is_bool(ctx.avals_out[0].dtype) else "stablehlo.add"
    return ctx.op(hlo, ctx.spread([x, y]), ctx.out_types())[0]


add_p = elementwise(
    "add",
    _add_lower,
    accepts=ANY,
    jvps=[lambda t, out, x, y: t, lambda t, out, x, y: t],
    transpose=lambda ct, x, y: [unbroadcast(ct, a) if is_undefined(a) else None for a in (x, y)],
    linear=(0, ...),
)
add_p.hlo = "stablehlo.add"
sub_p = elementwise(
    "sub",
    "stablehlo.subtract",
    jvps=[lambda t, out, x, y: t, lambda t, out, x, y: neg_p.bind(t)],
    transpose=lambda ct, x, y: [
        unbroadcast(ct, x) if is_undefined(x) else None,
        unbroadcast(neg_p.bind(ct), y) if is_undefined(y) else None,
    ],
    linear=(0, ...),
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
    bilinear=(0, 1),
)


def _quotient_lower(hlo: str) -> Callable:
    """Division, and its rest.

    Before XLA's own folding, which takes x / 0 for -1, MLIR's folds integers that are known, and
    divides by zero (quirks.ZERO_DIVISOR). A barrier hides a known divisor from it.
    """

    def lower(ctx: RuleContext, x: ir.Value | None, y: ir.Value | None) -> Any:
        x, y = ctx.spread([x, y])
        if dtypes.is_integer(ctx.avals_out[0].dtype) and _is_known(x) and _is_known(y):
            (y,) = ctx.op("stablehlo.optimization_barrier", [y], [y.type])
        operation = ctx.operation(hlo, [x, y], ctx.out_types())
        aval = ctx.avals_out[0]
        if dtypes.is_integer(aval.dtype):
            if aval.size >= QUOTIENTS:
                ctx.mark(operation, "quotient")
        elif hlo == "stablehlo.remainder" and aval.dtype.itemsize > 1:
            ctx.mark(operation, "remainder")
        return operation.results[0]

    return lower


def _is_known(value: ir.Value) -> bool:
    """Return whether the value is computed of constants alone."""
    waiting, seen = [value], set()
    while waiting:
        owner = waiting.pop().owner
        operation = getattr(owner, "operation", None)  # a block owns its arguments
        if operation is None or operation.name == "stablehlo.optimization_barrier":
            return False
        operands = list(operation.operands)
        if not operands and operation.name != "stablehlo.constant":
            return False
        waiting += [x for x in operands if x not in seen]
        seen.update(operands)
    return True


def _div_jvp_denominator(t: ArrayLike, out: ArrayLike, x: object, y: ArrayLike) -> Any:
    return neg_p.bind(_mul(t, _div(out, y)))


div_p = elementwise(
    "div",
    _quotient_lower("stablehlo.divide"),
    jvps=[lambda t, out, x, y: div_p.bind(t, y), _div_jvp_denominator],
    transpose=lambda ct, x, y: [unbroadcast(div_p.bind(ct, y), x), None],
    bilinear=(0,),
)
rem_p = elementwise(
    "rem",
    _quotient_lower("stablehlo.remainder"),
    accepts=REAL,
    jvps=[
        lambda t, out, x, y: t,
        lambda t, out, x, y: neg_p.bind(_mul(t, round_to_zero(_div(x, y)))),
    ],
)


def _complex_abstract(re: ShapedArray, im: ShapedArray) -> ShapedArray:
    dtype, weak = common_dtype("complex", (re, im))
    if dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"complex takes float32 or float64 parts, got {dtypes.short_name(dtype)}")
    return ShapedArray(common_shape("complex", (re, im)), complex_dtype(dtype), weak)


real_p = elementwise(
    "real",
    "stablehlo.real",
    accepts=COMPLEX,
    result=real_dtype,
    jvps=[lambda t, out, x: real_p.bind(t)],
    transpose=lambda ct, x: [complex_p.bind(ct, _zeros(ct))],
    linear=(0,),
)
imag_p = elementwise(
    "imag",
    "stablehlo.imag",
    accepts=COMPLEX,
    result=real_dtype,
    jvps=[lambda t, out, x: imag_p.bind(t)],
    # The pairing of weft's complex cotangents is bilinear, as JAX's: ct of z = x + iy is c - id.
    transpose=lambda ct, x: [complex_p.bind(_zeros(ct), neg_p.bind(ct))],
    linear=(0,),
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
    linear=(0, ...),
)
complex_p.abstract = _complex_abstract


def _zeros(x: ArrayLike) -> Any:
    return _like(scalar(0, x), x)


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
    if not (dtypes.is_bool(which.dtype) or dtypes.is_integer(which.dtype)):
        raise TypeError(f"select_n: which must be of bool or integers, got {which.str_short()}")
    if dtypes.is_bool(which.dtype) and len(cases) > 2:
        raise TypeError(f"select_n: a bool selects among 2 cases, got {len(cases)}")
    return ShapedArray(first.shape, first.dtype, all(c.weak_type for c in cases))


def _select_transpose(ct: Any, which: object, *cases: Any) -> list:
    zero = _zeros(ct)
    cts = [
        select_n_p.bind(which, *(ct if j == i else zero for j in range(len(cases))))
        if is_undefined(case)
        else None
        for i, case in enumerate(cases)
    ]
    return [None, *cts]


def _select_batch(axis: AxisData, args: list, dims: list) -> tuple:
    if dims[0] is None and typeof(args[0]).ndim == 0:
        return select_n_p.bind(args[0], *in_front(axis, args[1:], dims[1:])), 0
    which, *cases = in_front(axis, args, dims)
    # Of a scalar `which` the cases have more dimensions. Cases that are scalars take the shape of
    # `which`: JAX does so in `vmap` alone, and programs rely on it.
    shape = max(typeof(which).shape, typeof(cases[0]).shape, key=len)
    operands = (which, *cases)
    wide = [x if typeof(x).shape == shape else broadcast_in_dim(x, shape, (0,)) for x in operands]
    return select_n_p.bind(*wide), 0


def _select_lower(ctx: RuleContext, which: ir.Value, *cases: ir.Value) -> Any:
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
    jvp="linear",
    transpose=_select_transpose,
    batch=_select_batch,
    lower=_select_lower,
    sharding="elementwise",
    structural=True,
    linear=(1, ...),
    mixes=True,
)


def select_n(which: object, *cases: object) -> Any:
    """Element by element, the case whose number `which` holds (False is 0, True is 1).

    >>> import weft
    >>> weft.lax.select_n(weft.numpy.array([True, False]), weft.numpy.zeros(2), weft.numpy.ones(2))
    Array([1., 0.], dtype=float32)
    """
    if not cases:
        raise ValueError("select_n: needs at least one case")
    return select_n_p.bind(which, *cases)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Any:
    """on_true where pred holds, else on_false; equal shapes and dtypes.

    >>> import weft
    >>> weft.lax.select(weft.numpy.array([True, False]), weft.numpy.ones(2), weft.numpy.zeros(2))
    Array([1., 0.], dtype=float32)
    """
    return select_n_p.bind(pred, on_false, on_true)


# Comparison and logic --------------------------------------------------------------------------


def _comparison(name: str, direction: str, accepts: str, total: bool = False) -> Any:
    # XLA ends the process where it folds comparisons of kinds that it does not know.
    def lower(ctx: RuleContext, x: ir.Value, y: ir.Value) -> Any:
        dtype = ctx.avals_in[0].dtype
        x, y = ctx.spread((x, y))
        kind = "TOTALORDER" if total and dtypes.is_float(dtype) else None
        return ctx.compare(x, y, direction, dtype, kind)

    return elementwise(name, lower, accepts=accepts, result=dtypes.bool_)


eq_p = _comparison("eq", "EQ", ANY)
ne_p = _comparison("ne", "NE", ANY)
lt_p = _comparison("lt", "LT", ORDERED)
le_p = _comparison("le", "LE", ORDERED)
gt_p = _comparison("gt", "GT", ORDERED)
ge_p = _comparison("ge", "GE", ORDERED)
eq_to_p = _comparison("eq_to", "EQ", ORDERED, total=True)
lt_to_p = _comparison("lt_to", "LT", ORDERED, total=True)
le_to_p = _comparison("le_to", "LE", ORDERED, total=True)

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


def _share(operand: str) -> Any:
    """Return the derivative of max or min: 1 where the operand wins, 1/2 at ties."""

    def rule(t: object, out: ArrayLike, x: object, y: object) -> Any:
        a, b = (x, y) if operand == "x" else (y, x)
        one, half, zero = scalar(1, t), scalar(0.5, t), scalar(0, t)
        wins = select(eq_p.bind(a, out), _like(one, out), _like(zero, out))
        weight = select(eq_p.bind(a, b), _like(half, out), wins)
        return _mul(t, weight)

    return rule


def _lower_extremum(hlo: str) -> Any:
    def lower(ctx: Any, x: ir.Value, y: ir.Value) -> Any:
        dtype = ctx.avals_in[0].dtype
        out = ctx.combine(hlo, *ctx.spread((x, y)), dtype)
        if dtypes.is_float(dtype):
            ctx.mark(out.owner, "compare")  # quirks.LOST_NANS
        return out

    return lower


max_p, min_p = (
    elementwise(
        name, _lower_extremum(f"stablehlo.{name}imum"), accepts=ANY, jvps=[_share("x"), _share("y")]
    )
    for name in ("max", "min")
)


def _clamp_jvp(t: ArrayLike, out: object, lo: object, x: object, hi: object) -> Any:
    inside = and_p.bind(gt_p.bind(x, lo), lt_p.bind(x, hi))
    return select(inside, t, _zeros(t))


clamp_p = elementwise(
    "clamp",
    lambda ctx, lo, x, hi: ctx.op("stablehlo.clamp", [lo, x, hi], ctx.out_types())[0],
    accepts=ANY,
    jvps=[
        lambda t, out, lo, x, hi: select(
            _spread(lt_p.bind(x, lo), out), _spread(t, out), _zeros(out)
        ),
        _clamp_jvp,
        lambda t, out, lo, x, hi: select(
            _spread(gt_p.bind(x, hi), out), _spread(t, out), _zeros(out)
        ),
    ],
)


def _spread(t: Any, like: Any) -> Any:
    return t if typeof(t).ndim == typeof(like).ndim else _like(t, like)


floor_p = elementwise("floor", "stablehlo.floor", accepts=FLOAT)
ceil_p = elementwise("ceil", "stablehlo.ceil", accepts=FLOAT)
is_finite_p = elementwise("is_finite", "stablehlo.is_finite", accepts=FLOAT, result=dtypes.bool_)


def _sign_lower(ctx: RuleContext, x: ir.Value) -> Any:
    aval = ctx.avals_in[0]
    if dtypes.is_unsigned(aval.dtype):
        zero, one = ctx.splat(0, aval.shape, aval.dtype), ctx.splat(1, aval.shape, aval.dtype)
        nonzero = ctx.compare(x, zero, "NE", aval.dtype)
        return ctx.op("stablehlo.select", [nonzero, one, zero], ctx.out_types())[0]
    return ctx.op("stablehlo.sign", [x], ctx.out_types())[0]


def _sign_jvp(t: object, out: ArrayLike, x: object) -> Any:
    """Zero for reals; for complex x/|x|, the derivative of the direction."""
    if not dtypes.is_complex(typeof(x).dtype):
        return None
    magnitude = abs_p.bind(x)
    one = scalar(1, magnitude)
    safe = select(eq_p.bind(magnitude, scalar(0, magnitude)), _like(one, magnitude), magnitude)
    c = complex_p.bind(safe, _zeros(safe))
    along = real_p.bind(_mul(t, conjugated(out)))
    return _div(sub_p.bind(t, _mul(out, complex_p.bind(along, _zeros(along)))), c)


sign_p = elementwise("sign", _sign_lower, accepts=NUMBER, jvps=[_sign_jvp])


def _abs_lower(ctx: RuleContext, x: ir.Value) -> Any:
    if dtypes.is_unsigned(ctx.avals_in[0].dtype):
        return x
    out = ctx.op("stablehlo.abs", [x], ctx.out_types())[0]
    if dtypes.is_complex(ctx.avals_in[0].dtype):
        from weft.ops.complex_values import lower_abs

        return lower_abs(ctx, x, out)
    return out


def _abs_jvp(t: ArrayLike, out: object, x: object) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        return real_p.bind(_mul(t, conjugated(sign_p.bind(x))))
    return select(ge_p.bind(x, scalar(0, x)), t, neg_p.bind(t))  # 1 at 0


abs_p = elementwise("abs", _abs_lower, accepts=NUMBER, result=real_dtype, jvps=[_abs_jvp])


def _round_lower(ctx: RuleContext, x: object, *, rounding_method: int) -> Any:
    name = "stablehlo.round_nearest_even" if rounding_method else "stablehlo.round_nearest_afz"
    return ctx.op(name, [x], ctx.out_types())[0]


round_p = elementwise("round", _round_lower, accepts=FLOAT)

conj_p = elementwise(
    "conj",
    lambda ctx, x: _conj_lower(ctx, x),
    accepts=COMPLEX,
    jvps=[lambda t, out, x: conj_p.bind(t)],
    transpose=lambda ct, x: [conj_p.bind(ct)],
    linear=(0,),
)


def _conj_lower(ctx: RuleContext, x: ir.Value) -> Any:
    part = ctx.tensor(ctx.avals_in[0].shape, real_dtype(ctx.avals_in[0].dtype))
    re = ctx.op("stablehlo.real", [x], [part])[0]
    im = ctx.op("stablehlo.imag", [x], [part])[0]
    im = ctx.op("stablehlo.negate", [im], [part])[0]
    return ctx.op("stablehlo.complex", [re, im], ctx.out_types())[0]


def _reduce_precision_lower(
    ctx: RuleContext, x: object, *, exponent_bits: int, mantissa_bits: int
) -> Any:
    attrs = {"exponent_bits": ctx.i32(exponent_bits), "mantissa_bits": ctx.i32(mantissa_bits)}
    return ctx.op("stablehlo.reduce_precision", [x], ctx.out_types(), attrs)[0]


reduce_precision_p = elementwise(
    "reduce_precision",
    _reduce_precision_lower,
    accepts=FLOAT,
    jvps=[lambda t, out, x, **bits: reduce_precision_p.bind(t, **bits)],
    transpose=lambda ct, x, **bits: [reduce_precision_p.bind(ct, **bits)],
    linear=(0,),
)


def conj(x: ArrayLike) -> Any:
    """Return the complex conjugate; float32 and float64 numbers become complex.

    Raises TypeError for other dtypes. weft.numpy.conj gives real numbers as they are.

    >>> from weft import lax, numpy as wnp
    >>> lax.conj(wnp.array([1 + 2j, 3]))
    Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    aval = typeof(x)
    if dtypes.is_complex(aval.dtype):
        return conj_p.bind(x)
    if aval.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(
            f"conj takes complex, float32 or float64 numbers, got {aval.str_short()}; "
            "weft.numpy.conj takes all"
        )
    return convert(x, complex_dtype(aval.dtype), aval.weak_type)


def conjugated(x: ArrayLike) -> Any:
    """Return the complex conjugate; real numbers are given as they are."""
    return conj_p.bind(x) if dtypes.is_complex(typeof(x).dtype) else x


def round_to_zero(x: ArrayLike) -> Any:
    """Return x without its fraction."""
    return _mul(sign_p.bind(x), floor_p.bind(abs_p.bind(x)))
