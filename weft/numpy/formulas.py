"""Powers and elementwise functions made of several ops."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import (
    INEXACT,
    INTEGERS,
    aval_of,
    cast,
    convert,
    fill,
    inexact,
    refuse_complex,
    strong,
    to_array,
)
from weft.numpy.eager import as_one_program
from weft.numpy.operands import (
    both,
    both_inexact,
    const_like,
    dtype_of,
    filled_like,
    formula_operands,
    same_rank,
)
from weft.numpy.reductions import any as any_
from weft.numpy.selection import where
from weft.numpy.ufuncs import (
    _bool,
    absolute,
    imag,
    less,
    logical_or,
    maximum,
    minimum,
    real,
)
from weft.numpy.value_tests import isfinite, isinf, isnan, isneginf, isposinf, signbit
from weft.ops import elementwise_api as ew
from weft.ops.bessel import bessel_i0_p
from weft.ops.control.loops import while_loop
from weft.ops.promote import broadcast_args, promote

if TYPE_CHECKING:
    from weft.typing import ArrayLike


# Powers ---------------------------------------------------------------------------------------


def power(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """x1 to the power x2; a Python int exponent is computed by multiplication.

    Raises TypeError for an integer to a negative Python int. Source: numpy.power.

    >>> import weft
    >>> weft.numpy.power(weft.numpy.array([1, 2, 3]), 2)
    Array([1, 4, 9], dtype=int32)
    """
    if isinstance(x2, builtins.bool) and aval_of("power", x1).dtype in dtypes.COMPLEX:
        x2 = int(x2)
    if isinstance(x2, int | np.integer) and not isinstance(x2, builtins.bool):
        dtype = aval_of("power", x1).dtype
        if dtype == _bool:
            x1, dtype = convert(x1, dtypes.int32), dtypes.int32
        if x2 < 0 and dtype in INTEGERS:
            raise ArgumentError(
                f"weft.numpy.power: integers have no negative powers, got {typeof(x1).str_short()} "
                f"to the power {x2}; convert the base to float"
            )
        if x2 >= 0 or dtype in INEXACT:
            return ew.integer_pow_p.bind(x1, y=int(x2)) if x2 != 1 else to_array(x1)
    a, b = aval_of("power", x1), aval_of("power", x2)
    if a.dtype in dtypes.FLOATS and b.dtype in INTEGERS and not b.weak_type:
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
    return _inexact_power(x1, x2)


pow = power


def _inexact_power(x: ArrayLike, y: ArrayLike) -> Any:
    """Raise floats or complex numbers of one dtype to a power."""
    if typeof(x).dtype not in dtypes.COMPLEX:
        return ew.pow_p.bind(x, y)
    x, y = same_rank(x, y)
    vanishes = ew.gt_p.bind(ew.real_p.bind(y), ew.real_p.bind(filled_like(y, 0)))
    vanishes = ew.and_p.bind(ew.eq_p.bind(x, filled_like(x, 0)), vanishes)
    base = ew.select(vanishes, filled_like(x, 1), x)  # XLA has NaN for 0 to a complex power
    # The derivative at 0: that of x for exponent 1, 0 above, and none below, as of the root.
    flat = ew.gt_p.bind(ew.real_p.bind(y), ew.real_p.bind(filled_like(y, 1)))
    straight = ew.eq_p.bind(y, filled_like(y, 1))
    steep = ew.and_p.bind(vanishes, ew.not_p.bind(ew.or_p.bind(flat, straight)))
    root = ew.sqrt_p.bind(ew.select(steep, x, filled_like(x, 1)))
    zero = ew.select(flat, filled_like(x, 0), ew.select(straight, x, root))
    return ew.select(vanishes, zero, ew.pow_p.bind(base, y))


def _integer_power(x: Any, n: Any, dtype: Any) -> Any:
    """Square and multiply over the exponent's bits; negative exponents give 0, or ±1 for ±1."""
    x, n = formula_operands(to_array(x), to_array(n))
    one, zero = filled_like(x, 1), dtype.type(0)
    bits = dtype.itemsize * 8
    acc, base, left = one, x, n
    for i in range(bits - (dtype in dtypes.SIGNED)):
        odd = ew.ne_p.bind(ew.and_p.bind(left, dtype.type(1)), zero)
        acc = ew.select(odd, ew.mul_p.bind(acc, base), acc)
        if i + 1 < bits:
            base = ew.mul_p.bind(base, base)
            left = ew.shift_right_logical_p.bind(left, dtype.type(1))
    if dtype in dtypes.SIGNED:
        parity = ew.ne_p.bind(ew.and_p.bind(n, dtype.type(1)), zero)
        minus = ew.select(parity, filled_like(x, -1), one)
        inverse = ew.select(
            ew.eq_p.bind(x, dtype.type(1)),
            one,
            ew.select(ew.eq_p.bind(x, dtype.type(-1)), minus, filled_like(x, 0)),
        )
        acc = ew.select(ew.lt_p.bind(n, zero), inverse, acc)
    return acc


