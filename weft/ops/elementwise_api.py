"""The elementwise ops under one roof: public functions over the definitions of three files."""

from __future__ import annotations

import enum
import operator
from typing import TYPE_CHECKING, Any

from weft.autodiff.op_families import PYTHON_NUMBERS, scalar, scalar_for, static_ints
from weft.core import dtypes
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.arithmetic import (
    _like,
    _mul,
    _one_minus,
    _times,
    abs_p,
    add_p,
    and_p,
    ceil_p,
    clamp_p,
    clz_p,
    complex_p,
    conj,
    conj_p,
    conjugated,
    div_p,
    eq_p,
    eq_to_p,
    floor_p,
    ge_p,
    gt_p,
    imag_p,
    is_finite_p,
    le_p,
    le_to_p,
    lt_p,
    lt_to_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    neg_p,
    not_p,
    or_p,
    population_count_p,
    real_p,
    reduce_precision_p,
    rem_p,
    round_p,
    round_to_zero,
    select,
    select_n,
    select_n_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    sign_p,
    sub_p,
    xor_p,
)
from weft.ops.dtype_casts import (
    bit_width,
    bitcast_convert_type,
    bitcast_convert_type_p,
    complex_dtype,
    convert,
    convert_element_type,
    convert_element_type_p,
    real_dtype,
)
from weft.ops.precision import canonical_accuracy
from weft.ops.promote import promote_lax
from weft.ops.transcendental import (
    acos_p,
    acosh_p,
    asin_p,
    asinh_p,
    atan2_p,
    atan_p,
    atanh_p,
    cbrt_p,
    cos_p,
    cosh_p,
    digamma_p,
    erf_inv_p,
    erf_p,
    erfc_p,
    exp2_p,
    exp_p,
    expm1_p,
    integer_pow_p,
    lgamma_p,
    log1p_p,
    log_p,
    logistic_p,
    nextafter_p,
    no_derivative,
    polygamma_p,
    pow_p,
    rsqrt_p,
    sin_p,
    sinh_p,
    sqrt_p,
    tan_p,
    tanh_p,
)

if TYPE_CHECKING:
    from weft.typing import ArrayLike

# The public functions: operands are arrays of equal shape, or scalars --------------------------


def _public(prim: Primitive, doc: str) -> Any:
    name = prim.name

    def unary(x: object) -> Any:
        return prim.bind(x)

    unary.__name__ = unary.__qualname__ = name
    unary.__doc__ = doc
    return unary


def _accurate(prim: Primitive, doc: str) -> Any:
    name = prim.name

    def unary(x: object, accuracy: Any = None) -> Any:
        if accuracy is None:
            return prim.bind(x)
        accuracy = canonical_accuracy(name, accuracy)
        return prim.bind(x) if accuracy is None else prim.bind(x, accuracy=accuracy)

    unary.__name__ = unary.__qualname__ = name
    unary.__doc__ = f"{doc} accuracy: None, or a `lax.Tolerance` or `lax.AccuracyMode`."
    return unary


def _public2(prim: Primitive, doc: str) -> Any:
    name = prim.name

    def binary(x: ArrayLike, y: ArrayLike) -> Any:
        x, y = promote_lax(x, y)
        return prim.bind(x, y)

    binary.__name__ = binary.__qualname__ = name
    binary.__doc__ = doc
    return binary


