# Tests: tests/random/test_keys.py
"""Making, splitting and taking apart random keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.random.rbg as rbg  # noqa: F401  (registers its generators)
import weft.random.threefry as threefry  # noqa: F401  (registers its generators)
from weft.autodiff.shape import check_shape
from weft.core import dtypes
from weft.core.config import config
from weft.core.source import warn
from weft.core.state import state
from weft.core.trace import EVAL, typeof
from weft.numpy.common import created
from weft.ops.elementwise_api import convert
from weft.random.key_reuse import use
from weft.random.keys import Generator, KeyType, find_generator
from weft.random.primitives import (
    random_clone_p,
    random_fold_in_p,
    random_seed_p,
    random_unwrap_p,
    random_wrap_p,
    split_keys,
)

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike


def resolve(impl: object = None, dtype: DTypeLike | None = None) -> Generator:
    """Return the generator `impl` (a name, a key dtype) or `dtype` names, else the default."""
    if dtype is not None:
        if impl is not None:
            raise ValueError("give impl or dtype, not both: each names the generator of the key")
        impl = dtype
    if impl is None:
        return find_generator(config.default_prng_impl)
    if isinstance(impl, Generator):
        return impl
    if isinstance(impl, KeyType):
        return impl.generator
    if isinstance(impl, str):
        return find_generator(impl)
    raise TypeError(f"impl must be the name of a generator or the dtype of keys, got {impl!r}")


def check_key(name: str, key: Array, *, single: bool = True) -> tuple[Any, bool]:
    """Return the typed key of an argument, and whether it came as raw uint32 words."""
    try:
        aval = typeof(key)
    except TypeError:
        raise TypeError(
            f"{name}: key must be a random key, got {type(key).__name__}; make one with "
            "weft.random.key(seed)"
        ) from None
    raw = not isinstance(aval.dtype, KeyType)
    if raw:
        if aval.dtype != dtypes.uint32 or not aval.shape:
            raise TypeError(
                f"{name}: key must be a random key, got {aval.str_short()}; make one with "
                "weft.random.key(seed)"
            )
        if config.legacy_prng_key != "allow":
            _discourage(name)
        key = random_wrap_p.bind(key, impl=resolve())
        aval = typeof(key)
    if single and aval.shape:
        raise ValueError(
            f"{name} takes a single key, got an array of keys of shape {aval.shape}; map over it "
            "with weft.vmap"
        )
    if config.debug_key_reuse and not raw:
        use(name, key)
    return key, raw


def _discourage(name: str) -> None:
    text = (
        f"{name}: key is an array of raw words, which config.legacy_prng_key discourages; make "
        "keys with weft.random.key(seed), or of words with weft.random.wrap_key_data"
    )
    if config.legacy_prng_key == "error":
        raise ValueError(text)
    warn(text, UserWarning)


def _seeded(name: str, seed: ArrayLike, generator: Generator) -> Any:
    if config.random_seed_offset:
        seed = seed + config.random_seed_offset
    if isinstance(seed, int) and not isinstance(seed, bool):
        if not -(1 << 63) <= seed < 1 << 64:
            raise OverflowError(f"{name}: seed {seed} does not fit in 64 bits")
        if state.trace is EVAL and generator.name == "threefry2x32":
            # The words are known here: nothing has to be compiled.
            if not config.enable_x64:
                seed = _narrow(seed)
            words = [(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF]
            return generator.dtype.wrap(created(np.array(words, np.uint32)))
        if config.enable_x64:
            seed = np.int64(seed) if seed < 1 << 63 else np.uint64(seed)
        else:
            # Sixty-four bits of a Python int count also where arrays have 32.
            seed = np.uint32(_narrow(seed) & 0xFFFFFFFF)
    aval = typeof(seed)
    if isinstance(aval.dtype, KeyType):
        raise TypeError(f"{name}: seed must be an integer, got a random key")
    if aval.shape:
        raise TypeError(
            f"{name}: seed must be a scalar, got {aval.str_short()}; map over seeds with weft.vmap"
        )
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"{name}: seed must be an integer, got {aval.str_short()}")
    return random_seed_p.bind(seed, impl=generator)


def _narrow(seed: int) -> int:
    """Return the seed as 32-bit arrays hold it: only its low half counts."""
    return seed & 0xFFFFFFFF


def key(seed: int | ArrayLike, *, impl: Any = None, dtype: DTypeLike | None = None) -> Any:
    """Return a random key made of an integer seed.

    seed: an integer or integer scalar array; without 64-bit types only its low 32 bits count.
    impl: "threefry2x32" (the default), "rbg" or "unsafe_rbg"; or `dtype`, that of such keys.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

    >>> import weft
    >>> weft.random.key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    return _seeded("key", seed, resolve(impl, dtype))


