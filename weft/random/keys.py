"""Typed random keys: the dtype of keys, and eager arrays of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft._xla import pytree
from weft.core import dtypes, trace
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.config import config
from weft.core.dtypes import ExtendedDType
from weft.dtypes import prng_key
from weft.numpy import transpose
from weft.numpy.at import At
from weft.runtime.array import Array, Shard
from weft.runtime.device_put import leaf_handlers
from weft.runtime.transfers import put_host


class Generator:
    """A random bit generator: how words of a key become bits and other keys.

    All functions work on the uint32 words `[words]` of one key:
    seed(seed) -> words; split(key, shape) -> [*shape, words]; fold_in(key, data) -> words;
    bits(key, bit_width, shape) -> unsigned integers of that shape.
    """

    __slots__ = ("bits", "dtype", "fold_in", "name", "seed", "split", "tag", "words")

    def __init__(
        self,
        name: str,
        tag: str,
        words: int,
        *,
        seed: Callable,
        split: Callable,
        fold_in: Callable,
        bits: Callable,
    ) -> None:
        self.name, self.tag, self.words = name, tag, words
        self.seed, self.split, self.fold_in, self.bits = seed, split, fold_in, bits
        self.dtype = KeyType(self)
        generators[name] = self

    def __repr__(self) -> str:
        return f"Generator({self.name!r})"

    def __reduce__(self) -> tuple:
        return find_generator, (self.name,)


generators: dict[str, Generator] = {}
"""Every generator by name."""


def find_generator(name: str) -> Generator:
    if name not in generators:
        import weft.random.api  # noqa: F401  (loads the generators; a pickle may come first)
    if name not in generators:
        names = ", ".join(map(repr, generators))
        raise ValueError(f"unknown random generator {name!r}; impl must be one of {names}")
    return generators[name]


class KeyType(ExtendedDType):
    """The dtype of keys of one generator: each element is that generator's uint32 words."""

    __slots__ = ("generator", "itemsize", "name", "physical_shape")
    physical_dtype = dtypes.uint32
    type = prng_key

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.name = f"key<{generator.tag}>"
        self.physical_shape = (generator.words,)
        self.itemsize = 4 * generator.words

    @property
    def _impl(self) -> Generator:
        return self.generator

    def wrap(self, base: object) -> PRNGKeyArray:
        """Eager keys of an array of words `[..., words]`."""
        return PRNGKeyArray(self, base)

    def filled(self, shape: tuple[int, ...], value: int) -> Any:
        """Make keys whose words are all the integer `value`: what `numpy.zeros` and `ones` give."""
        from weft.ops.compound import full
        from weft.random.api import wrap_key_data

        words = full((*shape, *self.physical_shape), value, dtypes.uint32)
        return wrap_key_data(words, dtype=self)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __reduce__(self) -> tuple:
        return _key_type, (self.generator.name,)


def _key_type(name: str) -> KeyType:
    return find_generator(name).dtype