neg = _public(neg_p, "-x, element by element.")
sign = _public(sign_p, "-1, 0 or 1 by the sign of x; x/|x| for complex x.")
floor = _public(floor_p, "Return the largest integer not above x, as a float.")
ceil = _public(ceil_p, "Return the smallest integer not below x, as a float.")
is_finite = _public(is_finite_p, "Whether x is neither infinite nor NaN.")
exp = _accurate(exp_p, "e to the power x.")
exp2 = _accurate(exp2_p, "2 to the power x.")
expm1 = _accurate(expm1_p, "e**x - 1, accurate near 0.")
log = _accurate(log_p, "Return the natural logarithm.")
log1p = _accurate(log1p_p, "log(1 + x), accurate near 0.")
tanh = _accurate(tanh_p, "Return the hyperbolic tangent.")
logistic = _accurate(logistic_p, "1 / (1 + exp(-x)).")
sin = _accurate(sin_p, "Return the sine of x in radians.")
cos = _accurate(cos_p, "Return the cosine of x in radians.")
tan = _accurate(tan_p, "Return the tangent of x in radians.")
asin = _public(asin_p, "Return the inverse sine, in radians.")
acos = _public(acos_p, "Return the inverse cosine, in radians.")
atan = _public(atan_p, "Return the inverse tangent, in radians.")
sinh = _public(sinh_p, "Return the hyperbolic sine.")
cosh = _public(cosh_p, "Return the hyperbolic cosine.")
asinh = _public(asinh_p, "Return the inverse hyperbolic sine.")
acosh = _public(acosh_p, "Return the inverse hyperbolic cosine.")
atanh = _public(atanh_p, "Return the inverse hyperbolic tangent.")
sqrt = _accurate(sqrt_p, "Return the square root.")
rsqrt = _accurate(rsqrt_p, "1 / sqrt(x).")
cbrt = _accurate(cbrt_p, "Return the cube root.")
erf = _public(erf_p, "Return the error function.")
erfc = _public(erfc_p, "1 - erf(x).")
erf_inv = _public(erf_inv_p, "Return the inverse of the error function.")
lgamma = _public(lgamma_p, "log |gamma(x)|.")
digamma = _public(digamma_p, "Return the derivative of log gamma.")
real = _public(real_p, "Return the real part of a complex array.")
imag = _public(imag_p, "Return the imaginary part of a complex array.")
bitwise_not = _public(not_p, "Bits inverted; for booleans, not.")
population_count = _public(population_count_p, "Return the number of 1 bits.")
clz = _public(clz_p, "Return the number of leading 0 bits.")

add = _public2(add_p, "x + y, element by element.")
sub = _public2(sub_p, "x - y, element by element.")
div = _public2(div_p, "x / y; integer division truncates toward zero.")
rem = _public2(rem_p, "Return the remainder of x / y, with the sign of x.")
max = _public2(max_p, "Return the greater of x and y; NaN if either is.")
min = _public2(min_p, "Return the lesser of x and y; NaN if either is.")
atan2 = _public2(atan2_p, "Return the angle of the point (y, x), in radians.")
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


def mul(x: Any, y: Any, *, out_dtype: object = None) -> Any:
    """x * y, element by element. out_dtype: the dtype to multiply in; None takes the operands'.

    >>> from weft import lax, numpy as wnp
    >>> lax.mul(wnp.array([2, 3]), wnp.array([4, 5]))
    Array([ 8, 15], dtype=int32)
    """
    if out_dtype is not None:
        x, y = (convert(v, dtypes.canonicalize_dtype(out_dtype)) for v in (x, y))
    x, y = promote_lax(x, y)
    return mul_p.bind(x, y)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return the next float after x1 toward x2.

    >>> from weft import lax, numpy as wnp
    >>> lax.nextafter(wnp.array([1.0, 1.0]), wnp.array([2.0, 0.0])) - 1
    Array([ 1.1920929e-07, -5.9604645e-08], dtype=float32)
    """
    return nextafter_p.bind(*promote_lax(x1, x2))


def polygamma(m: ArrayLike, x: ArrayLike) -> Any:
    """Return the m-th derivative of digamma at x.

    >>> from weft import lax, numpy as wnp
    >>> lax.polygamma(1.0, 1.0).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    return polygamma_p.bind(*promote_lax(m, x))


def abs(x: ArrayLike) -> Any:
    """|x|; for complex x the magnitude, a real array.

    >>> from weft import lax, numpy as wnp
    >>> lax.abs(wnp.array([-2.0, 3.0]))
    Array([2., 3.], dtype=float32)
    """
    return abs_p.bind(x)


