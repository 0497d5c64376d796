"""Elementwise functions: tables of those that are one op, then those that are formulas."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.primitive import Primitive
from weft.core.state import state
from weft.core.trace import EVAL, typeof
from weft.driver.jit import jit
from weft.numpy.common import (
    INEXACT,
    aval_of,
    cast,
    check_array,
    convert,
    inexact,
    refuse_complex,
    strong,
    to_array,
    zeros_of,
)
from weft.numpy.eager import OPERANDS, as_one_program, eager_programs
from weft.numpy.operands import (
    both,
    both_inexact,
    const_like,
    filled_like,
    is_complex,
    named,
    same_rank,
)
from weft.numpy.ufunc_object import ufunc
from weft.ops import elementwise_api as ew
from weft.ops.composite import complex_log_sum, log2_p, log10_p, logaddexp2_p, logaddexp_p
from weft.ops.promote import broadcast_args, promote_inexact
from weft.runtime.array import ArrayImpl

if TYPE_CHECKING:
    from weft.typing import ArrayLike

_bool = dtypes.bool_


# Unary, one op --------------------------------------------------------------------------------


def _float_unary(name: str, prim: Primitive, doc: str) -> Callable:
    """Return a function computed in floats: integers and booleans are converted."""

    def traced(x: Any) -> Any:
        try:
            if x.aval.dtype in INEXACT:
                return prim.bind(x)
        except AttributeError:
            check_array(name, x)
        return prim.bind(promote_inexact(x)[0])

    compiled: Any = None

    def function(x: ArrayLike, /) -> Any:
        nonlocal compiled
        if x.__class__ is not ArrayImpl or state.trace is not EVAL:
            return traced(x)
        if compiled is None:
            compiled = jit(traced)
        return compiled(x)

    traced.__name__ = name
    return named(function, name, doc)


def _real_unary(name: str, prim: Primitive, doc: str) -> Callable:
    """Make a function of one operand that is not defined on complex numbers."""
    inner = _float_unary(name, prim, doc)

    def function(x: ArrayLike, /) -> Any:
        aval_of(name, x)
        refuse_complex(name, x)
        return inner(x)

    return named(function, name, doc)


exp = _float_unary("exp", ew.exp_p, "e to the power x.")
exp2 = _float_unary("exp2", ew.exp2_p, "2 to the power x.")
expm1 = _float_unary("expm1", ew.expm1_p, "exp(x) - 1, accurate near 0.")
log = _float_unary("log", ew.log_p, "Return the natural logarithm.")
log1p = _float_unary("log1p", ew.log1p_p, "log(1 + x), accurate near 0.")
sqrt = _float_unary("sqrt", ew.sqrt_p, "Return the square root.")
cbrt = _real_unary("cbrt", ew.cbrt_p, "Return the cube root.")
sin = _float_unary("sin", ew.sin_p, "Return the sine of x in radians.")
cos = _float_unary("cos", ew.cos_p, "Return the cosine of x in radians.")
tan = _float_unary("tan", ew.tan_p, "Return the tangent of x in radians.")
arcsin = _float_unary("arcsin", ew.asin_p, "Return the inverse sine, in radians.")
arccos = _float_unary("arccos", ew.acos_p, "Return the inverse cosine, in radians.")
arctan = _float_unary("arctan", ew.atan_p, "Return the inverse tangent, in radians.")
sinh = _float_unary("sinh", ew.sinh_p, "Return the hyperbolic sine.")
cosh = _float_unary("cosh", ew.cosh_p, "Return the hyperbolic cosine.")
tanh = _float_unary("tanh", ew.tanh_p, "Return the hyperbolic tangent.")
arcsinh = _float_unary("arcsinh", ew.asinh_p, "Return the inverse hyperbolic sine.")
arccosh = _float_unary("arccosh", ew.acosh_p, "Return the inverse hyperbolic cosine.")
arctanh = _float_unary("arctanh", ew.atanh_p, "Return the inverse hyperbolic tangent.")
asin, acos, atan, asinh, acosh, atanh = arcsin, arccos, arctan, arcsinh, arccosh, arctanh


def _log_base(name: str, prim: Primitive, base: int) -> Callable:
    def function(x: ArrayLike, /) -> Any:
        x = strong(inexact(x))
        if is_complex(x):
            # Part by part: an infinite real part times a complex number would give NaN.
            log_x = ew.log_p.bind(x)
            scale = const_like(typeof(x).dtype.type(0).real, 1 / math.log(base))
            parts = ew.real_p.bind(log_x), ew.imag_p.bind(log_x)
            return ew.complex_p.bind(*(ew.mul_p.bind(part, scale) for part in parts))
        return prim.bind(x)

    return named(function, name, f"Return the logarithm to base {base}.")


log2, log10 = _log_base("log2", log2_p, 2), _log_base("log10", log10_p, 10)


def _any_unary(name: str, prim: Primitive, doc: str) -> Callable:
    def function(x: object, /) -> Any:
        try:
            return prim.bind(x)
        except TypeError:
            check_array(name, x)
            raise

    return named(function, name, doc)


def sign(x: ArrayLike, /) -> Any:
    """-1, 0 or 1 by the sign, +0 of zeros; x/|x| for complex x. Source: numpy.sign.

    >>> import weft.numpy as wnp
    >>> wnp.sign(wnp.array([-2.0, 0.0, wnp.nan, 3.0]))
    Array([-1.,  0., nan,  1.], dtype=float32)
    """
    if aval_of("sign", x).dtype in INEXACT:
        return as_one_program(_sign, x)
    return _sign_of_integers(x)


def _sign(x: ArrayLike) -> Any:
    out = ew.sign_p.bind(x)
    return ew.select(ew.eq_p.bind(x, const_like(x, 0)), filled_like(x, 0), out)


_sign_of_integers = _any_unary("sign", ew.sign_p, "-1, 0 or 1.")
bitwise_not = _any_unary("bitwise_not", ew.not_p, "Bits inverted; for booleans, not.")
invert = bitwise_invert = bitwise_not
negative = ufunc(_any_unary("negative", ew.neg_p, "-x."), 1, 1)


def absolute(x: ArrayLike, /) -> Any:
    """Return the absolute value; the magnitude of complex numbers. Source: numpy.absolute.

    >>> import weft.numpy as wnp
    >>> wnp.absolute(wnp.array([-2.0, 3 + 4j]))
    Array([2., 5.], dtype=float32)
    """
    dtype = aval_of("absolute", x).dtype
    return to_array(x) if dtype == _bool or dtype in dtypes.UNSIGNED else ew.abs_p.bind(x)


abs = absolute


def fabs(x: ArrayLike, /) -> Any:
    """Return the absolute value as a float. Source: numpy.fabs.

    >>> import weft.numpy as wnp
    >>> wnp.fabs(wnp.array([-2, 3]))
    Array([2., 3.], dtype=float32)
    """
    x = inexact(x)
    refuse_complex("fabs", x)
    return ew.abs_p.bind(x)


def positive(x: ArrayLike, /) -> Any:
    """+x, a copy. Source: numpy.positive.

    >>> import weft.numpy as wnp
    >>> wnp.positive(wnp.array([-1, 2]))
    Array([-1,  2], dtype=int32)
    """
    aval_of("positive", x)
    return to_array(x)


def square(x: ArrayLike, /) -> Any:
    """Return x * x. Source: numpy.square.

    >>> import weft.numpy as wnp
    >>> wnp.square(wnp.array([-3, 2j]))
    Array([ 9.-0.j, -4.+0.j], dtype=complex64)
    """
    if aval_of("square", x).dtype == _bool:
        x = convert(x, dtypes.canonicalize_dtype(np.int32))
    return ew.integer_pow_p.bind(x, y=2)


def reciprocal(x: ArrayLike, /) -> Any:
    """1 / x, as a float. Source: numpy.reciprocal.

    >>> import weft.numpy as wnp
    >>> wnp.reciprocal(wnp.array([2, -4, 0]))
    Array([ 0.5 , -0.25,   inf], dtype=float32)
    """
    return ew.integer_pow_p.bind(inexact(x), y=-1)


def real(val: ArrayLike, /) -> Any:
    """Return the real part. Source: numpy.real.

    >>> import weft.numpy as wnp
    >>> wnp.real(wnp.array([1 + 2j, 3]))
    Array([1., 3.], dtype=float32)
    """
    return ew.real_p.bind(val) if aval_of("real", val).dtype in dtypes.COMPLEX else to_array(val)


def imag(val: object, /) -> Any:
    """Return the imaginary part, zero for real numbers. Source: numpy.imag.

    >>> import weft.numpy as wnp
    >>> wnp.imag(wnp.array([1 + 2j, 3]))
    Array([2., 0.], dtype=float32)
    """
    aval = aval_of("imag", val)
    if aval.dtype in dtypes.COMPLEX:
        return ew.imag_p.bind(val)
    zeros = zeros_of(aval)
    return convert(zeros, aval.dtype, True) if aval.weak_type else zeros


def conjugate(x: ArrayLike, /) -> Any:
    """Return the complex conjugate. Source: numpy.conjugate.

    >>> import weft.numpy as wnp
    >>> wnp.conjugate(wnp.array([1 + 2j, 3]))
    Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    return ew.conj_p.bind(x) if aval_of("conj", x).dtype in dtypes.COMPLEX else to_array(x)


