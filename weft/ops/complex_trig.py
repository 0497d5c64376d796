"""Trigonometric and hyperbolic functions, exponentials of complex numbers, as C99 has them.

XLA's own give NaN where one part is infinite or zero, lose signs of zeros, small imaginary parts
and all digits near poles (quirks.COMPLEX_TRIG), and take twice the time.

Source: ISO C99, annex G.6 (csinh, ccosh, cexp; sine and cosine turned by i); W. Kahan, "Branch cuts
for complex elementary functions", 1987 (tanh).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import scalar
from weft.core.trace import typeof
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
    clamp_p,
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
    sub_p,
)
from weft.ops.complex_values import split

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


def complex_tanh(z: object) -> Any:
    """(sinh x cosh x + i sin y cos y) / (sinh(x)**2 + cos(y)**2), by t = tan y.

    Beyond the bound both parts are those of the bound: 1 and less than a normal number.
    """
    from weft.ops.transcendental import sinh_p, sqrt_p, tan_p

    x, y = real_p.bind(z), imag_p.bind(z)
    t = tan_p.bind(y)
    bound = scalar(_TANH_BOUND[typeof(x).dtype.name], x)
    s = sinh_p.bind(clamp_p.bind(neg_p.bind(bound), x, bound))
    square = _square(s)
    # Both parts over 1 + t**2, which overflows for no t: numbers are not that near to poles.
    secant = _plus(_square(t), 1)
    below = add_p.bind(square, _div(scalar(1, x), secant))
    re = _div(_mul(s, sqrt_p.bind(_plus(square, 1))), below)
    im = _div(_div(t, secant), below)
    # Where y has no direction an infinite x decides alone, and a zero stays.
    lost, far = _is_nan(t), _is_infinite(x)
    one = select(lt_p.bind(x, scalar(0, x)), _like(scalar(-1, x), x), _like(scalar(1, x), x))
    re = select(far, one, select(eq_p.bind(x, scalar(0, x)), x, re))
    im = select(and_p.bind(far, lost), _like(scalar(0, y), y), im)
    return complex_p.bind(re, select(eq_p.bind(y, scalar(0, y)), y, im))


_TANH_BOUND = {"float32": 44.3, "float64": 354.9}


def complex_tan(z: object) -> Any:
    """-i tanh(iz)."""
    out = complex_tanh(complex_p.bind(neg_p.bind(imag_p.bind(z)), real_p.bind(z)))
    return complex_p.bind(imag_p.bind(out), neg_p.bind(real_p.bind(out)))


def complex_logistic(z: object) -> Any:
    """1 / (1 + exp(-z)), by e = exp(-|x|), 1 - e, and sine and cosine of y / 2.

    For x >= 0 the square of |1 + exp(-z)| is (1 - e)**2 + 4 e cos(y / 2)**2, without cancellation.
    """
    from weft.ops.transcendental import cos_p, exp_p, expm1_p, sin_p

    x, y = real_p.bind(z), imag_p.bind(z)
    size, half = neg_p.bind(abs_p.bind(x)), _times(y, 0.5)
    e, less = exp_p.bind(size), neg_p.bind(expm1_p.bind(size))
    sin, cos = sin_p.bind(half), cos_p.bind(half)
    twice = _times(_square(cos), 2)  # 1 + cos y
    near = _mul(e, twice)
    below = add_p.bind(_square(less), _times(near, 2))
    wave = _mul(sub_p.bind(cos, sin), add_p.bind(cos, sin))  # cos y
    behind = lt_p.bind(wave, scalar(0, wave))
    left = _mul(e, select(behind, sub_p.bind(twice, less), add_p.bind(wave, e)))
    right = add_p.bind(less, near)  # 1 + e cos y
    re = select(lt_p.bind(x, scalar(0, x)), left, right)
    im = _times(_mul(_mul(e, sin), cos), 2)
    return complex_p.bind(_div(re, below), _div(im, below))


def complex_exp(z: object) -> Any:
    """e to the power a, turned by b; an infinite a decides alone where b has no direction."""
    from weft.ops.transcendental import cos_p, sin_p

    a, b = real_p.bind(z), imag_p.bind(z)
    return _turned_power(_exp, a, b, cos_p.bind(b), sin_p.bind(b))


def complex_exp2(z: object) -> Any:
    """2 to the power a, turned by b ln 2 as a sum of two numbers."""
    from weft.ops.transcendental import cos_p, exp2_p, sin_p

    a, b = real_p.bind(z), imag_p.bind(z)
    top, rest = split(b)
    # The first part of ln 2 has so few bits that its product with `top` is exact.
    grid = 2.0 ** (26 if typeof(b).dtype == np.float64 else 12)
    factor = math.floor(math.log(2) * grid) / grid
    left = (math.log(2) - factor) + 2.3190468138462996e-17
    product = _times(top, factor)
    small = add_p.bind(_times(top, left), _times(rest, math.log(2)))
    angle = add_p.bind(product, small)
    lost = add_p.bind(sub_p.bind(product, angle), small)
    sin, cos = sin_p.bind(angle), cos_p.bind(angle)
    turned = sub_p.bind(cos, _mul(lost, sin)), add_p.bind(sin, _mul(lost, cos))
    return _turned_power(exp2_p.bind, a, b, *turned)


def complex_expm1(z: object) -> Any:
    """expm1(a) cos b - 2 sin(b / 2)**2 + i exp(a) sin b, accurate near 0."""
    from weft.ops.transcendental import cos_p, expm1_p, sin_p

    a, b = real_p.bind(z), imag_p.bind(z)
    less, sin, half = expm1_p.bind(a), sin_p.bind(b), sin_p.bind(_times(b, 0.5))
    cos, lost = _directed(cos_p.bind(b), a)
    still = or_p.bind(lost, eq_p.bind(b, scalar(0, b)))
    fall = select(still, _like(scalar(0, b), b), _times(_mul(half, half), -2))
    im = _turned(_exponential(_exp, a)(sin), a, b, lost)
    return complex_p.bind(add_p.bind(_mul(less, cos), fall), im)


def _turned_power(power: Callable, a: ArrayLike, b: ArrayLike, cos: Any, sin: Any) -> Any:
    """Return power(a) (cos + i sin), the sine and cosine of b times something."""
    cos, lost = _directed(cos, a)
    sized = _exponential(power, a)
    return complex_p.bind(sized(cos), _turned(sized(sin), a, b, lost))


def _directed(cos: Any, a: ArrayLike) -> tuple[Any, Any]:
    """cos, 1 where an infinite a is beside a b without direction, and where that is."""
    lost = and_p.bind(_is_nan(cos), _is_infinite(a))
    return select(lost, _like(scalar(1, cos), cos), cos), lost


def _exponential(power: Callable, a: ArrayLike) -> Callable:
    """Multiplication by power(a), e or 2 to the power a, that overflows only where it must.

    Of large exponents a half is taken off, twice.
    """
    wide = typeof(a).dtype == np.float64
    most = (354.0 if wide else 44.0) if power is _exp else (512.0 if wide else 64.0)
    large = gt_p.bind(a, scalar(2 * most - 1, a))
    factor = _like(scalar(math.exp(most) if power is _exp else 2.0**most, a), a)
    factor = select(large, factor, _like(scalar(1, a), a))
    size = power(select(large, _plus(a, -2 * most), a))
    return lambda v: _mul(_mul(_mul(size, v), factor), factor)


def _exp(x: ArrayLike) -> Any:
    from weft.ops.transcendental import exp_p

    return exp_p.bind(x)


def _turned(im: ArrayLike, a: ArrayLike, b: ArrayLike, lost: ArrayLike) -> Any:
    """Return the imaginary part: b where that is 0, and 0 where nothing has a direction."""
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
    "complex_exp2",
    "complex_expm1",
    "complex_logistic",
    "complex_sin",
    "complex_sinh",
    "complex_tan",
    "complex_tanh",
]
