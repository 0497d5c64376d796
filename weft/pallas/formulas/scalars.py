# Tests: tests/pallas/test_scalar_formulas.py
"""Functions of numbers by formulas of other ops, for backends that have no code of their own.

Sources: M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions", 1964, 6.3, 6.4 and 23.2
(polygamma, the zeta function by Euler and Maclaurin's sum); StableHLO's specification of
reduce_precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from weft.core import dtypes
from weft.formulas.language import in_double
from weft.formulas.special import bernoulli, digamma

if TYPE_CHECKING:
    from weft.runtime.array import Array

SHIFT = 10
"""Terms summed before the asymptotic series, which is exact to a double's end from there."""


def _modules() -> tuple[Array, Array]:
    import weft.numpy as jnp
    from weft import lax

    return jnp, lax


# Sums, in double precision -----------------------------------------------------------------------


def _zeta(x: Array, q: Array) -> Array:
    jnp, lax = _modules()
    total = lax.fori_loop(0, SHIFT, lambda k, s: s + (q + k) ** -x, jnp.zeros_like(x + q))
    z = q + SHIFT
    power = z**-x
    total = total + power * z / (x - 1) + power / 2
    factor = power * x / z
    for k, b in enumerate(bernoulli(12), 1):
        total = total + factor * (b / math.factorial(2 * k))
        factor = factor * (x + (2 * k - 1)) * (x + 2 * k) / (z * z)
    pole = (q <= 0) & (q == jnp.floor(q))
    even = (x == jnp.floor(x)) & (jnp.floor(x / 2) * 2 == x)
    total = jnp.where(pole, jnp.where(even, np.inf, np.nan), total)
    return jnp.where(x == 1, np.inf, jnp.where(x < 1, np.nan, total))


def _polygamma(m: Array, x: Array) -> Array:
    jnp, lax = _modules()
    odd = jnp.floor(m / 2) * 2 != m
    factor = jnp.exp(lax.lgamma(m + 1)) * jnp.where(odd, 1.0, -1.0)
    value = jnp.where(m == 0, digamma(x), factor * _zeta(m + 1, x))
    return jnp.where((m >= 0) & (m == jnp.floor(m)), value, np.nan)


# Bits --------------------------------------------------------------------------------------------


def _bits(x: Array, sign: str = "int") -> Array:
    _, lax = _modules()
    return lax.bitcast_convert_type(x, f"{sign}{8 * x.dtype.itemsize}")


def _unsigned(x: Array) -> Array:
    return _bits(x, "uint") if dtypes.is_signed(x.dtype) else x


def _population_count(x: Array) -> Array:
    """Sum neighbouring fields of 1, 2 and 4 bits, then all bytes by a product."""
    n = _unsigned(x)
    number, width = n.dtype.type, 8 * n.dtype.itemsize
    field = lambda byte: number(int.from_bytes([byte] * n.dtype.itemsize, "big"))
    n = n - ((n >> number(1)) & field(0x55))
    n = (n & field(0x33)) + ((n >> number(2)) & field(0x33))
    n = (n + (n >> number(4))) & field(0x0F)
    return ((n * field(0x01)) >> number(width - 8)).astype(x.dtype)


def _leading_zeros(x: Array) -> Array:
    """Return the bits that stay zero when the highest one is copied to all below it."""
    n = _unsigned(x)
    width, step = 8 * n.dtype.itemsize, 1
    while step < width:
        n = n | (n >> n.dtype.type(step))
        step *= 2
    return x.dtype.type(width) - _population_count(n).astype(x.dtype)


def _nextafter(x: Array, y: Array) -> Array:
    """Return the number with the next bits, further from 0 or nearer to it."""
    jnp, lax = _modules()
    bits, other = _bits(x), _bits(y)
    one, lowest = bits.dtype.type(1), dtypes.iinfo(bits.dtype).min
    further = (y > x) ^ (bits < 0)
    least = other & lowest | one
    moved = jnp.where((bits << one) == 0, least, bits + jnp.where(further, one, -one))
    value = jnp.where(x == y, y, lax.bitcast_convert_type(moved, x.dtype))
    return jnp.where((x != x) | (y != y), x.dtype.type(np.nan), value)


def _reduce_precision(x: Array, *, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to even at the given bits; what is then too large is infinite, too small zero."""
    jnp, lax = _modules()
    info = dtypes.finfo(x.dtype)
    bits, drop = _bits(x, "uint"), info.nmant - mantissa_bits
    rounded = x
    if drop > 0:
        number = bits.dtype.type
        half = (bits >> number(drop)) & number(1)
        half = half + number((1 << (drop - 1)) - 1)
        rounded = (bits + half) & ~number((1 << drop) - 1)
        rounded = lax.bitcast_convert_type(rounded, x.dtype)
    if exponent_bits < info.nexp:
        bias = (1 << (exponent_bits - 1)) - 1
        largest = (2 - 2.0 ** -min(mantissa_bits, info.nmant)) * 2.0**bias
        ends = [x.dtype.type(v) for v in (largest, np.inf, 2.0 ** (1 - bias), 0)]
        size = abs(rounded)
        size = jnp.where(size > ends[0], ends[1], jnp.where(size < ends[2], ends[3], size))
        rounded = jnp.copysign(size, x)
    return jnp.where(x != x, x, rounded)


def _total_order(compare: str) -> Callable:
    """Compare by IEEE 754's total order, which is that of the bits but for their sign."""

    def ordered(x: Array) -> Array:
        jnp, _ = _modules()
        if not dtypes.is_float(x.dtype):
            return x
        bits = _bits(x)
        return jnp.where(bits < 0, bits ^ dtypes.iinfo(bits.dtype).max, bits)

    return lambda x, y: getattr(_modules()[1], compare)(ordered(x), ordered(y))


FORMULAS: dict[str, Callable] = {
    "eq_to": _total_order("eq"),
    "lt_to": _total_order("lt"),
    "le_to": _total_order("le"),
    "digamma": digamma,
    "polygamma": in_double(_polygamma),
    "zeta": in_double(_zeta),
    "population_count": _population_count,
    "clz": _leading_zeros,
    "nextafter": _nextafter,
    "reduce_precision": _reduce_precision,
}
