# Tests: tests/compat/test_other_modules.py
"""jax.extend.random"""

from __future__ import annotations

from typing import Any

from weft.random import wrap_key_data as wrap_key_data
from weft.typing import ArrayLike


def random_seed(seeds: Any, impl: object = None) -> Any:
    """Keys of seeds, of the kind that `impl` names."""
    from weft import vmap
    from weft.numpy import asarray, shape

    make = lambda s: seed_with_impl(impl, s)
    for _ in shape(seeds):
        make = vmap(make)
    return make(asarray(seeds))


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Random bits of a pair of 32-bit words, for each number of `count`."""
    from weft.numpy import asarray, concatenate, ravel, uint32, zeros
    from weft.random.threefry import threefry2x32_p

    count = asarray(count, uint32)
    flat = ravel(count)
    odd = flat.size % 2
    padded = concatenate([flat, zeros(1, uint32)]) if odd else flat
    half = padded.size // 2
    key1, key2 = (asarray(k, uint32) for k in keypair)
    words = threefry2x32_p.bind(key1, key2, padded[:half], padded[half:])
    out = concatenate(list(words))
    return (out[:-1] if odd else out).reshape(count.shape)


threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl = "threefry2x32", "rbg", "unsafe_rbg"


def seed_with_impl(impl: object, seed: int | ArrayLike) -> Any:
    """Keys of a seed, of the kind that `impl` names."""
    from weft.random import key

    return key(seed, impl=impl)
