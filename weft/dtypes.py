# Tests: tests/core/test_dtypes.py
"""Dtypes: predicates, promotion, `float0`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core import dtypes as _dtypes
from weft.core.dtypes import (
    TypePromotionError,
    finfo,
    float0,
    iinfo,
    issubdtype,
)
from weft.core.namespace import seal
from weft.core.trace import typeof

if TYPE_CHECKING:
    from weft.typing import ArrayLike

__all__ = [
    "TypePromotionError",
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "itemsize_bits",
    "prng_key",
    "result_type",
    "scalar_type_of",
]


bfloat16 = _dtypes.bfloat16.type
"""The scalar type of brain floating point numbers, as ml_dtypes defines it."""


class extended:  # noqa: N801
    """The abstract type of dtypes whose elements are small arrays."""

    _extended = True


class prng_key(extended):  # noqa: N801
    """The abstract type of random keys: `issubdtype(key.dtype, prng_key)`."""


def canonicalize_dtype(dtype: object, allow_extended_dtype: bool = False) -> Any:
    """Return the dtype weft computes in: 64-bit types become 32-bit unless `enable_x64` is set.

    allow_extended_dtype: take dtypes of random keys, too, which are as they are.

    Raises TypeError for what is no dtype, or none that weft computes in.

    >>> import weft
    >>> weft.dtypes.canonicalize_dtype("float64")
    dtype('float32')
    """
    if _dtypes.is_extended(dtype) and not allow_extended_dtype:
        raise TypeError(
            f"canonicalize_dtype: {dtype} is a dtype of keys, not of numbers; call it with "
            "allow_extended_dtype=True to get it back as it is"
        )
    return _dtypes.canonicalize_dtype(dtype)


def itemsize_bits(dtype: Any) -> int:
    """Return bits of an element; less than 8 for the small integers, although each fills a byte.

    >>> import weft
    >>> weft.dtypes.itemsize_bits("int4"), weft.dtypes.itemsize_bits("complex64")
    (4, 64)
    """
    if _dtypes.is_extended(dtype):
        return dtype.itemsize * 8
    dtype = _dtypes.np.dtype(dtype)
    if _dtypes.is_integer(dtype):
        return int(iinfo(dtype).bits)
    if _dtypes.is_float(dtype):
        return int(finfo(dtype).bits)
    return dtype.itemsize * 8


def scalar_type_of(x: ArrayLike) -> type:
    """Return the Python type of a value's elements: bool, int, float or complex.

    >>> import weft
    >>> weft.dtypes.scalar_type_of(weft.numpy.ones(2, "bfloat16"))
    <class 'float'>
    """
    dtype = typeof(x).dtype
    kinds = {
        bool: _dtypes.is_bool,
        int: _dtypes.is_integer,
        float: _dtypes.is_float,
        complex: _dtypes.is_complex,
    }
    for kind, is_of in kinds.items():
        if is_of(dtype):
            return kind
    raise TypeError(f"scalar_type_of: a value of dtype {dtype} has no Python scalars")


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Return the dtype that the arguments promote to; see `weft.numpy.result_type`.

    return_weak_type_flag: return (dtype, whether it is weak, as that of Python scalars).

    >>> import weft
    >>> weft.dtypes.result_type("int32", "bfloat16")
    dtype(bfloat16)
    >>> weft.dtypes.result_type(1, 2.0, return_weak_type_flag=True)
    (dtype('float32'), True)
    """
    from weft.numpy import result_type as rule
    from weft.numpy.scalar_types import pair_of

    dtype = rule(*args)
    if not return_weak_type_flag:
        return dtype
    return dtype, _dtypes.promote_types([pair_of(a) for a in args])[1]


seal(globals())