def PRNGKey(seed: int | ArrayLike, *, impl: object = None) -> Any:  # noqa: N802
    """Return a key as the raw uint32 words that older programs pass around; prefer `key`.

    >>> import weft
    >>> weft.random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    key = _seeded("PRNGKey", seed, resolve(impl))
    return key if config.enable_custom_prng else random_unwrap_p.bind(key)


def split(key: object, num: int | Sequence[int] = 2) -> Any:
    """Return new independent keys from one key, which must not be used again.

    num: how many, or the shape of the array of keys.

    >>> import weft
    >>> weft.random.split(weft.random.key(0), 3).shape
    (3,)
    """
    key, raw = check_key("split", key)
    shape = tuple(num) if isinstance(num, Sequence) else (num,)
    out = split_keys(key, check_shape(shape, "num"))
    return random_unwrap_p.bind(out) if raw else out


def fold_in(key: object, data: object) -> Any:
    """Return a new key from a key and a 32-bit integer, such as a step or a device number.

    Of other real numbers the whole part counts. Raises TypeError for what is no real scalar.

    >>> import weft
    >>> key = weft.random.key(0)
    >>> bool(weft.random.fold_in(key, 1) == weft.random.fold_in(key, 2))
    False
    """
    key, raw = check_key("fold_in", key)
    aval = typeof(data)
    if aval.shape:
        raise TypeError(
            f"fold_in: data must be a scalar, got {aval.str_short()}; map over it with weft.vmap"
        )
    if isinstance(data, int | float):
        data = np.uint32(int(data) & 0xFFFFFFFF)
    elif dtypes.is_extended(aval.dtype) or dtypes.is_complex(aval.dtype):
        raise TypeError(f"fold_in: data must be an integer, got {aval.str_short()}")
    out = random_fold_in_p.bind(key, convert(data, dtypes.uint32))
    return random_unwrap_p.bind(out) if raw else out


def key_data(keys: object) -> Any:
    """Return the uint32 words of keys, in a last dimension.

    >>> import weft
    >>> weft.random.key_data(weft.random.key(1))
    Array([0, 1], dtype=uint32)
    """
    keys, _ = check_key("key_data", keys, single=False)
    return random_unwrap_p.bind(keys)


def wrap_key_data(key_bits_array: Any, *, impl: object = None, dtype: Any = None) -> Any:
    """Return keys made of their words: the inverse of `key_data`.

    >>> import weft, numpy as np
    >>> weft.random.wrap_key_data(np.zeros((5, 2), "uint32")).shape
    (5,)
    """
    return random_wrap_p.bind(key_bits_array, impl=resolve(impl, dtype))


def key_impl(keys: object) -> str:
    """Return the name of the generator of keys.

    >>> import weft
    >>> weft.random.key_impl(weft.random.key(0, impl="rbg"))
    'rbg'
    """
    keys, _ = check_key("key_impl", keys, single=False)
    return typeof(keys).dtype.generator.name


def key_dtype(impl_spec: object = None) -> KeyType:
    """Return the dtype of keys of a generator, the default one if it is not named.

    >>> import weft
    >>> weft.random.key_dtype("threefry2x32")
    key<fry>
    """
    return resolve(impl_spec).dtype


def clone(key: object) -> Any:
    """Return the same key, marked as meant to be used again.

    >>> import weft
    >>> key = weft.random.key(0)
    >>> bool(weft.random.uniform(key) == weft.random.uniform(weft.random.clone(key)))
    True
    """
    return random_clone_p.bind(key)
