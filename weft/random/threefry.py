# Tests: tests/random/test_oracle.py, tests/random/test_keys.py
"""The threefry2x32 generator: a block cipher in counter mode.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011);
the layout of counters is the one that JAX documents ("jax.random", `jax_threefry_partitionable`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.op_families import batch_elementwise
from weft.autodiff.shape import broadcast_in_dim, iota_p, reshape
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.config import config
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.elementwise_api import add_p as add
from weft.ops.elementwise_api import (
    convert,
    mul_p,
    or_p,
    shift_left_p,
    shift_right_logical_p,
    xor_p,
)
from weft.ops.joining import concatenate
from weft.ops.promote import broadcast_to
from weft.ops.slicing import slice_in_dim
from weft.random.keys import Generator

if TYPE_CHECKING:
    from weft.autodiff.vmap import AxisData
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

UINT = {n: np.dtype(f"uint{n}") for n in (8, 16, 32, 64)}
_u32 = np.uint32
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = _u32(0x1BD11BDA)


# The block function ---------------------------------------------------------------------------


def _abstract(*avals: ShapedArray) -> list[ShapedArray]:
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.dtype != dtypes.uint32:
            raise TypeError(f"threefry2x32 works on uint32, got {a.str_short()}")
        if a.shape and shape and a.shape != shape:
            raise TypeError(f"threefry2x32: operands of shapes {shape} and {a.shape} differ")
        shape = shape or a.shape
    return [ShapedArray(shape, dtypes.uint32)] * 2


def _batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any]) -> tuple:
    out, dim = batch_elementwise(threefry2x32_p, axis, args, dims, {})
    return out, [dim, dim]


def rounds(k0: Array, k1: Array, x0: Array, x1: ArrayLike) -> list:
    """Return the 20 rounds, on scalars or arrays of uint32."""
    keys = (k0, k1, xor_p.bind(xor_p.bind(k0, k1), _PARITY))
    x0, x1 = add.bind(x0, k0), add.bind(x1, k1)
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = add.bind(x0, x1)
            rotated = or_p.bind(
                shift_left_p.bind(x1, _u32(r)), shift_right_logical_p.bind(x1, _u32(32 - r))
            )
            x1 = xor_p.bind(x0, rotated)
        x0 = add.bind(x0, keys[(i + 1) % 3])
        x1 = add.bind(x1, add.bind(keys[(i + 2) % 3], _u32(i + 1)))
    return [x0, x1]


threefry2x32_p = Primitive(
    "threefry2x32",
    abstract=_abstract,
    batch=_batch,
    lower=lambda ctx, *operands: ctx.lower_fun(rounds, *operands),
    sharding="elementwise",
    multiple_results=True,
)


def encrypt(key: tuple[Any, Any], counts: Array) -> Any:
    """Return a flat even-length block of counters, its halves taken as the cipher's two words."""
    size = typeof(counts).shape[0]
    odd = size % 2
    if odd:
        counts = concatenate([counts, np.zeros(1, np.uint32)], 0)
    half = (size + odd) // 2
    halves = slice_in_dim(counts, 0, half), slice_in_dim(counts, half, 2 * half)
    out = concatenate(threefry2x32_p.bind(*key, *halves), 0)
    return slice_in_dim(out, 0, size) if odd else out


# Counters -------------------------------------------------------------------------------------


