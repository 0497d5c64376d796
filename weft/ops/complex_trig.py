"""Sine and cosine of complex numbers, with the special values of C99.

XLA's own give NaN where one part is infinite or zero, and lose small imaginary parts
(quirks.COMPLEX_TRIG).

Source: ISO C99, annex G.6 (csinh and ccosh, turned by i).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.autodiff.op_families import scalar
from weft.ops.arithmetic import (
    _like,
    _mul,
    _times,
    abs_p,
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


def _is_nan(x: object) -> Any:
    return ne_p.bind(x, x)


def _is_infinite(x: object) -> Any:
    size = abs_p.bind(x)
    return eq_p.bind(size, _like(scalar(math.inf, size), size))


def _hyperbolic(y: Any) -> tuple[Callable, Callable]:
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

    def sinh(v: Any) -> Any:
        signed = select(negative, neg_p.bind(v), v)
        return select(large, split(signed), _mul(v, sinh_p.bind(y)))

    return cosh, sinh


__all__ = ["complex_cos", "complex_sin"]
