# Tests: tests/compat/test_other_modules.py
"""jax._src.numpy.util, for interpax, orthax, quadax, s2fft and others."""

from typing import Any

import numpy as np

from weft.core.trace import is_array_like
from weft.numpy import asarray
from weft.ops.promote import promote as promote_dtypes
from weft.ops.promote import promote_inexact as promote_dtypes_inexact
from weft.typing import ArrayLike


def promote_dtypes_complex(*xs: ArrayLike) -> tuple:
    """Act as `promote_dtypes_inexact`, with floats made complex."""
    return promote_dtypes(*promote_dtypes_inexact(*xs), np.complex64(0))[:-1]


def check_arraylike(fun_name: str, *args: object, **_: object) -> None:
    """Raise TypeError for the first argument that no array stands for."""
    for i, arg in enumerate(args):
        if not is_array_like(arg):
            kind = type(arg).__name__
            raise TypeError(
                f"{fun_name} requires ndarray or scalar arguments, got {kind} at position {i}."
            )


def promote_args(fun_name: str, *args: ArrayLike) -> list:
    """Return arguments as arrays of one dtype and rank."""
    check_arraylike(fun_name, *args)
    return promote_shapes(fun_name, *promote_dtypes(*args))


def promote_args_inexact(fun_name: str, *args: ArrayLike) -> list:
    """Act as `promote_args`, with integers made floats."""
    check_arraylike(fun_name, *args)
    return promote_shapes(fun_name, *promote_dtypes_inexact(*args))


def promote_args_numeric(fun_name: str, *args: ArrayLike) -> list:
    """Act as `promote_args`, with truth values made integers."""
    check_arraylike(fun_name, *args)
    promoted = promote_dtypes(*args)
    as_numbers = (x.astype(int) if x.dtype == bool else x for x in map(asarray, promoted))
    return promote_shapes(fun_name, *as_numbers)


def promote_shapes(fun_name: str, *args: ArrayLike) -> list:
    """Return arrays with dimensions of size 1 in front, where ranks differ and none is 0."""
    arrays = [asarray(x) for x in args]
    rank = max((x.ndim for x in arrays), default=0)
    return [x.reshape((1,) * (rank - x.ndim) + x.shape) if 0 < x.ndim < rank else x for x in arrays]


def ensure_arraylike(fun_name: str, /, *args: ArrayLike) -> Any:
    """Return arguments as arrays, one alone as itself."""
    check_arraylike(fun_name, *args)
    arrays = tuple(map(asarray, args))
    return arrays[0] if len(arrays) == 1 else arrays


__all__ = [
    "check_arraylike",
    "ensure_arraylike",
    "promote_args",
    "promote_args_inexact",
    "promote_args_numeric",
    "promote_dtypes",
    "promote_dtypes_complex",
    "promote_dtypes_inexact",
    "promote_shapes",
]
