# Tests: tests/compat/test_private_names.py
"""jax._src.lax.lax, for interpax, e3nn, jaxley and others that write statistics as JAX does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import weft.numpy as wnp
from weft import lax
from weft.dtypes import scalar_type_of
from weft.numpy import asarray as asarray
from weft.ops.dtype_casts import convert
from weft.typing import ArrayLike


def _const(example: ArrayLike, value: ArrayLike) -> Any:
    """Return a value with the dtype of an example; of one of Python's numbers a Python number."""
    if isinstance(example, bool | int | float | complex):
        return scalar_type_of(example)(value)
    return wnp.asarray(value, wnp.result_type(example))


def _zero(x: ArrayLike) -> Any:
    return lax.full_like(x, 0, shape=())


def _one(x: ArrayLike) -> Any:
    return lax.full_like(x, 1, shape=())


def _eye(dtype: Any, shape: Sequence[int], offset: int = 0) -> Any:
    rows, columns = shape
    return wnp.eye(rows, columns, k=offset, dtype=dtype)


def _convert_element_type(
    operand: ArrayLike, new_dtype: Any = None, weak_type: bool = False, **_: object
) -> Any:
    """Convert an array to a dtype, its own where none is given; a strong one unless weak_type."""
    dtype = wnp.result_type(operand) if new_dtype is None else new_dtype
    return convert(wnp.asarray(operand), np.dtype(dtype), weak_type)


def remaining(original: Sequence[int], *removed: Sequence[int]) -> list[int]:
    """Return what is in none of the other lists."""
    gone = set().union(*removed)
    return [i for i in original if i not in gone]


def ranges_like(*lists: Sequence[object]) -> Iterator[range]:
    """Return ranges one after another, as long as the lists."""
    start = 0
    for elements in lists:
        yield range(start, start := start + len(elements))
