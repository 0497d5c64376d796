# Tests: tests/compat/test_as_jax.py
"""jax._src.earray, for flax: arrays of extended dtypes are arrays of weft's."""


class EArray:
    """The kind of JAX's arrays of extended dtypes; no value of weft's is one."""
