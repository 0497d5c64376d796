# Tests: tests/ops/test_elementwise_api.py
"""Special values of complex functions: zeros with signs, infinities and NaN as C99 has them.

XLA's own are others (quirks.COMPLEX_SPECIALS). A repair takes the parts a and b of the operand and
the parts of XLA's result, and gives the parts of the right result; it leaves ordinary numbers as
they are.

Source: ISO C99, annex G.6; the array API standard, special cases of elementwise functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import scalar
from weft.core.aval import ShapedArray
from weft.core.trace import typeof
from weft.ops.arithmetic import (
    _like,
    abs_p,
    and_p,
    complex_p,
    eq_p,
    ge_p,
    imag_p,
    is_finite_p,
    le_p,
    lt_p,
    ne_p,
    neg_p,
    or_p,
    real_p,
    select,
    sub_p,
)
from weft.ops.dtype_casts import bitcast_convert_type, real_dtype

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Parts = tuple[Any, Any]
Repair = Callable[[Any, Any, Any, Any], Parts]


def lower_repaired(ctx: RuleContext, repair: Repair, x: ir.Value, out: ir.Value) -> ir.Value:
    """Emit a repair of `out`, what XLA computes of the complex operand x."""

    def repaired(x: ArrayLike, out: ArrayLike) -> Any:
        parts = repair(real_p.bind(x), imag_p.bind(x), real_p.bind(out), imag_p.bind(out))
        return complex_p.bind(*parts)

    aval = ctx.avals_in[0]
    like = ShapedArray(aval.shape, aval.dtype)
    return ctx.lower_fun(repaired, x, out, avals=[like, like])[0]


def lower_abs(ctx: RuleContext, x: ir.Value, out: ir.Value) -> ir.Value:
    """Emit the repair of |x|, which is infinite where a part of x is, whatever the other."""

    def repaired(x: ArrayLike, out: ArrayLike) -> Any:
        either = or_p.bind(infinite(real_p.bind(x)), infinite(imag_p.bind(x)))
        return select(either, _constant(math.inf, out), out)

    aval = ctx.avals_in[0]
    size = ShapedArray(aval.shape, real_dtype(aval.dtype))
    return ctx.lower_fun(repaired, x, out, avals=[ShapedArray(aval.shape, aval.dtype), size])[0]


def sqrt(a: ArrayLike, b: ArrayLike, re: ArrayLike, im: ArrayLike) -> Parts:
    """Let the infinite part decide beside a NaN; roots of reals >= 0 keep the zero's sign."""
    tall, blank = infinite(b), _is_nan(b)
    re = select(or_p.bind(tall, _is(a, math.inf)), _constant(math.inf, re), re)
    im = select(and_p.bind(blank, _is(a, -math.inf)), _constant(math.inf, im), im)
    real = and_p.bind(_is(b, 0), ge_p.bind(a, scalar(0, a)))
    return re, select(or_p.bind(tall, real), b, im)


def acos(a: ArrayLike, b: ArrayLike, re: ArrayLike, im: ArrayLike) -> Parts:
    """Right angles of imaginary numbers, and zeros of those between -1 and 1."""
    im = _unknown(a, b, im)
    blank = and_p.bind(_is(a, 0), _is_nan(b))
    re = select(blank, _constant(math.pi / 2, re), re)
    return re, select(and_p.bind(_is(b, 0), _within_one(a)), neg_p.bind(b), im)


def acosh(a: ArrayLike, b: ArrayLike, re: ArrayLike, im: ArrayLike) -> Parts:
    """Give the imaginary part the sign of b, also of its zeros."""
    re = _unknown(a, b, re)
    blank = and_p.bind(_is(a, 0), _is_nan(b))
    im = select(blank, _constant(math.pi / 2, im), im)
    below = and_p.bind(_is(b, 0), _has_sign(b))
    return re, select(below, neg_p.bind(abs_p.bind(im)), im)


def asinh(a: ArrayLike, b: ArrayLike, re: ArrayLike, im: ArrayLike) -> Parts:
    """Give zeros the signs of the operand's, off the branch cuts."""
    re = _unknown(a, b, re)
    re = select(and_p.bind(_is(a, 0), _within_one(b)), a, re)
    return re, select(_is(b, 0), b, im)


def atanh(a: ArrayLike, b: ArrayLike, re: ArrayLike, im: ArrayLike) -> Parts:
    """Give zeros signs as `asinh` does; the angle of a NaN is NaN but beside an infinite b."""
    re = select(_is(a, 0), a, re)
    short = lt_p.bind(abs_p.bind(b), scalar(math.inf, b))
    blank = or_p.bind(_is_nan(b), and_p.bind(_is_nan(a), short))
    im = select(blank, _constant(math.nan, im), im)
    return re, select(and_p.bind(_is(b, 0), _within_one(a)), b, im)


def turned(repair: Repair) -> Repair:
    """Repair -i f(iz), given f's repair: sine's by the hyperbolic sine's, and its like."""

    def repaired(a: ArrayLike, b: ArrayLike, re: ArrayLike, im: ArrayLike) -> Parts:
        p, q = repair(neg_p.bind(b), a, neg_p.bind(im), re)
        return q, neg_p.bind(p)

    return repaired


def _constant(value: float, like: ArrayLike) -> Any:
    return _like(scalar(value, like), like)


def _is(x: ArrayLike, value: float) -> Any:
    return eq_p.bind(x, scalar(value, x))


def _is_nan(x: ArrayLike) -> Any:
    return ne_p.bind(x, x)


def _unknown(a: ArrayLike, b: ArrayLike, part: ArrayLike) -> Any:
    """Return a part infinite or NaN beside a NaN operand, which XLA's complex64 may forget."""
    forgotten = and_p.bind(or_p.bind(_is_nan(a), _is_nan(b)), is_finite_p.bind(part))
    return select(forgotten, _constant(math.nan, part), part)


def infinite(x: ArrayLike) -> Any:
    return _is(abs_p.bind(x), math.inf)


def _within_one(x: ArrayLike) -> Any:
    return le_p.bind(abs_p.bind(x), scalar(1, x))


def _has_sign(x: ArrayLike) -> Any:
    bits = bitcast_convert_type(x, np.dtype(f"int{typeof(x).dtype.itemsize * 8}"))
    return lt_p.bind(bits, scalar(0, bits))


def split(x: ArrayLike) -> tuple[Any, Any]:
    """Return the first half of a float's bits, whose square is exact, and the rest."""
    size = typeof(x).dtype.itemsize * 8
    whole = bitcast_convert_type(x, np.dtype(f"int{size}"))
    kept = and_p.bind(whole, scalar(-1 << (27 if size == 64 else 12), whole))
    top = bitcast_convert_type(kept, typeof(x).dtype)
    return top, sub_p.bind(x, top)


def fusible(out: ArrayLike, x: ArrayLike) -> Any:
    """Return a quotient or a root as XLA fuses it with several ops (quirks.SHARED_QUOTIENTS).

    x: an operand, of which a NaN would make `out` one.
    """
    return select(_is_nan(x), x, out)
