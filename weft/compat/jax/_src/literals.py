# Tests: tests/compat/test_as_jax.py
"""jax._src.literals, for equinox, jaxtyping and quax: weft's literals are plain numbers."""


class LiteralArray:
    """JAX's scalars with a dtype; no value of weft's is one."""


class TypedNdArray:
    """JAX's constants with a dtype; no value of weft's is one."""


class TypedInt(int):
    """JAX's integers with a dtype; no value of weft's is one."""


class TypedFloat(float):
    """JAX's floats with a dtype; no value of weft's is one."""


class TypedComplex(complex):
    """JAX's complex numbers with a dtype; no value of weft's is one."""
