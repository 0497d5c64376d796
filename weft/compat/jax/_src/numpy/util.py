# Tests: tests/compat/test_other_modules.py
"""jax._src.numpy.util, for interpax, orthax and quadax."""

from weft.ops.promote import promote as promote_dtypes
from weft.ops.promote import promote_inexact as promote_dtypes_inexact

__all__ = ["promote_dtypes", "promote_dtypes_inexact"]
