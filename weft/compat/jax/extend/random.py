"""jax.extend.random"""

from __future__ import annotations

from typing import Any

from weft.random import wrap_key_data as wrap_key_data


def seed_with_impl(impl: object, seed: object) -> Any:
    """Keys of a seed, of the kind that `impl` names."""
    from weft.random import key

    return key(seed, impl=impl)
