# Tests: tests/numpy/test_functions.py
"""Bits of bytes as arrays: packed eight to a byte, and taken apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy.ufuncs as u
from weft.autodiff import shape as ops
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.lowering.limits import SMALLEST
from weft.numpy.common import aval_of, cast, to_array
from weft.numpy.shaping import moveaxis, ravel
from weft.ops import joining
from weft.ops.compound import composite
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _bit_weights(bitorder: str, name: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ArgumentError(
            f"weft.numpy.{name}: bitorder must be 'big' or 'little', got {bitorder!r}"
        )
    shifts = np.arange(8, dtype=np.uint8)
    return shifts[::-1] if bitorder == "big" else shifts


def _of_rows(name: str, formula: Callable, x: Array, shifts: np.ndarray, axis: int) -> Array:
    """Return a formula of the last dimension, where `axis` has been moved to.

    weft/native has a kernel for bits that are neighbours; XLA makes vectors across others.
    """
    rank = typeof(x).ndim
    if typeof(x).size < SMALLEST or axis % rank != rank - 1:
        return formula(x, shifts)
    native = composite(lambda x, *, number: formula(x, shifts), f"weft_native.{name}")
    return native(x, number=int(shifts[0] == 0))


def _packed(bits: Array, shifts: np.ndarray) -> Array:
    from weft.numpy.reductions import sum

    *rows, n = typeof(bits).shape
    groups = ops.reshape(cast(bits, dtypes.uint8), (*rows, n // 8, 8))
    shifted = u.left_shift(groups, shifts.reshape((1,) * (len(rows) + 1) + (8,)))
    return sum(shifted, axis=-1, dtype=dtypes.uint8)


def _unpacked(a: Array, shifts: np.ndarray) -> Array:
    *rows, n = typeof(a).shape
    shifts = shifts.reshape((1,) * (len(rows) + 1) + (8,))
    bits = u.bitwise_and(u.right_shift(ops.reshape(a, (*rows, n, 1)), shifts), np.uint8(1))
    return ops.reshape(bits, (*rows, n * 8))


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight booleans or integers to a byte, along an axis or of the flat array.

    >>> import weft.numpy as wnp
    >>> wnp.packbits(wnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    aval = aval_of("packbits", a)
    shifts = _bit_weights(bitorder, "packbits")
    if not (dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype)):
        raise ArgumentError(
            f"weft.numpy.packbits: a must be integers or booleans, got {aval.str_short()}"
        )
    bits = u.as_bool("packbits", to_array(a))
    if axis is None:
        bits, axis = ravel(bits), 0
    bits = moveaxis(bits, axis, -1)
    shape = typeof(bits).shape
    missing = -shape[-1] % 8
    if missing:
        config = (*((0, 0, 0) for _ in shape[:-1]), (0, missing, 0))
        bits = joining.pad_p.bind(bits, np.False_, padding_config=config)
    return moveaxis(_of_rows("packbits", _packed, bits, shifts, axis), -1, axis)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """Return the bits of bytes as zeros and ones, along an axis or of the flat array.

    >>> import weft.numpy as wnp
    >>> wnp.unpackbits(wnp.array([5], "uint8"))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    aval = aval_of("unpackbits", a)
    if aval.dtype != dtypes.uint8:
        raise ArgumentError(f"weft.numpy.unpackbits: a must be uint8, got {aval.str_short()}")
    shifts = _bit_weights(bitorder, "unpackbits")
    a = to_array(a)
    if axis is None:
        a, axis = ravel(a), 0
    a = moveaxis(a, axis, -1)
    shape = typeof(a).shape
    bits = _of_rows("unpackbits", _unpacked, a, shifts, axis)
    if count is not None:
        total = shape[-1] * 8
        if count > total:
            config = (*((0, 0, 0) for _ in shape[:-1]), (0, count - total, 0))
            bits = joining.pad_p.bind(bits, np.uint8(0), padding_config=config)
        else:
            stop = total + count if count < 0 else count
            bits = slice_in_dim(bits, 0, stop, axis=len(shape) - 1)
    return moveaxis(bits, -1, axis)
