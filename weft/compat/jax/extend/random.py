# Tests: tests/compat/test_other_modules.py
"""jax.extend.random"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from weft.random import wrap_key_data as wrap_key_data
from weft.random.keys import Generator, generators
from weft.random.threefry import threefry2x32_p as threefry2x32_p
from weft.typing import ArrayLike


def random_seed(seeds: Any, impl: object = None) -> Any:
    """Return keys of seeds, of the kind that `impl` names."""
    from weft import vmap
    from weft.numpy import asarray, shape

    make = lambda s: seed_with_impl(impl, s)
    for _ in shape(seeds):
        make = vmap(make)
    return make(asarray(seeds))


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Random bits of a pair of 32-bit words, for each number of `count`."""
    from weft.numpy import asarray, concatenate, ravel, uint32, zeros

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
    """Return keys of a seed, of the kind that `impl` names."""
    from weft.random import key

    return key(seed, impl=impl)


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable,
    split: Callable,
    random_bits: Callable,
    fold_in: Callable,
    name: str = "<unnamed>",
    tag: str = "?",
) -> Generator:
    """Return a kind of keys, for `jax.random.key(impl=)`, that the program's own functions work on.

    key_shape: of the uint32 words of one key. seed(seed) -> words; split(words, shape) -> words of
    keys of that shape; random_bits(words, bit_width, shape) -> unsigned integers; fold_in(words,
    data) -> words. tag: a short name in the text of dtypes. Raises TypeError for what is no
    function, and, where keys are made, for words of another shape or dtype.
    """
    functions = {"seed": seed, "split": split, "random_bits": random_bits, "fold_in": fold_in}
    for kind, function in functions.items():
        if not callable(function):
            raise TypeError(f"define_prng_impl: {kind} must be a function, got {function!r:.80}")
    words = prod(key_shape)

    def flat(kind: str, made: Any, shape: tuple = ()) -> Any:
        if made.shape != (*shape, *key_shape) or made.dtype != "uint32":
            raise TypeError(
                f"define_prng_impl: {kind} of {name} must return uint32 of shape "
                f"{(*shape, *key_shape)}, got {made.dtype} of shape {made.shape}"
            )
        return made.reshape(*shape, words)

    unique = name
    while unique in generators:  # dtypes of keys are pickled by name
        unique = f"{name}-{len(generators)}"
    return Generator(
        unique,
        tag,
        words,
        seed=lambda s: flat("seed", seed(s)),
        split=lambda key, shape: flat("split", split(key.reshape(key_shape), shape), shape),
        fold_in=lambda key, data: flat("fold_in", fold_in(key.reshape(key_shape), data)),
        bits=lambda key, width, shape: random_bits(key.reshape(key_shape), width, shape),
    )
