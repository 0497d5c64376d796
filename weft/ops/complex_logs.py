"""Logarithms, inverse square roots and powers of complex numbers.

XLA's own lose digits of moduli below 1, small parts beside large ones, and numbers whose square
overflows (quirks.COMPLEX_LOGS).
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any

from weft.autodiff.op_families import scalar
from weft.core import dtypes
from weft.core.config import options
from weft.ops.arithmetic import (
    _div,
    _like,
    _mul,
    _plus,
    _square,
    _times,
    abs_p,
    add_p,
    and_p,
    complex_p,
    eq_p,
    gt_p,
    imag_p,
    lt_p,
    max_p,
    min_p,
    neg_p,
    or_p,
    real_p,
    select,
    sub_p,
)
from weft.ops.complex_trig import complex_exp
from weft.ops.complex_values import fusible, infinite, split
from weft.ops.dtype_casts import convert

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def complex_log(z: object) -> Any:
    """log|z| + i times the angle of z."""
    from weft.ops.transcendental import atan2_p

    a, b = real_p.bind(z), imag_p.bind(z)
    big, small = _ordered(a, b)
    re = _log_modulus(big, small, _plus(big, -1), small)
    return complex_p.bind(_unless_infinite(a, b, re), atan2_p.bind(b, a))


def complex_log1p(z: object) -> Any:
    """Return the logarithm of 1 + z."""
    from weft.ops.transcendental import atan2_p

    a, b = real_p.bind(z), imag_p.bind(z)
    x = _plus(a, 1)
    re = _log_modulus(*_ordered(x, b), a, b)
    return complex_p.bind(_unless_infinite(a, b, re), atan2_p.bind(b, x))


def _ordered(a: ArrayLike, b: ArrayLike) -> tuple[Any, Any]:
    """Return the larger and the smaller of two magnitudes."""
    first, second = abs_p.bind(a), abs_p.bind(b)
    return max_p.bind(first, second), min_p.bind(first, second)


def _log_modulus(big: ArrayLike, small: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """Return the logarithm of the root of big**2 + small**2, by a and b near 1.

    There that sum is 1 + 2 a + a**2 + b**2, whose terms may cancel: squares of both halves of the
    bits of a and b are exact, and what rounding the sums of the larger ones loses is added.
    """
    from weft.ops.transcendental import log1p_p, log_p

    (a_top, a_rest), (b_top, b_rest) = split(a), split(b)
    first, lost = _two_sum(_times(a, 2), _square(b_top))
    first, lost_too = _two_sum(first, _square(a_top))
    second, low = _two_sum(_mul(_times(a_top, 2), a_rest), _mul(_times(b_top, 2), b_rest))
    first, low_too = _two_sum(first, second)
    terms = lost_too, low, low_too, _square(a_rest), _square(b_rest)
    less = add_p.bind(first, reduce(add_p.bind, terms, lost))
    near = and_p.bind(gt_p.bind(less, scalar(-0.5, less)), lt_p.bind(less, scalar(3, less)))
    square = select(near, less, _square(_ratio(big, small)))
    tail = _times(log1p_p.bind(square), 0.5)
    return add_p.bind(select(near, _like(scalar(0, big), big), log_p.bind(big)), tail)


def _unless_infinite(a: ArrayLike, b: ArrayLike, value: ArrayLike) -> Any:
    """Return the value, but infinity where a or b is infinite, also beside a NaN."""
    either = or_p.bind(infinite(a), infinite(b))
    return select(either, _like(scalar(math.inf, value), value), value)


def _two_sum(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Return a sum and what its rounding lost. Source: D. Knuth, TAOCP 2, 4.2.2."""
    total = add_p.bind(x, y)
    part = sub_p.bind(total, x)
    rest = sub_p.bind(x, sub_p.bind(total, part))
    return total, add_p.bind(rest, sub_p.bind(y, part))


def _ratio(big: ArrayLike, small: ArrayLike) -> Any:
    """small / big, 0 where both are."""
    zero = eq_p.bind(big, scalar(0, big))
    return select(zero, small, _div(small, select(zero, _like(scalar(1, big), big), big)))


def complex_rsqrt(z: object) -> Any:
    """Return roots of (|z| + |a|) / 2 and (|z| - |a|) / 2 over |z|, relative to the larger part."""
    from weft.ops.transcendental import sqrt_p

    a, b = real_p.bind(z), imag_p.bind(z)
    big, small = _ordered(a, b)
    ratio, one = fusible(_ratio(big, small), small), _like(scalar(1, big), big)
    wide = eq_p.bind(abs_p.bind(a), big)
    square = _plus(_square(ratio), 1)
    half = _times(add_p.bind(sqrt_p.bind(square), select(wide, one, ratio)), 0.5)
    root = fusible(sqrt_p.bind(big), big)
    long = fusible(_div(sqrt_p.bind(_div(half, square)), root), root)
    below = _mul(sqrt_p.bind(_mul(half, square)), root)
    short = fusible(_div(_times(select(wide, ratio, one), 0.5), below), below)
    left = lt_p.bind(a, scalar(0, a))
    im = select(left, long, short)
    im = select(lt_p.bind(b, scalar(0, b)), im, neg_p.bind(im))
    return complex_p.bind(select(left, short, long), im)


def complex_power(z: ArrayLike, w: ArrayLike) -> Any:
    """exp(w log z), 1 for w = 0; an exponent without imaginary part leaves infinities alone."""
    from weft.ops.transcendental import atan2_p, log1p_p, log_p

    a, b = real_p.bind(z), imag_p.bind(z)
    big, small = _ordered(a, b)
    tail = _times(log1p_p.bind(_square(_ratio(big, small))), 0.5)
    return _power_of(add_p.bind(log_p.bind(big), tail), atan2_p.bind(b, a), w)


def wide_power(z: ArrayLike, w: ArrayLike) -> Any:
    """Return the power of complex64 by way of complex128: a logarithm's error counts |w| times."""
    from weft.ops.transcendental import atan2_p, log_p

    with options["enable_x64"](True):
        a, b = (convert(part.bind(z), dtypes.float64) for part in (real_p, imag_p))
        log = _times(log_p.bind(add_p.bind(_square(a), _square(b))), 0.5)
        wide = _power_of(log, atan2_p.bind(b, a), convert(w, dtypes.complex128))
        return convert(wide, dtypes.complex64)


def _power_of(log: Any, turn: Any, w: ArrayLike) -> Any:
    """Return the power w of the number whose logarithm has these parts."""
    c, d = real_p.bind(w), imag_p.bind(w)
    zero = _like(scalar(0, c), c)
    nothing = and_p.bind(eq_p.bind(c, zero), eq_p.bind(d, zero))
    size = sub_p.bind(_product(c, log), _product(d, turn))
    angle = add_p.bind(_product(d, log), _product(c, turn))
    one = complex_p.bind(_like(scalar(1, c), c), zero)
    return select(nothing, one, complex_exp(complex_p.bind(size, angle)))


def _product(x: ArrayLike, y: ArrayLike) -> Any:
    """x * y, 0 for x = 0."""
    zero = _like(scalar(0, x), x)
    return select(eq_p.bind(x, zero), zero, _mul(x, y))
