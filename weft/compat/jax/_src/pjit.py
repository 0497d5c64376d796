# Tests: tests/compat/test_as_jax.py, tests/compat/test_other_modules.py
"""jax._src.pjit, for jaxns and quax."""

from weft.compat.jax.extend.core.primitives import jit_p
from weft.sharding import auto_axes, explicit_axes, reshard

__all__ = ["auto_axes", "explicit_axes", "jit_p", "reshard"]