conj = conjugate


def angle(z: ArrayLike, deg: builtins.bool = False) -> Any:
    """Return the argument of a complex number, in radians or degrees. Source: numpy.angle.

    >>> import weft.numpy as wnp
    >>> wnp.angle(wnp.array([1, 1j, -1]), deg=True)
    Array([  0.,  90., 180.], dtype=float32)
    """
    if aval_of("angle", z).dtype not in INEXACT:
        z = convert(z, dtypes.canonicalize_dtype(float), typeof(z).weak_type)
    if is_complex(z):
        re, im = ew.real_p.bind(z), ew.imag_p.bind(z)
    else:
        re, im = z, zeros_of(typeof(z))
    out = ew.atan2_p.bind(im, re)
    return degrees(out) if deg else out


def degrees(x: ArrayLike, /) -> Any:
    """Convert radians to degrees. Source: numpy.degrees.

    >>> import weft.numpy as wnp
    >>> wnp.degrees(wnp.array([0.0, wnp.pi]))
    Array([  0., 180.], dtype=float32)
    """
    return multiply(inexact(x), 180 / math.pi)


def radians(x: ArrayLike, /) -> Any:
    """Convert degrees to radians. Source: numpy.radians.

    >>> import weft.numpy as wnp
    >>> wnp.radians(wnp.array([0.0, 180.0])) / wnp.pi
    Array([0., 1.], dtype=float32)
    """
    return multiply(inexact(x), math.pi / 180)


