# Tests: tests/pallas/test_scalar_formulas.py
"""Scalar ops that formulas are written in, beside the operators of traced values.

A formula is a function of traced floats of one dtype. Backends round each of its sums and products
as written: what is to be rounded once is an `fma`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.aval import ShapedArray
from weft.core.config import options
from weft.core.primitive import Primitive
from weft.ops.arithmetic import add_p, floor_p, le_p, lt_p, round_p, select_n_p
from weft.ops.dtype_casts import bitcast_convert_type_p
from weft.ops.promote import broadcast_to

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _like_the_widest(*avals: ShapedArray, **params: object) -> ShapedArray:
    return max(avals, key=lambda a: a.ndim).update(dtype=avals[0].dtype)


fma_p = Primitive("fma", abstract=_like_the_widest, sharding="elementwise")
"""a * b + c, rounded once."""
ldexp_p = Primitive("ldexp", abstract=_like_the_widest, sharding="elementwise")
"""x * 2**n for an integer n as wide as x, rounded once where the result is subnormal."""


_SAME = {"add_any": (add_p, 1), "gt": (lt_p, -1), "ge": (le_p, -1)}
"""Op → the op that it is by another name, and the step that puts its operands in order."""


def plainly(eqn: Eqn) -> Eqn:
    """Return an equation of an op that is another one by the other's name."""
    primitive, step = _SAME.get(eqn.primitive.name, (None, 1))
    if primitive is None:
        return eqn
    return eqn.replace(primitive=primitive, invars=list(eqn.invars)[::step])


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Array:
    dtype: Any = next(x.dtype for x in (a, b, c) if hasattr(x, "dtype"))
    return fma_p.bind(*(x if hasattr(x, "dtype") else dtype.type(x) for x in (a, b, c)))


def where(condition: Array, x: ArrayLike, y: ArrayLike) -> Array:
    dtype: Any = next(v.dtype for v in (x, y) if hasattr(v, "dtype"))
    cases = [v if hasattr(v, "dtype") else dtype.type(v) for v in (y, x)]
    shape = max((v.shape for v in (condition, *cases)), key=len)
    return select_n_p.bind(condition, *(broadcast_to(v, shape) for v in cases))


def clamp(x: Array, low: float, high: float) -> Array:
    """Return x within the bounds; NaN stays."""
    x = where(x < low, low, x)
    return where(x > high, high, x)


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Horner's rule, highest power first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = fma(total, x, c)
    return total


def floor(x: Array) -> Array:
    return floor_p.bind(x)


# Bits ---------------------------------------------------------------------------------------------


def is_wide(x: Array) -> bool:
    return bool(x.dtype == np.float64)


def mantissa_bits(x: Array) -> int:
    return 52 if is_wide(x) else 23


def exponent_bias(x: Array) -> int:
    return 1023 if is_wide(x) else 127


def bits(x: Array) -> Array:
    """Return the bits of a float as a signed integer."""
    return bitcast_convert_type_p.bind(x, new_dtype=np.dtype("int64" if is_wide(x) else "int32"))


def from_bits(n: Array) -> Array:
    dtype = np.dtype("float64" if n.dtype.itemsize == 8 else "float32")
    return bitcast_convert_type_p.bind(n, new_dtype=dtype)


def by_squaring(x: Any, n: int, multiply: Callable[[Any, Any], Any]) -> Any:
    """Return the n-th power for n > 0."""
    total, square = None, x
    while True:
        if n & 1:
            total = square if total is None else multiply(total, square)
        n >>= 1
        if not n:
            return total
        square = multiply(square, square)


def copysign(size: ArrayLike, x: Array) -> Array:
    """size >= 0 with the sign of x."""
    sign = -(1 << (63 if is_wide(x) else 31))
    if not hasattr(size, "dtype"):
        size = x.dtype.type(size)
    return from_bits((bits(size) & ~sign) | (bits(x) & sign))


def is_negative(x: Array) -> Array:
    """Return whether the sign bit is set: also of -0."""
    return bits(x) < 0


def power_of_two(exponent: Array) -> Array:
    """2**exponent for a normal exponent, an integer as wide as the float."""
    wide = exponent.dtype.itemsize == 8
    return from_bits((exponent + (1023 if wide else 127)) << (52 if wide else 23))


def whole_power_of_two(whole: Array) -> Array:
    """2**whole for a float that is the exponent of a normal number."""
    # Of a sum with 1.5 * 2**mantissa_bits, the last bits are those of the biased exponent.
    biased = whole + (1.5 * 2.0 ** mantissa_bits(whole) + exponent_bias(whole))
    return from_bits(bits(biased) << mantissa_bits(whole))


def ldexp(x: Array, n: Array) -> Array:
    """Scale in two steps, so that subnormal and overflowing results are right."""
    half = n >> 1
    return (x * power_of_two(half)) * power_of_two(n - half)


def round_scaled(x: Array, factor: float) -> tuple[Array, Array]:
    """Return the integer nearest to x * factor, as a float and as an integer; small ones only."""
    # Not as a sum less its magic number: quirks.CONSTANT_SUMS.
    whole = round_p.bind(x * factor, rounding_method=1)
    return whole, bits(whole + 1.5 * 2.0 ** mantissa_bits(x)) - _shifted_zero(x)


def to_float(n: Array) -> Array:
    """Convert a small integer to the float as wide: few processors convert 64-bit ones."""
    zero = from_bits(n & 0)
    magic = 1.5 * 2.0 ** mantissa_bits(zero)
    return from_bits(n + _shifted_zero(zero)) - magic


def _shifted_zero(x: Array) -> int:
    """Return the bits of 1.5 * 2**mantissa_bits: a sum with it ends in the bits of an integer."""
    return 0x4338000000000000 if is_wide(x) else 0x4B400000


def split_exponent(x: Array) -> tuple[Array, Array]:
    """m, k where x = m 2**k, m in [sqrt(1/2), sqrt(2)), for normal positive x."""
    start = 0x3FE6A09E667F3BCD if is_wide(x) else 0x3F3504F3
    mantissa, bias = mantissa_bits(x), exponent_bias(x)
    shifted = bits(x) + ((bias << mantissa) - start)
    k = (shifted >> mantissa) - bias
    return from_bits((shifted & ((1 << mantissa) - 1)) + start), k


def in_double(function: Callable) -> Callable:
    """Return the formula computed in float64, whatever its operands and whether x64 is enabled."""

    def wider(*operands: Array) -> Array:
        with options["enable_x64"](True):
            out = function(*(x.astype("float64") for x in operands))
            return out.astype(operands[0].dtype)

    return wider
