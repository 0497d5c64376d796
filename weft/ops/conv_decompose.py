"""Convolutions of complex numbers and integers as some of floats, for GPUs: cuDNN has no others.

Integers are exact: numbers of 8 and 16 bits, and 16 bits of larger ones at a time, have products
that float64 sums without rounding (windows of up to 2**21 products), and what overflows wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.trace import typeof
from weft.ops.elementwise_api import (
    add,
    bitwise_and,
    convert,
    imag,
    real,
    shift_left,
    shift_right_logical,
    sub,
)
from weft.ops.elementwise_api import complex as make_complex

if TYPE_CHECKING:
    from weft.runtime.array import Array

Convolve = Callable[[Any, Any], Any]
_BITS = 16


def of_complex(convolve: Convolve, x: Array, y: Array) -> Any:
    """Return the convolution of complex x and y by four of their parts."""
    (a, b), (c, d) = ((real(v), imag(v)) for v in (x, y))
    return make_complex(
        sub(convolve(a, c), convolve(b, d)),
        add(convolve(a, d), convolve(b, c)),
    )


def of_integers(convolve: Convolve, x: Array, y: Array, dtype: np.dtype) -> Any:
    """Return the convolution of integers x and y, in `dtype`, by some of float64."""
    xs, ys = (_digits(v, dtype) for v in (x, y))
    digits = dtype.itemsize * 8 // _BITS or 1
    total = None
    for i, a in enumerate(xs):
        for j, b in enumerate(ys):
            if i + j >= digits:
                continue  # beyond what the dtype holds
            part = convert(convolve(a, b), dtypes.int64)
            if i + j:
                part = shift_left(part, _wide(_BITS * (i + j)))
            total = part if total is None else add(total, part)
    return convert(total, dtype)


def _wide(n: int) -> Any:
    """Return a constant of 64 bits, which a NumPy scalar is not where x64 is off."""
    return convert(np.int32(n), dtypes.int64)


def _digits(x: Array, dtype: np.dtype) -> list:
    """Return the number in float64: whole where it is small, else its digits to the base 2**16."""
    if typeof(x).dtype.itemsize * 8 <= _BITS:
        return [convert(x, dtypes.float64)]
    x = convert(x, dtypes.int64)
    digits = []
    for i in range(dtype.itemsize * 8 // _BITS):
        digit = shift_right_logical(x, _wide(_BITS * i)) if i else x
        digits.append(convert(bitwise_and(digit, _wide(2**_BITS - 1)), dtypes.float64))
    return digits