def float_power(x: ArrayLike, y: ArrayLike, /) -> Any:
    """Return x to the power y, computed in floats. Source: numpy.float_power.

    >>> import weft.numpy as wnp
    >>> wnp.float_power(wnp.array([2, 4]), -1)
    Array([0.5 , 0.25], dtype=float32)
    """
    return as_one_program(_float_power, x, y)


def _float_power(x: ArrayLike, y: ArrayLike) -> Any:
    return _inexact_power(*both_inexact("float_power", x, y))


# Formulas -------------------------------------------------------------------------------------


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """sqrt(x1**2 + x2**2), without overflow. Source: numpy.hypot.

    >>> import weft.numpy as wnp
    >>> wnp.hypot(wnp.array([3.0, 3e20]), wnp.array([4.0, 4e20]))
    Array([5.e+00, 5.e+20], dtype=float32)
    """
    return as_one_program(_hypot, x1, x2)


def _hypot(x1: ArrayLike, x2: ArrayLike) -> Any:
    x1, x2 = formula_operands(*both_inexact("hypot", x1, x2))
    refuse_complex("hypot", x1)
    a, b = ew.abs_p.bind(x1), ew.abs_p.bind(x2)
    big = ew.max_p.bind(a, b)
    infinite = logical_or(isinf(a), isinf(b))  # also beside a NaN
    big = ew.select(infinite, filled_like(big, np.inf), big)
    degenerate = logical_or(ew.eq_p.bind(big, const_like(big, 0)), infinite)
    # A unit of length that has no derivative: all derivatives are those of the root.
    unit = stop_gradient(ew.select(degenerate, filled_like(big, 1), big))
    sides = [ew.div_p.bind(ew.select(degenerate, unit, x), unit) for x in (a, b)]
    total = ew.add_p.bind(*(ew.mul_p.bind(r, r) for r in sides))
    return ew.select(degenerate, big, ew.mul_p.bind(unit, ew.sqrt_p.bind(total)))


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """0 for negative x1, x2 at 0, 1 for positive x1. Source: numpy.heaviside.

    >>> import weft.numpy as wnp
    >>> wnp.heaviside(wnp.array([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return as_one_program(_heaviside, x1, x2)


def _heaviside(x1: ArrayLike, x2: ArrayLike) -> Any:
    x1, x2 = formula_operands(*both_inexact("heaviside", x1, x2))
    refuse_complex("heaviside", x1)
    zero = const_like(x1, 0)
    step = ew.select(
        ew.lt_p.bind(x1, zero),
        filled_like(x1, 0),
        ew.select(ew.gt_p.bind(x1, zero), filled_like(x1, 1), x2),
    )
    return ew.select(isnan(x1), x1, step)


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """|x1| with the sign of x2. Source: numpy.copysign.

    >>> import weft.numpy as wnp
    >>> wnp.copysign(wnp.array([1.0, -2.0]), -0.0)
    Array([-1., -2.], dtype=float32)
    """
    return as_one_program(_copysign, x1, x2)


def _copysign(x1: ArrayLike, x2: ArrayLike) -> Any:
    x1, x2 = same_rank(*both_inexact("copysign", x1, x2))
    size = ew.abs_p.bind(x1)
    return ew.select(signbit(x2), ew.neg_p.bind(size), size)


def sinc(x: ArrayLike, /) -> Any:
    """sin(pi x) / (pi x), 1 at 0, with all derivatives there. Source: numpy.sinc.

    >>> import weft.numpy as wnp
    >>> wnp.sinc(wnp.array([0.0, 0.5, 1.5])).round(2)
    Array([ 1.  ,  0.64, -0.21], dtype=float32)
    """
    return as_one_program(_sinc, x)


def _sinc(x: ArrayLike) -> Any:
    x = inexact(x)
    z = ew.mul_p.bind(x, const_like(x, math.pi))
    near = less(absolute(z), 0.2)
    safe = ew.select(near, filled_like(z, 1), z)
    square_z = ew.select(near, ew.mul_p.bind(z, z), filled_like(z, 0))
    series = filled_like(z, 0)
    for c in (-1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0):
        series = ew.add_p.bind(ew.mul_p.bind(series, square_z), const_like(z, c))
    return ew.select(near, series, ew.div_p.bind(_sine_of_half_turns(x, safe), safe))


def _sine_of_half_turns(x: ArrayLike, z: ArrayLike) -> Any:
    """Return sin(pi x), where z is pi x: 0 at integers, as x less the nearest of them is exact."""
    if dtypes.is_complex(dtype_of(x)):
        return ew.sin_p.bind(z)
    whole = ew.round_p.bind(x, rounding_method=1)
    sine = ew.sin_p.bind(ew.mul_p.bind(ew.sub_p.bind(x, whole), const_like(x, math.pi)))
    half = ew.mul_p.bind(whole, const_like(x, 0.5))
    return ew.select(ew.ne_p.bind(half, ew.floor_p.bind(half)), ew.neg_p.bind(sine), sine)


def i0(x: ArrayLike) -> Any:
    """Return the modified Bessel function of order 0. Source: numpy.i0.

    >>> import weft.numpy as wnp
    >>> wnp.i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return as_one_program(_i0, x)