def counters(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """High and low words of the row-major position of each element of an array.

    Made of one iota per dimension, so that a sharded array needs no communication.
    """
    if math.prod(shape) <= 1:
        zero = broadcast_to(_u32(0), shape)
        return zero, zero
    wide = math.prod(shape) > 1 << 32
    dtype = UINT[64 if wide else 32]
    position, stride = None, 1
    for dim in reversed(range(len(shape))):
        if shape[dim] == 1:
            continue
        index = iota_p.bind(dtype=dtype, shape=shape, dimension=dim)
        if stride != 1:
            index = mul_p.bind(index, dtype.type(stride))
        position = index if position is None else add.bind(index, position)
        stride *= shape[dim]
    if not wide:
        return _u32(0), position
    high = shift_right_logical_p.bind(position, dtype.type(32))
    return convert(high, dtypes.uint32), convert(position, dtypes.uint32)


def _words(key: Array) -> tuple[Any, Any]:
    return tuple(reshape(slice_in_dim(key, i, i + 1), ()) for i in (0, 1))  # type: ignore[return-value]


def _block(key: Array, shape: tuple[int, ...]) -> list:
    return threefry2x32_p.bind(*_words(key), *counters(shape))


def _iota(size: int) -> Any:
    return iota_p.bind(dtype=UINT[32], shape=(size,), dimension=0)


# The generator --------------------------------------------------------------------------------


def seed(seed: Array) -> Any:
    """Return the key of an integer: its high and low 32 bits."""
    aval = typeof(seed)
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise TypeError(f"the seed of a key must be an integer scalar, got {aval.str_short()}")
    low = convert(seed, dtypes.uint32)
    high: Any = _u32(0)
    if aval.dtype.itemsize == 8:
        high = convert(shift_right_logical_p.bind(seed, aval.dtype.type(32)), dtypes.uint32)
    return concatenate([broadcast_in_dim(high, (1,), ()), broadcast_in_dim(low, (1,), ())], 0)


def split(key: Array, shape: tuple[int, ...]) -> Any:
    if config.threefry_partitionable:
        last = len(shape)
        return concatenate([reshape(w, (*shape, 1)) for w in _block(key, shape)], last)
    return reshape(encrypt(_words(key), _iota(2 * math.prod(shape))), (*shape, 2))


def fold_in(key: Array, data: Array) -> Any:
    return encrypt(_words(key), seed(convert(data, dtypes.uint32)))


def bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Any:
    if not config.threefry_partitionable:
        return _bits_of_halves(key, bit_width, shape)
    high, low = _block(key, shape)
    if bit_width == 64:
        return _join(high, low)
    return convert(xor_p.bind(high, low), UINT[bit_width])


def _join(high: Array, low: Array) -> Any:
    wide = UINT[64]
    shifted = shift_left_p.bind(convert(high, wide), wide.type(32))
    return or_p.bind(shifted, convert(low, wide))


_BLOCK = (1 << 32) - 1  # counters of one block


def _bits_of_halves(key: Array, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Return the layout before partitionable counters: one iota, cut in halves."""
    size = math.prod(shape)
    words = -(-bit_width * size // 32)
    blocks, rest = divmod(words, _BLOCK)
    if not blocks:
        flat = encrypt(_words(key), _iota(rest))
    else:
        keys = split(key, (blocks + 1,))
        subkeys = [reshape(slice_in_dim(keys, i, i + 1), (2,)) for i in range(blocks + 1)]
        sizes = [_BLOCK] * blocks + [rest]
        parts = [encrypt(_words(k), _iota(n)) for k, n in zip(subkeys, sizes, strict=True)]
        flat = concatenate(parts, 0)
    if bit_width == 64:
        flat = _join(slice_in_dim(flat, 0, size), slice_in_dim(flat, size, 2 * size))
    elif bit_width < 32:
        per_word = 32 // bit_width
        wide = broadcast_in_dim(flat, (words, per_word), (0,))
        shift = mul_p.bind(
            iota_p.bind(dtype=UINT[32], shape=(words, per_word), dimension=1), _u32(bit_width)
        )
        narrow = convert(shift_right_logical_p.bind(wide, shift), UINT[bit_width])
        flat = slice_in_dim(reshape(narrow, (words * per_word,)), 0, size)
    return reshape(flat, shape)


threefry2x32 = Generator(
    "threefry2x32", "fry", 2, seed=seed, split=split, fold_in=fold_in, bits=bits
)
