# Tests: tests/compat/test_private_names.py
"""jax._src.random.prng: arrays of keys, their types, and the kinds of keys."""

from __future__ import annotations

from typing import Any

from weft.random import key_data as random_unwrap
from weft.random import wrap_key_data
from weft.random.keys import Generator as PRNGImpl
from weft.random.keys import KeyType as KeyTy
from weft.random.keys import PRNGKeyArray
from weft.random.keys import generators as prngs

__all__ = ["KeyTy", "PRNGImpl", "PRNGKeyArray", "prngs", "random_unwrap", "random_wrap"]


def random_wrap(base_arr: Any, *, impl: Any) -> Any:
    """Return keys of these words, of the kind `impl`."""
    return wrap_key_data(base_arr, impl=impl)
