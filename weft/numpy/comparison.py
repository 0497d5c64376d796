# Tests: tests/numpy/test_formulas.py
"""Comparison of whole arrays, and closeness of floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft.numpy.ufuncs as u
from weft.core import dtypes
from weft.core.trace import typeof
from weft.numpy.common import INEXACT, aval_of, fill
from weft.numpy.creation import asarray
from weft.numpy.eager import as_one_program
from weft.numpy.value_tests import isfinite, isnan
from weft.ops.promote import promote

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: object = 1e-05, atol: object = 1e-08, equal_nan: bool = False
) -> Any:
    """Return whether |a - b| <= atol + rtol * |b|, element by element; infinities equal themselves.

    Source: numpy.isclose.

    >>> import weft.numpy as wnp
    >>> wnp.isclose(wnp.array([1.0, 1.0, 0.0]), wnp.array([1.000001, 1.001, 1e-9]))
    Array([ True, False,  True], dtype=bool)
    """
    return as_one_program(_isclose, a, b, rtol, atol, equal_nan=equal_nan)


def _isclose(a: Any, b: Any, rtol: object, atol: object, equal_nan: bool) -> Any:
    aval_of("isclose", a), aval_of("isclose", b)
    a, b = promote(a, b)
    dtype = typeof(a).dtype
    if dtype not in INEXACT:
        if dtype == dtypes.bool_ or dtypes.is_extended(dtype):  # of keys nothing is near
            return u.equal(a, b)
        a, b = u.inexact(a), u.inexact(b)
    bound = u.add(atol, u.multiply(rtol, u.absolute(b)))
    near = u.less_equal(u.absolute(u.subtract(a, b)), bound)
    finite = isfinite(b)  # as in NumPy: within an infinite tolerance all are close to it
    out = u.logical_or(u.logical_and(finite, near), u.equal(a, b))
    if equal_nan:
        out = u.logical_or(out, u.logical_and(isnan(a), isnan(b)))
    return out


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: object = 1e-05, atol: object = 1e-08, equal_nan: bool = False
) -> Any:
    """Return whether all elements are close; see `isclose`.

    >>> import weft.numpy as wnp
    >>> wnp.allclose(wnp.array([1.0, 1e-9]), wnp.array([1.000001, 0.0]))
    Array(True, dtype=bool)
    """
    return as_one_program(_allclose, a, b, rtol, atol, equal_nan=equal_nan)


def _allclose(a: object, b: object, rtol: object, atol: object, equal_nan: bool) -> Any:
    from weft.numpy.reductions import all

    return all(_isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Return whether shapes and all elements are equal.

    >>> import weft.numpy as wnp
    >>> wnp.array_equal(wnp.array([1.0, wnp.nan]), wnp.array([1.0, wnp.nan]), equal_nan=True)
    Array(True, dtype=bool)
    """
    from weft.numpy.reductions import all

    try:
        a1, a2 = asarray(a1), asarray(a2)
    except TypeError:
        return fill((), False, dtypes.bool_)
    if a1.shape != a2.shape:
        return fill((), False, dtypes.bool_)
    same = u.equal(a1, a2)
    if equal_nan:
        same = u.logical_or(same, u.logical_and(isnan(a1), isnan(a2)))
    return all(same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Any:
    """Return whether the arrays broadcast to one shape with equal elements.

    >>> import weft.numpy as wnp
    >>> wnp.array_equiv(wnp.array([1, 2]), wnp.array([[1, 2], [1, 2]]))
    Array(True, dtype=bool)
    """
    from weft.numpy.reductions import all

    try:
        a1, a2 = asarray(a1), asarray(a2)
        return all(u.equal(a1, a2))
    except (TypeError, ValueError):
        return fill((), False, dtypes.bool_)