def _i0(x: ArrayLike) -> Any:
    x = inexact(x)
    refuse_complex("i0", x)
    return bessel_i0_p.bind(x)


def clip(
    arr: ArrayLike | None = None,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    *,
    a: ArrayLike | None = None,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Any:
    """Return x limited to [min, max]; a bound that is None does not limit.

    >>> import weft
    >>> weft.numpy.clip(weft.numpy.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    x: Any = a if arr is None else arr
    min, max = a_min if min is None else min, a_max if max is None else max
    dtype = aval_of("clip", x).dtype
    if dtype in dtypes.COMPLEX:
        raise ArgumentError("weft.numpy.clip: complex numbers have no order")
    if dtypes.is_float(dtype):
        # Bounds beside floats are floats; an integer beside integers may not fit into theirs.
        min = float(min) if min.__class__ is int else min
        max = float(max) if max.__class__ is int else max
        return as_one_program(_clip, x, min, max)
    return _clip(x, min, max)


def _clip(x: ArrayLike, min: ArrayLike | None, max: ArrayLike | None) -> Any:
    if min is not None:
        if aval_of("clip", min).dtype in dtypes.COMPLEX:
            raise ArgumentError("weft.numpy.clip: complex numbers have no order")
        x = maximum(min, x)
    if max is not None:
        if aval_of("clip", max).dtype in dtypes.COMPLEX:
            raise ArgumentError("weft.numpy.clip: complex numbers have no order")
        x = minimum(max, x)
    return to_array(x)


def nan_to_num(
    x: ArrayLike,
    copy: builtins.bool = True,
    nan: object = 0.0,
    posinf: object = None,
    neginf: object = None,
) -> Any:
    """NaN replaced by `nan`, infinities by given numbers or the largest finite ones.

    >>> import weft.numpy as wnp
    >>> wnp.nan_to_num(wnp.array([wnp.nan, 1.0, wnp.inf]), posinf=9.0)
    Array([0., 1., 9.], dtype=float32)
    """
    aval = aval_of("nan_to_num", x)
    if aval.dtype not in INEXACT:
        return to_array(x)
    if aval.dtype in dtypes.COMPLEX:
        parts = (nan_to_num(p, copy, nan, posinf, neginf) for p in (real(x), imag(x)))
        return ew.complex_p.bind(*parts)
    info = dtypes.finfo(aval.dtype)
    x = strong(to_array(x))

    x = where(isnan(x), cast(nan, aval.dtype), x)
    x = where(isposinf(x), cast(info.max if posinf is None else posinf, aval.dtype), x)
    return where(isneginf(x), cast(info.min if neginf is None else neginf, aval.dtype), x)


def _parts(x: ArrayLike) -> tuple[Any, Any, Any]:
    """Return a float32 or float64 array, its bits as integers, (mantissa bits, exponent bias)."""
    dtype = typeof(x).dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        x = cast(x, dtypes.float32)
    wide = typeof(x).dtype == dtypes.float64
    integers = dtypes.int64 if wide else dtypes.int32
    bits = ew.bitcast_convert_type_p.bind(x, new_dtype=integers)
    return x, bits, ((52, 1023) if wide else (23, 127))


def frexp(x: ArrayLike, /) -> Any:
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1. Source: numpy.frexp.

    >>> import weft.numpy as wnp
    >>> wnp.frexp(wnp.array([8.0, -0.75]))
    (Array([ 0.5 , -0.75], dtype=float32), Array([4, 0], dtype=int32))
    """
    return as_one_program(_frexp, x)


def _frexp(x: ArrayLike) -> Any:
    x = inexact(x)
    dtype = typeof(x).dtype
    refuse_complex("frexp", x)
    wide, bits, (mantissa, bias) = _parts(strong(x))
    integers = dtypes.int64 if mantissa == 52 else dtypes.int32
    mask = (2 * bias + 1) << mantissa

    def raw(bits: object) -> Any:
        field = ew.and_p.bind(bits, integers.type(mask))
        return ew.shift_right_logical_p.bind(field, integers.type(mantissa))

    # A subnormal number is taken as the whole number its bits are: processors that flush
    # subnormal operands to zero would not see it.
    tiny = ew.eq_p.bind(raw(bits), integers.type(0))
    whole = convert(ew.and_p.bind(bits, integers.type((1 << mantissa) - 1)), dtype_of(wide), False)
    whole = ew.select(ew.lt_p.bind(bits, integers.type(0)), ew.neg_p.bind(whole), whole)
    lifted = ew.select(tiny, whole, wide)
    exponent = raw(ew.bitcast_convert_type_p.bind(lifted, new_dtype=integers))
    exponent = ew.sub_p.bind(exponent, integers.type(bias - 1))
    m = ldexp(lifted, ew.neg_p.bind(exponent))  # exact, and differentiable
    shift = ew.sub_p.bind(exponent, integers.type(bias + mantissa - 1))
    exponent = ew.select(tiny, shift, exponent)
    plain = ew.or_p.bind(ew.eq_p.bind(lifted, const_like(wide, 0)), ew.not_p.bind(isfinite(wide)))
    m = ew.select(plain, wide, m)
    exponent = ew.select(plain, fill(typeof(m).shape, 0, integers), exponent)
    return cast(m, dtype), cast(exponent, dtypes.int32)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """x1 * 2**x2, exact unless it leaves the range. Source: numpy.ldexp.

    >>> import weft.numpy as wnp
    >>> wnp.ldexp(wnp.array([1.0, 3.0]), wnp.array([4, -1]))
    Array([16. ,  1.5], dtype=float32)
    """
    return as_one_program(_ldexp, x1, x2)


def _ldexp(x1: ArrayLike, x2: ArrayLike) -> Any:
    if aval_of("ldexp", x2).dtype not in INTEGERS | {dtypes.bool_}:
        raise ArgumentError(f"weft.numpy.ldexp: x2 must be integers, got {typeof(x2).str_short()}")
    x1 = inexact(x1)
    refuse_complex("ldexp", x1)
    dtype = typeof(x1).dtype
    wide = dtypes.float64 if dtype == dtypes.float64 else dtypes.float32
    mantissa, bias = (52, 1023) if wide == dtypes.float64 else (23, 127)
    integers = dtypes.int64 if mantissa == 52 else dtypes.int32
    x, n = same_rank(*broadcast_args(to_array(x1), to_array(x2)))
    x, n = cast(x, wide), cast(n, integers)
    for _ in range(3):  # each factor is a power of two in range
        part = ew.clamp_p.bind(integers.type(1 - bias), n, integers.type(bias))
        bits = ew.shift_left_p.bind(
            ew.add_p.bind(part, integers.type(bias)), integers.type(mantissa)
        )
        x = ew.mul_p.bind(x, ew.bitcast_convert_type_p.bind(bits, new_dtype=wide))
        n = ew.sub_p.bind(n, part)
    return convert(x, dtype, False)


def spacing(x: ArrayLike, /) -> Any:
    """Return the distance to the next float away from 0, with x's sign. Source: numpy.spacing.

    >>> import weft.numpy as wnp
    >>> wnp.spacing(wnp.array([1.0, 2.0**23]))
    Array([1.1920929e-07, 1.0000000e+00], dtype=float32)
    """
    x = inexact(x)
    refuse_complex("spacing", x)
    x = stop_gradient(x)
    away = copysign(filled_like(x, np.inf), x)
    return ew.sub_p.bind(ew.nextafter_p.bind(x, away), x)


def _common_integers(name: str, x1: ArrayLike, x2: ArrayLike) -> tuple[Any, Any]:
    x1, x2 = formula_operands(*both(name, x1, x2))
    if typeof(x1).dtype not in INTEGERS:
        raise ArgumentError(f"weft.numpy.{name}: takes integers, got {typeof(x1).str_short()}")
    return absolute(to_array(x1)), absolute(to_array(x2))


def gcd(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return the greatest common divisor. Source: numpy.gcd.

    >>> import weft.numpy as wnp
    >>> wnp.gcd(wnp.array([12, 0, -9]), 6)
    Array([6, 6, 3], dtype=int32)
    """
    return as_one_program(_gcd, x1, x2)


def _gcd(x1: ArrayLike, x2: ArrayLike) -> Any:
    x, y = _common_integers("gcd", x1, x2)

    def step(pair: tuple) -> tuple:
        a, b = pair
        zero = ew.eq_p.bind(b, const_like(b, 0))
        rest = ew.rem_p.bind(a, ew.select(zero, filled_like(b, 1), b))
        return ew.select(zero, a, b), ew.select(zero, b, rest)

    out = while_loop(lambda pair: any_(ew.ne_p.bind(pair[1], const_like(y, 0))), step, (x, y))[0]
    return absolute(out)  # the least integer is negative even as a magnitude


def lcm(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return the least common multiple. Source: numpy.lcm.

    >>> import weft.numpy as wnp
    >>> wnp.lcm(wnp.array([4, 0, -3]), 6)
    Array([12,  0,  6], dtype=int32)
    """
    return as_one_program(_lcm, x1, x2)


def _lcm(x1: ArrayLike, x2: ArrayLike) -> Any:
    x, y = _common_integers("lcm", x1, x2)
    d = gcd(x, y)
    none = ew.eq_p.bind(d, const_like(d, 0))
    return ew.mul_p.bind(x, ew.div_p.bind(y, ew.select(none, filled_like(d, 1), d)))
