# Tests: tests/compat/test_as_jax.py
"""jax._src.dtypes, for equinox, flax and tinygp."""

from typing import Any

from weft.core.dtypes import to_inexact
from weft.dtypes import TypePromotionError, canonicalize_dtype, extended, finfo, issubdtype

to_inexact_dtype = to_inexact
DType = Any
ExtendedDType = extended


def supports_inf(dtype: Any) -> bool:
    """Return whether the dtype has an infinity."""
    import numpy as np

    with np.errstate(all="ignore"):
        return bool(np.isinf(np.asarray(np.inf, dtype).astype(np.float32)))


def to_complex_dtype(dtype: Any) -> Any:
    """Return the complex dtype in which values of the dtype are computed with."""
    import numpy as np

    inexact = to_inexact(np.dtype(dtype))
    return np.dtype("complex128" if inexact in ("float64", "complex128") else "complex64")


__all__ = [
    "DType",
    "ExtendedDType",
    "TypePromotionError",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "issubdtype",
    "supports_inf",
    "to_complex_dtype",
    "to_inexact_dtype",
]
