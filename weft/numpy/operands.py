# Tests: tests/test_bad_input.py
"""Operands of the functions of numbers: checked, promoted and broadcast."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.core import dtypes
from weft.core.trace import typeof
from weft.numpy.common import (
    INEXACT,
    check_array,
    convert,
    fill,
    strong,
)
from weft.ops.promote import adapt, broadcast_args, promote_inexact, promote_numpy
from weft.ops.promote import broadcast_to as _broadcast_to

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def both(name: str, x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Both operands in their common dtype, broadcast."""
    try:
        return promote_numpy(name, x, y)
    except TypeError:
        check_array(name, x, y)
        raise


def both_inexact(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands in their common float or complex dtype, broadcast."""
    try:
        a, b = x.aval, y.aval
        if a.dtype is b.dtype and a.dtype in INEXACT and a.weak_type is b.weak_type:
            return (
                (x, y) if a.shape == b.shape or not a.shape or not b.shape else broadcast_args(x, y)
            )
    except AttributeError:
        check_array(name, x, y)
    return broadcast_args(*promote_inexact(x, y))


def same_rank(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Return operands of one rank for formulas with selects, which take no scalars among arrays."""
    shape = typeof(x).shape or typeof(y).shape
    return _broadcast_to(x, shape), _broadcast_to(y, shape)


def formula_operands(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Act as `same_rank`, of formulas that have weakly typed results for scalars only."""
    x, y = same_rank(x, y)
    return (strong(x), strong(y)) if typeof(x).shape else (x, y)


def dtype_of(x: ArrayLike) -> Any:
    return typeof(x).dtype


def is_complex(x: ArrayLike) -> builtins.bool:
    return typeof(x).dtype in dtypes.COMPLEX


def const_like(x: ArrayLike, value: object) -> Any:
    """Return a scalar of x's dtype, weak if x is."""
    aval = typeof(x)
    return adapt(value, aval) if aval.weak_type else aval.dtype.type(value)


def filled_like(x: ArrayLike, value: object) -> Any:
    """Return an array of x's shape and dtype filled with a number."""
    aval = typeof(x)
    filled = fill(aval.shape, value, aval.dtype)
    return convert(filled, aval.dtype, True) if aval.weak_type else filled


def named(function: Callable, name: str, doc: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: numpy.{name}."
    return function
