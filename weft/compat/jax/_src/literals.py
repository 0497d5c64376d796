"""jax._src.literals, for equinox and jaxtyping: weft's literals are plain numbers."""


class LiteralArray:
    """JAX's scalars with a dtype; no value of weft's is one."""


class TypedNdArray:
    """JAX's constants with a dtype; no value of weft's is one."""
