# Tests: tests/compat/test_as_jax.py
"""jax._src.core, for flax: the public names, and the type of a value as it lies in memory."""

from typing import Any

from weft.compat.jax import core as _core
from weft.core.aval import ShapedArray as ShapedArray
from weft.core.dtypes import is_extended


def physical_aval(aval: ShapedArray) -> Any:
    """Return the type of the words that make up an array of keys."""
    if not is_extended(aval.dtype):
        return aval
    dtype = aval.dtype
    return ShapedArray(aval.shape + dtype.physical_shape, dtype.physical_dtype)


def __getattr__(name: str) -> Any:
    return getattr(_core, name)
