"""weft.typing: types for annotations of functions on arrays."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from weft.core.namespace import seal
from weft.runtime.array import Array

__all__ = ["Array", "ArrayLike", "DTypeLike", "SupportsDType"]


@runtime_checkable  # beartype asks
class SupportsDType(Protocol):
    """Anything with a dtype, such as `weft.numpy.float32`."""

    @property
    def dtype(self) -> np.dtype: ...


ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
"""Arguments of functions on arrays: arrays and scalars, not sequences of them."""

DTypeLike: TypeAlias = str | type[Any] | np.dtype | SupportsDType
"""Arguments that name a dtype; None, where it stands for the default, is not among them."""
seal(globals())
