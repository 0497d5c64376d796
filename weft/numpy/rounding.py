# Tests: tests/numpy/test_ufuncs.py
"""Rounding: down, up, toward zero, to the nearest, and to decimals."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import INEXACT, aval_of, cast, convert, refuse_out, to_array
from weft.numpy.division import floor_divide, remainder
from weft.numpy.eager import as_one_program
from weft.numpy.operands import const_like, filled_like, is_complex, named
from weft.numpy.ufuncs import (
    add,
    equal,
    greater,
    imag,
    logical_and,
    logical_or,
    multiply,
    not_equal,
    real,
    subtract,
)
from weft.ops import elementwise_api as ew

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def _rounding(name: str, op: Callable, doc: str) -> Callable:
    """Round floats; integers and booleans are whole already."""

    def function(x: ArrayLike) -> Any:
        dtype = aval_of(name, x).dtype
        if dtype in INEXACT:
            return op(x)
        if dtypes.is_extended(dtype):
            raise ArgumentError(f"weft.numpy.{name}: takes numbers, got {typeof(x).str_short()}")
        return to_array(x)

    return named(function, name, doc)


floor = _rounding("floor", ew.floor_p.bind, "Return the largest integer not above x.")
ceil = _rounding("ceil", ew.ceil_p.bind, "Return the smallest integer not below x.")
trunc = _rounding(
    "trunc",
    lambda x: ew.select(ew.lt_p.bind(x, const_like(x, 0)), ew.ceil_p.bind(x), ew.floor_p.bind(x)),
    "x without its fraction.",
)


def rint(x: ArrayLike, /) -> Any:
    """Return the nearest integer as a float, halves to even. Source: numpy.rint.

    >>> import weft.numpy as wnp
    >>> wnp.rint(wnp.array([0.5, 1.5, -2.6]))
    Array([ 0.,  2., -3.], dtype=float32)
    """
    if aval_of("rint", x).dtype not in INEXACT:
        return convert(x, dtypes.canonicalize_dtype(float))
    if is_complex(x):
        return ew.complex_p.bind(rint(real(x)), rint(imag(x)))
    return ew.round_p.bind(x, rounding_method=1)


def round(a: ArrayLike, decimals: int = 0, out: object = None) -> Any:
    """Round to a number of decimals, halves to even; a negative number rounds tens, hundreds, …

    >>> import weft
    >>> weft.numpy.round(weft.numpy.array([1.25, 2.5]), 1)
    Array([1.2, 2.5], dtype=float32)
    """
    refuse_out("round", out)
    decimals = operator.index(decimals)
    dtype = aval_of("round", a).dtype
    if dtype not in INEXACT:
        if dtypes.is_bool(dtype) and decimals:
            raise ArgumentError("weft.numpy.round: bools have no decimals to round to")
        if decimals >= 0:
            return to_array(a)
        if 10**-decimals > int(dtypes.iinfo(dtype).max):
            return filled_like(to_array(a), 0)
        unit = const_like(a, 10**-decimals)
        half = const_like(a, 10**-decimals // 2)
        down = multiply(floor_divide(a, unit), unit)
        rest = subtract(a, down)
        odd = not_equal(remainder(floor_divide(a, unit), 2), 0)
        up = logical_or(greater(rest, half), logical_and(equal(rest, half), odd))
        return add(down, multiply(convert(up, dtype), unit))
    if dtype in dtypes.COMPLEX:
        return ew.complex_p.bind(round(real(a), decimals), round(imag(a), decimals))
    if decimals == 0:
        return ew.round_p.bind(a, rounding_method=1)
    # An operand, since programs would multiply by the reciprocal of a number.
    return as_one_program(_round_scaled, a, 10.0**decimals)


def _round_scaled(a: ArrayLike, scale: ArrayLike) -> Any:
    """Return a rounded to multiples of 1 / scale."""
    dtype = typeof(a).dtype
    # Narrow floats overflow or lose digits when scaled.
    wide = cast(a, dtypes.float32) if dtype.itemsize < 4 else a
    scale = convert(scale, typeof(wide).dtype, typeof(wide).weak_type)
    rounded = ew.div_p.bind(ew.round_p.bind(ew.mul_p.bind(wide, scale), rounding_method=1), scale)
    return cast(rounded, dtype) if wide is not a else rounded


around = round
