# Tests: tests/compat/test_other_modules.py
"""jax._src.numpy.util, for interpax, orthax, quadax and s2fft."""

import numpy as np

from weft.ops.promote import promote as promote_dtypes
from weft.ops.promote import promote_inexact as promote_dtypes_inexact
from weft.typing import ArrayLike


def promote_dtypes_complex(*xs: ArrayLike) -> tuple:
    """As `promote_dtypes_inexact`, with floats made complex."""
    return promote_dtypes(*promote_dtypes_inexact(*xs), np.complex64(0))[:-1]


__all__ = ["promote_dtypes", "promote_dtypes_complex", "promote_dtypes_inexact"]
