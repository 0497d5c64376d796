# Tests: tests/compat/test_other_modules.py
"""jax.extend.core.primitives: the primitives themselves, by JAX's names."""

from __future__ import annotations

from typing import Any

# JAX's name -> the name of weft's primitive, where the name less `_p` is not it.
_NAMES = {
    "add_jaxvals_p": "add_any",
    "and_p": "and",
    "not_p": "not",
    "or_p": "or",
    "xor_p": "xor",
    "while_p": "while",
    "custom_lin_p": "custom_lin",
    "remat_p": "remat2",
    "closed_call_p": "jit",
    "call_p": "jit",
}


def __getattr__(name: str) -> Any:
    from weft import lax
    from weft.core.primitive import PRIMITIVES

    if not name.endswith("_p"):
        raise AttributeError(name)
    _load()
    if name in ("psum_invariant_p", "pvary_p"):
        from weft.compat import spelled

        return getattr(spelled, name)
    prim = PRIMITIVES.get(_NAMES.get(name, name[:-2]))
    if prim is None:
        from weft.compat.jax import lax as made_of_others

        homes = (lax, lax.linalg, made_of_others)
        prim = next((getattr(home, name) for home in homes if hasattr(home, name)), None)
    if prim is None:
        raise AttributeError(name)
    return prim


def _load() -> None:
    """Load the modules that define primitives which no name of weft.lax has loaded."""
    import weft

    for name in ("jit", "checkpoint", "custom_jvp", "custom_vjp", "shard_map", "pure_callback"):
        getattr(weft, name)
    from weft.random import key, random_gamma_p  # noqa: F401