rad2deg, deg2rad = degrees, radians


def bitwise_count(x: ArrayLike, /) -> Any:
    """Return the number of 1 bits in the absolute value, uint8. Source: numpy.bitwise_count.

    >>> import weft.numpy as wnp
    >>> wnp.bitwise_count(wnp.array([7, -8], "int8"))
    Array([3, 1], dtype=uint8)
    """
    if aval_of("bitwise_count", x).dtype == _bool:
        return convert(x, dtypes.uint8)
    return cast(ew.population_count_p.bind(absolute(x)), dtypes.uint8)


# Binary, one op -------------------------------------------------------------------------------


def _lazy(name: str) -> Callable | None:
    """Return a function of another module by name, loaded when it is called."""
    if not name:
        return None

    def call(*args: ArrayLike, **kwargs: object) -> Any:
        import weft.numpy

        return getattr(weft.numpy, name)(*args, **kwargs)

    return call


def _ufunc(
    function: Callable,
    *,
    reduce: str = "",
    accumulate: str = "",
    identity: bool | float | int | None = None,
    associative: builtins.bool = False,
) -> ufunc:
    """Make a ufunc of two operands; it reduces and accumulates by the named ops, if faster."""
    by = _lazy(reduce), _lazy(accumulate)
    programs = eager_programs(function.__name__, arrays=OPERANDS)
    result = ufunc(
        *(function, 2, 1), identity=identity, reduce=by[0], accumulate=by[1], programs=programs
    )
    result.associative = associative
    return result


def _binary(name: str, prim: Primitive, doc: str, **methods: Any) -> ufunc:
    bind = prim.bind

    def function(x1: ArrayLike, x2: ArrayLike, /) -> Any:
        return bind(*both(name, x1, x2))

    return _ufunc(named(function, name, doc), **methods)


def _float_binary(name: str, prim: Primitive, doc: str) -> Callable:
    def function(x1: ArrayLike, x2: ArrayLike, /) -> Any:
        return prim.bind(*both_inexact(name, x1, x2))

    return named(function, name, doc)


