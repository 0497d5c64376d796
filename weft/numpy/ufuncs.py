"""Elementwise functions: tables of those that are one op, then those that are formulas."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.numpy.common import (
    INEXACT,
    INTEGERS,
    aval_of,
    cast,
    check_array,
    convert,
    fill,
    inexact,
    refuse_out,
    strong,
    to_array,
    zeros_of,
)
from weft.numpy.ufunc_object import ufunc
from weft.ops import elementwise as ew
from weft.ops.composite import log2_p, log10_p, logaddexp2_p, logaddexp_p
from weft.ops.promote import broadcast_args, promote, promote_inexact, promote_numpy
from weft.ops.promote import broadcast_to as _broadcast_to

_bool = dtypes.bool_


# Operands -------------------------------------------------------------------------------------


def _two(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands in their common dtype, broadcast."""
    try:
        return promote_numpy(name, x, y)
    except TypeError:
        check_array(name, x, y)
        raise


def _two_inexact(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands in their common float or complex dtype, broadcast."""
    try:
        a, b = x.aval, y.aval
        if a.dtype is b.dtype and a.dtype in INEXACT and a.weak_type is b.weak_type:
            return (
                (x, y) if a.shape == b.shape or not a.shape or not b.shape else broadcast_args(x, y)
            )
    except AttributeError:
        check_array(name, x, y)
    return broadcast_args(*promote_inexact(x, y))


def _same_rank(x: Any, y: Any) -> tuple[Any, Any]:
    """Operands of formulas with selects, which take no scalars among arrays."""
    shape = typeof(x).shape or typeof(y).shape
    return _broadcast_to(x, shape), _broadcast_to(y, shape)


def _dtype(x: Any) -> Any:
    return typeof(x).dtype


def _is_complex(x: Any) -> builtins.bool:
    return typeof(x).dtype in dtypes._COMPLEX


def _const(x: Any, value: Any) -> Any:
    """A scalar of x's dtype."""
    return typeof(x).dtype.type(value)


def _filled(x: Any, value: Any) -> Any:
    """An array of x's shape and dtype filled with a number."""
    aval = typeof(x)
    return fill(aval.shape, value, aval.dtype)


# Unary, one op --------------------------------------------------------------------------------


def _float_unary(name: str, prim: Primitive, doc: str) -> Callable:
    """A function computed in floats: integers and booleans are converted."""

    def function(x: Any, /) -> Any:
        try:
            if x.aval.dtype in INEXACT:
                return prim.bind(x)
        except AttributeError:
            check_array(name, x)
        return prim.bind(promote_inexact(x)[0])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function


def _real_unary(name: str, prim: Primitive, doc: str) -> Callable:
    """As above, for functions that are not defined on complex numbers."""
    inner = _float_unary(name, prim, doc)

    def function(x: Any, /) -> Any:
        if aval_of(name, x).dtype in dtypes._COMPLEX:
            raise TypeError(
                f"weft.numpy.{name}: not defined for complex numbers, got {typeof(x).str_short()}"
            )
        return inner(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = inner.__doc__
    return function


exp = _float_unary("exp", ew.exp_p, "e to the power x.")
exp2 = _float_unary("exp2", ew.exp2_p, "2 to the power x.")
expm1 = _float_unary("expm1", ew.expm1_p, "exp(x) - 1, accurate near 0.")
log = _float_unary("log", ew.log_p, "The natural logarithm.")
log1p = _float_unary("log1p", ew.log1p_p, "log(1 + x), accurate near 0.")
sqrt = _float_unary("sqrt", ew.sqrt_p, "The square root.")
cbrt = _real_unary("cbrt", ew.cbrt_p, "The cube root.")
sin = _float_unary("sin", ew.sin_p, "The sine of x in radians.")
cos = _float_unary("cos", ew.cos_p, "The cosine of x in radians.")
tan = _float_unary("tan", ew.tan_p, "The tangent of x in radians.")
arcsin = _float_unary("arcsin", ew.asin_p, "The inverse sine, in radians.")
arccos = _float_unary("arccos", ew.acos_p, "The inverse cosine, in radians.")
arctan = _float_unary("arctan", ew.atan_p, "The inverse tangent, in radians.")
sinh = _float_unary("sinh", ew.sinh_p, "The hyperbolic sine.")
cosh = _float_unary("cosh", ew.cosh_p, "The hyperbolic cosine.")
tanh = _float_unary("tanh", ew.tanh_p, "The hyperbolic tangent.")
arcsinh = _float_unary("arcsinh", ew.asinh_p, "The inverse hyperbolic sine.")
arccosh = _float_unary("arccosh", ew.acosh_p, "The inverse hyperbolic cosine.")
arctanh = _float_unary("arctanh", ew.atanh_p, "The inverse hyperbolic tangent.")
asin, acos, atan, asinh, acosh, atanh = arcsin, arccos, arctan, arcsinh, arccosh, arctanh


def _log_base(name: str, prim: Primitive, base: int) -> Callable:
    def function(x: Any, /) -> Any:
        x = inexact(x)
        if _is_complex(x):
            return ew.div_p.bind(ew.log_p.bind(x), _const(x, math.log(base)))
        return prim.bind(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The logarithm to base {base}. Source: numpy.{name}."
    return function


log2, log10 = _log_base("log2", log2_p, 2), _log_base("log10", log10_p, 10)


def _rounding(name: str, op: Callable, doc: str) -> Callable:
    """Integers and booleans are whole already."""

    def function(x: Any, /) -> Any:
        dtype = aval_of(name, x).dtype
        if dtype in INEXACT:
            return op(x)
        return to_array(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function


floor = _rounding("floor", ew.floor_p.bind, "The largest integer not above x.")
ceil = _rounding("ceil", ew.ceil_p.bind, "The smallest integer not below x.")
trunc = _rounding(
    "trunc",
    lambda x: ew.select(ew.lt_p.bind(x, _const(x, 0)), ew.ceil_p.bind(x), ew.floor_p.bind(x)),
    "x without its fraction.",
)


def rint(x: Any, /) -> Any:
    """The nearest integer as a float, halves to even. Source: numpy.rint."""
    x = inexact(x)
    if _is_complex(x):
        return ew.complex_p.bind(rint(real(x)), rint(imag(x)))
    return ew.round_p.bind(x, rounding_method=1)


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Rounded to a number of decimals, halves to even; a negative number rounds tens, hundreds, …

    >>> import weft
    >>> weft.numpy.round(weft.numpy.array([1.25, 2.5]), 1)
    Array([1.2, 2.5], dtype=float32)
    """
    refuse_out("round", out)
    decimals = operator.index(decimals)
    dtype = aval_of("round", a).dtype
    if dtype not in INEXACT:
        if decimals >= 0:
            return to_array(a)
        unit = _const(a, 10**-decimals)
        half = _const(a, 10**-decimals // 2)
        down = multiply(floor_divide(a, unit), unit)
        rest = subtract(a, down)
        odd = not_equal(remainder(floor_divide(a, unit), 2), 0)
        up = logical_or(greater(rest, half), logical_and(equal(rest, half), odd))
        return add(down, multiply(convert(up, dtype), unit))
    if dtype in dtypes._COMPLEX:
        return ew.complex_p.bind(round(real(a), decimals), round(imag(a), decimals))
    if decimals == 0:
        return ew.round_p.bind(a, rounding_method=1)
    # Narrow floats overflow or lose digits when scaled.
    wide = cast(a, dtypes.float32) if dtype.itemsize < 4 else a
    scale = _const(wide, 10.0**decimals)
    rounded = ew.div_p.bind(ew.round_p.bind(ew.mul_p.bind(wide, scale), rounding_method=1), scale)
    return cast(rounded, dtype) if wide is not a else rounded


around = round


def _any_unary(name: str, prim: Primitive, doc: str) -> Callable:
    def function(x: Any, /) -> Any:
        try:
            return prim.bind(x)
        except TypeError:
            check_array(name, x)
            raise

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function


sign = _any_unary("sign", ew.sign_p, "-1, 0 or 1 by the sign; x/|x| for complex x.")
bitwise_not = _any_unary("bitwise_not", ew.not_p, "Bits inverted; for booleans, not.")
invert = bitwise_invert = bitwise_not
negative = ufunc(_any_unary("negative", ew.neg_p, "-x."), 1, 1)


def absolute(x: Any, /) -> Any:
    """The absolute value; the magnitude of complex numbers. Source: numpy.absolute."""
    dtype = aval_of("absolute", x).dtype
    return to_array(x) if dtype == _bool or dtype in dtypes._UNSIGNED else ew.abs_p.bind(x)


abs = absolute


def fabs(x: Any, /) -> Any:
    """The absolute value as a float. Source: numpy.fabs."""
    x = inexact(x)
    if _is_complex(x):
        raise TypeError("weft.numpy.fabs: not defined for complex numbers; use absolute")
    return ew.abs_p.bind(x)


def positive(x: Any, /) -> Any:
    """+x, a copy. Source: numpy.positive."""
    check_array("positive", x)
    return to_array(x)


def square(x: Any, /) -> Any:
    """x * x. Source: numpy.square."""
    if aval_of("square", x).dtype == _bool:
        x = convert(x, dtypes.canonicalize_dtype(np.int32))
    return ew.integer_pow_p.bind(x, y=2)


def reciprocal(x: Any, /) -> Any:
    """1 / x, as a float. Source: numpy.reciprocal."""
    return ew.integer_pow_p.bind(inexact(x), y=-1)


def real(val: Any, /) -> Any:
    """The real part. Source: numpy.real."""
    return ew.real_p.bind(val) if aval_of("real", val).dtype in dtypes._COMPLEX else to_array(val)


def imag(val: Any, /) -> Any:
    """The imaginary part, zero for real numbers. Source: numpy.imag."""
    aval = aval_of("imag", val)
    return ew.imag_p.bind(val) if aval.dtype in dtypes._COMPLEX else zeros_of(aval)


def conjugate(x: Any, /) -> Any:
    """The complex conjugate. Source: numpy.conjugate."""
    return ew.conj_p.bind(x) if aval_of("conj", x).dtype in dtypes._COMPLEX else to_array(x)


conj = conjugate


def angle(z: Any, deg: builtins.bool = False) -> Any:
    """The argument of a complex number, in radians or degrees. Source: numpy.angle."""
    z = inexact(z)
    if _is_complex(z):
        re, im = ew.real_p.bind(z), ew.imag_p.bind(z)
    else:
        re, im = z, zeros_of(typeof(z))
    out = ew.atan2_p.bind(im, re)
    return degrees(out) if deg else out


def degrees(x: Any, /) -> Any:
    """Radians as degrees. Source: numpy.degrees."""
    x = inexact(x)
    return ew.mul_p.bind(x, _const(x, 180 / math.pi))


def radians(x: Any, /) -> Any:
    """Degrees as radians. Source: numpy.radians."""
    x = inexact(x)
    return ew.mul_p.bind(x, _const(x, math.pi / 180))


rad2deg, deg2rad = degrees, radians


def bitwise_count(x: Any, /) -> Any:
    """The number of 1 bits in the absolute value, uint8. Source: numpy.bitwise_count."""
    if aval_of("bitwise_count", x).dtype == _bool:
        return convert(x, dtypes.uint8)
    return cast(ew.population_count_p.bind(absolute(x)), dtypes.uint8)


# Binary, one op -------------------------------------------------------------------------------


def _binary(name: str, prim: Primitive, doc: str) -> Callable:
    bind = prim.bind

    def function(x1: Any, x2: Any, /) -> Any:
        return bind(*_two(name, x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function


def _float_binary(name: str, prim: Primitive, doc: str) -> Callable:
    def function(x1: Any, x2: Any, /) -> Any:
        return prim.bind(*_two_inexact(name, x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function


def _lazy(name: str) -> Callable:
    """A function of another module by name, loaded when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        import weft.numpy

        return getattr(weft.numpy, name)(*args, **kwargs)

    return call


add = ufunc(
    _binary("add", ew.add_p, "x1 + x2."),
    2,
    1,
    identity=0,
    reduce=_lazy("sum"),
    accumulate=_lazy("cumsum"),
)
subtract = ufunc(_binary("subtract", ew.sub_p, "x1 - x2."), 2, 1)
multiply = ufunc(
    _binary("multiply", ew.mul_p, "x1 * x2."),
    2,
    1,
    identity=1,
    reduce=_lazy("prod"),
    accumulate=_lazy("cumprod"),
)
true_divide = _float_binary("true_divide", ew.div_p, "x1 / x2, a float.")
divide = true_divide
arctan2 = _float_binary("arctan2", ew.atan2_p, "The angle of the point (x2, x1), in radians.")
atan2 = arctan2
nextafter = _float_binary("nextafter", ew.nextafter_p, "The next float after x1 toward x2.")


def _ordered_complex(name: str, strict: Primitive, loose: Primitive) -> Callable:
    """Comparison of complex numbers by the real part, then the imaginary part."""

    def compare(x: Any, y: Any) -> Any:
        x, y = _same_rank(x, y)
        rx, ry = ew.real_p.bind(x), ew.real_p.bind(y)
        by_imag = loose.bind(ew.imag_p.bind(x), ew.imag_p.bind(y))
        return ew.select(ew.eq_p.bind(rx, ry), by_imag, strict.bind(rx, ry))

    return compare


def _comparison(name: str, prim: Primitive, strict: Primitive | None, doc: str) -> Callable:
    bind = prim.bind
    by_parts = None if strict is None else _ordered_complex(name, strict, prim)

    def function(x: Any, y: Any, /) -> Any:
        x, y = _two(name, x, y)
        if by_parts is not None and typeof(x).dtype in dtypes._COMPLEX:
            return by_parts(x, y)
        return bind(x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function


equal = _comparison("equal", ew.eq_p, None, "x == y.")
not_equal = _comparison("not_equal", ew.ne_p, None, "x != y.")
less = _comparison("less", ew.lt_p, ew.lt_p, "x < y.")
less_equal = _comparison("less_equal", ew.le_p, ew.lt_p, "x <= y.")
greater = _comparison("greater", ew.gt_p, ew.gt_p, "x > y.")
greater_equal = _comparison("greater_equal", ew.ge_p, ew.gt_p, "x >= y.")


def _extremum(name: str, prim: Primitive, wins: Callable, doc: str) -> Callable:
    bind = prim.bind

    def function(x: Any, y: Any, /) -> Any:
        x, y = _two(name, x, y)
        if typeof(x).dtype in dtypes._COMPLEX:
            x, y = _same_rank(x, y)
            return ew.select(logical_or(wins(x, y), isnan(x)), x, y)
        return bind(x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function


maximum = ufunc(
    _extremum("maximum", ew.max_p, greater_equal, "The greater of x and y; NaN if either is."),
    2,
    1,
    reduce=_lazy("max"),
)
minimum = ufunc(
    _extremum("minimum", ew.min_p, less_equal, "The lesser of x and y; NaN if either is."),
    2,
    1,
    reduce=_lazy("min"),
)


def fmax(x1: Any, x2: Any) -> Any:
    """The greater of x1 and x2; where one is NaN, the other. Source: numpy.fmax."""
    x1, x2 = _same_rank(*_two("fmax", x1, x2))
    keep = logical_or(greater(x1, x2), isnan(x2))
    return ew.select(keep, x1, x2)


def fmin(x1: Any, x2: Any) -> Any:
    """The lesser of x1 and x2; where one is NaN, the other. Source: numpy.fmin."""
    x1, x2 = _same_rank(*_two("fmin", x1, x2))
    keep = logical_or(less(x1, x2), isnan(x2))
    return ew.select(keep, x1, x2)


bitwise_and = ufunc(
    _binary("bitwise_and", ew.and_p, "Bits of x1 and x2; for booleans, and."), 2, 1, identity=-1
)
bitwise_or = ufunc(
    _binary("bitwise_or", ew.or_p, "Bits of x1 or x2; for booleans, or."), 2, 1, identity=0
)
bitwise_xor = ufunc(
    _binary("bitwise_xor", ew.xor_p, "Bits in which x1 and x2 differ."), 2, 1, identity=0
)
left_shift = _binary("left_shift", ew.shift_left_p, "x1 shifted left by x2 bits.")
bitwise_left_shift = left_shift


def right_shift(x1: Any, x2: Any, /) -> Any:
    """x1 shifted right by x2 bits; the sign of signed integers stays. Source: numpy.right_shift."""
    x1, x2 = _two("right_shift", x1, x2)
    unsigned = typeof(x1).dtype in dtypes._UNSIGNED
    prim = ew.shift_right_logical_p if unsigned else ew.shift_right_arithmetic_p
    return prim.bind(x1, x2)


bitwise_right_shift = right_shift


def _as_bool(name: str, x: Any) -> Any:
    aval = aval_of(name, x)
    return x if aval.dtype is _bool or aval.dtype == _bool else ew.ne_p.bind(x, aval.dtype.type(0))


def _logical(name: str, prim: Primitive, doc: str) -> Callable:
    def function(x: Any, y: Any, /) -> Any:
        return prim.bind(*broadcast_args(_as_bool(name, x), _as_bool(name, y)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function


logical_and = ufunc(
    _logical("logical_and", ew.and_p, "Whether both are nonzero."),
    2,
    1,
    identity=True,
    reduce=_lazy("all"),
)
logical_or = ufunc(
    _logical("logical_or", ew.or_p, "Whether either is nonzero."),
    2,
    1,
    identity=False,
    reduce=_lazy("any"),
)
logical_xor = ufunc(
    _logical("logical_xor", ew.xor_p, "Whether exactly one is nonzero."), 2, 1, identity=False
)
for _ufunc in (bitwise_and, bitwise_or, bitwise_xor, logical_and, logical_or, logical_xor):
    _ufunc.associative = True
maximum.associative = minimum.associative = True


def logical_not(x: Any, /) -> Any:
    """Whether x is zero. Source: numpy.logical_not."""
    aval = aval_of("logical_not", x)
    if aval.dtype == _bool:
        return ew.not_p.bind(x)
    return ew.eq_p.bind(x, aval.dtype.type(0))


def _log_sum(name: str, prim: Primitive, exp_: Callable, log_: Callable, doc: str) -> ufunc:
    def function(x1: Any, x2: Any, /) -> Any:
        x1, x2 = _two_inexact(name, x1, x2)
        if typeof(x1).dtype in dtypes._COMPLEX:
            x1, x2 = _same_rank(x1, x2)
            first = greater_equal(real(x1), real(x2))
            big, small = ew.select(first, x1, x2), ew.select(first, x2, x1)
            return add(big, log_(add(1, exp_(subtract(small, big)))))
        return prim.bind(x1, x2)

    function.__doc__ = f"{doc} Source: numpy.{name}."
    made = ufunc(function, 2, 1, name=name, identity=-np.inf)
    made.associative = True
    return made


logaddexp = _log_sum(
    "logaddexp", logaddexp_p, exp, log, "log(exp(x1) + exp(x2)), without overflow."
)
logaddexp2 = _log_sum(
    "logaddexp2", logaddexp2_p, exp2, log2, "log2(2**x1 + 2**x2), without overflow."
)


# Tests ----------------------------------------------------------------------------------------


def isnan(x: Any, /) -> Any:
    """Whether x is NaN. Source: numpy.isnan."""
    aval = aval_of("isnan", x)
    if aval.dtype not in INEXACT:
        return fill(aval.shape, False, _bool)
    return ew.ne_p.bind(x, x)


def isfinite(x: Any, /) -> Any:
    """Whether x is neither infinite nor NaN. Source: numpy.isfinite."""
    aval = aval_of("isfinite", x)
    if aval.dtype in dtypes._COMPLEX:
        return ew.and_p.bind(isfinite(real(x)), isfinite(imag(x)))
    if aval.dtype not in INEXACT:
        return fill(aval.shape, True, _bool)
    return ew.is_finite_p.bind(x)


def isinf(x: Any, /) -> Any:
    """Whether x is infinite. Source: numpy.isinf."""
    aval = aval_of("isinf", x)
    if aval.dtype in dtypes._COMPLEX:
        return ew.or_p.bind(isinf(real(x)), isinf(imag(x)))
    if aval.dtype not in INEXACT:
        return fill(aval.shape, False, _bool)
    return ew.eq_p.bind(ew.abs_p.bind(x), aval.dtype.type(np.inf))


def _is_signed_inf(name: str, x: Any, out: Any, value: float) -> Any:
    refuse_out(name, out)
    aval = aval_of(name, x)
    if aval.dtype in dtypes._COMPLEX:
        raise TypeError(f"weft.numpy.{name}: not defined for complex numbers")
    if aval.dtype not in INEXACT:
        return fill(aval.shape, False, _bool)
    return ew.eq_p.bind(x, aval.dtype.type(value))


def isposinf(x: Any, /, out: Any = None) -> Any:
    """Whether x is positive infinity. Source: numpy.isposinf."""
    return _is_signed_inf("isposinf", x, out, np.inf)


def isneginf(x: Any, /, out: Any = None) -> Any:
    """Whether x is negative infinity. Source: numpy.isneginf."""
    return _is_signed_inf("isneginf", x, out, -np.inf)


def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is nonzero. Source: numpy.iscomplex."""
    return not_equal(imag(x), 0)


def isreal(x: Any) -> Any:
    """Whether the imaginary part is zero. Source: numpy.isreal."""
    return equal(imag(x), 0)


def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set: true for -0.0. Source: numpy.signbit."""
    aval = aval_of("signbit", x)
    if aval.dtype in dtypes._FLOATS:
        bits = np.dtype(f"int{ew._bits(aval.dtype)}")
        x = ew.bitcast_convert_type_p.bind(x, new_dtype=bits)
    elif aval.dtype == _bool or aval.dtype in dtypes._UNSIGNED:
        return fill(aval.shape, False, _bool)
    elif aval.dtype in dtypes._COMPLEX:
        raise TypeError("weft.numpy.signbit: not defined for complex numbers")
    return ew.lt_p.bind(x, _const(x, 0))


# Division -------------------------------------------------------------------------------------


def _integer_operands(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Promoted operands; booleans divide as integers."""
    x1, x2 = _two(name, x1, x2)
    if typeof(x1).dtype == _bool:
        x1, x2 = (convert(to_array(v), dtypes.int32) for v in (x1, x2))
    if typeof(x1).dtype in dtypes._COMPLEX:
        raise TypeError(f"weft.numpy.{name}: not defined for complex numbers")
    return x1, x2


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """The largest integer not above x1 / x2. Source: numpy.floor_divide.

    >>> import weft
    >>> weft.numpy.floor_divide(weft.numpy.array([-3, 3]), 2)
    Array([-2,  1], dtype=int32)
    """
    x1, x2 = _integer_operands("floor_divide", x1, x2)
    dtype = typeof(x1).dtype
    if dtype in dtypes._UNSIGNED:
        return ew.div_p.bind(x1, x2)
    if dtype in dtypes._SIGNED:
        quotient = ew.div_p.bind(x1, x2)
        rest = ew.rem_p.bind(x1, x2)
        below = ew.and_p.bind(
            ew.ne_p.bind(rest, dtype.type(0)),
            ew.ne_p.bind(ew.sign_p.bind(rest), ew.sign_p.bind(x2)),
        )
        return ew.select(below, ew.sub(quotient, 1), quotient)
    return _float_divmod(x1, x2)[0]


def _float_divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    mod = ew.rem_p.bind(x1, x2)
    quotient = ew.div_p.bind(ew.sub_p.bind(x1, mod), x2)
    zero = _const(x1, 0)
    adjust = ew.and_p.bind(
        ew.ne_p.bind(mod, zero), ew.ne_p.bind(ew.sign_p.bind(x2), ew.sign_p.bind(mod))
    )
    mod = ew.select(adjust, ew.add_p.bind(mod, x2), mod)
    quotient = ew.select(adjust, ew.sub_p.bind(quotient, _const(x1, 1)), quotient)
    return ew.round_p.bind(quotient, rounding_method=0), mod


def remainder(x1: Any, x2: Any, /) -> Any:
    """The remainder of floor division, with the sign of x2. Source: numpy.remainder."""
    x1, x2 = _integer_operands("remainder", x1, x2)
    dtype = typeof(x1).dtype
    rest = ew.rem_p.bind(x1, x2)
    if dtype in dtypes._UNSIGNED:
        return rest
    zero = dtype.type(0)
    wrong = ew.and_p.bind(
        ew.ne_p.bind(rest, zero), ew.ne_p.bind(ew.lt_p.bind(rest, zero), ew.lt_p.bind(x2, zero))
    )
    return ew.select(wrong, ew.add_p.bind(rest, x2), rest)


mod = remainder


def fmod(x1: Any, x2: Any, /) -> Any:
    """The remainder of truncating division, with the sign of x1. Source: numpy.fmod."""
    return ew.rem_p.bind(*_integer_operands("fmod", x1, x2))


def divmod(x1: Any, x2: Any, /) -> Any:
    """Floor division and its remainder. Source: numpy.divmod."""
    x1, x2 = _integer_operands("divmod", x1, x2)
    if typeof(x1).dtype in INTEGERS:
        quotient = floor_divide(x1, x2)
        return quotient, ew.sub_p.bind(x1, ew.mul_p.bind(quotient, x2))
    return _float_divmod(x1, x2)


def modf(x: Any, /, out: Any = None) -> Any:
    """The fractional and the whole part, both with the sign of x. Source: numpy.modf."""
    refuse_out("modf", out)
    x = inexact(x)
    whole = ew.select(ew.ge_p.bind(x, _const(x, 0)), ew.floor_p.bind(x), ew.ceil_p.bind(x))
    return subtract(x, whole), whole


# Powers ---------------------------------------------------------------------------------------


def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2; a Python int exponent is computed by multiplication.

    Raises TypeError for an integer to a negative Python int. Source: numpy.power.

    >>> import weft
    >>> weft.numpy.power(weft.numpy.array([1, 2, 3]), 2)
    Array([1, 4, 9], dtype=int32)
    """
    if isinstance(x2, int) and not isinstance(x2, builtins.bool):
        dtype = aval_of("power", x1).dtype
        if dtype == _bool:
            x1, dtype = convert(x1, dtypes.int32), dtypes.int32
        if x2 < 0 and dtype in INTEGERS:
            raise TypeError(
                f"weft.numpy.power: integers have no negative powers, got {typeof(x1).str_short()} "
                f"to the power {x2}; convert the base to float"
            )
        if x2 >= 0 or dtype in INEXACT:
            return ew.integer_pow_p.bind(x1, y=int(x2)) if x2 != 1 else to_array(x1)
    a, b = aval_of("power", x1), aval_of("power", x2)
    if a.dtype in dtypes._FLOATS and b.dtype in INTEGERS and not b.weak_type:
        # XLA multiplies for integer exponents, so that 0 and negative bases have derivatives.
        x1 = convert(x1, a.dtype)
        return ew.pow_p.bind(*broadcast_args(x1, x2))
    x1, x2 = broadcast_args(*promote(x1, x2))
    dtype = typeof(x1).dtype
    if dtype == _bool:
        x1, x2 = (convert(to_array(v), dtypes.int32) for v in (x1, x2))
        dtype = dtypes.int32
    if dtype in INTEGERS:
        return _integer_power(x1, x2, dtype)
    return ew.pow_p.bind(x1, x2)


pow = power


def _integer_power(x: Any, n: Any, dtype: Any) -> Any:
    """Square and multiply over the exponent's bits; negative exponents give 0, or ±1 for ±1."""
    x, n = _same_rank(to_array(x), to_array(n))
    one, zero = _filled(x, 1), dtype.type(0)
    bits = dtype.itemsize * 8
    acc, base, left = one, x, n
    for i in range(bits - (dtype in dtypes._SIGNED)):
        odd = ew.ne_p.bind(ew.and_p.bind(left, dtype.type(1)), zero)
        acc = ew.select(odd, ew.mul_p.bind(acc, base), acc)
        if i + 1 < bits:
            base = ew.mul_p.bind(base, base)
            left = ew.shift_right_logical_p.bind(left, dtype.type(1))
    if dtype in dtypes._SIGNED:
        parity = ew.ne_p.bind(ew.and_p.bind(n, dtype.type(1)), zero)
        minus = ew.select(parity, _filled(x, -1), one)
        inverse = ew.select(
            ew.eq_p.bind(x, dtype.type(1)),
            one,
            ew.select(ew.eq_p.bind(x, dtype.type(-1)), minus, _filled(x, 0)),
        )
        acc = ew.select(ew.lt_p.bind(n, zero), inverse, acc)
    return acc


def float_power(x: Any, y: Any, /) -> Any:
    """x to the power y, computed in floats. Source: numpy.float_power."""
    return ew.pow_p.bind(*_two_inexact("float_power", x, y))


# Formulas -------------------------------------------------------------------------------------


def hypot(x1: Any, x2: Any, /) -> Any:
    """sqrt(x1**2 + x2**2), without overflow. Source: numpy.hypot."""
    x1, x2 = _two_inexact("hypot", x1, x2)
    if _is_complex(x1):
        raise TypeError("weft.numpy.hypot: not defined for complex numbers")
    x1, x2 = ew.abs_p.bind(x1), ew.abs_p.bind(x2)
    big, small = ew.max_p.bind(x1, x2), ew.min_p.bind(x1, x2)
    degenerate = logical_or(ew.eq_p.bind(big, _const(big, 0)), isinf(big))
    safe = ew.select(degenerate, _filled(big, 1), big)
    ratio = ew.div_p.bind(small, safe)
    root = ew.sqrt_p.bind(ew.add_p.bind(_const(big, 1), ew.mul_p.bind(ratio, ratio)))
    return ew.select(degenerate, big, ew.mul_p.bind(big, root))


def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 for negative x1, x2 at 0, 1 for positive x1. Source: numpy.heaviside."""
    x1, x2 = _same_rank(*_two_inexact("heaviside", x1, x2))
    zero = _const(x1, 0)
    step = ew.select(
        ew.lt_p.bind(x1, zero),
        _filled(x1, 0),
        ew.select(ew.gt_p.bind(x1, zero), _filled(x1, 1), x2),
    )
    return ew.select(isnan(x1), x1, step)


def copysign(x1: Any, x2: Any, /) -> Any:
    """|x1| with the sign of x2. Source: numpy.copysign."""
    x1, x2 = _same_rank(*_two_inexact("copysign", x1, x2))
    size = ew.abs_p.bind(x1)
    return ew.select(signbit(x2), ew.neg_p.bind(size), size)


def sinc(x: Any, /) -> Any:
    """sin(pi x) / (pi x), 1 at 0, with all derivatives there. Source: numpy.sinc."""
    x = inexact(x)
    z = ew.mul_p.bind(x, _const(x, math.pi))
    near = less(absolute(z), 0.2)
    safe = ew.select(near, _filled(z, 1), z)
    square_z = ew.mul_p.bind(z, z)
    series = _filled(z, 0)
    for c in (-1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0):
        series = ew.add_p.bind(ew.mul_p.bind(series, square_z), _const(z, c))
    return ew.select(near, series, ew.div_p.bind(ew.sin_p.bind(safe), safe))


def i0(x: Any) -> Any:
    """The modified Bessel function of order 0. Source: numpy.i0."""
    from weft.lax import bessel_i0e

    x = inexact(x)
    if _is_complex(x):
        raise TypeError("weft.numpy.i0: not defined for complex numbers")
    return ew.mul_p.bind(ew.exp_p.bind(ew.abs_p.bind(x)), bessel_i0e(x))


def clip(
    arr: Any = None,
    /,
    min: Any = None,
    max: Any = None,
    *,
    a: Any = None,
    a_min: Any = None,
    a_max: Any = None,
) -> Any:
    """x limited to [min, max]; a bound that is None does not limit.

    >>> import weft
    >>> weft.numpy.clip(weft.numpy.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    arr = a if arr is None else arr
    min, max = a_min if min is None else min, a_max if max is None else max
    aval = aval_of("clip", arr)
    if aval.dtype in dtypes._COMPLEX:
        raise ValueError("weft.numpy.clip: complex numbers have no order")
    if min is not None:
        if aval_of("clip", min).dtype in dtypes._COMPLEX:
            raise ValueError("weft.numpy.clip: complex numbers have no order")
        arr = maximum(min, arr)
    if max is not None:
        if aval_of("clip", max).dtype in dtypes._COMPLEX:
            raise ValueError("weft.numpy.clip: complex numbers have no order")
        arr = minimum(max, arr)
    return to_array(arr)


def nan_to_num(
    x: Any,
    copy: builtins.bool = True,
    nan: Any = 0.0,
    posinf: Any = None,
    neginf: Any = None,
) -> Any:
    """NaN replaced by `nan`, infinities by given numbers or the largest finite ones."""
    aval = aval_of("nan_to_num", x)
    if aval.dtype not in INEXACT:
        return to_array(x)
    if aval.dtype in dtypes._COMPLEX:
        parts = (nan_to_num(p, copy, nan, posinf, neginf) for p in (real(x), imag(x)))
        return ew.complex_p.bind(*parts)
    info = dtypes.finfo(aval.dtype)
    x = strong(to_array(x))
    from weft.numpy.selection import where

    x = where(isnan(x), cast(nan, aval.dtype), x)
    x = where(isposinf(x), cast(info.max if posinf is None else posinf, aval.dtype), x)
    return where(isneginf(x), cast(info.min if neginf is None else neginf, aval.dtype), x)


def _parts(x: Any) -> tuple[Any, Any, Any]:
    """A float32 or float64 array, its bits as integers, and (mantissa bits, exponent bias)."""
    dtype = typeof(x).dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        x = cast(x, dtypes.float32)
    wide = typeof(x).dtype == dtypes.float64
    integers = dtypes.int64 if wide else dtypes.int32
    bits = ew.bitcast_convert_type_p.bind(x, new_dtype=integers)
    return x, bits, ((52, 1023) if wide else (23, 127))


def frexp(x: Any, /) -> Any:
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1. Source: numpy.frexp."""
    x = inexact(x)
    dtype = typeof(x).dtype
    if dtype in dtypes._COMPLEX:
        raise TypeError("weft.numpy.frexp: not defined for complex numbers")
    wide, _, (mantissa, bias) = _parts(strong(x))
    integers = dtypes.int64 if mantissa == 52 else dtypes.int32
    tiny = ew.lt_p.bind(ew.abs_p.bind(wide), _const(wide, dtypes.finfo(_dtype(wide)).tiny))
    lifted = ew.select(tiny, ew.mul_p.bind(wide, _const(wide, 2.0 ** (mantissa + 1))), wide)
    bits = ew.bitcast_convert_type_p.bind(lifted, new_dtype=integers)
    mask = (2 * bias + 1) << mantissa
    raw = ew.shift_right_logical_p.bind(
        ew.and_p.bind(bits, integers.type(mask)), integers.type(mantissa)
    )
    exponent = ew.sub_p.bind(raw, integers.type(bias - 1))
    exponent = ew.select(tiny, ew.sub_p.bind(exponent, integers.type(mantissa + 1)), exponent)
    kept = ew.and_p.bind(bits, integers.type(~mask))
    half = ew.or_p.bind(kept, integers.type((bias - 1) << mantissa))
    m = ew.bitcast_convert_type_p.bind(half, new_dtype=_dtype(wide))
    plain = ew.or_p.bind(ew.eq_p.bind(wide, _const(wide, 0)), ew.not_p.bind(isfinite(wide)))
    m = ew.select(plain, wide, m)
    exponent = ew.select(plain, fill(typeof(m).shape, 0, integers), exponent)
    return cast(m, dtype), cast(exponent, dtypes.int32)


def ldexp(x1: Any, x2: Any, /) -> Any:
    """x1 * 2**x2, exact unless it leaves the range. Source: numpy.ldexp."""
    if aval_of("ldexp", x2).dtype not in INTEGERS:
        raise TypeError(f"weft.numpy.ldexp: x2 must be integers, got {typeof(x2).str_short()}")
    x1 = inexact(x1)
    if _is_complex(x1):
        raise TypeError("weft.numpy.ldexp: not defined for complex numbers")
    dtype, weak = typeof(x1).dtype, typeof(x1).weak_type
    wide = dtypes.float64 if dtype == dtypes.float64 else dtypes.float32
    mantissa, bias = (52, 1023) if wide == dtypes.float64 else (23, 127)
    integers = dtypes.int64 if mantissa == 52 else dtypes.int32
    x, n = _same_rank(*broadcast_args(to_array(x1), to_array(x2)))
    x, n = cast(x, wide), cast(n, integers)
    for _ in range(3):  # each factor is a power of two in range
        part = ew.clamp_p.bind(integers.type(1 - bias), n, integers.type(bias))
        bits = ew.shift_left_p.bind(
            ew.add_p.bind(part, integers.type(bias)), integers.type(mantissa)
        )
        x = ew.mul_p.bind(x, ew.bitcast_convert_type_p.bind(bits, new_dtype=wide))
        n = ew.sub_p.bind(n, part)
    return convert(x, dtype, weak)


def spacing(x: Any, /) -> Any:
    """The distance to the next float away from zero, with the sign of x. Source: numpy.spacing."""
    x = inexact(x)
    if _is_complex(x):
        raise TypeError("weft.numpy.spacing: not defined for complex numbers")
    away = copysign(_filled(x, np.inf), x)
    return ew.sub_p.bind(ew.nextafter_p.bind(x, away), x)


def _common_integers(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    x1, x2 = _same_rank(*_two(name, x1, x2))
    if typeof(x1).dtype not in INTEGERS:
        raise ValueError(f"weft.numpy.{name}: takes integers, got {typeof(x1).str_short()}")
    return absolute(to_array(x1)), absolute(to_array(x2))


def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisor. Source: numpy.gcd."""
    from weft.lax import while_loop
    from weft.numpy.reductions import any as any_

    x, y = _common_integers("gcd", x1, x2)

    def step(pair: tuple) -> tuple:
        a, b = pair
        zero = ew.eq_p.bind(b, _const(b, 0))
        rest = ew.rem_p.bind(a, ew.select(zero, _filled(b, 1), b))
        return ew.select(zero, a, b), ew.select(zero, b, rest)

    return while_loop(lambda pair: any_(ew.ne_p.bind(pair[1], _const(y, 0))), step, (x, y))[0]


def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiple. Source: numpy.lcm."""
    x, y = _common_integers("lcm", x1, x2)
    d = gcd(x, y)
    none = ew.eq_p.bind(d, _const(d, 0))
    return ew.mul_p.bind(x, ew.div_p.bind(y, ew.select(none, _filled(d, 1), d)))