class PRNGKeyArray(Array):  # type: ignore[misc, valid-type]
    """An array of typed keys over an array of their words.

    It has the structural methods of arrays (indexing, reshape, iteration, comparison); numbers
    come out of it through `weft.random` only. `weft.random.key_data` gives the words.
    """

    def __init__(self, dtype: KeyType, base: Array) -> None:
        self._dtype = dtype
        self._base = base

    @property
    def aval(self) -> ShapedArray:
        aval = self._base.aval
        sharding = aval.sharding
        if sharding is not None:
            sharding = sharding.without_dim(len(aval.shape) - 1)
        return ShapedArray(aval.shape[:-1], self._dtype, False, sharding, aval.mat)

    shape = property(lambda self: self._base.shape[:-1])
    ndim = property(lambda self: self._base.ndim - 1)
    size = property(lambda self: self._base.size // self._dtype.generator.words)
    dtype = property(lambda self: self._dtype)
    itemsize = property(lambda self: self._dtype.itemsize)
    nbytes = property(lambda self: self._base.nbytes)
    weak_type = property(lambda self: False)
    vma = property(lambda self: self.aval.vma)
    device = property(lambda self: self._base.device)
    committed = _committed = property(lambda self: self._base._committed)
    is_fully_addressable = property(lambda self: self._base.is_fully_addressable)
    is_fully_replicated = property(lambda self: self._base.is_fully_replicated)

    @property
    def sharding(self) -> Any:
        """Which device holds which keys; the words of a key are never split."""
        sharding = self._base.sharding
        spec = getattr(sharding, "spec", None)
        if spec is not None and len(spec) == self._base.ndim:
            return sharding.without_dim(self._base.ndim - 1)
        return sharding

    @property
    def addressable_shards(self) -> list[Shard]:
        return [self._shard(s) for s in self._base.addressable_shards]

    @property
    def global_shards(self) -> list[Shard]:
        return [self._shard(s) for s in self._base.global_shards]

    def _shard(self, s: Shard) -> Shard:
        data = None if s.data is None else self._dtype.wrap(s.data)
        return Shard(s.device, s.index[:-1], s.replica_id, data)

    def addressable_data(self, index: int) -> PRNGKeyArray:
        return self._dtype.wrap(self._base.addressable_data(index))

    def devices(self) -> set:
        return self._base.devices()

    def delete(self) -> None:
        self._base.delete()

    def is_deleted(self) -> bool:
        return self._base.is_deleted()

    def block_until_ready(self) -> PRNGKeyArray:
        self._base.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        self._base.copy_to_host_async()

    def copy(self) -> PRNGKeyArray:
        return self._dtype.wrap(self._base.copy())

    def __copy__(self) -> PRNGKeyArray:
        return self.copy()

    def __deepcopy__(self, memo: dict) -> PRNGKeyArray:
        return self.copy()

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a single key: it has no dimensions")
        return len(self._base)

    def __iter__(self) -> Iterator[PRNGKeyArray]:
        if not self.ndim:
            raise TypeError("a single key cannot be iterated over; use weft.random.split(key)")
        if config.debug_key_reuse:
            return (self[i] for i in range(len(self._base)))
        return iter([self._same(row) for row in self._base])

    def __bool__(self) -> bool:
        raise TypeError("a random key has no truth value; compare keys with ==")

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        raise TypeError(
            "random keys are no NumPy arrays; weft.random.key_data(keys) gives their words"
        )

    def __getitem__(self, index: object) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        used = sum(_dimensions_used(i) for i in index)
        if used > self.ndim:
            raise IndexError(
                f"too many indices: the array of keys has {self.ndim} dimensions, but {used} were "
                "indexed; weft.random.key_data(keys) gives the words of keys"
            )
        of_words = (*index, slice(None)) if any(i is Ellipsis for i in index) else index
        keys = self._same(self._base[of_words])
        if config.debug_key_reuse and not isinstance(keys, trace.Tracer):
            from weft.random.key_reuse import note_part

            note_part(keys, self, tuple(i if i is None else _on_host(i) for i in index))
        return keys

    def _same(self, base: Array) -> Any:
        """Return keys of other words: eager, or traced where an index was."""
        if isinstance(base, trace.Tracer):
            from weft.random.primitives import random_wrap_p

            return random_wrap_p.bind(base, impl=self._dtype.generator)
        return self._dtype.wrap(base)

    def reshape(
        self, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: object = None
    ) -> PRNGKeyArray:
        from weft.numpy import reshape

        shape = args[0] if len(args) == 1 else args
        return reshape(self, shape, order=order, copy=copy, out_sharding=out_sharding)  # type: ignore[return-value]

    def ravel(self, order: str = "C", *, out_sharding: object = None) -> PRNGKeyArray:
        return self.reshape(-1, order=order, out_sharding=out_sharding)

    flatten = ravel

    def squeeze(self, axis: int | None = None) -> PRNGKeyArray:
        from weft.numpy import squeeze

        return squeeze(self, axis)  # type: ignore[return-value]

    def transpose(self, *args: Any) -> PRNGKeyArray:
        return transpose(self, (args[0] if len(args) == 1 else args) or None)  # type: ignore[return-value]

    T = property(transpose)

    def swapaxes(self, axis1: int, axis2: int) -> PRNGKeyArray:
        from weft.numpy import swapaxes

        return swapaxes(self, axis1, axis2)  # type: ignore[return-value]

    def take(
        self,
        indices: Any,
        axis: int | None = None,
        out: None = None,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: Any = None,
    ) -> PRNGKeyArray:
        from weft.numpy import take

        promises = unique_indices, indices_are_sorted
        return take(self, indices, axis, out, mode, *promises, fill_value)  # type: ignore[return-value]

    def astype(self, dtype: np.dtype, copy: bool = False, device: object = None) -> PRNGKeyArray:
        from weft.numpy import astype

        return astype(self, dtype, copy=copy, device=device)  # type: ignore[return-value]

    def on_device_size_in_bytes(self) -> int:
        return self._base.on_device_size_in_bytes()

    def unsafe_buffer_pointer(self) -> int:
        return self._base.unsafe_buffer_pointer()

    @property
    def at(self) -> Any:
        return At(self)

    @api_boundary
    def __eq__(self, other: object) -> Any:
        from weft.numpy import equal

        return equal(self, other)  # type: ignore[arg-type]

    @api_boundary
    def __ne__(self, other: object) -> Any:
        from weft.numpy import not_equal

        return not_equal(self, other)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Array({self.shape}, dtype={self._dtype.name}) overlaying:\n{self._base}"

    @api_boundary
    def _refuse(self, other: object) -> Any:
        raise TypeError(
            "random keys are no numbers, so there is no arithmetic with them; make new keys with "
            "weft.random.split(key) or weft.random.fold_in(key, number)"
        )

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __xor__ = __or__ = __and__ = _refuse
    __str__ = __repr__
    __hash__: Any = None
    __array_priority__ = 100

    def __reduce__(self) -> tuple:
        return _rebuild, (self._dtype, np.asarray(self._base))


def _on_host(index: Any) -> Any:
    """Return an index as NumPy takes it."""
    return index if isinstance(index, int | slice) or index is Ellipsis else np.asarray(index)


def _dimensions_used(index: int | slice) -> int:
    """Count the dimensions that one part of an index consumes: a mask as many as it has."""
    if index is None or index is Ellipsis or isinstance(index, bool | np.bool_):
        return 0
    if isinstance(index, np.ndarray | Array | trace.Tracer) and dtypes.is_bool(index.dtype):
        return index.ndim
    return 1


def _rebuild(dtype: KeyType, words: np.ndarray) -> PRNGKeyArray:
    return dtype.wrap(put_host(words))


def _device_put(keys: PRNGKeyArray, put: Callable) -> PRNGKeyArray:
    return keys._dtype.wrap(put(keys._base))


trace.aval_of[PRNGKeyArray] = lambda keys: keys.aval
leaf_handlers[PRNGKeyArray] = _device_put
pytree.register_dispatch_node(
    PRNGKeyArray,
    lambda keys: ((keys._base,), keys._dtype),
    lambda dtype, children: dtype.wrap(children[0]),
)
