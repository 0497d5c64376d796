# Tests: tests/compat/test_as_jax.py
"""jax._src.literals, for equinox, jaxtyping and quax: weft's literals are plain numbers."""

from __future__ import annotations

from typing import Self

import numpy as np

from weft.core.aval import ShapedArray


class LiteralArray:
    """JAX's scalars with a dtype; no value of weft's is one."""


class TypedNdArray:
    """JAX's constants with a dtype; no value of weft's is one."""


class _Typed:
    """A number of Python with a dtype."""

    dtype: np.dtype

    def __new__(cls, value: complex, dtype: np.dtype) -> Self:
        number = super().__new__(cls, value)  # type: ignore[call-arg]
        number.dtype = np.dtype(dtype)
        return number

    def __getnewargs__(self) -> tuple:
        return (self.__class__.__mro__[2](self), self.dtype)  # type: ignore[call-arg]

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray((), self.dtype, weak_type=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__getnewargs__()[0]}, dtype={self.dtype.name})"


class TypedInt(_Typed, int):
    """JAX's integers with a dtype; no value of weft's is one."""


class TypedFloat(_Typed, float):
    """JAX's floats with a dtype; no value of weft's is one."""


class TypedComplex(_Typed, complex):
    """JAX's complex numbers with a dtype; no value of weft's is one."""