def round(x: ArrayLike, rounding_method: int = 0) -> Any:
    """Return the nearest integer as a float; halves away from zero (0) or to even (1).

    >>> from weft import lax, numpy as wnp
    >>> (
    ...     lax.round(wnp.array([0.5, 2.5])),
    ...     lax.round(wnp.array([0.5, 2.5]), lax.RoundingMethod.TO_NEAREST_EVEN),
    ... )
    (Array([1., 3.], dtype=float32), Array([0., 2.], dtype=float32))
    """
    if rounding_method not in (0, 1):
        raise ValueError(
            f"round: rounding_method must be 0 (AWAY_FROM_ZERO) or 1 (TO_NEAREST_EVEN), got "
            f"{rounding_method!r}"
        )
    return round_p.bind(x, rounding_method=int(rounding_method))


class RoundingMethod(enum.IntEnum):
    """How `round` treats halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def square(x: ArrayLike) -> Any:
    """Return x * x.

    >>> from weft import lax, numpy as wnp
    >>> lax.square(wnp.array([-3, 2]))
    Array([9, 4], dtype=int32)
    """
    return integer_pow_p.bind(x, y=2)


def reciprocal(x: ArrayLike) -> Any:
    """1 / x.

    >>> from weft import lax, numpy as wnp
    >>> lax.reciprocal(wnp.array([2.0, 0.0]))
    Array([0.5, inf], dtype=float32)
    """
    return integer_pow(x, -1)


def integer_pow(x: ArrayLike, y: int) -> Any:
    """Return x to a fixed integer power, by repeated squaring.

    >>> import weft
    >>> weft.lax.integer_pow(weft.numpy.arange(3), 2)
    Array([0, 1, 4], dtype=int32)
    """
    [y] = static_ints("integer_pow", "y", (y,))
    if y < 0 and dtypes.is_integer(typeof(x).dtype):
        raise TypeError(
            f"integer_pow: an integer array {typeof(x).str_short()} has no negative power {y}; "
            "convert it to floats first"
        )
    return x if y == 1 else integer_pow_p.bind(x, y=y)


def pow(x: ArrayLike, y: ArrayLike) -> Any:
    """Return x to the power y; a Python int exponent is computed by multiplication.

    >>> from weft import lax, numpy as wnp
    >>> lax.pow(wnp.array([2.0, 4.0]), wnp.array([3.0, 0.5]))
    Array([8., 2.], dtype=float32)
    """
    if isinstance(y, int) and not isinstance(y, bool):
        return integer_pow(x, y)
    if not dtypes.is_integer(typeof(y).dtype):
        x, y = promote_lax(x, y)
    return pow_p.bind(x, y)


def clamp(min: object, x: ArrayLike, max: object) -> Any:
    """Return x limited to [min, max]; the bounds are scalars or of x's shape.

    >>> import weft
    >>> weft.lax.clamp(0, weft.numpy.array([-5, 1, 9]), 3)
    Array([0, 1, 3], dtype=int32)
    """
    aval = typeof(x)
    bounds = []
    for name, bound in (("min", min), ("max", max)):
        if bound.__class__ in PYTHON_NUMBERS:
            bound = scalar_for(f"clamp: {name}", bound, aval)
        elif typeof(bound).shape not in ((), aval.shape):
            raise TypeError(
                f"clamp: {name} must be a scalar or of the shape of x, {aval.str_short()}, got "
                f"{typeof(bound).str_short()}"
            )
        bounds.append(bound)
    return clamp_p.bind(bounds[0], x, bounds[1])


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Any:
    """Round to a float format of the given numbers of bits; the dtype stays.

    >>> from weft import lax, numpy as wnp
    >>> lax.reduce_precision(wnp.array([1.1, 1000.1]), exponent_bits=8, mantissa_bits=7)
    Array([   1.1015625, 1000.       ], dtype=float32)
    """
    exponent_bits, mantissa_bits = operator.index(exponent_bits), operator.index(mantissa_bits)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(
            "reduce_precision: exponent_bits must be positive and mantissa_bits not negative, got "
            f"{exponent_bits} and {mantissa_bits}"
        )
    return reduce_precision_p.bind(
        operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
    )
