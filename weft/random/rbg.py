# Tests: tests/random/test_oracle.py, tests/random/test_keys.py
"""The generators on XLA's own random bits: `rbg` and `unsafe_rbg`.

Both take their bits from StableHLO's rng_bit_generator, whose bits differ between platforms.
`rbg` derives keys with threefry, `unsafe_rbg` with the bits themselves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import weft.random.threefry as threefry
from weft.autodiff.shape import reshape
from weft.core import dtypes
from weft.ops.elementwise_api import convert, xor_p
from weft.ops.joining import concatenate
from weft.ops.slicing import slice_in_dim
from weft.random.keys import Generator

if TYPE_CHECKING:
    from weft.runtime.array import Array


def _rng_bit_generator(words: object, shape: tuple[int, ...], bit_width: int) -> Any:
    from weft.ops.rng import rng_bit_generator

    return rng_bit_generator(words, shape, threefry.UINT[bit_width])[1]


def _halves(words: Array) -> list:
    return [slice_in_dim(words, i, i + 2) for i in (0, 2)]


def _seed(seed: Array) -> Any:
    half = threefry.seed(seed)
    return concatenate([half, half], 0)


def _split(words: Array, shape: tuple[int, ...]) -> Any:
    return concatenate([threefry.split(h, shape) for h in _halves(words)], len(shape))


def _fold_in(words: Array, data: Array) -> Any:
    return concatenate([threefry.fold_in(h, data) for h in _halves(words)], 0)


def _bits(words: object, bit_width: int, shape: tuple[int, ...]) -> Any:
    return _rng_bit_generator(words, shape, bit_width)


def _unsafe_split(words: object, shape: tuple[int, ...]) -> Any:
    n = math.prod(shape)
    rows = _rng_bit_generator(words, (10 * n, 4), 32)
    return reshape(slice_in_dim(rows, 0, 10 * n, 10), (*shape, 4))


def _unsafe_fold_in(words: object, data: object) -> Any:
    rows = _rng_bit_generator(_seed(convert(data, dtypes.uint32)), (10, 4), 32)
    return xor_p.bind(words, reshape(slice_in_dim(rows, 9, 10), (4,)))


rbg = Generator("rbg", "rbg", 4, seed=_seed, split=_split, fold_in=_fold_in, bits=_bits)
unsafe_rbg = Generator(
    "unsafe_rbg", "urbg", 4, seed=_seed, split=_unsafe_split, fold_in=_unsafe_fold_in, bits=_bits
)
