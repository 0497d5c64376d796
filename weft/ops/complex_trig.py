"""Sine, cosine, their hyperbolic forms and exponentials of complex numbers, as C99 has them.

XLA's own give NaN where one part is infinite or zero, lose signs of zeros and small imaginary parts
(quirks.COMPLEX_TRIG), and take twice the time.

Source: ISO C99, annex G.6 (csinh, ccosh, cexp; sine and cosine turned by i).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.autodiff.op_families import scalar
from weft.ops.arithmetic import (
    _like,
    _mul,
    _times,
    abs_p,
    add_p,
    and_p,
    complex_p,
    eq_p,
    gt_p,
    imag_p,
    lt_p,
    ne_p,
    neg_p,
    or_p,
    real_p,
    select,
)

if TYPE_CHECKING:
    from weft.typing import ArrayLike

_LARGE = 20.0  # from here on, cosh and |sinh| are exp(|y|) / 2 to the last bit of a float64


def complex_sin(z: object) -> Any:
    """sin x cosh y + i cos x sinh y."""
    from weft.ops.transcendental import cos_p, sin_p

    x, y = real_p.bind(z), imag_p.bind(z)
    cosh, sinh = _hyperbolic(y)
    zero = _like(scalar(0, x), x)
    re = select(eq_p.bind(x, zero), x, cosh(sin_p.bind(x)))
    cos = cos_p.bind(x)
    sized = or_p.bind(eq_p.bind(y, zero), _is_infinite(y))  # these y hold whatever x is
    im = select(and_p.bind(_is_nan(cos), sized), y, sinh(cos))
    return complex_p.bind(re, im)


def complex_cos(z: object) -> Any:
    """cos x cosh y - i sin x sinh y."""
    from weft.ops.transcendental import cos_p, sin_p

    x, y = real_p.bind(z), imag_p.bind(z)
    cosh, sinh = _hyperbolic(y)
    zero = _like(scalar(0, x), x)
    sin, cos = sin_p.bind(x), cos_p.bind(x)
    re = select(and_p.bind(_is_nan(cos), _is_infinite(y)), abs_p.bind(y), cosh(cos))
    flat = eq_p.bind(y, zero)
    im = neg_p.bind(select(and_p.bind(_is_nan(sin), flat), y, sinh(sin)))
    turned = select(lt_p.bind(y, zero), x, neg_p.bind(x))
    turned = select(flat, neg_p.bind(_mul(x, y)), turned)  # zeros have signs
    return complex_p.bind(re, select(eq_p.bind(x, zero), turned, im))


def complex_sinh(z: object) -> Any:
    """-i sin(iz)."""
    out = complex_sin(complex_p.bind(neg_p.bind(imag_p.bind(z)), real_p.bind(z)))
    return complex_p.bind(imag_p.bind(out), neg_p.bind(real_p.bind(out)))


def complex_cosh(z: object) -> Any:
    """cos(iz)."""
    return complex_cos(complex_p.bind(neg_p.bind(imag_p.bind(z)), real_p.bind(z)))


def complex_exp(z: object) -> Any:
    """e to the power a, turned by b; an infinite a decides alone where b has no direction."""
    from weft.ops.transcendental import sin_p

    a, b = real_p.bind(z), imag_p.bind(z)
    cos, lost = _cosine(a, b)
    sized = _exponential(a)
    return complex_p.bind(sized(cos), _turned(sized(sin_p.bind(b)), a, b, lost))


def complex_expm1(z: object) -> Any:
    """expm1(a) cos b - 2 sin(b / 2)**2 + i exp(a) sin b, accurate near 0."""
    from weft.ops.transcendental import expm1_p, sin_p

    a, b = real_p.bind(z), imag_p.bind(z)
    less, sin, half = expm1_p.bind(a), sin_p.bind(b), sin_p.bind(_times(b, 0.5))
    cos, lost = _cosine(a, b)
    still = or_p.bind(lost, eq_p.bind(b, scalar(0, b)))
    fall = select(still, _like(scalar(0, b), b), _times(_mul(half, half), -2))
    im = _turned(_exponential(a)(sin), a, b, lost)
    return complex_p.bind(add_p.bind(_mul(less, cos), fall), im)


def _cosine(a: ArrayLike, b: ArrayLike) -> tuple[Any, Any]:
    """cos b, 1 where an infinite a is beside a b without direction, and where that is."""
    from weft.ops.transcendental import cos_p

    cos = cos_p.bind(b)
    lost = and_p.bind(_is_nan(cos), _is_infinite(a))
    return select(lost, _like(scalar(1, cos), cos), cos), lost


def _exponential(a: ArrayLike) -> Callable:
    """Multiplication by exp a that overflows only where the product does."""
    from weft.ops.transcendental import exp_p

    size, root = exp_p.bind(a), exp_p.bind(_times(a, 0.5))
    large = _is_infinite(size)
    return lambda v: select(large, _mul(_mul(v, root), root), _mul(size, v))


def _turned(im: ArrayLike, a: ArrayLike, b: ArrayLike, lost: ArrayLike) -> Any:
    """exp(a) sin b: b where that is 0, and 0 where nothing is left to have a direction."""
    zero = _like(scalar(0, b), b)
    flat = select(eq_p.bind(b, zero), b, im)
    return select(and_p.bind(lost, lt_p.bind(a, zero)), zero, flat)


def _is_nan(x: object) -> Any:
    return ne_p.bind(x, x)


def _is_infinite(x: object) -> Any:
    size = abs_p.bind(x)
    return eq_p.bind(size, _like(scalar(math.inf, size), size))


def _hyperbolic(y: ArrayLike) -> tuple[Callable, Callable]:
    """Multiplication by cosh y, and by sinh y, that overflows only where the product does."""
    from weft.ops.transcendental import cosh_p, exp_p, sinh_p

    size = abs_p.bind(y)
    large = gt_p.bind(size, _like(scalar(_LARGE, y), y))
    root = exp_p.bind(_times(size, 0.5))
    negative = lt_p.bind(y, _like(scalar(0, y), y))

    def split(v: Any) -> Any:
        return _mul(_mul(_times(v, 0.5), root), root)

    def cosh(v: object) -> Any:
        return select(large, split(v), _mul(v, cosh_p.bind(y)))

    def sinh(v: ArrayLike) -> Any:
        signed = select(negative, neg_p.bind(v), v)
        return select(large, split(signed), _mul(v, sinh_p.bind(y)))

    return cosh, sinh


__all__ = [
    "complex_cos",
    "complex_cosh",
    "complex_exp",
    "complex_expm1",
    "complex_sin",
    "complex_sinh",
]
