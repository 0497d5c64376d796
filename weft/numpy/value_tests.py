# Tests: tests/numpy/test_array_api_values.py
"""Functions that test the elements of an array: NaN, infinity, sign, imaginary parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.numpy.common import (
    INEXACT,
    aval_of,
    fill,
    refuse_complex,
    refuse_out,
    zeros_of,
)
from weft.numpy.operands import const_like
from weft.ops import elementwise_api as ew

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def isnan(x: ArrayLike, /) -> Any:
    """Return whether x is NaN. Source: numpy.isnan.

    >>> import weft.numpy as wnp
    >>> wnp.isnan(wnp.array([1.0, wnp.nan, -wnp.inf]))
    Array([False,  True, False], dtype=bool)
    """
    aval = aval_of("isnan", x)
    if aval.dtype not in INEXACT:
        return fill(aval.shape, False, dtypes.bool_)
    return ew.ne_p.bind(x, x)


def isfinite(x: ArrayLike, /) -> Any:
    """Return whether x is neither infinite nor NaN. Source: numpy.isfinite.

    >>> import weft.numpy as wnp
    >>> wnp.isfinite(wnp.array([1.0, wnp.nan, -wnp.inf]))
    Array([ True, False, False], dtype=bool)
    """
    aval = aval_of("isfinite", x)
    if aval.dtype in dtypes.COMPLEX:
        return ew.and_p.bind(isfinite(ew.real_p.bind(x)), isfinite(ew.imag_p.bind(x)))
    if aval.dtype not in INEXACT:
        return fill(aval.shape, True, dtypes.bool_)
    return ew.is_finite_p.bind(x)


def isinf(x: ArrayLike, /) -> Any:
    """Return whether x is infinite. Source: numpy.isinf.

    >>> import weft.numpy as wnp
    >>> wnp.isinf(wnp.array([1.0, wnp.nan, -wnp.inf]))
    Array([False, False,  True], dtype=bool)
    """
    aval = aval_of("isinf", x)
    if aval.dtype in dtypes.COMPLEX:
        return ew.or_p.bind(isinf(ew.real_p.bind(x)), isinf(ew.imag_p.bind(x)))
    if aval.dtype not in INEXACT:
        return fill(aval.shape, False, dtypes.bool_)
    return ew.eq_p.bind(ew.abs_p.bind(x), aval.dtype.type(np.inf))


def _is_signed_inf(name: str, x: ArrayLike, out: object, value: float) -> Any:
    refuse_out(name, out)
    aval = aval_of(name, x)
    refuse_complex(name, x)
    if aval.dtype not in INEXACT:
        return fill(aval.shape, False, dtypes.bool_)
    return ew.eq_p.bind(x, aval.dtype.type(value))


def isposinf(x: ArrayLike, /, out: object = None) -> Any:
    """Return whether x is positive infinity. Source: numpy.isposinf.

    >>> import weft.numpy as wnp
    >>> wnp.isposinf(wnp.array([wnp.inf, -wnp.inf]))
    Array([ True, False], dtype=bool)
    """
    return _is_signed_inf("isposinf", x, out, np.inf)


def isneginf(x: ArrayLike, /, out: object = None) -> Any:
    """Return whether x is negative infinity. Source: numpy.isneginf.

    >>> import weft.numpy as wnp
    >>> wnp.isneginf(wnp.array([wnp.inf, -wnp.inf]))
    Array([False,  True], dtype=bool)
    """
    return _is_signed_inf("isneginf", x, out, -np.inf)


def _imaginary(name: str, x: ArrayLike) -> Any:
    aval = aval_of(name, x)
    return ew.imag_p.bind(x) if aval.dtype in dtypes.COMPLEX else zeros_of(aval)


def iscomplex(x: ArrayLike) -> Any:
    """Return whether the imaginary part is nonzero. Source: numpy.iscomplex.

    >>> import weft.numpy as wnp
    >>> wnp.iscomplex(wnp.array([1 + 2j, 3]))
    Array([ True, False], dtype=bool)
    """
    part = _imaginary("iscomplex", x)
    return ew.ne_p.bind(part, const_like(part, 0))


def isreal(x: ArrayLike) -> Any:
    """Return whether the imaginary part is zero. Source: numpy.isreal.

    >>> import weft.numpy as wnp
    >>> wnp.isreal(wnp.array([1 + 2j, 3]))
    Array([False,  True], dtype=bool)
    """
    part = _imaginary("isreal", x)
    return ew.eq_p.bind(part, const_like(part, 0))


def signbit(x: ArrayLike, /) -> Any:
    """Return whether the sign bit is set: true for -0.0. Source: numpy.signbit.

    >>> import weft.numpy as wnp
    >>> wnp.signbit(wnp.array([-0.0, 0.0, -1.0]))
    Array([ True, False,  True], dtype=bool)
    """
    aval = aval_of("signbit", x)
    if aval.dtype in dtypes.FLOATS:
        bits = np.dtype(f"int{ew.bit_width(aval.dtype)}")
        x = ew.bitcast_convert_type_p.bind(x, new_dtype=bits)
    elif aval.dtype == dtypes.bool_ or aval.dtype in dtypes.UNSIGNED:
        return fill(aval.shape, False, dtypes.bool_)
    else:
        refuse_complex("signbit", x)
    return ew.lt_p.bind(x, const_like(x, 0))