add = _binary("add", ew.add_p, "x1 + x2.", identity=0, reduce="sum", accumulate="cumsum")
subtract = _binary("subtract", ew.sub_p, "x1 - x2.")
multiply = _binary(
    "multiply", ew.mul_p, "x1 * x2.", identity=1, reduce="prod", accumulate="cumprod"
)
true_divide = _float_binary("true_divide", ew.div_p, "x1 / x2, a float.")
divide = true_divide
arctan2 = _float_binary("arctan2", ew.atan2_p, "Return the angle of (x2, x1) in radians.")
atan2 = arctan2
nextafter = _float_binary("nextafter", ew.nextafter_p, "Return the next float after x1 toward x2.")


def _ordered_complex(strict: Primitive, loose: Primitive) -> Callable:
    """Comparison of complex numbers by the real part, then the imaginary part."""

    def compare(x: ArrayLike, y: ArrayLike) -> Any:
        x, y = same_rank(x, y)
        rx, ry = ew.real_p.bind(x), ew.real_p.bind(y)
        ix, iy = ew.imag_p.bind(x), ew.imag_p.bind(y)
        by_real = ew.and_p.bind(strict.bind(rx, ry), ew.eq_p.bind(ix, ix))
        by_real = ew.and_p.bind(by_real, ew.eq_p.bind(iy, iy))  # NaN is in no order
        return ew.select(ew.eq_p.bind(rx, ry), loose.bind(ix, iy), by_real)

    return compare


def _comparison(name: str, prim: Primitive, strict: Primitive | None, doc: str) -> Callable:
    bind = prim.bind
    by_parts = None if strict is None else _ordered_complex(strict, prim)

    def function(x: ArrayLike, y: ArrayLike, /) -> Any:
        x, y = both(name, x, y)
        if by_parts is not None and typeof(x).dtype in dtypes.COMPLEX:
            return by_parts(x, y)
        return bind(x, y)

    return named(function, name, doc)


equal = _comparison("equal", ew.eq_p, None, "x == y.")
not_equal = _comparison("not_equal", ew.ne_p, None, "x != y.")
less = _comparison("less", ew.lt_p, ew.lt_p, "x < y.")
less_equal = _comparison("less_equal", ew.le_p, ew.lt_p, "x <= y.")
greater = _comparison("greater", ew.gt_p, ew.gt_p, "x > y.")
greater_equal = _comparison("greater_equal", ew.ge_p, ew.gt_p, "x >= y.")


def _between(x: ArrayLike, y: ArrayLike) -> Any:
    """Return the mean of equal complex numbers, so that both have half of the derivative."""
    half = const_like(ew.real_p.bind(x), 0.5)
    parts = []
    for part in (ew.real_p, ew.imag_p):
        a, b = (ew.mul_p.bind(part.bind(v), half) for v in (x, y))
        parts.append(ew.add_p.bind(a, b))
    return ew.complex_p.bind(*parts)


def _extremum(name: str, prim: Primitive, wins: Callable, reduce: str, doc: str) -> ufunc:
    bind = prim.bind

    def function(x: ArrayLike, y: ArrayLike, /) -> Any:
        x, y = both(name, x, y)
        if typeof(x).dtype in dtypes.COMPLEX:
            x, y = same_rank(x, y)
            chosen = ew.select(logical_or(wins(x, y), not_equal(x, x)), x, y)
            return ew.select(ew.eq_p.bind(x, y), _between(x, y), chosen)
        return bind(x, y)

    return _ufunc(named(function, name, doc), reduce=reduce, associative=True)


maximum = _extremum(
    "maximum", ew.max_p, greater_equal, "max", "Return the greater of x and y; NaN if either is."
)
minimum = _extremum(
    "minimum", ew.min_p, less_equal, "min", "Return the lesser of x and y; NaN if either is."
)


def _extremum_beside_nan(name: str, wins: Callable, doc: str) -> Callable:
    def function(x1: ArrayLike, x2: ArrayLike) -> Any:
        x1, x2 = same_rank(*both(name, x1, x2))
        return ew.select(logical_or(wins(x1, x2), not_equal(x2, x2)), x1, x2)

    return named(function, name, doc)


