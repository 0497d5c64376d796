# Tests: tests/compat/test_other_modules.py
"""jax.experimental.random: a key that splits itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft
from weft import random, tree_util
from weft.typing import ArrayLike

__all__ = ["StatefulPRNG", "stateful_rng"]


@tree_util.register_dataclass
@dataclass(frozen=True)
class StatefulPRNG:
    """A source of keys and random numbers, of a key and a counter in a ref."""

    _base_key: Any
    _counter: Any

    def key(self, shape: Any = ()) -> Any:
        """Return a key, or an array of keys, that was not given before."""
        count = self._counter[...]
        self._counter[...] = count + 1
        key = random.fold_in(self._base_key, count)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return random.split(key, shape) if shape else key

    def split(self, num: int) -> StatefulPRNG:
        """Return as many sources, in one with an axis in front."""
        keys = self.key((num,))
        return StatefulPRNG(keys, weft.new_ref(weft.numpy.zeros(num, "int32")))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Return as many sources, each for itself."""
        return [StatefulPRNG(key, weft.new_ref(0)) for key in self.key(n_children)]

    def random(self, size: Any = None, dtype: Any = float) -> Any:
        """Draw uniform floats in [0, 1)."""
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self, low: object = 0, high: object = 1, size: object = None, *, dtype: Any = float
    ) -> Any:
        """Draw uniform floats in [low, high)."""
        return random.uniform(self.key(), _shape(size), dtype, low, high)

    def normal(self, loc: Any = 0, scale: Any = 1, size: Any = None, *, dtype: Any = float) -> Any:
        """Draw normal floats of a mean and standard deviation."""
        return loc + scale * random.normal(self.key(), _shape(size), dtype)

    def integers(self, low: Any, high: Any = None, size: Any = None, *, dtype: Any = int) -> Any:
        """Draw integers in [low, high), or in [0, low)."""
        low, high = (0, low) if high is None else (low, high)
        return random.randint(self.key(), _shape(size), low, high, dtype)


def _shape(size: Any) -> tuple:
    return () if size is None else (size,) if isinstance(size, int) else tuple(size)


def stateful_rng(seed: int | ArrayLike | None = None, *, impl: object = None) -> StatefulPRNG:
    """Return a source of random numbers; without a seed, of one of the system's."""
    if seed is None:
        import secrets

        seed = secrets.randbits(31)
    return StatefulPRNG(random.key(seed, impl=impl), weft.new_ref(weft.numpy.int32(0)))