fmax = _extremum_beside_nan(
    "fmax", greater, "Return the greater of both; where one is NaN, the other."
)
fmin = _extremum_beside_nan("fmin", less, "Return the lesser of both; where one is NaN, the other.")

bitwise_and = _binary(
    *("bitwise_and", ew.and_p, "Bits of x1 and x2; for booleans, and."),
    identity=-1,
    associative=True,
)
bitwise_or = _binary(
    *("bitwise_or", ew.or_p, "Bits of x1 or x2; for booleans, or."),
    identity=0,
    associative=True,
)
bitwise_xor = _binary(
    *("bitwise_xor", ew.xor_p, "Bits in which x1 and x2 differ."),
    identity=0,
    associative=True,
)


def _shift_operands(name: str, x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Both operands as integers of one dtype; booleans become the default one."""
    x, y = both(name, x, y)
    if typeof(x).dtype == _bool:
        integer = dtypes.canonicalize_dtype(int)
        return convert(x, integer), convert(y, integer)
    return x, y


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Any:
    """Return x shifted left by y bits. Source: numpy.left_shift.

    >>> import weft.numpy as wnp
    >>> wnp.left_shift(1, wnp.arange(4))
    Array([1, 2, 4, 8], dtype=int32)
    """
    return ew.shift_left_p.bind(*_shift_operands("left_shift", x, y))


bitwise_left_shift = left_shift


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """x1 shifted right by x2 bits; the sign of signed integers stays. Source: numpy.right_shift.

    >>> import weft.numpy as wnp
    >>> wnp.right_shift(wnp.array([-8, 8]), 1)
    Array([-4,  4], dtype=int32)
    """
    x1, x2 = _shift_operands("right_shift", x1, x2)
    unsigned = typeof(x1).dtype in dtypes.UNSIGNED
    prim = ew.shift_right_logical_p if unsigned else ew.shift_right_arithmetic_p
    return prim.bind(x1, x2)


bitwise_right_shift = right_shift


def as_bool(name: str, x: ArrayLike) -> Any:
    aval = aval_of(name, x)
    return x if aval.dtype is _bool or aval.dtype == _bool else ew.ne_p.bind(x, aval.dtype.type(0))


def _logical(name: str, prim: Primitive, doc: str, **methods: Any) -> ufunc:
    def function(x: ArrayLike, y: ArrayLike, /) -> Any:
        return prim.bind(*broadcast_args(as_bool(name, x), as_bool(name, y)))

    return _ufunc(named(function, name, doc), associative=True, **methods)


logical_and = _logical(
    "logical_and", ew.and_p, "Whether both are nonzero.", identity=True, reduce="all"
)
logical_or = _logical(
    "logical_or", ew.or_p, "Whether either is nonzero.", identity=False, reduce="any"
)
logical_xor = _logical("logical_xor", ew.xor_p, "Whether exactly one is nonzero.", identity=False)


def logical_not(x: ArrayLike, /) -> Any:
    """Return whether x is zero. Source: numpy.logical_not.

    >>> import weft.numpy as wnp
    >>> wnp.logical_not(wnp.array([0.0, 0.5]))
    Array([ True, False], dtype=bool)
    """
    aval = aval_of("logical_not", x)
    if aval.dtype == _bool:
        return ew.not_p.bind(x)
    return ew.eq_p.bind(x, aval.dtype.type(0))


def _log_sum(
    name: str, prim: Primitive, exp_: Callable, log_: Callable, turn: float, doc: str
) -> ufunc:
    def function(x1: ArrayLike, x2: ArrayLike, /) -> Any:
        x1, x2 = both_inexact(name, x1, x2)
        if typeof(x1).dtype in dtypes.COMPLEX:
            x1, x2 = same_rank(x1, x2)
            return complex_log_sum(x1, x2, exp_, log_, turn)
        return prim.bind(x1, x2)

    return _ufunc(named(function, name, doc), identity=-np.inf, associative=True)


logaddexp = _log_sum(
    "logaddexp", logaddexp_p, exp, log, 2 * math.pi, "log(exp(x1) + exp(x2)), without overflow."
)
logaddexp2 = _log_sum(
    *("logaddexp2", logaddexp2_p, exp2, log2, 2 * math.pi / math.log(2)),
    "log2(2**x1 + 2**x2), without overflow.",
)
